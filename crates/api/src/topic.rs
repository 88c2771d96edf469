//! Topics of a conversation.

use serde::{Deserialize, Serialize};

use crate::session::main_branch;

/// Messages one after the other about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Topic {
    /// The first message's place on the branch.
    pub first: u32,
    /// The last one's.
    pub last: u32,
    /// How many there are.
    pub messages: u32,
    /// Its title: the first sentence that a user says in it, made short; none where nobody says
    /// anything in its first messages.
    pub title: Option<String>,
    /// When its first message was said.
    pub started_at: String,
    /// When its last one was.
    pub last_at: String,
    /// When it was sealed: its end was decided, or a person sealed it. None: it goes on.
    pub sealed_at: Option<String>,
    /// The number of the checkpoint in the context that stands for most of it, to be read at
    /// `checkpoints/{number}`; none where it stands verbatim.
    pub summary: Option<u32>,
    /// What ended it: `phrase`, `silence`, `share` or `person`; none: it goes on.
    pub ended_by: Option<String>,
    /// How it stands in the context: `verbatim`, `summarised` or `in part`.
    pub status: String,
}

/// A request to let the current topic of a branch end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The branch.
    #[serde(default = "main_branch")]
    pub branch: String,
}
