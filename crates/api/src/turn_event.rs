//! Live updates of a turn, for its followers.
//!
//! ```text
//! accepted → counted → compacting → compacted, shortened, step_failed → frozen
//!          → runs, run_stepped, run_retried, waiting, decided, tool_started, tool_ended → ended
//! ```
//!
//! Each of these follows from one event of the session's journal and carries its number. `text`,
//! `progress`, `compaction_progress`, `missed`, and `run_retried` for a pause between two requests
//! of one attempt are not in the journal and have no number.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approval;
use crate::compaction::{CompactionEffect, FactCoverage};
use crate::turn::Turn;
use crate::usage::Budget;

pub use crate::run::Member;

/// One update of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnUpdate {
    /// The number of the journal's event, which is the id of the server-sent event. Null: it is not
    /// in the journal.
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
    /// The state of the turn when a follower begins to follow it.
    State(TurnState),
    /// The turn is on disk.
    Accepted {
        /// Whether it waits for an earlier turn of its branch.
        queued: bool,
        /// Its agents: the delegates in order, then the lead.
        agents: Vec<Member>,
        /// Why the lead does not delegate although it could choose delegates.
        no_delegation_reason: Option<String>,
    },
    /// Tokens of new messages were counted.
    Counted {
        /// Number of messages.
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
        /// Set at the first step that keeps fewer messages than the preset or a person requests:
        /// the maximum tokens of the context.
        tightened: Option<u64>,
        /// Set if no model writes this summary because the limit of summaries by models is reached.
        quota_reached: Option<SummaryQuota>,
    },
    /// A compaction step made a checkpoint.
    Compacted {
        /// The checkpoint.
        checkpoint: NewCheckpoint,
    },
    /// A summary that was written ahead for this turn is not used.
    PreparationDropped {
        /// Why.
        reason: String,
    },
    /// Messages were masked or cut.
    Shortened {
        /// Number of messages.
        messages: u64,
        /// `masked` or `cut`; `nothing`: no message got smaller.
        effect: CompactionEffect,
    },
    /// A compaction step failed.
    StepFailed {
        /// Why.
        reason: String,
        /// For the regeneration of a summary: milliseconds until the next attempt.
        pause_ms: Option<i64>,
    },
    /// The context is frozen.
    Frozen {
        /// The frozen context.
        context: FrozenContext,
    },
    /// Agents began, ended, or wait for others.
    Runs {
        /// The current state of the agents.
        agents: Vec<Member>,
    },
    /// An agent begins another attempt; without a number: it pauses before the next request to its
    /// model, at least for a second.
    RunRetried {
        /// The current state of the agent, with the end of the pause.
        agent: Member,
        /// Why the previous attempt or request failed, or what the request waits for.
        reason: String,
    },
    /// The model of a run has given a reply.
    RunStepped {
        /// The run.
        run: String,
    },
    /// Tool calls begin to wait for a person. If the turn is queued: calls of the turn that it waits
    /// for.
    Waiting {
        /// The calls.
        calls: Vec<Approval>,
    },
    /// A waiting tool call was decided, or waits no longer.
    Decided {
        /// Its id.
        call: String,
        /// `approved`, `denied`, `expired`, `done`, `failed` or `repeated`; `withdrawn`: its run or its
        /// turn ended before, or its agent asks no longer.
        #[serde(default)]
        decision: String,
        /// The name of the token by which it was decided; absent: nobody's, or the daemon's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
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
    /// A tool call has ended.
    ToolEnded {
        /// The call's id.
        call: String,
        /// The run.
        run: String,
        /// Its result, at most 16 KiB of it.
        content: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// The next piece of a reply from the model of a run. The first comes at once, later ones every 80 ms
    /// together. For a client that comes during the reply and follows with `after=0`, the first piece is the
    /// text so far, of at most 64 KiB.
    Text {
        /// The run.
        run: String,
        /// The piece.
        text: String,
    },
    /// A progress report of an agent.
    Progress {
        /// Its run.
        run: String,
        /// The report.
        text: String,
    },
    /// The progress of a compaction step.
    CompactionProgress {
        /// The current work.
        text: String,
        /// Whether it reports a failure.
        is_failure: bool,
    },
    /// Some `text` and `progress` was missed: the client read too slowly, or came after it.
    Missed,
    /// The turn has ended. This is the last update.
    Ended(Box<TurnEnd>),
    /// An update of a later version.
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
            TurnEvent::PreparationDropped { .. } => "preparation_dropped",
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

/// A turn in its current state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TurnState {
    /// Its agents: the delegates in order, the lead, then later delegates.
    pub agents: Vec<Member>,
    /// Why the lead does not delegate although it could choose delegates.
    pub no_delegation_reason: Option<String>,
    /// The frozen context, once there is one.
    pub context: Option<FrozenContext>,
    /// Tokens of the context before any compaction.
    pub tokens_before: Option<u64>,
    /// Tool calls that wait for a person.
    pub waiting: Vec<Approval>,
    /// Agents whose definitions have changed since the turn began: the turn keeps the old ones.
    pub changed_agents: Vec<ChangedAgent>,
}

/// An agent whose definition has changed since its turn began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChangedAgent {
    /// The agent.
    pub agent: String,
    /// The change, for people.
    pub change: String,
}

/// The limit of automatic summaries by models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SummaryQuota {
    /// Number of summaries.
    pub checkpoints: u32,
    /// The period, in milliseconds.
    pub per_ms: i64,
}

/// A checkpoint that a turn made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct NewCheckpoint {
    /// Its number in the session, from 1.
    pub number: u32,
    /// Number of messages that it replaces.
    pub messages: u32,
    /// Tokens of these messages.
    pub tokens_before: u64,
    /// Tokens of the summary.
    pub tokens_after: u64,
    /// The model that wrote it.
    pub model: String,
    /// `model`, `person`, or `quotes` if it has only quotes.
    pub writer: String,
    /// Whether a model should have written it but could not.
    pub degraded: bool,
    /// Whether it is a summary; otherwise a note replaces dropped messages.
    pub summary: bool,
    /// The number of the checkpoint that it regenerates.
    pub regenerates: Option<u32>,
    /// The time to make it, in milliseconds.
    pub duration_ms: u64,
    /// Its beginning.
    pub preview: String,
    /// Whether it was written ahead, after an earlier turn.
    #[serde(default)]
    pub prepared: bool,
    /// How many days, names and ids of its messages a model's summary keeps.
    pub coverage: Option<FactCoverage>,
}

/// The frozen context of all agents of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FrozenContext {
    /// Its id.
    pub snapshot: String,
    /// Number of agents that get it.
    pub agents: u64,
    /// Its tokens.
    pub tokens: u64,
    /// The usable tokens.
    pub usable_tokens: u64,
    /// Number of verbatim messages.
    pub messages: u64,
    /// Number of summaries.
    pub summaries: u64,
    /// Number of notes that replace dropped messages.
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
    /// The position of the answer on its branch.
    pub answer_message: Option<u32>,
    /// For `compacted` and `reverted`: tokens of the context before.
    pub tokens_before: Option<u64>,
    /// For `compacted` and `reverted`: tokens of the context now.
    pub tokens_after: Option<u64>,
    /// The state of its budgets and those of its session; empty if unknown.
    pub budgets: Vec<Budget>,
}
