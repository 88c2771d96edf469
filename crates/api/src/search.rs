//! Searches and their results.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::session::main_branch;

/// A search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// Words, and among them: `"these in this order"`, `+required`, `-excluded`, `role:user`,
    /// `agent:risks`, `agent:"Maria Kowalski"` (an author, in upper or lower case),
    /// `since:2026-03-01`, `until:2026-03-31` (with that day), `until:7d`. A day or a month
    /// (`2026-03-02`, `March 2026`) also finds the messages of that time. At most 4,096 bytes and 128
    /// terms.
    pub q: String,
    /// The branch whose context determines which results are active (default: `main`). Another one
    /// requires a session.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Maximum number of messages, at most 1,000 (default: 20).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// The results of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SearchResults {
    /// Ignored parts of the query, with the reasons.
    pub notes: Vec<String>,
    /// Whether everything on disk was searched; otherwise the newest messages may be missing.
    pub complete: bool,
    /// The messages, the best first.
    pub hits: Vec<Hit>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A found message.
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
    /// Its position on its branches.
    pub ordinal: u32,
    /// Its role.
    pub role: String,
    /// The agent or the person who wrote it.
    pub author: Option<String>,
    /// When it was written; null if that is unknown.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// How well it matches: higher is better.
    pub score: f32,
    /// Whether the model sees it on the branch, at least in part.
    pub active: bool,
    /// Its state on the branch: `verbatim`, `masked`, `cut`, `summarised` or `elsewhere`.
    pub status: String,
    /// The number of the checkpoint that covers it.
    pub checkpoint: Option<u32>,
    /// The branches that have it.
    pub branches: Vec<String>,
    /// An excerpt with the words of the query.
    pub excerpt: String,
    /// These words in the excerpt: start and end in bytes.
    pub marks: Vec<[u64; 2]>,
    /// The message before it on its branch; null: it is the first, or on no branch.
    pub before: Option<Neighbour>,
    /// The message after it on its branch; null: it is the last, or on no branch.
    pub after: Option<Neighbour>,
}

/// A message beside a found one: it often has the question or the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Neighbour {
    /// Its position on the branch.
    pub ordinal: u32,
    /// Its role.
    pub role: String,
    /// The agent or the person who wrote it.
    pub author: Option<String>,
    /// An excerpt, with words of the query if it has some.
    pub excerpt: String,
}
