//! Stored summaries, the ranges they cover, and which of them are active on a branch.

use std::sync::Arc;

use crate::digest::Digest;
use crate::ids::{CheckpointId, MessageId, Ordinal, Timestamp};
use crate::policy::Preset;
use crate::tokens::{Counts, Tokens};
use crate::tree::Tree;

mod facts;
mod kept;
mod repairs;
mod revert;
mod set;

pub use facts::{FACT_TOKENS_MAX, FACTS_MAX, KeyFact};
pub use kept::{kept_text, without_kept};
pub use repairs::FailedRepairs;
pub use revert::{RevertError, reverted};
pub use set::Checkpoints;

pub use crate::span::Span;

/// The origin of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The session, because the trigger was exceeded.
    Auto,
    /// A person.
    Manual,
}

/// The scope of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The conversation so far.
    Conversation,
    /// One topic.
    Topic,
    /// Several old topics.
    Bulk,
}

crate::names!(Tier.name {
    Conversation = "conversation",
    Topic = "topic",
    Bulk = "bulk",
});

/// The text that replaces the covered messages in the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A summary.
    Summary(Arc<str>),
    /// Only a note that the range was dropped on purpose.
    Tombstone,
}

/// The writer of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// A language model, which costs money and counts towards the quota.
    Model,
    /// A deterministic program: extraction, truncation or nothing at all.
    Deterministic,
}

/// A stored summary. Immutable; a later one may supersede it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// Its number in the session, from 1.
    pub number: u32,
    /// The branch tip when it was made.
    pub parent: MessageId,
    /// The covered messages: disjoint ascending ranges, never empty.
    pub covers: Vec<Span>,
    /// The last covered ordinal.
    pub cutoff: Ordinal,
    /// The path digest at the cutoff: the checkpoint applies to each branch whose path has the same
    /// digest there.
    pub cutoff_digest: Digest,
    /// Checkpoints that it supersedes.
    pub supersedes: Vec<CheckpointId>,
    /// Its origin.
    pub kind: Kind,
    /// Its scope.
    pub tier: Tier,
    /// The preset that planned it.
    pub preset: Preset,
    /// Whether a language model wrote it.
    pub writer: Writer,
    /// Its writer, as `provider/model`, `extractive`, `truncation` or `none`.
    pub model: Arc<str>,
    /// Its text in the context.
    pub body: Body,
    /// Tokens of the covered messages.
    pub original: Tokens,
    /// Tokens of its text in the context, per encoding.
    pub counts: Counts,
    /// Number of covered messages.
    pub messages_included: u32,
    /// Facts that are copied verbatim.
    pub key_facts: Vec<KeyFact>,
    /// Its cost, in millionths of a dollar; none if the price is unknown.
    pub cost_micros: Option<u64>,
    /// The time to make it.
    pub duration_ms: u64,
    /// Whether a model should redo it.
    pub degraded: bool,
    /// When it was made.
    pub at: Timestamp,
    /// How many days, names and ids of the range a model's summary keeps; none if no model wrote
    /// it, or the range has none.
    pub coverage: Option<FactCoverage>,
}

/// How many days, names and ids of a range its summary keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactCoverage {
    /// Number in the range.
    pub facts: u32,
    /// Number in the summary's block.
    pub kept: u32,
    /// Number in quotes from the range with as many tokens as the block.
    pub quoted: u32,
}

impl Checkpoint {
    /// The first covered message.
    pub fn first(&self) -> Ordinal {
        self.covers.first().map_or(self.cutoff, |span| span.first)
    }

    /// Its text in the context: summary and key facts, or the tombstone's note.
    pub fn context_text(&self) -> String {
        block_text(&self.covers, &self.body, &self.key_facts)
    }

    /// Whether both cover a common message.
    pub fn overlaps(&self, other: &Checkpoint) -> bool {
        self.covers
            .iter()
            .any(|a| other.covers.iter().any(|b| a.overlaps(*b)))
    }

    /// Whether it covers a prefix of the branch that ends in `head`.
    pub fn applies_to(&self, tree: &Tree, head: MessageId) -> bool {
        tree.path_digest(head, self.cutoff) == Some(self.cutoff_digest)
    }
}

/// The context block of a summary of `covers`: marked as a summary, with its range.
pub fn block_text(covers: &[Span], body: &Body, key_facts: &[KeyFact]) -> String {
    let first = covers.first().map_or(Ordinal(0), |span| span.first);
    let last = covers.last().map_or(Ordinal(0), |span| span.last);
    match body {
        Body::Tombstone => {
            format!("[messages {first}–{last} were dropped from the context, recall #n reads them]")
        }
        Body::Summary(text) => {
            let mut out = format!("[summary of {first}–{last}]\n{text}");
            if !key_facts.is_empty() {
                out.push_str("\n\n## Key facts\n");
                for fact in key_facts {
                    out.push_str(&format!("{fact}\n"));
                }
            }
            out
        }
    }
}
