//! Stored summaries and the ranges they cover.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::{CheckpointId, Digest, MessageId, Ordinal, Timestamp, Tokens, checkpoint};

use super::Invalid;
use super::codes::codes;
use super::policy::Preset;
use super::tokens::Counts;

codes!(
    /// Who asked for a compaction.
    Kind = checkpoint::Kind { Auto, Manual }
);

codes!(
    /// What a checkpoint summarises.
    Tier = checkpoint::Tier {
        Conversation,
        Topic,
        Bulk,
    }
);

codes!(
    /// Who writes a summary.
    Writer = checkpoint::Writer {
        Model,
        Deterministic,
    }
);

/// A range of messages, both ends included.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Span {
    first: u32,
    last: u32,
}

/// A stored summary.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    id: u128,
    number: u32,
    parent: u128,
    covers: Vec<Span>,
    cutoff: u32,
    cutoff_digest: [u8; 32],
    supersedes: Vec<u128>,
    kind: Kind,
    tier: Tier,
    preset: Preset,
    writer: Writer,
    model: Arc<str>,
    body: Body,
    original_tokens: u64,
    counts: Counts,
    messages_included: u32,
    key_facts: Vec<KeyFact>,
    cost_micros: Option<u64>,
    duration_ms: u64,
    degraded: bool,
    at: i64,
}

/// What stands in the context. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Body {
    Summary(Arc<str>),
    Tombstone,
}

/// Something carried verbatim.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeyFact {
    text: Arc<str>,
    ordinal: u32,
}

impl Span {
    /// The ranges as they are written.
    ///
    /// # Errors
    /// One of them is no range.
    pub(crate) fn all(spans: &[checkpoint::Span]) -> Result<Vec<Self>, Invalid> {
        let whole = |span: &checkpoint::Span| {
            Self {
                first: span.first.0,
                last: span.last.0,
            }
            .checked()
        };
        spans.iter().map(whole).collect()
    }

    /// The ranges as they were written.
    ///
    /// # Errors
    /// One of them is no range.
    pub(crate) fn into_all(spans: Vec<Self>) -> Result<Vec<checkpoint::Span>, Invalid> {
        let whole = |span: Self| {
            let Self { first, last } = span.checked()?;
            Ok(checkpoint::Span::new(Ordinal(first), Ordinal(last)))
        };
        spans.into_iter().map(whole).collect()
    }

    /// The length of a range must be a number.
    fn checked(self) -> Result<Self, Invalid> {
        let Self { first, last } = self;
        if first <= last && last < u32::MAX {
            Ok(self)
        } else {
            Err(Invalid::Span { first, last })
        }
    }
}

impl TryFrom<&checkpoint::Checkpoint> for Checkpoint {
    type Error = Invalid;

    fn try_from(checkpoint: &checkpoint::Checkpoint) -> Result<Self, Invalid> {
        Ok(Self {
            id: checkpoint.id.as_u128(),
            number: checkpoint.number,
            parent: checkpoint.parent.as_u128(),
            covers: Span::all(&checkpoint.covers)?,
            cutoff: checkpoint.cutoff.0,
            cutoff_digest: checkpoint.cutoff_digest.0,
            supersedes: checkpoint
                .supersedes
                .iter()
                .map(|id| id.as_u128())
                .collect(),
            kind: checkpoint.kind.into(),
            tier: checkpoint.tier.into(),
            preset: checkpoint.preset.into(),
            writer: checkpoint.writer.into(),
            model: checkpoint.model.clone(),
            body: (&checkpoint.body).into(),
            original_tokens: checkpoint.original.0,
            counts: (&checkpoint.counts).into(),
            messages_included: checkpoint.messages_included,
            key_facts: checkpoint.key_facts.iter().map(KeyFact::from).collect(),
            cost_micros: checkpoint.cost_micros,
            duration_ms: checkpoint.duration_ms,
            degraded: checkpoint.degraded,
            at: checkpoint.at.0,
        })
    }
}

impl TryFrom<Checkpoint> for checkpoint::Checkpoint {
    type Error = Invalid;

    fn try_from(checkpoint: Checkpoint) -> Result<Self, Invalid> {
        Ok(Self {
            id: CheckpointId::from_u128(checkpoint.id),
            number: checkpoint.number,
            parent: MessageId::from_u128(checkpoint.parent),
            covers: Span::into_all(checkpoint.covers)?,
            cutoff: Ordinal(checkpoint.cutoff),
            cutoff_digest: Digest(checkpoint.cutoff_digest),
            supersedes: checkpoint
                .supersedes
                .into_iter()
                .map(CheckpointId::from_u128)
                .collect(),
            kind: checkpoint.kind.into(),
            tier: checkpoint.tier.into(),
            preset: checkpoint.preset.into(),
            writer: checkpoint.writer.into(),
            model: checkpoint.model,
            body: checkpoint.body.into(),
            original: Tokens(checkpoint.original_tokens),
            counts: checkpoint.counts.try_into()?,
            messages_included: checkpoint.messages_included,
            key_facts: checkpoint.key_facts.into_iter().map(Into::into).collect(),
            cost_micros: checkpoint.cost_micros,
            duration_ms: checkpoint.duration_ms,
            degraded: checkpoint.degraded,
            at: Timestamp(checkpoint.at),
        })
    }
}

impl From<&checkpoint::Body> for Body {
    fn from(body: &checkpoint::Body) -> Self {
        match body {
            checkpoint::Body::Summary(text) => Self::Summary(text.clone()),
            checkpoint::Body::Tombstone => Self::Tombstone,
        }
    }
}

impl From<Body> for checkpoint::Body {
    fn from(body: Body) -> Self {
        match body {
            Body::Summary(text) => Self::Summary(text),
            Body::Tombstone => Self::Tombstone,
        }
    }
}

impl From<&checkpoint::KeyFact> for KeyFact {
    fn from(fact: &checkpoint::KeyFact) -> Self {
        Self {
            text: fact.text.clone(),
            ordinal: fact.ordinal.0,
        }
    }
}

impl From<KeyFact> for checkpoint::KeyFact {
    fn from(fact: KeyFact) -> Self {
        Self {
            text: fact.text,
            ordinal: Ordinal(fact.ordinal),
        }
    }
}
