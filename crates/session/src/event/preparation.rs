//! A summary that is written before the turn that will probably need it.

use std::fmt;
use std::sync::Arc;

use unisono_context::checkpoint::{Body, FactCoverage, KeyFact, Writer};
use unisono_context::compaction::{Cover, MaskTarget, Plan};
use unisono_context::tokens::Counts;
use unisono_context::{Digest, TurnId};

/// A summary to write ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPreparation {
    /// The turn after which it is written; its usage is accounted under this turn.
    pub turn: TurnId,
    /// The branch.
    pub branch: Arc<str>,
    /// The model of the conversation: the lead's model.
    pub model: Arc<str>,
    /// The step that the next turn will probably plan.
    pub plan: Plan,
    /// The tool results of the range that will be masked before that step.
    pub masks: Vec<MaskTarget>,
    /// Digest of the range: its messages, summaries, pins, masks and cuts.
    pub range: Digest,
    /// Digest of the settings of the compaction and its summarisers.
    pub settings: Digest,
}

/// A summary with the data that is recorded about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSummary {
    /// The text in the context.
    pub body: Body,
    /// Facts that are kept verbatim.
    pub key_facts: Vec<KeyFact>,
    /// Tokens of the complete block, in each encoding of the job.
    pub counts: Counts,
    /// Its writer.
    pub writer: Writer,
    /// The model's name.
    pub model: Arc<str>,
    /// Its cost, in millionths of a dollar; none if the price is unknown.
    pub cost_micros: Option<u64>,
    /// The duration, in milliseconds.
    pub duration_ms: u64,
    /// Whether a model should regenerate it.
    pub degraded: bool,
    /// The share of the range's days, names and ids that a model's summary contains.
    pub coverage: Option<FactCoverage>,
}

/// The summary that is written ahead on a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Its plan.
    pub planned: Arc<PlannedPreparation>,
    /// Its status.
    pub status: PreparationStatus,
}

/// The status of a summary that is written ahead.
#[derive(Clone, Debug, PartialEq)]
pub enum PreparationStatus {
    /// A model writes it.
    Writing,
    /// It is written.
    Ready(Arc<WrittenSummary>),
    /// It will not be used.
    Dropped(DropReason),
}

impl Preparation {
    /// Whether it may still be used.
    pub fn is_open(&self) -> bool {
        !matches!(self.status, PreparationStatus::Dropped(_))
    }

    /// Whether a model writes it.
    pub fn is_writing(&self) -> bool {
        self.status == PreparationStatus::Writing
    }

    /// The range that it covers.
    pub fn cover(&self) -> Option<&Cover> {
        self.planned.plan.step.cover()
    }
}

/// The reason why a prepared summary is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Messages of its range were pinned, unpinned, shortened or summarised meanwhile.
    Range,
    /// The settings of the compaction or its summarisers changed.
    Settings,
    /// With it the context would not reach its target.
    Room,
    /// Another compaction is made.
    Replaced,
    /// Other work needs the capacity.
    Busy,
    /// The program ended while it was written.
    Interrupted,
    /// No model wrote an acceptable summary.
    Failed(Arc<str>),
}

impl DropReason {
    /// Its stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            DropReason::Range => "range",
            DropReason::Settings => "settings",
            DropReason::Room => "room",
            DropReason::Replaced => "replaced",
            DropReason::Busy => "busy",
            DropReason::Interrupted => "interrupted",
            DropReason::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropReason::Range => {
                "its messages were pinned, unpinned, shortened or summarised meanwhile"
            }
            DropReason::Settings => "the settings of the compaction or its summarisers changed",
            DropReason::Room => "with it the context would not reach its target",
            DropReason::Replaced => "another compaction is made",
            DropReason::Busy => "other work needs the capacity",
            DropReason::Interrupted => "the program ended while it was written",
            DropReason::Failed(reason) => reason,
        })
    }
}
