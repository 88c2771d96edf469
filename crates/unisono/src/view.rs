//! A session for inspection: in memory if this process works on it, otherwise folded from its
//! journal.

use std::future::Future;
use std::sync::Arc;

use unisono_context::SessionId;
use unisono_runtime::{Error, Handle};
use unisono_session::State;

/// A session whose state can be inspected.
pub trait Inspect: Sync {
    /// Its id.
    fn id(&self) -> SessionId;

    /// Inspects its state. Keep it short: other requests of the session wait.
    fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send;
}

impl Inspect for Handle {
    fn id(&self) -> SessionId {
        Handle::id(self)
    }

    async fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> Result<T, Error> {
        Handle::inspect(self, look).await
    }
}

/// An inspected session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum View {
    /// This process works on it.
    Live(Handle),
    /// No process works on it: its state is folded from its journal.
    Stored {
        /// Its id.
        id: SessionId,
        /// Its state.
        state: Arc<State>,
    },
}

impl Inspect for View {
    fn id(&self) -> SessionId {
        match self {
            View::Live(handle) => handle.id(),
            View::Stored { id, .. } => *id,
        }
    }

    async fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> Result<T, Error> {
        match self {
            View::Live(handle) => handle.inspect(look).await,
            View::Stored { state, .. } => Ok(look(state)),
        }
    }
}
