//! A store that a daemon holds, looked at through it.
//!
//! What only reads works on it as on a store of one's own, because it is an engine: the journal's
//! records come as they are on disk. Nothing can be written through it.

use std::sync::Arc;

use unisono_api::Code;
use unisono_api::journal::{EventBlock, Info};
use unisono_client::{Client, Error as ClientError};
use unisono_store::{
    Answer, Append, Checkpoint, Claim, Deletion, Engine, Error, Event, Health, Journal, Result,
    SessionId, SessionInfo,
};

/// What fails where the daemon cannot be reached.
pub(crate) const REACH: &str = "read the store through its daemon";

/// The store of a daemon.
#[derive(Debug)]
struct Remote(Client);

/// The journal of a daemon's store.
pub(crate) fn journal(client: Client) -> Journal {
    Journal::new(Arc::new(Remote(client)))
}

impl Remote {
    fn failed(error: &ClientError) -> Error {
        let doing = match error {
            ClientError::Unreachable { .. } => REACH,
            _ => "read the store",
        };
        Error::Engine {
            doing,
            reason: error.to_string(),
        }
    }

    fn refused<T>(&self) -> Result<T> {
        Err(Error::Engine {
            doing: "change a session",
            reason: format!(
                "the daemon at {} has the store open; use its page or API, or stop it",
                self.0.url()
            ),
        })
    }
}

fn info(info: &Info) -> Result<SessionInfo> {
    let session = info.session.parse().map_err(|_| Error::Engine {
        doing: "read the store through its daemon",
        reason: format!("{:?} is no id of a session", info.session),
    })?;
    Ok(SessionInfo {
        session: SessionId(session),
        last_seq: info.last_seq,
        epoch: info.epoch,
        payload_bytes: info.payload_bytes,
        created_unix_ms: info.created_unix_ms,
        updated_unix_ms: info.updated_unix_ms,
    })
}

impl Engine for Remote {
    fn claim(&self, _: SessionId) -> Answer<'_, Claim> {
        Box::pin(async { self.refused() })
    }

    fn append(&self, _: Append) -> Answer<'_, u64> {
        Box::pin(async { self.refused() })
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> Answer<'_, Vec<Event>> {
        Box::pin(async move {
            let read = self
                .0
                .journal_events(&session.to_string(), from, limit)
                .await;
            let EventBlock(events) = match read {
                // An engine has no events of a session that is not there.
                Err(ClientError::Problem(problem)) if problem.code == Code::NotFound => {
                    return Ok(Vec::new());
                }
                read => read.map_err(|error| Remote::failed(&error))?,
            };
            let events = events
                .into_iter()
                .map(|(seq, payload)| Event { seq, payload });
            Ok(events.collect())
        })
    }

    fn put_checkpoint(&self, _: SessionId, _: u64, _: Checkpoint) -> Answer<'_, ()> {
        Box::pin(async { self.refused() })
    }

    fn latest_checkpoint(&self, _: SessionId) -> Answer<'_, Option<Checkpoint>> {
        Box::pin(async { Ok(None) })
    }

    fn session(&self, session: SessionId) -> Answer<'_, Option<SessionInfo>> {
        Box::pin(async move {
            let found = self.0.journal_session(&session.to_string()).await;
            let found = found.map_err(|error| Remote::failed(&error))?;
            found.as_ref().map(info).transpose()
        })
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let after = after.map(|id| id.to_string());
            let found = self.0.journal_sessions(after.as_deref(), limit).await;
            let found = found.map_err(|error| Remote::failed(&error))?;
            found.items.iter().map(info).collect()
        })
    }

    fn delete_session(&self, _: Deletion) -> Answer<'_, bool> {
        Box::pin(async { self.refused() })
    }

    fn health(&self) -> Health {
        Health::ReadOnly {
            reason: "a daemon has the store open".to_owned(),
        }
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
