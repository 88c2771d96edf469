//! Pinned messages, which always stay verbatim.

use serde::{Deserialize, Serialize};

/// The pinned messages of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Pins {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The branch.
    pub branch: String,
    /// The messages, oldest first, or a page of them.
    pub pinned: Vec<Pin>,
    /// The `cursor` of the next page; null on the last page.
    pub next: Option<String>,
    /// Tokens of all pinned messages.
    pub pinned_tokens: u64,
    /// The usable tokens.
    pub usable_tokens: u64,
}

/// A pinned message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Pin {
    /// Its id.
    pub message: String,
    /// Its position on the branch.
    pub ordinal: u32,
    /// Its role.
    pub role: String,
    /// Its tokens.
    pub tokens: u64,
    /// The text.
    pub text: String,
}
