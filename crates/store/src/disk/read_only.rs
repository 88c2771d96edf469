//! A store that cannot be written and is only read: the disk is full, or mounted read-only.
//!
//! sled writes when it opens, so it is not used here. All undamaged records are found in the raw
//! files, as in a repair, and everything that the ledger lists as acknowledged must be among them.
//! Nothing is written, the store is locked as usual, and data that cannot be read is reported by
//! name.

use std::path::Path;
use std::sync::Arc;

use crate::disk::doctor::Checkup;
use crate::disk::lock::Lock;
use crate::disk::rescue::Rescue;
use crate::disk::trees::window;
use crate::disk::{files, ledger};
use crate::engine::is_of_a_session;
use crate::engine::{
    Append, Checkpoint, Claim, Deletion, Engine, EngineFuture, Event, Health, SessionId,
    SessionInfo, SessionsFuture,
};
use crate::error::{Error, Result};

/// A store that is only read. Opening it reads its whole log, and needs about 200 bytes of memory
/// for each event.
#[derive(Debug, Clone)]
pub struct ReadOnlyDisk {
    shared: Arc<Shared>,
    reason: String,
}

#[derive(Debug)]
struct Shared {
    rescue: Rescue,
    lock: Option<Lock>,
}

impl ReadOnlyDisk {
    /// Opens the store in this directory as it is; `reason` says why it is not opened for writing.
    /// Blocking: do not call it on an async thread.
    ///
    /// # Errors
    /// `Held` by another process, `NewerStore`, `EarlierStore`, `NotAStore`, and `Io` if it cannot
    /// be read.
    pub fn open(path: impl AsRef<Path>, reason: impl Into<String>) -> Result<Self> {
        let root = path.as_ref();
        files::check_there(root)?;
        Self::open_held(root, reason, Lock::take_unmarked(root)?)
    }

    /// As [`Self::open`], with a lock that is held already.
    pub(super) fn open_held(
        root: &Path,
        reason: impl Into<String>,
        lock: Option<Lock>,
    ) -> Result<Self> {
        let rescue = Rescue::of_closed(root, ledger::look(root)?)?;
        Ok(Self {
            shared: Arc::new(Shared { rescue, lock }),
            reason: reason.into(),
        })
    }

    /// Its lock; `None` if the store was never opened for writing.
    pub(super) fn lock(&self) -> Option<Lock> {
        self.shared.lock.clone()
    }

    /// Reads every session completely, and reports acknowledged data that cannot be read. Blocking.
    pub fn check(&self) -> Result<Checkup> {
        let mut checkup = Checkup::default();
        for session in self.shared.rescue.known_sessions() {
            match self.shared.rescue.head(session) {
                Ok(Some(head)) if !head.deleted => {
                    checkup.sessions += u64::from(is_of_a_session(session));
                    checkup.events += head.last_seq;
                }
                Ok(_) => {}
                Err(error) => checkup.note(error)?,
            }
        }
        Ok(checkup)
    }

    fn refuse<T>(&self) -> EngineFuture<'_, T>
    where
        T: Send + 'static,
    {
        Box::pin(async {
            Err(Error::ReadOnly {
                reason: self.reason.clone(),
            })
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Rescue) -> Result<T> + Send + 'static,
    ) -> EngineFuture<'_, T> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let reading = tokio::task::spawn_blocking(move || read(&shared.rescue));
            reading
                .await
                .map_err(|error| Error::engine(doing, &error))?
        })
    }
}

impl Rescue {
    fn read(&self, session: SessionId, from: u64, limit: usize) -> Result<Vec<Event>> {
        let Some(head) = self.head(session)?.filter(|head| !head.deleted) else {
            return Ok(Vec::new());
        };
        window(&head, from, limit).map_or(Ok(Vec::new()), |(from, last)| {
            self.events(session, &head, from, last)
        })
    }

    fn info(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        Ok(self.head(session)?.and_then(|head| head.info(session)))
    }

    fn infos(&self, mut after: Option<SessionId>, limit: usize) -> Result<Vec<SessionInfo>> {
        let mut infos = Vec::new();
        while infos.len() < limit {
            let page = self.sessions(after, limit - infos.len());
            let Some(last) = page.last() else { break };
            after = Some(*last);
            for session in page {
                infos.extend(self.info(session)?);
            }
        }
        Ok(infos)
    }
}

impl Engine for ReadOnlyDisk {
    fn claim(&self, _: SessionId) -> EngineFuture<'_, Claim> {
        self.refuse()
    }

    fn append(&self, _: Append) -> EngineFuture<'_, u64> {
        self.refuse()
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> EngineFuture<'_, Vec<Event>> {
        self.ask("read events", move |rescue| {
            rescue.read(session, from, limit)
        })
    }

    fn put_checkpoint(&self, _: SessionId, _: u64, _: Checkpoint) -> EngineFuture<'_, ()> {
        self.refuse()
    }

    fn latest_checkpoint(&self, session: SessionId) -> EngineFuture<'_, Option<Checkpoint>> {
        self.ask("read a checkpoint", move |rescue| {
            Ok(rescue.checkpoint(session, rescue.head(session)?))
        })
    }

    fn session(&self, session: SessionId) -> EngineFuture<'_, Option<SessionInfo>> {
        self.ask("look a session up", move |rescue| rescue.info(session))
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        self.ask("list sessions", move |rescue| rescue.infos(after, limit))
    }

    fn delete_session(&self, _: Deletion) -> EngineFuture<'_, bool> {
        self.refuse()
    }

    fn health(&self) -> Health {
        Health::ReadOnly {
            reason: self.reason.clone(),
        }
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
