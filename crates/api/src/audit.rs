//! The audit log: changes and refused requests.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The name of the daemon's own token in the log. No token or person can have it.
pub const DAEMON: &str = "daemon";

/// A request that changed something or was refused, without its content; or the number of requests
/// that the log omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// When the daemon responded, RFC 3339 in UTC.
    pub at: String,
    /// The name of the token, or of the person whom a proxy named; `daemon` for the daemon's own
    /// token; null: unknown.
    pub who: Option<String>,
    /// The owner of the token.
    pub owner: Option<String>,
    /// The HTTP method; null: the entry is a count of omitted requests.
    pub method: Option<String>,
    /// The pattern of the route, such as `/v1/sessions/{session}/turns`; null: no route matches the
    /// path, or the entry is a count.
    pub route: Option<String>,
    /// The MCP tool or the A2A operation.
    pub operation: Option<String>,
    /// The ids in the path or in the arguments of the operation, by kind: `session`, `turn`, `call`,
    /// `token`, `agent`.
    pub object: BTreeMap<String, String>,
    /// The status of the response; null: the client disconnected before it, or the entry is a count.
    pub status: Option<u16>,
    /// The number of omitted requests; null: the entry is a request.
    pub left_out: Option<u64>,
    /// Why they were omitted: `refusals`, the refused requests of a minute exceeded the limit; `queue`,
    /// the queue of the log was full.
    pub cause: Option<String>,
}

/// A query for entries, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only entries since then: a date, an instant, or an age such as 12h or 7d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only requests of that token or person; `daemon` for the daemon's own token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Entries per page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}
