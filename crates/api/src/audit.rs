//! The audit log: who changed what, and who was refused.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::token::is_name;

/// The name under which the daemon's own token stands in the log. No token or person can have it.
pub const DAEMON: &str = "daemon";

/// A name of this length or more may be a secret.
const SECRET_CHARS: usize = 32;
/// The prefix of tokens' secrets.
const SECRET_PREFIX: &str = "unisono_";

/// Whether a value is a name that is too short for a secret.
pub fn is_short_name(value: &str) -> bool {
    is_name(value) && value.len() < SECRET_CHARS && !value.starts_with(SECRET_PREFIX)
}

/// A request that changed something or was refused, without its content; or a number of requests
/// that are not recorded one by one; or a command that changed the store without a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// When it was answered, RFC 3339 in UTC; of a command, when it began to change something.
    pub at: String,
    /// The name of the token, of the person whom a proxy named, or `daemon` for the daemon's own
    /// token; of a command, the user of the operating system; null: nobody is known.
    pub who: Option<String>,
    /// The owner to whom the token belongs.
    pub owner: Option<String>,
    /// The method of HTTP, or `CLI` for a command without a daemon; null: no single request.
    pub method: Option<String>,
    /// The pattern of the route, such as `/v1/sessions/{session}/turns`, without the query, or the
    /// name of the command, such as `sessions delete`; null: no route has the address, or no single
    /// request.
    pub route: Option<String>,
    /// The tool of MCP, the operation of A2A, or `login` for a browser that came by a link.
    pub operation: Option<String>,
    /// The ids in the address, or in the arguments of the operation or the command, by kind: `session`,
    /// `turn`, `call`, `token`, `agent`.
    pub object: BTreeMap<String, String>,
    /// The status of the answer; null: the client left before it, a command, or no single request.
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
