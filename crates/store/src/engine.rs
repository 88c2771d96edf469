//! The trait every store engine implements, and the values it speaks in.
//!
//! A store holds one append-only journal per session. Payloads are opaque here. Events are numbered
//! from 1 without gaps. A writer first claims the session and gets an epoch; a later claim fences it.

mod cluster;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use uuid::Uuid;

pub use cluster::{Announcement, Beat, Cluster, Member};

use crate::error::Result;

/// The journal of what is left of sessions that were removed; none of them has this id.
pub const DELETED_USAGE: SessionId = SessionId::from_u128(u128::MAX - 1);
/// The journal of what began turns by itself: see [`crate::starts`].
pub(crate) const STARTS: SessionId = SessionId::from_u128(u128::MAX - 3);
/// The journal of the tokens of people and programs: see [`crate::tokens`].
pub(crate) const TOKENS: SessionId = SessionId::from_u128(u128::MAX - 4);

/// The largest payload of one event or checkpoint, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// Sessions that are listed at a time.
pub(crate) const SESSIONS_PAGE: usize = 1_024;

/// The answer of an engine: a boxed future, so that `Arc<dyn Engine>` works.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Names a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// The id with this value.
    #[must_use]
    pub const fn from_u128(value: u128) -> Self {
        Self(Uuid::from_u128(value))
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to write to a session until somebody claims it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// To be given with every write.
    pub epoch: u64,
    /// The last event of the session; 0 if it has none.
    pub last_seq: u64,
}

/// Events to append, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// The epoch of the writer's claim.
    pub epoch: u64,
    /// The last event the writer knows of.
    pub expected_seq: u64,
    /// One payload per event, each at most [`MAX_PAYLOAD_BYTES`].
    pub payloads: Vec<Vec<u8>>,
}

impl Append {
    /// One event at the end of what was claimed.
    pub(crate) fn to(session: SessionId, claim: Claim, payload: Vec<u8>) -> Self {
        Self {
            session,
            epoch: claim.epoch,
            expected_seq: claim.last_seq,
            payloads: vec![payload],
        }
    }
}

/// A session to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The session.
    pub session: SessionId,
    /// Its last event; none: whatever it is.
    pub expected_seq: Option<u64>,
    /// What is left of it, if anything: the next event of [`DELETED_USAGE`].
    pub deleted_usage: Option<Vec<u8>>,
}

impl Deletion {
    /// Of a session as it is, and nothing is left of it.
    #[must_use]
    pub const fn of(session: SessionId) -> Self {
        Self {
            session,
            expected_seq: None,
            deleted_usage: None,
        }
    }
}

/// An event as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// A state checkpoint: the fold of the events up to `seq`, so that a reader need not start at 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last event it covers.
    pub seq: u64,
    /// Its bytes.
    pub state: Vec<u8>,
}

/// What a store knows about a session without reading its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session.
    pub session: SessionId,
    /// Its last event; 0 if it has none.
    pub last_seq: u64,
    /// The epoch of its latest claim.
    pub epoch: u64,
    /// The sum of its payloads.
    pub payload_bytes: u64,
    /// When it was first claimed, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// When it was last written to, in milliseconds since 1970 UTC.
    pub updated_unix_ms: u64,
}

/// How much room a store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// The payloads of all events that are not deleted.
    pub live_bytes: u64,
}

/// What a vacuum did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vacuumed {
    /// Bytes on disk before.
    pub before_bytes: u64,
    /// Bytes on disk after.
    pub after_bytes: u64,
    /// Sessions carried over.
    pub sessions: u64,
    /// Events carried over.
    pub events: u64,
}

/// Whether a store takes writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Ok,
    /// There is no room for writes; reads work, and writes are taken again when there is room.
    DiskFull {
        /// What is missing.
        reason: String,
    },
    /// The database does not answer; reads and writes are taken again when it does.
    Unreachable {
        /// What was seen of it.
        reason: String,
    },
    /// A write failed; reads still work.
    ReadOnly {
        /// What failed.
        reason: String,
    },
}

/// A durable, fenced journal per session.
///
/// An answer to a write is given only when the write is on disk. A reader sees acknowledged events
/// only. Dropping an answer does not take the write back.
pub trait Engine: Send + Sync + 'static {
    /// Takes the session, which need not exist yet: all earlier claims are fenced from now on.
    fn claim(&self, session: SessionId) -> Answer<'_, Claim>;

    /// Appends events and answers with the number of the last of them.
    ///
    /// Fails with `Fenced` if the epoch is not the session's latest, with `Conflict` if
    /// `expected_seq` is not its last event, and then nothing is written.
    fn append(&self, append: Append) -> Answer<'_, u64>;

    /// Reads at most `limit` events from number `from` on. Fewer come back at the end of the
    /// journal, or where they would be over 64 MiB together.
    fn read(&self, session: SessionId, from: u64, limit: usize) -> Answer<'_, Vec<Event>>;

    /// The first event of each of these sessions; none for one that has no events. What an engine
    /// can do at one time is overridden: a list of sessions asks for as many as it shows.
    fn first_events(&self, sessions: Vec<SessionId>) -> Answer<'_, Vec<Option<Event>>> {
        Box::pin(async move {
            let mut firsts = Vec::with_capacity(sessions.len());
            for session in sessions {
                firsts.push(self.read(session, 1, 1).await?.pop());
            }
            Ok(firsts)
        })
    }

    /// The last event of each of these sessions; none for one that has no events. What an engine can
    /// do at one time is overridden, as above.
    fn last_events(&self, sessions: Vec<SessionInfo>) -> Answer<'_, Vec<Option<Event>>> {
        Box::pin(async move {
            let mut lasts = Vec::with_capacity(sessions.len());
            for info in sessions {
                lasts.push(self.read(info.session, info.last_seq, 1).await?.pop());
            }
            Ok(lasts)
        })
    }

    /// Keeps a state checkpoint in place of the one before it.
    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Answer<'_, ()>;

    /// The latest state checkpoint, if there is one.
    fn latest_checkpoint(&self, session: SessionId) -> Answer<'_, Option<Checkpoint>>;

    /// One session, if it exists.
    fn session(&self, session: SessionId) -> Answer<'_, Option<SessionInfo>>;

    /// At most `limit` sessions in the order of their ids, those after `after` only.
    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Answer<'_, Vec<SessionInfo>>;

    /// At most `limit` sessions from the largest id back, those before `before` only. What an engine
    /// can read backwards is overridden: this reads all sessions before it.
    fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let (mut newest, mut after) = (VecDeque::with_capacity(limit), None);
            loop {
                let page = self.sessions(after, SESSIONS_PAGE).await?;
                after = page.last().map(|last| last.session);
                let earlier =
                    |known: &SessionInfo| before.is_none_or(|before| known.session < before);
                let is_last = page.last().is_none_or(|last| !earlier(last));
                newest.extend(page.into_iter().filter(earlier));
                newest.drain(..newest.len().saturating_sub(limit));
                if is_last {
                    return Ok(newest.into_iter().rev().collect());
                }
            }
        })
    }

    /// Removes a session, fences its writers, and keeps what is left of it, all or nothing; answers
    /// whether there was one. What is left of [`DELETED_USAGE`] itself stands alone in it then.
    ///
    /// Fails with `Conflict` if `expected_seq` is not its last event, and then nothing is written.
    fn delete_session(&self, deletion: Deletion) -> Answer<'_, bool>;

    /// How much room it takes; an engine without a disk takes none.
    fn space(&self) -> Answer<'_, Space> {
        Box::pin(async { Ok(Space::default()) })
    }

    /// Gives back the room of what was deleted or is outdated: when it returns nothing of that is on
    /// disk any more. Reads and writes go on, but for a moment at its end. It copies no more than so
    /// many bytes in a second, where that is bounded, and goes on to its end if nobody waits for it.
    ///
    /// Fails with `DiskFull` where there is no room for a copy of what is live, with `Corrupt` where
    /// that cannot be read, and then nothing is changed.
    fn vacuum(&self, _bytes_per_second: Option<u64>) -> Answer<'_, Vacuumed> {
        Box::pin(async { Ok(Vacuumed::default()) })
    }

    /// The programs that use it together, where several may.
    fn cluster(&self) -> Option<&dyn Cluster> {
        None
    }

    /// Whether it takes writes.
    fn health(&self) -> Health;

    /// Waits until writes are taken, of a store that could not be opened to write; any other answers
    /// at once.
    fn writable(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Ends the engine when all accepted writes and the reads under way are answered, and lets go
    /// of all it holds: the same directory can be opened again at once, whoever still has this
    /// engine. Later calls fail with `Closed`.
    fn close(&self) -> Answer<'_, ()>;
}

pub(crate) fn now_unix_ms() -> u64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| {
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    })
}
