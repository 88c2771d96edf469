//! The errors of the runtime.

use std::sync::Arc;

use unisono_context::{AgentId, SessionId};
use unisono_session::Refusal;

use crate::attachments;

/// An error of the runtime.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session refused the request; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error("{0}")]
    Store(Arc<unisono_store::Error>),
    /// The journal does not fold.
    #[error("session {session} cannot be opened: {reason}; run `unisono doctor`")]
    Broken {
        /// The session.
        session: SessionId,
        /// Why.
        reason: Arc<str>,
    },
    /// There is no such session.
    #[error("session {0} does not exist; `unisono sessions list` shows the existing ones")]
    UnknownSession(SessionId),
    /// Too many requests are waiting.
    #[error("session {0} is busy: its queue is full, try again in a moment")]
    Busy(SessionId),
    /// An agent's queue is full.
    #[error(
        "agent {agent} is busy: its queue is full; try again in about {:.0} s",
        (*.retry_after_ms as f64 / 1e3).ceil()
    )]
    Overloaded {
        /// The agent.
        agent: AgentId,
        /// The expected time until a permit is free, in milliseconds, based on recent runs.
        retry_after_ms: u64,
    },
    /// Attachments cannot be stored; the message with them is refused.
    #[error(transparent)]
    Attachments(#[from] attachments::Error),
    /// Clients hold as many tool servers as are possible.
    #[error(
        "clients hold {0} tool servers, and no more are possible: close a session that has some"
    )]
    ServersFull(usize),
    /// A deleted session may still be in the search index.
    #[error("deleted messages may still be in the files of the search index: {0}")]
    Unpurged(#[source] Arc<unisono_search::Error>),
    /// The actor that should answer has ended.
    #[error("the {0} is not available; the runtime is stopping or keeps failing")]
    Unavailable(&'static str),
}

impl Error {
    /// Whether another program owns the session.
    #[must_use]
    pub fn is_owned_elsewhere(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_owned_elsewhere())
    }
}

impl From<unisono_store::Error> for Error {
    fn from(error: unisono_store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}
