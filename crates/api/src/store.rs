//! The store itself.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The outcome of a vacuum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct VacuumResult {
    /// Bytes of the journal on disk before.
    pub before_bytes: u64,
    /// Bytes after.
    pub after_bytes: u64,
    /// Number of copied journals.
    pub sessions: u64,
    /// Number of copied events.
    pub events: u64,
}

/// Acknowledged losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AcknowledgedLosses {
    /// Number of losses.
    pub losses: u64,
}

/// Events of a session that a repair of the store could not save, until the loss is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct LostEvents {
    /// The first lost event.
    pub first: u64,
    /// The last event that is known to have existed.
    pub last: u64,
    /// When the loss was found (RFC 3339).
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub found_at: String,
    /// The directory under the store's `quarantine` with the damaged files.
    pub quarantine: String,
}

/// The loss of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Loss {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The lost events.
    #[serde(flatten)]
    pub events: LostEvents,
}

/// Selects losses of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct LossQuery {
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// The contents of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ArchiveCounts {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Number of state checkpoints.
    pub checkpoints: u64,
}

/// The headers of a sent archive with its numbers of sessions, events and state checkpoints.
pub const ARCHIVED: [&str; 3] = [
    "unisono-archive-sessions",
    "unisono-archive-events",
    "unisono-archive-checkpoints",
];

/// A check of the daemon or its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct HealthCheck {
    /// What was checked.
    pub name: String,
    /// The status: `good`, `off` (not set up), `notice` or `bad`.
    pub status: String,
    /// The result, or the fault and its remedy.
    pub message: String,
}
