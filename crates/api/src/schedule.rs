//! Turns that begin by themselves.

use serde::{Deserialize, Serialize};

/// A schedule: a turn that begins at times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// When it is due: a cron expression with its time zone, or `every` with a time.
    pub rule: String,
    /// `on`, `paused` (while the daemon runs, and after), or `off` (in the settings).
    pub state: String,
    /// The treatment of times that pass without a daemon: `run` (once, for the newest) or `skip`.
    pub missed: String,
    /// When it is due next; none: never.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub next_at: Option<String>,
    /// Its newest turn.
    pub last: Option<ScheduledTurn>,
    /// The newest of its times for which no turn began.
    pub skipped: Option<SkippedTime>,
}

/// A turn of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ScheduledTurn {
    /// The time for which it began; none: somebody asked for it.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub scheduled_at: Option<String>,
    /// When it began.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub started_at: String,
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn; none: it was refused, or is about to be handed in.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: Option<String>,
    /// The state of the turn; `refused` if none started, `gone` if its session was deleted.
    pub state: String,
    /// Why it was refused, or failed.
    pub error: Option<String>,
}

/// A time of a schedule for which no turn began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SkippedTime {
    /// The time.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub scheduled_at: String,
    /// Why.
    pub reason: String,
}

/// A turn that a trigger began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TriggeredTurn {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
}
