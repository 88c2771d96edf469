//! What happened.

use serde::{Deserialize, Serialize};

/// An event of a session's journal. On disk before it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its place in the journal, from 1: the id of the server-sent event.
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
    /// The agent of the run, where the event opens it.
    pub agent: Option<String>,
    /// What happened, in one line for people.
    pub text: String,
}

/// What is being done, not in the journal: a slow listener misses some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Progress {
    /// The run whose agent speaks.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The turn that is being compacted.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: Option<String>,
    /// What is said.
    pub text: String,
    /// Whether something did not work.
    #[serde(default)]
    pub trouble: bool,
}
