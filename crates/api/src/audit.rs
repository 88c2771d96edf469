//! The audit log: who changed what, and who was refused.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// The name under which the daemon's own token stands in the log. No token or person can have it.
pub const DAEMON: &str = "daemon";

/// A request that changed something or was refused, without its content; or a number of requests
/// that are not recorded one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// When it was answered, RFC 3339 in UTC.
    pub at: String,
    /// The name of the token, of the person whom a proxy named, or `daemon` for the daemon's own
    /// token; null: nobody is known.
    pub who: Option<String>,
    /// The owner to whom the token belongs.
    pub owner: Option<String>,
    /// The method of HTTP; null: no single request.
    pub method: Option<String>,
    /// The pattern of the route, such as `/v1/sessions/{session}/turns`, without the query; null: no
    /// route has the address, or no single request.
    pub route: Option<String>,
    /// The tool of MCP or the operation of A2A.
    pub operation: Option<String>,
    /// The ids that stand in the address, or in the arguments of the operation, by kind: `session`,
    /// `turn`, `call`, `token`, `agent`.
    pub object: BTreeMap<String, String>,
    /// The status of the answer; null: the client left before it, or no single request.
    pub status: Option<u16>,
    /// The number of requests that are not recorded one by one.
    pub left_out: Option<u64>,
    /// Why they are not: `refusals`, more requests were refused than are recorded in a minute;
    /// `queue`, more requests came than could be written.
    pub cause: Option<String>,
}

/// Which entries are listed: the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only entries since then: a date, an instant, or an age such as 12h or 7d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only requests of that name; `daemon` for the daemon's own token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}
