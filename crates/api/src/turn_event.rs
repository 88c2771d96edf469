//! How a turn goes on, for those who follow it.
//!
//! ```text
//! accepted → counted → compacting → compacted, shortened, step_failed → frozen
//!          → runs, run_stepped, run_retried, waiting, decided, tool_started, tool_ended → ended
//! ```
//!
//! Each of these follows from one event of the session's journal and carries its number. `text`,
//! `progress`, `compaction_progress` and `missed` are not in the journal and have no number.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approval;
use crate::compaction::FactCoverage;
use crate::turn::Turn;
use crate::usage::{Amounts, Budget};

pub use crate::turn::Member;

/// One update of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnUpdate {
    /// The number of the journal's event: the id of the server-sent event. None: it is not in the
    /// journal.
    pub seq: Option<u64>,
    /// What changed.
    #[serde(flatten)]
    pub event: TurnEvent,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnEvent {
    /// The turn as it is when somebody begins to follow it.
    State(TurnState),
    /// The turn is on disk.
    Accepted {
        /// Whether it waits for an earlier turn of its branch.
        queued: bool,
        /// Its agents: the delegates in order, then the lead.
        agents: Vec<Member>,
        /// Why the lead gives nobody a task though it could choose from some.
        alone: Option<String>,
    },
    /// Tokens of new messages were counted.
    Counted {
        /// How many messages.
        messages: u64,
        /// Their tokens.
        tokens: u64,
    },
    /// A compaction step begins.
    Compacting {
        /// The step, for people.
        step: String,
        /// Tokens of the context before it.
        tokens_before: u64,
        /// Set at the first step that keeps less than the preset, or a person, asks for: the tokens
        /// that the context is to have at most.
        tightened: Option<u64>,
        /// Set where no model writes this summary because models wrote enough of late.
        used_up: Option<SummaryQuota>,
    },
    /// A compaction step made a checkpoint.
    Compacted {
        /// The checkpoint.
        checkpoint: MadeCheckpoint,
    },
    /// Messages were masked or cut.
    Shortened {
        /// How many.
        messages: u64,
    },
    /// A compaction step failed.
    StepFailed {
        /// Why.
        reason: String,
        /// For a summary that was to be written anew: milliseconds until the next attempt.
        pause_ms: Option<i64>,
    },
    /// The context is frozen.
    Frozen {
        /// The frozen context.
        context: FrozenContext,
    },
    /// Agents began, ended, or wait for others.
    Runs {
        /// The agents as they are now.
        agents: Vec<Member>,
    },
    /// An agent begins another attempt.
    RunRetried {
        /// The agent as it is now.
        agent: Member,
        /// Why the attempt before failed.
        reason: String,
    },
    /// The model of a run has given a reply.
    RunStepped {
        /// The run.
        run: String,
    },
    /// Calls of tools wait for a person from now on.
    Waiting {
        /// The calls.
        calls: Vec<Approval>,
    },
    /// A call of a tool does not wait any more.
    Decided {
        /// Its id.
        call: String,
        /// `approved`, `denied`, `expired`, `done`, `failed` or `repeated`.
        #[serde(default)]
        decision: String,
    },
    /// A tool is being called.
    ToolStarted {
        /// The call's id.
        call: String,
        /// The run.
        run: String,
        /// The tool, as models know it.
        tool: String,
        /// Its arguments.
        #[cfg_attr(feature = "description", schema(value_type = Object))]
        arguments: Value,
    },
    /// A call of a tool came back.
    ToolEnded {
        /// The call's id.
        call: String,
        /// The run.
        run: String,
        /// What it came back with, no more than 16 KiB of it.
        content: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// The next piece of the reply that the model of a run gives.
    Text {
        /// The run.
        run: String,
        /// The piece.
        text: String,
    },
    /// What an agent says it is doing.
    Progress {
        /// Its run.
        run: String,
        /// What it says.
        text: String,
    },
    /// How a compaction step goes on.
    CompactionProgress {
        /// What is being done.
        text: String,
        /// Whether something did not work.
        trouble: bool,
    },
    /// Some `text` and `progress` was missed: they came faster than they were read.
    Missed,
    /// The turn has ended. Nothing comes after it.
    Ended(Box<TurnEnd>),
    /// What a later version has.
    #[serde(other)]
    Unknown,
}

impl TurnEvent {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            TurnEvent::State(_) => "state",
            TurnEvent::Accepted { .. } => "accepted",
            TurnEvent::Counted { .. } => "counted",
            TurnEvent::Compacting { .. } => "compacting",
            TurnEvent::Compacted { .. } => "compacted",
            TurnEvent::Shortened { .. } => "shortened",
            TurnEvent::StepFailed { .. } => "step_failed",
            TurnEvent::Frozen { .. } => "frozen",
            TurnEvent::Runs { .. } => "runs",
            TurnEvent::RunRetried { .. } => "run_retried",
            TurnEvent::RunStepped { .. } => "run_stepped",
            TurnEvent::Waiting { .. } => "waiting",
            TurnEvent::Decided { .. } => "decided",
            TurnEvent::ToolStarted { .. } => "tool_started",
            TurnEvent::ToolEnded { .. } => "tool_ended",
            TurnEvent::Text { .. } => "text",
            TurnEvent::Progress { .. } => "progress",
            TurnEvent::CompactionProgress { .. } => "compaction_progress",
            TurnEvent::Missed => "missed",
            TurnEvent::Ended(_) => "ended",
            TurnEvent::Unknown => "unknown",
        }
    }
}

/// A turn, as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnState {
    /// Its agents: the delegates in order, the lead, then those that were given tasks meanwhile.
    pub agents: Vec<Member>,
    /// Why the lead gives nobody a task though it could choose from some.
    pub alone: Option<String>,
    /// The frozen context, once there is one.
    pub context: Option<FrozenContext>,
    /// Tokens of the context before anything was compacted.
    pub tokens_before: Option<u64>,
    /// Calls of tools that wait for a person.
    pub waiting: Vec<Approval>,
    /// Agents that are defined otherwise since the turn began: it goes on with them as they were.
    pub changed_agents: Vec<ChangedAgent>,
}

/// An agent that is defined otherwise than when its turn began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChangedAgent {
    /// The agent.
    pub agent: String,
    /// What changed, for people.
    pub change: String,
}

/// How many summaries models may write by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SummaryQuota {
    /// How many.
    pub checkpoints: u32,
    /// In how many milliseconds.
    pub per_ms: i64,
}

/// A checkpoint that a turn made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct MadeCheckpoint {
    /// Its number in the session, from 1.
    pub number: u32,
    /// How many messages it stands for.
    pub messages: u32,
    /// Tokens it stands for.
    pub tokens_before: u64,
    /// Tokens it takes.
    pub tokens_after: u64,
    /// The model that wrote it.
    pub model: String,
    /// Who wrote it: `model`, `person`, or `quotes` where it has quotes alone.
    pub writer: String,
    /// Whether a model was to write it and could not.
    pub degraded: bool,
    /// Whether it is a summary; otherwise a note stands for what was dropped.
    pub summary: bool,
    /// The number of the checkpoint that it writes anew.
    pub rewrites: Option<u32>,
    /// How long making it took, in milliseconds.
    pub duration_ms: u64,
    /// How it begins.
    pub preview: String,
    /// What a model's summary gives of the days, names and ids of its messages.
    #[serde(default)]
    pub coverage: Option<FactCoverage>,
}

/// The context that all agents of a turn are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FrozenContext {
    /// Its id.
    pub snapshot: String,
    /// How many agents are given it.
    pub agents: u64,
    /// Its tokens.
    pub tokens: u64,
    /// What there is room for.
    pub usable_tokens: u64,
    /// Messages that it has verbatim.
    pub messages: u64,
    /// Its summaries.
    pub summaries: u64,
    /// Its notes, which stand for what was dropped.
    pub notes: u64,
}

/// A turn that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnEnd {
    /// The turn.
    pub turn: Turn,
    /// Its agents at its end.
    pub agents: Vec<Member>,
    /// The place of the answer on its branch.
    pub answer_message: Option<u32>,
    /// For `compacted` and `restored`: what the context took before.
    pub tokens_before: Option<u64>,
    /// For `compacted` and `restored`: what it takes now.
    pub tokens_after: Option<u64>,
    /// What the agents that are done used together.
    pub usage: Amounts,
    /// How its bounds and those of its session stand; none where that is not known any more.
    pub budgets: Vec<Budget>,
}
