//! Topics of conversations.

use serde::{Deserialize, Serialize};

use crate::session::main_branch;

/// Consecutive messages about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Topic {
    /// The position of the first message on the branch.
    pub first: u32,
    /// The position of the last message on the branch.
    pub last: u32,
    /// Number of messages.
    pub messages: u32,
    /// Its title: the first sentence of a user in it, shortened; null if its first messages have no
    /// text of a user.
    pub title: Option<String>,
    /// When its first message was written; null if that is unknown.
    pub started_at: Option<String>,
    /// When its last message was written; null if that is unknown.
    pub last_at: Option<String>,
    /// When it was sealed: its end was decided, or a person sealed it. Null: it is the current
    /// topic.
    pub sealed_at: Option<String>,
    /// The number of the checkpoint in the context that replaces most of it, available at
    /// `checkpoints/{number}`; null if it is verbatim.
    pub summary: Option<u32>,
    /// The reason of its end: `phrase`, `silence`, `share` or `person`; null: it has not ended.
    pub ended_by: Option<String>,
    /// Its state in the context: `verbatim`, `summarised` or `partly_summarised`.
    pub status: String,
}

/// A request to end the current topic of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The branch.
    #[serde(default = "main_branch")]
    pub branch: String,
}
