//! The programs that use a database together.

use serde::{Deserialize, Serialize};

/// The state of a program of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MemberState {
    /// It works.
    Alive,
    /// It takes no new sessions.
    Draining,
    /// It gives no sign of life: others take over its sessions.
    Gone,
}

impl MemberState {
    /// Its name, as JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            MemberState::Alive => "alive",
            MemberState::Draining => "draining",
            MemberState::Gone => "gone",
        }
    }
}

/// A program that uses the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ClusterMember {
    /// Its id, which a program with the same `store.path` keeps after a restart.
    pub member: String,
    /// Program, host and process.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The address at which the others reach it; null: it is not a daemon.
    pub address: Option<String>,
    /// Its state.
    pub state: MemberState,
    /// Whether it is the one that answers.
    #[serde(rename = "self")]
    pub is_self: bool,
    /// The number of sessions that it owns.
    pub sessions: u64,
    /// When it joined, RFC 3339 in UTC.
    pub joined: String,
    /// Milliseconds since its last heartbeat.
    pub last_seen_ms: u64,
    /// Whether this member and the responding program have equal agent definitions; null: unknown.
    pub same_agents: Option<bool>,
}

/// A request to a program of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// To take no new sessions and hand over its own; false: to work as before.
    pub drain: bool,
}
