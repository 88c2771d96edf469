//! The timeline of a turn.

use serde::{Deserialize, Serialize};

/// The instants of a turn and of its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Timeline {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its state, as in the turn.
    pub state: String,
    /// When it was accepted.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub accepted_at: String,
    /// When its input was appended; null: it waits for an earlier turn of its branch.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub started_at: Option<String>,
    /// When its context was frozen.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub frozen_at: Option<String>,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
    /// When this was read. A span without an end lasts at least until then.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub now: String,
    /// The spans before its agents began: `queue`, `preparation`, and within it one `compaction` per
    /// step.
    pub spans: Vec<Span>,
    /// Its runs by opening, at most 200.
    pub runs: Vec<RunTimes>,
    /// The number of omitted runs.
    pub omitted_runs: u64,
}

/// The instants of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct RunTimes {
    /// The run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// `lead`, `delegate` or `child`.
    pub role: String,
    /// The run that delegated to it; null: no run did.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// Its state, as in the turn.
    pub state: String,
    /// When it was opened.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub opened_at: String,
    /// When the attempt with its result left the queue; null: it has no result.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub started_at: Option<String>,
    /// When that attempt received the first text; null as above, and if its model does not stream.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub first_token_at: Option<String>,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended_at: Option<String>,
    /// Its activities by beginning, at most 500: `queue`, `cache`, `model`, `tool`, `person`,
    /// `delegates`, `retry`. Calls of one reply may overlap.
    pub spans: Vec<Span>,
    /// The number of omitted spans.
    pub omitted_spans: u64,
}

/// A period with one activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Span {
    /// The activity.
    pub kind: String,
    /// Its beginning.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub from: String,
    /// Its end; null: it has not ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub to: Option<String>,
    /// The tool, for `tool` and `person`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The attempt of the run, from 1; absent outside runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Its end, for `person`: `approved`, `denied`, `expired`, `done`, `failed` or `repeated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The name of the token by which it was decided; absent: nobody's, or the daemon's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
