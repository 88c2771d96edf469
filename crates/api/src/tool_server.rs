//! Tool servers that a client brings with a session.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Tool servers for one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToolServers {
    /// The servers: 1 to 16.
    #[cfg_attr(feature = "description", schema(min_items = 1, max_items = 16))]
    pub servers: Vec<NewToolServer>,
}

impl NewToolServers {
    /// The maximum number of servers of one request.
    pub const MAX: usize = 16;
}

/// A tool server: a program that the daemon starts, or an address with streamable HTTP. Its
/// environment and headers are kept in memory only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToolServer {
    /// Its name, with which the names of its tools begin.
    #[cfg_attr(feature = "description", schema(min_length = 1, max_length = 255))]
    pub name: String,
    /// A program. Exactly one of `command` and `url` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working directory of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// An address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of every request to the address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Shows no environment and no headers: they may be secret.
impl fmt::Debug for NewToolServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToolServer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A tool server of a session that has answered, or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ConnectedToolServer {
    /// Its name, as the client gave it.
    pub name: String,
    /// The name with which its tools begin: the same in lower case, with `-` for what names of tool
    /// servers cannot have, and with a number if a tool server of the daemon has that name.
    pub server: String,
    /// Its tools, as models see them.
    pub tools: Vec<String>,
    /// Why it cannot be used; it is tried again for each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
