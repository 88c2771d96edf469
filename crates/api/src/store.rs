//! The store itself.

use serde::{Deserialize, Serialize};

/// What a vacuum did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Vacuumed {
    /// Bytes of the journal on disk before.
    pub before_bytes: u64,
    /// Bytes after.
    pub after_bytes: u64,
    /// Journals carried over.
    pub sessions: u64,
    /// Events carried over.
    pub events: u64,
}

/// What was taken note of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// How many losses.
    pub losses: u64,
}

/// Events of a session that a repair of the store could not save, until that is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct LostEvents {
    /// The first of them.
    pub first: u64,
    /// The last that is known to have been there.
    pub last: u64,
    /// When that was found (RFC 3339).
    pub found: String,
    /// The directory under the store's `quarantine` that has the damaged files.
    pub quarantine: String,
}
