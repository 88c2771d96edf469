//! An engine that counts what is appended through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unisono_store::{
    Answer, Append, Checkpoint, Claim, Engine, Event, Health, SessionId, SessionInfo,
};

/// Appends so far, their events and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Appends: each is one group commit when nobody else writes.
    pub appends: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Appended {
    /// What came since.
    #[must_use]
    pub fn since(self, before: Appended) -> Appended {
        Appended {
            appends: self.appends - before.appends,
            events: self.events - before.events,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// Passes everything on to the engine below.
pub struct Counting {
    engine: Arc<dyn Engine>,
    appends: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
}

impl Counting {
    /// Counts what reaches `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Counting {
        Counting {
            engine,
            appends: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// What was appended so far.
    pub fn appended(&self) -> Appended {
        Appended {
            appends: self.appends.load(Ordering::SeqCst),
            events: self.events.load(Ordering::SeqCst),
            bytes: self.bytes.load(Ordering::SeqCst),
        }
    }
}

impl Engine for Counting {
    fn claim(&self, session: SessionId) -> Answer<'_, Claim> {
        self.engine.claim(session)
    }

    fn append(&self, append: Append) -> Answer<'_, u64> {
        let bytes: usize = append.payloads.iter().map(Vec::len).sum();
        self.appends.fetch_add(1, Ordering::SeqCst);
        self.events
            .fetch_add(append.payloads.len() as u64, Ordering::SeqCst);
        self.bytes.fetch_add(bytes as u64, Ordering::SeqCst);
        self.engine.append(append)
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> Answer<'_, Vec<Event>> {
        self.engine.read(session, from, limit)
    }

    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Answer<'_, ()> {
        self.engine.put_checkpoint(session, epoch, checkpoint)
    }

    fn latest_checkpoint(&self, session: SessionId) -> Answer<'_, Option<Checkpoint>> {
        self.engine.latest_checkpoint(session)
    }

    fn session(&self, session: SessionId) -> Answer<'_, Option<SessionInfo>> {
        self.engine.session(session)
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Answer<'_, Vec<SessionInfo>> {
        self.engine.sessions(after, limit)
    }

    fn delete_session(&self, session: SessionId) -> Answer<'_, bool> {
        self.engine.delete_session(session)
    }

    fn health(&self) -> Health {
        self.engine.health()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.engine.close()
    }
}
