//! The store itself.

use std::num::NonZeroUsize;

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
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub found: String,
    /// The directory under the store's `quarantine` that has the damaged files.
    pub quarantine: String,
}

/// What a repair has lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Loss {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// What is lost of it.
    #[serde(flatten)]
    pub events: LostEvents,
}

/// Which losses of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct LossQuery {
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// What an archive has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Archived {
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
    /// Stored states.
    pub checkpoints: u64,
}

/// The headers that say so of an archive that is sent: its sessions, events and stored states.
pub const ARCHIVED: [&str; 3] = [
    "unisono-archive-sessions",
    "unisono-archive-events",
    "unisono-archive-checkpoints",
];
