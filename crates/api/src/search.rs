//! What a search finds.

use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Found {
    /// What of the query was left out, and why.
    pub notes: Vec<String>,
    /// Whether all that is on disk was searched; else the newest may be missing.
    pub complete: bool,
    /// The messages, the best first.
    pub hits: Vec<Hit>,
    /// To be sent as `cursor` for those that come after; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Hit {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The session's title.
    pub title: String,
    /// Its id.
    pub message: String,
    /// Its place on the branches that have it.
    pub ordinal: u32,
    /// Who speaks.
    pub role: String,
    /// The agent that wrote it.
    pub author: Option<String>,
    /// When it was written.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// How well it fits: higher is better.
    pub score: f32,
    /// Whether the model sees it on the branch, if only a part of it.
    pub active: bool,
    /// How it stands there: `verbatim`, `masked`, `cut`, `covered` or `elsewhere`.
    pub standing: String,
    /// The number of the checkpoint that covers it.
    pub checkpoint: Option<u32>,
    /// The branches that have it.
    pub branches: Vec<String>,
    /// The part of it with the words that were searched for.
    pub excerpt: String,
    /// The words in it: start and end in bytes.
    pub marks: Vec<[u64; 2]>,
}
