//! The audit log: changes and refused requests.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::token::is_name;

/// The name of the daemon's own token in the log. No token or person can have it.
pub const DAEMON: &str = "daemon";

/// A name of this length or more may be a secret.
const SECRET_CHARS: usize = 32;
const SECRET_PREFIX: &str = "unisono_";

/// Whether a value is a name that is too short for a secret.
pub fn is_short_name(value: &str) -> bool {
    is_name(value) && value.len() < SECRET_CHARS && !value.starts_with(SECRET_PREFIX)
}

/// A request that changed something or was refused, without its content; a command that changed the
/// store without a daemon; a repair of the store; or the number of requests that the log omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Time of the response, RFC 3339 in UTC; of a command, the time before its first change; of an
    /// opening of the store, the time after it.
    pub at: String,
    /// The name of the token, or of the person whom a proxy named; `daemon` for the daemon's own
    /// token; of a command, the user of the operating system; null: unknown.
    pub caller: Option<String>,
    /// The owner of the token.
    pub owner: Option<String>,
    /// The HTTP method; `CLI` for a command without a daemon; `OPEN` for a change that the program made
    /// in the store when it opened it; null: the entry is a count of omitted requests.
    pub method: Option<String>,
    /// The pattern of the route, such as `/v1/sessions/{session}/turns`; the name of the command, such
    /// as `sessions delete`; of an opening, `repair` (the store was damaged) or `narrow` (other users
    /// had rights to its files); null: no route matches the path, or the entry is a count.
    pub route: Option<String>,
    /// The MCP tool, the A2A operation, or `login` for a browser that logged in.
    pub operation: Option<String>,
    /// The ids in the path, or in the arguments of the operation or the command, by kind: `session`,
    /// `turn`, `call`, `token`, `agent`. Of a created or revoked token also its `scope` and `owner`; a
    /// command without a daemon that revokes one names only the `token`. Of a repair `quarantine`, the
    /// directory with the damaged log; of narrowed rights `paths`, their number.
    pub object: BTreeMap<String, String>,
    /// The status of the response; null: the client disconnected before it, or the entry is a command,
    /// an opening or a count.
    pub status: Option<u16>,
    /// The number of omitted requests; null: the entry is a request.
    pub omitted: Option<u64>,
    /// Why they were omitted: `refusals`, the refused requests of a minute exceeded the limit; `queue`,
    /// the queue of the log was full.
    pub cause: Option<String>,
}

/// A query for entries, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only entries since then: a date, an instant, or an age such as 12h or 7d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only requests of that token or person; `daemon` for the daemon's own token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Entries per page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}
