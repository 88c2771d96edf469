//! Sessions that exist for one request. The end of the request removes them.
//!
//! If a client disconnects, its turn is cancelled, so it spends nothing any more. After a kill, the
//! next start removes the sessions by their label before any of their turns continues. Only this
//! program sets that label, so no other session is ever removed.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use unisono_api::Code;
use unisono_context::{SessionId, TurnId};
use unisono_runtime::Handle;
use unisono_session::machine::{EPHEMERAL, Import};
use unisono_session::{Event, State};
use uuid::Uuid;

use crate::http::problem::ApiError;
use unisono::Error;
use unisono::Local;
use unisono::labels::created_with;

/// Sessions per read.
const PAGE: usize = 1_024;

#[derive(Debug)]
pub(in crate::http) struct EphemeralSessions {
    process: Uuid,
    /// The tasks that create sessions, and remove those of disconnected clients.
    leaving: TaskTracker,
}

impl EphemeralSessions {
    pub(in crate::http) fn new() -> EphemeralSessions {
        EphemeralSessions {
            process: Uuid::now_v7(),
            leaving: TaskTracker::new(),
        }
    }

    /// Creates the session of a request. If the client disconnects meanwhile, the session is removed
    /// as soon as it exists.
    ///
    /// # Errors
    /// The conversation is refused, or the store fails.
    pub(super) async fn create(
        &self,
        local: &Arc<Local>,
        mut import: Import,
    ) -> Result<EphemeralSession, ApiError> {
        import.labels.insert("via".into(), "openai".into());
        import.ephemeral = Some(self.process.to_string().into());
        let (made, created) = oneshot::channel();
        let (local, leaving) = (local.clone(), self.leaving.clone());
        self.leaving.spawn(async move {
            let session = local.import(import).await;
            let session = session.map(|session| EphemeralSession {
                local,
                session,
                leaving,
                gone: false,
            });
            if let Err(Ok(unwanted)) = made.send(session) {
                unwanted.leave().await;
            }
        });
        let created = created.await;
        let created = created.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
        Ok(created?)
    }

    /// Waits until the sessions of disconnected clients are removed. The caller must add no more.
    pub(in crate::http) async fn wait_until_removed(&self) {
        self.leaving.close();
        self.leaving.wait().await;
    }

    /// Removes the ephemeral sessions of an earlier process among these sessions, and returns the
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
                && local.owner(session).await?.is_some()
            {
                // The session belongs to a request to another daemon.
                continue;
            }
            if first.is_some_and(|first| self.is_left(&first)) {
                local.discard(session).await?;
                tracing::info!(%session, "an ephemeral session of an earlier process is removed");
            } else {
                others.push(session);
            }
        }
        Ok(others)
    }

    /// Removes all ephemeral sessions of earlier processes.
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
        let process = self.process.to_string();
        let of = created_with(first).and_then(|labels| labels.get(EPHEMERAL));
        of.is_some_and(|of| **of != *process)
    }
}

/// Removes its session on drop.
#[derive(Debug)]
pub(super) struct EphemeralSession {
    local: Arc<Local>,
    pub(super) session: Handle,
    leaving: TaskTracker,
    gone: bool,
}

impl EphemeralSession {
    /// Removes the session before it returns.
    pub(super) async fn leave(mut self) {
        remove(&self.local, &self.session).await;
        self.gone = true;
    }

    /// Leaves the session until the next start of the program: its turn waits for a person.
    pub(super) fn keep(mut self) {
        self.gone = true;
    }
}

impl Drop for EphemeralSession {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let (local, session) = (self.local.clone(), self.session.clone());
        // Without a runtime the process is ending; the next process removes the session.
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
                tracing::debug!(session = %session.id(), %turn, %error, "a turn of an ephemeral session cannot be cancelled");
            }
        }
        local.discard(session.id()).await?;
        Ok(())
    }
    .await;
    if let Err(error) = removed {
        let session = session.id();
        tracing::warn!(%session, %error, "an ephemeral session cannot be removed now; the next start removes it");
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    async fn count(local: &Local) -> usize {
        local.journal().sessions(None, PAGE).await.unwrap().len()
    }

    #[tokio::test]
    async fn a_client_that_goes_while_its_session_is_created_leaves_none() {
        let directory = tempfile::tempdir().unwrap();
        let local = Local::builder()
            .directory(directory.path())
            .set("models.default", "extractive")
            .in_memory();
        let local = Arc::new(local.start().await.unwrap());
        let sessions = EphemeralSessions::new();
        let created = sessions.create(&local, Import::default()).await.unwrap();
        assert_eq!(count(&local).await, 1);
        created.leave().await;
        {
            let mut creating = pin!(sessions.create(&local, Import::default()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(creating.as_mut().poll(&mut context).is_pending());
        }
        sessions.wait_until_removed().await;
        assert_eq!(count(&local).await, 0);
    }
}
