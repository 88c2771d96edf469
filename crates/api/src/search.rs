//! What a search finds.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::session::main_branch;

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// Words, and within them: `"these in this order"`, `+required`, `-excluded`, `role:user`,
    /// `agent:risks`, `since:2026-03-01`, `until:7d`. At most 4,096 bytes and 128 terms.
    pub q: String,
    /// The branch whose context tells what is active: `main`.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many messages at most: 20, and no more than 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

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
    pub status: String,
    /// The number of the checkpoint that covers it.
    pub checkpoint: Option<u32>,
    /// The branches that have it.
    pub branches: Vec<String>,
    /// The part of it with the words that were searched for.
    pub excerpt: String,
    /// The words in it: start and end in bytes.
    pub marks: Vec<[u64; 2]>,
}
