//! Events of sessions.

use serde::{Deserialize, Serialize};

/// An event of a session's journal. It is on disk before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its position in the journal, from 1: the id of the server-sent event.
    pub seq: u64,
    /// When it was decided.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// Its kind: `turn_started`, `compacted`, `frozen`, `run_ended` …
    pub kind: String,
    /// The turn it belongs to.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: Option<String>,
    /// The run it belongs to.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The agent of the run, if the event opens the run.
    pub agent: Option<String>,
    /// A description in one line, for people.
    pub text: String,
}

/// A progress report. It is not in the journal: a slow client misses some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Progress {
    /// The run of the reporting agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The turn that is being compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: Option<String>,
    /// The report.
    pub text: String,
    /// Whether it reports a failure; absent: it does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_failure: bool,
}
