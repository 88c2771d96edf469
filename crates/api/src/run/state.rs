//! The state of a run, and of an agent of a turn.

use serde::{Deserialize, Serialize};

use crate::usage::{Amounts, Budget, ChargedAmount};

/// The work of one agent on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// The agent.
    pub agent: String,
    /// Its model; null: it uses none.
    pub model: Option<String>,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its position in the pipeline, from 1.
    pub stage: Option<u32>,
    /// The run that delegated to it, for a `child`.
    pub parent: Option<String>,
    /// For a `child`: the round of its parent that opened it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Its position among the delegates of its turn or the children of its round, from 0; absent
    /// for a lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Its task. In a list and in a turn: only if it has its own.
    pub task: Option<String>,
    /// `running`, `waiting`, `done`, `partial`, `failed` or `cancelled`.
    pub state: String,
    /// What it waits for: `person` (a decision about a tool call) or `delegates`; absent: it does not
    /// wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The time that it has waited for decisions of people, in milliseconds; absent: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The pause before this attempt; absent: it does not pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<RunPause>,
    /// Number of finished steps.
    #[serde(default)]
    pub step_count: u64,
    /// The frozen context that it got.
    pub snapshot: Option<String>,
    /// The digest of the prompt bytes that it shares with others.
    pub prefix: String,
    /// Its answer.
    pub text: Option<String>,
    /// The last text of its model, if it ended without an answer: also the text of a reply that broke
    /// off, was rejected or was cancelled, up to 64 KiB. A cancelled run has it shortly after its
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_text: Option<String>,
    /// Why it failed or is incomplete.
    pub error: Option<ErrorInfo>,
    /// Its usage.
    pub usage: Amounts,
    /// What the budgets count for it after its end, if that is not its usage: calls whose usage no
    /// provider reported, such as those in progress when it was cancelled, count as their worst case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<ChargedAmount>,
    /// The run's own budgets; after its end, their last state. Absent if the run has none, and in lists
    /// of runs and turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// When it was opened.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub opened_at: String,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
    /// The duration of all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}

/// An agent of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Member {
    /// Its position among the agents of the turn, from 0.
    pub place: u64,
    /// Its run; null before its start.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The agent.
    pub agent: String,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its position in the pipeline, from 1.
    pub stage: Option<u32>,
    /// The run that delegated to it, for a `child`.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// `waiting` (for its start or its delegates), `running`, `done`, `partial`, `failed` or
    /// `cancelled`.
    pub state: String,
    /// The attempt, from 1; null if it does not run.
    pub attempt: Option<u32>,
    /// The pause before this attempt, which may be over; absent: it is the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Box<RunPause>>,
    /// Its result.
    pub text: Option<String>,
    /// Why it failed or is incomplete.
    pub error: Option<ErrorInfo>,
    /// Its usage, after its end.
    pub usage: Option<Amounts>,
    /// The duration of all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}

impl Member {
    /// Whether it has not ended yet.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "waiting" | "running")
    }
}

/// The pause of a run after a failed attempt, or before a request to its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunPause {
    /// The earliest time of the next attempt or request.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub until: String,
    /// Why the last attempt or request failed, or what the request waits for.
    pub reason: String,
}

/// Why a turn or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ErrorInfo {
    /// A stable code, such as `context_overflow` or `timeout`.
    pub code: String,
    /// What happened.
    pub reason: String,
}
