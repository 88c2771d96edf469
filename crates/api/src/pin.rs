//! Messages that always stand verbatim.

use serde::{Deserialize, Serialize};

/// What is pinned on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Pins {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The branch.
    pub branch: String,
    /// The messages, oldest first, or a part of them.
    pub pinned: Vec<Pin>,
    /// To be sent as `cursor` for the messages that come after; none at the end.
    pub next: Option<String>,
    /// What all of them take together.
    pub pinned_tokens: u64,
    /// What there is room for.
    pub usable_tokens: u64,
}

/// A pinned message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Pin {
    /// Its id.
    pub message: String,
    /// Its place on the branch.
    pub ordinal: u32,
    /// Who speaks.
    pub role: String,
    /// What it takes.
    pub tokens: u64,
    /// The text.
    pub text: String,
}
