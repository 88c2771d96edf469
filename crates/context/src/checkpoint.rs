//! Stored summaries, the ranges they cover, and which of them are active on a branch.

use std::fmt;
use std::sync::Arc;

use crate::digest::Digest;
use crate::ids::{CheckpointId, MessageId, Ordinal, Timestamp};
use crate::policy::Preset;
use crate::tokens::{Counts, Tokens};
use crate::tree::Tree;

mod facts;
mod repairs;
mod restore;
mod set;

pub use facts::{FACT_TOKENS_MAX, FACTS_MAX, KeyFact};
pub use repairs::FailedRepairs;
pub use restore::{NotActive, restored};
pub use set::Checkpoints;

/// A closed range of ordinals on a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First message of the range.
    pub first: Ordinal,
    /// Last message of the range.
    pub last: Ordinal,
}

impl Span {
    /// A range; `first` must not be after `last`.
    pub const fn new(first: Ordinal, last: Ordinal) -> Span {
        Span { first, last }
    }

    /// How many messages it holds.
    pub const fn len(self) -> u32 {
        self.last.0 + 1 - self.first.0
    }

    /// Always false: a range holds at least one message.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Whether the two share a message.
    pub fn overlaps(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The same messages in ascending ranges, with neighbours joined.
    pub fn merged(mut spans: Vec<Span>) -> Vec<Span> {
        spans.sort_unstable();
        let mut out: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match out.last_mut() {
                Some(last) if span.first <= last.last.next() => {
                    last.last = last.last.max(span.last);
                }
                _ => out.push(span),
            }
        }
        out
    }

    /// Whether the message is in it.
    pub fn contains(self, ordinal: Ordinal) -> bool {
        self.first <= ordinal && ordinal <= self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}–{}", self.first, self.last)
        }
    }
}

/// Who asked for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The session, because the trigger was exceeded.
    Auto,
    /// A person.
    Manual,
}

/// What a checkpoint summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The conversation so far.
    Conversation,
    /// One topic.
    Topic,
    /// Several old topics.
    Bulk,
}

impl Tier {
    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Conversation => "conversation",
            Tier::Topic => "topic",
            Tier::Bulk => "bulk",
        }
    }
}

/// What stands in the context in place of the covered messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A summary.
    Summary(Arc<str>),
    /// Nothing but a note that the range was dropped on purpose.
    Tombstone,
}

/// Who writes a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// A language model, which costs money; counted against the quota.
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
    /// The messages it stands for: disjoint ascending ranges, never empty.
    pub covers: Vec<Span>,
    /// The last ordinal it stands for.
    pub cutoff: Ordinal,
    /// Path digest at the cutoff: it applies to each branch whose path has the same there.
    pub cutoff_digest: Digest,
    /// Checkpoints whose content it took over.
    pub supersedes: Vec<CheckpointId>,
    /// Who asked for it.
    pub kind: Kind,
    /// What it summarises.
    pub tier: Tier,
    /// The preset that planned it.
    pub preset: Preset,
    /// Whether a language model wrote it.
    pub writer: Writer,
    /// What wrote it, as `provider/model`, `extractive`, `truncation` or `none`.
    pub model: Arc<str>,
    /// What stands in the context.
    pub body: Body,
    /// Tokens of what it replaced.
    pub original: Tokens,
    /// Tokens of what it puts in the context, per encoding.
    pub counts: Counts,
    /// How many messages it stands for.
    pub messages_included: u32,
    /// Facts carried verbatim.
    pub key_facts: Vec<KeyFact>,
    /// What making it cost, in millionths of a dollar; none where the price is unknown.
    pub cost_micros: Option<u64>,
    /// How long making it took.
    pub duration_ms: u64,
    /// True when a model should redo it.
    pub degraded: bool,
    /// When it was made.
    pub at: Timestamp,
    /// What a model's summary gives of the range's days, names and ids; none where no model wrote
    /// it, or the range has none.
    pub coverage: Option<FactCoverage>,
}

/// How many of the days, names and ids of a range its summary gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactCoverage {
    /// In the range.
    pub facts: u32,
    /// In the summary's block.
    pub kept: u32,
    /// In quotes from the range that take as many tokens as the block.
    pub quoted: u32,
}

impl Checkpoint {
    /// The first message it stands for.
    pub fn first(&self) -> Ordinal {
        self.covers.first().map_or(self.cutoff, |span| span.first)
    }

    /// The text that stands in the context: summary and key facts, or the tombstone's note.
    pub fn context_text(&self) -> String {
        block_text(&self.covers, &self.body, &self.key_facts)
    }

    /// Whether the two stand for a common message.
    pub fn overlaps(&self, other: &Checkpoint) -> bool {
        self.covers
            .iter()
            .any(|a| other.covers.iter().any(|b| a.overlaps(*b)))
    }

    /// Whether it stands for a prefix of the branch that ends in `head`.
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
