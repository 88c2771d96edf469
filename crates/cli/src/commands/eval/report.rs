//! The results of an evaluation and their JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use unisono_context::cost::Cost;
use unisono_context::policy::Preset;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::retention::baseline::Baseline;
use unisono_model::retention::{self, Category};

use crate::show;

/// The results of one conversation.
#[derive(Debug)]
pub(super) struct Report {
    /// The name of its file.
    pub(super) conversation: String,
    pub(super) messages: usize,
    /// The tokens of all messages.
    pub(super) tokens: u64,
    pub(super) encoding: &'static str,
    /// The share of the whole conversation, which is below 1 if no line answers a probe.
    pub(super) whole: retention::Report,
    /// The sizes of compaction, largest first.
    pub(super) sizes: Vec<Size>,
}

#[derive(Debug)]
pub(super) struct Size {
    /// The size of the conversation divided by this size.
    pub(super) ratio: u32,
    /// The limit of tokens.
    pub(super) tokens: u64,
    pub(super) rows: Vec<Row>,
}

/// The result of one way to compact.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) way: EvaluatedMethod,
    /// The retained shares, or why the way failed.
    pub(super) kept: Result<RetainedRow, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvaluatedMethod {
    /// One summary of all messages.
    Summary {
        summariser: String,
    },
    /// The compaction of a preset; without a summariser if it writes no summaries.
    Preset {
        preset: Preset,
        summariser: Option<String>,
    },
    Baseline(Baseline),
}

#[derive(Debug)]
pub(super) struct RetainedRow {
    pub(super) tokens: u64,
    pub(super) retained: retention::Report,
    /// The results of compactions.
    pub(super) made: Option<Made>,
}

#[derive(Debug)]
pub(super) struct Made {
    /// The summariser: `provider/model`, `extractive`, `truncation` or `none`.
    pub(super) writers: Vec<String>,
    pub(super) duration_ms: u64,
    pub(super) cost: Option<Cost>,
}

impl EvaluatedMethod {
    /// The name for people: `checkpoint, extractive`.
    pub(super) fn label(&self) -> String {
        match self {
            EvaluatedMethod::Summary { summariser } => format!("one summary, {summariser}"),
            EvaluatedMethod::Preset {
                preset,
                summariser: Some(summariser),
            } => format!("{preset}, {summariser}"),
            EvaluatedMethod::Preset { preset, .. } => preset.to_string(),
            EvaluatedMethod::Baseline(baseline) => baseline.name().to_owned(),
        }
    }

    /// The same way with extractive summaries; none for a way without summaries.
    fn by_quotes(&self) -> Option<EvaluatedMethod> {
        let summariser = || EXTRACTIVE.to_owned();
        match self {
            EvaluatedMethod::Summary { .. } => Some(EvaluatedMethod::Summary {
                summariser: summariser(),
            }),
            EvaluatedMethod::Preset {
                preset,
                summariser: Some(_),
            } => Some(EvaluatedMethod::Preset {
                preset: *preset,
                summariser: Some(summariser()),
            }),
            EvaluatedMethod::Preset { .. } | EvaluatedMethod::Baseline(_) => None,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            EvaluatedMethod::Summary { .. } => "summary",
            EvaluatedMethod::Preset { .. } => "preset",
            EvaluatedMethod::Baseline(_) => "baseline",
        }
    }

    pub(super) fn summariser(&self) -> Option<&str> {
        match self {
            EvaluatedMethod::Summary { summariser } => Some(summariser),
            EvaluatedMethod::Preset { summariser, .. } => summariser.as_deref(),
            EvaluatedMethod::Baseline(_) => None,
        }
    }
}

impl Size {
    /// Whether a result has more tokens than this size.
    pub(super) const fn is_exceeded(&self, kept: &RetainedRow) -> bool {
        kept.tokens > self.tokens
    }

    /// The retained share of a row, divided by the share of the tail; none if the tail retains nothing,
    /// or if the row exceeds the size.
    pub(super) fn times_tail(&self, kept: &RetainedRow) -> Option<f64> {
        if self.is_exceeded(kept) {
            return None;
        }
        let tail = |row: &&Row| row.way == EvaluatedMethod::Baseline(Baseline::Tail);
        let tail = self.rows.iter().find(tail)?.kept.as_ref().ok()?;
        let tail = tail.retained.all.share();
        (tail > 0.0).then(|| kept.retained.all.share() / tail)
    }

    /// The share of extractive summaries instead of a model's; none for rows without a model.
    pub(super) fn by_quotes(&self, way: &EvaluatedMethod) -> Option<&RetainedRow> {
        let quoted = way.by_quotes().filter(|quoted| quoted != way)?;
        let row = self.rows.iter().find(|row| row.way == quoted)?;
        let kept = row.kept.as_ref().ok();
        kept.filter(|kept| !self.is_exceeded(kept))
    }

    /// The share of a row divided by theirs.
    fn times_quotes(&self, way: &EvaluatedMethod, kept: &RetainedRow) -> Option<f64> {
        if self.is_exceeded(kept) {
            return None;
        }
        let quotes = self.by_quotes(way)?.retained.all.share();
        (quotes > 0.0).then(|| kept.retained.all.share() / quotes)
    }
}

impl Report {
    pub(super) fn json(&self) -> Value {
        let probes: BTreeMap<&str, usize> = Category::ALL
            .into_iter()
            .map(|category| (category.name(), probes_of(&self.whole, category)))
            .collect();
        let sizes: Vec<Value> = self.sizes.iter().map(size_json).collect();
        json!({
            "conversation": self.conversation,
            "messages": self.messages,
            "tokens": self.tokens,
            "encoding": self.encoding,
            "probes": probes,
            "whole": shares(&self.whole),
            "sizes": sizes,
        })
    }
}

pub(super) fn probes_of(report: &retention::Report, category: Category) -> usize {
    report
        .by_category
        .get(&category)
        .map_or(0, |score| score.of)
}

fn size_json(size: &Size) -> Value {
    let row = |row: &Row| {
        let preset = match &row.way {
            EvaluatedMethod::Preset { preset, .. } => Some(preset.name()),
            _ => None,
        };
        let kept = row.kept.as_ref().ok();
        let made = kept.and_then(|kept| kept.made.as_ref());
        json!({
            "name": row.way.label(),
            "kind": row.way.kind(),
            "preset": preset,
            "summariser": row.way.summariser(),
            "tokens": kept.map(|kept| kept.tokens),
            "exceeds": kept.map(|kept| size.is_exceeded(kept)),
            "retained": kept.map(|kept| shares(&kept.retained)),
            "times_tail": kept.and_then(|kept| size.times_tail(kept)).map(rounded),
            "times_extractive": kept.and_then(|kept| size.times_quotes(&row.way, kept)).map(rounded),
            "writers": made.map(|made| &made.writers),
            "duration_ms": made.map(|made| made.duration_ms),
            "cost_usd": made.and_then(|made| show::dollars(made.cost)),
            "error": row.kept.as_ref().err(),
        })
    };
    let rows: Vec<Value> = size.rows.iter().map(row).collect();
    json!({"ratio": size.ratio, "tokens": size.tokens, "rows": rows})
}

/// The retained shares of all probes and of each category with probes.
fn shares(report: &retention::Report) -> Value {
    let by_category = report.by_category.iter();
    let by_category = by_category.map(|(category, score)| (category.name(), score.share()));
    let shares = std::iter::once(("all", report.all.share())).chain(by_category);
    let shares: Map<String, Value> = shares
        .map(|(name, share)| (name.to_owned(), json!(rounded(share))))
        .collect();
    Value::Object(shares)
}

/// Rounds to four decimal places.
fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}
