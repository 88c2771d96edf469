//! The line of a checkpoint; [`crate::transcript::unisono::checkpoint`] reads it.

use std::collections::BTreeMap;

use serde::Serialize;
use unisono_context::checkpoint::{Body, Checkpoint};
use unisono_context::tokens::Counts;
use unisono_session::State;

use super::Time;
use crate::transcript::unisono::checkpoint::{KINDS, TIERS, WRITERS};

#[derive(Serialize)]
pub(super) struct CheckpointLine<'c> {
    r#type: &'static str,
    id: String,
    number: u32,
    pub(super) parent: String,
    covers: Vec<[u32; 2]>,
    cutoff: u32,
    cutoff_digest: String,
    supersedes: Vec<String>,
    kind: &'static str,
    tier: &'static str,
    preset: &'static str,
    writer: &'static str,
    model: &'c str,
    summary: Option<&'c str>,
    original_tokens: u64,
    counts: CountLines,
    /// For readers: it follows from the counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    compression_ratio: Option<f64>,
    messages_included: u32,
    key_facts: Vec<KeyFactLine<'c>>,
    cost_micros: Option<u64>,
    duration_ms: u64,
    degraded: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retired: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tightened: bool,
    at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<CoverageLine>,
}

#[derive(Serialize)]
struct CoverageLine {
    facts: u32,
    kept: u32,
    quoted: u32,
}

/// Counts by the names of their encodings.
pub(super) type CountLines = BTreeMap<&'static str, CountLine>;

#[derive(Serialize)]
pub(super) struct CountLine {
    tokens: u64,
    at_most: u64,
}

#[derive(Serialize)]
struct KeyFactLine<'c> {
    text: &'c str,
    ordinal: u32,
}

impl<'c> CheckpointLine<'c> {
    pub(super) fn new(c: &'c Checkpoint, state: &State) -> CheckpointLine<'c> {
        let key_facts = c.key_facts.iter().map(|fact| KeyFactLine {
            text: &fact.text,
            ordinal: fact.ordinal.0,
        });
        let counted = c.counts.iter().next().map(|(_, count)| count);
        CheckpointLine {
            r#type: "checkpoint",
            id: c.id.to_string(),
            number: c.number,
            parent: c.parent.to_string(),
            covers: c
                .covers
                .iter()
                .map(|span| [span.first.0, span.last.0])
                .collect(),
            cutoff: c.cutoff.0,
            cutoff_digest: c.cutoff_digest.to_string(),
            supersedes: c.supersedes.iter().map(ToString::to_string).collect(),
            kind: name(&KINDS, c.kind),
            tier: name(&TIERS, c.tier),
            preset: c.preset.name(),
            writer: name(&WRITERS, c.writer),
            model: &c.model,
            summary: match &c.body {
                Body::Summary(text) => Some(text),
                Body::Tombstone => None,
            },
            original_tokens: c.original.0,
            counts: count_lines(&c.counts),
            compression_ratio: counted
                .and_then(|n| unisono_api::compaction::ratio(c.original.0, n.tokens.0)),
            messages_included: c.messages_included,
            key_facts: key_facts.collect(),
            cost_micros: c.cost_micros,
            duration_ms: c.duration_ms,
            degraded: c.degraded,
            retired: state.checkpoints().is_retired(c.id),
            tightened: state.checkpoints().is_tightened(c.id),
            at: Time::new(c.at),
            coverage: c.coverage.map(|of| CoverageLine {
                facts: of.facts,
                kept: of.kept,
                quoted: of.quoted,
            }),
        }
    }
}

pub(super) fn count_lines(counts: &Counts) -> CountLines {
    let lines = counts.iter().map(|(encoding, count)| {
        let line = CountLine {
            tokens: count.tokens.0,
            at_most: count.at_most.0,
        };
        (encoding.name(), line)
    });
    lines.collect()
}

fn name<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("unknown", |(name, _)| name)
}
