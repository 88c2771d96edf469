//! All commands and queries of sessions, one trait for each resource.
//!
//! ```text
//!                      Service
//!            ┌────────────┴────────────┐
//!   unisono::Local              unisono_client::Client
//!   a store of this process     a daemon, over HTTP
//! ```
//!
//! A caller does not know which implementation it uses. Ids are text; an invalid id is
//! `invalid_request`.

mod agents;
mod approvals;
mod audit;
mod cluster;
mod compactions;
mod contexts;
mod messages;
mod runs;
mod schedules;
mod search;
mod sessions;
mod settings;
mod store;
mod tokens;
mod tool_servers;
mod turns;
mod usage;

use std::fmt::Debug;

use crate::{Code, Problem};

pub use agents::Agents;
pub use approvals::Approvals;
pub use audit::Audit;
pub use cluster::Cluster;
pub use compactions::Compactions;
pub use contexts::Contexts;
pub use messages::Messages;
pub use runs::Runs;
pub use schedules::Schedules;
pub use search::Search;
pub use sessions::{FileParts, Sessions};
pub use settings::Settings;
pub use store::Store;
pub use tokens::Tokens;
pub use tool_servers::{ToolServerStates, ToolServers};
pub use turns::{TurnUpdates, Turns};
pub use usage::Usage;

/// The result of a service call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// All resources.
///
/// ```
/// use unisono_api::service::{Result, Service};
/// use unisono_api::session::SessionQuery;
///
/// /// The titles of the newest sessions of any service.
/// async fn titles(service: &dyn Service) -> Result<Vec<String>> {
///     let page = service.sessions(&SessionQuery::default()).await?;
///     Ok(page.items.into_iter().map(|listed| listed.title).collect())
/// }
/// ```
pub trait Service:
    Sessions
    + Messages
    + Search
    + Contexts
    + Compactions
    + Turns
    + Runs
    + Usage
    + Approvals
    + Schedules
    + Settings
    + Agents
    + Store
    + Tokens
    + ToolServers
    + Audit
    + Cluster
    + Debug
    + Send
    + Sync
{
}

impl<T> Service for T where
    T: Sessions
        + Messages
        + Search
        + Contexts
        + Compactions
        + Turns
        + Runs
        + Usage
        + Approvals
        + Schedules
        + Settings
        + Agents
        + Store
        + Tokens
        + ToolServers
        + Audit
        + Cluster
        + Debug
        + Send
        + Sync
{
}

/// Why a service call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was refused or failed.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The daemon does not answer.
    #[error("the daemon at {url} cannot be reached: {reason}")]
    Unreachable {
        /// Its address.
        url: String,
        /// The error of the connection.
        reason: String,
    },
    /// A file to send cannot be read.
    #[error("cannot read {name}: {reason}")]
    Unreadable {
        /// Its name.
        name: String,
        /// The error of the system.
        reason: String,
    },
    /// The daemon's response is invalid.
    #[error(
        "the response of the daemon at {url} is invalid ({reason}): use the same version of unisono here and there"
    )]
    Answer {
        /// Its address.
        url: String,
        /// What is wrong with the response.
        reason: String,
    },
}

impl Error {
    /// An error of that kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Error {
        Problem::new(code, detail).into()
    }

    /// The error for a missing resource.
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Error {
        Error::new(Code::NotFound, format!("there is no {what} {id}"))
    }

    /// Its kind, for programs.
    pub fn code(&self) -> Code {
        match self {
            Error::Problem(problem) => problem.code,
            Error::Unreachable { .. } => Code::Unavailable,
            Error::Unreadable { .. } | Error::Answer { .. } => Code::Failed,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Problem(Box::new(problem))
    }
}
