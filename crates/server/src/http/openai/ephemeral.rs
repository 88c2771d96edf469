//! Sessions that are there for one request: with the request they go, however that ends.
//!
//! A client that has gone away is answered by nobody, so its turn is cancelled: nothing works or
//! spends for it any more. What a process that was killed left is removed at the next start, by
//! a label alone, before any of it goes on. Only this program gives that label: a session that
//! somebody else made is never one of these, whatever is said of it.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use unisono_context::{SessionId, TurnId};
use unisono_runtime::Handle;
use unisono_session::machine::{EPHEMERAL, Import};
use unisono_session::{Event, Fact, State};
use uuid::Uuid;

use unisono::Error;
use unisono::Local;

/// Sessions looked at at a time.
const PAGE: usize = 1_024;

/// Those of one process.
#[derive(Debug)]
pub(in crate::http) struct EphemeralSessions {
    process: Uuid,
    /// The task that removes sessions of disconnected clients.
    leaving: TaskTracker,
}

impl EphemeralSessions {
    pub(in crate::http) fn new() -> EphemeralSessions {
        EphemeralSessions {
            process: Uuid::now_v7(),
            leaving: TaskTracker::new(),
        }
    }

    /// Says of a conversation that it is there for one request.
    pub(super) fn mark(&self, import: &mut Import) {
        import.labels.insert("via".into(), "openai".into());
        import.ephemeral = Some(self.process.to_string().into());
    }

    /// Removes that session as soon as this is gone.
    pub(super) fn guard(&self, local: &Arc<Local>, session: &Handle) -> EphemeralSession {
        EphemeralSession {
            local: local.clone(),
            session: session.clone(),
            leaving: self.leaving.clone(),
            gone: false,
        }
    }

    /// Waits until all are removed whose clients have gone away. There are to be no more.
    pub(in crate::http) async fn left(&self) {
        self.leaving.close();
        self.leaving.wait().await;
    }

    /// Removes those of these sessions that are of requests of an earlier process; gives the
    /// others.
    pub(in crate::http) async fn without(
        &self,
        local: &Local,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<SessionId>, Error> {
        let firsts = local.journal().first_events(&sessions).await?;
        let mut others = Vec::new();
        for (session, first) in sessions.into_iter().zip(firsts) {
            if first.as_ref().is_some_and(|first| self.is_left(first))
                && local.owner(Some(session)).await?.is_some()
            {
                // Of a request that another daemon answers.
                continue;
            }
            if first.is_some_and(|first| self.is_left(&first)) {
                local.runtime()?.delete(session).await?;
                tracing::info!(%session, "a session for one request was left, and is removed");
            } else {
                others.push(session);
            }
        }
        Ok(others)
    }

    /// Removes all that are of requests of an earlier process.
    pub(in crate::http) async fn sweep(&self, local: &Local) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = local.journal().sessions(after, PAGE).await?;
            let ids: Vec<SessionId> = page.iter().map(|info| info.session.into()).collect();
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = Some(*last);
            self.without(local, ids).await?;
        }
    }

    fn is_left(&self, first: &Event) -> bool {
        let Fact::Created { labels, .. } = &first.fact else {
            return false;
        };
        let process = self.process.to_string();
        labels.get(EPHEMERAL).is_some_and(|of| **of != *process)
    }
}

/// Keeps a session for one request.
#[derive(Debug)]
pub(super) struct EphemeralSession {
    local: Arc<Local>,
    session: Handle,
    leaving: TaskTracker,
    gone: bool,
}

impl EphemeralSession {
    /// Removes the session; it is gone when this returns.
    pub(super) async fn leave(mut self) {
        remove(&self.local, &self.session).await;
        self.gone = true;
    }
}

impl Drop for EphemeralSession {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let (local, session) = (self.local.clone(), self.session.clone());
        // Without a runtime the process ends: the next one removes it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let removing = async move { remove(&local, &session).await };
            self.leaving.spawn_on(removing, &runtime);
        }
    }
}

/// Cancels open turns and deletes the session.
async fn remove(local: &Local, session: &Handle) {
    let open = |state: &State| -> Vec<TurnId> {
        state.open_turns().map(|turn| turn.accepted.id).collect()
    };
    let removed: Result<(), Error> = async {
        for turn in session.inspect(open).await? {
            if let Err(error) = session.cancel(turn).await {
                tracing::debug!(session = %session.id(), %turn, %error, "a turn is not cancelled");
            }
        }
        local.runtime()?.delete(session.id()).await?;
        Ok(())
    }
    .await;
    if let Err(error) = removed {
        let session = session.id();
        tracing::warn!(%session, %error, "a session for one request is left until the next start");
    }
}
