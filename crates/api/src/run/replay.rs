//! The check of a turn against its journal.

use serde::{Deserialize, Serialize};

use super::{DigestCheck, ErrorInfo};

/// A turn, rebuilt from the journal without any model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Replay {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// `open`, `answered`, `compacted`, `reverted`, `failed` or `cancelled`.
    pub state: String,
    /// The state, for people.
    pub text: String,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// Number of rebuilt requests.
    pub requests: u64,
    /// The requests of each of its runs.
    pub runs: Vec<ReplayedRun>,
    /// The checkpoints of the turn whose summaries were written ahead, after an earlier turn.
    #[serde(default)]
    pub prepared: Vec<u32>,
    /// All comparisons.
    pub checks: Vec<DigestCheck>,
    /// Number of comparisons that differ.
    pub mismatches: u64,
}

/// The rebuilt requests of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReplayedRun {
    /// The run.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// Its agent.
    pub agent: String,
    /// Its requests, the oldest first.
    pub requests: Vec<ReplayedRequest>,
    /// Why its requests are unknown, or some of them.
    pub unknown: Option<String>,
}

/// A rebuilt request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReplayedRequest {
    /// The model, or the program.
    pub to: String,
    /// Number of all its bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of its bytes.
    pub digest: String,
    /// For a program: the attempt.
    pub attempt: Option<u32>,
    /// Whether it was sent, as in a run's requests.
    pub sent: bool,
}
