//! The trait that every store engine implements, and its types.
//!
//! A store holds one append-only journal per session. The engine does not interpret payloads.
//! Events are numbered from 1 without gaps. A writer first claims the session and receives an
//! epoch; a later claim fences it.

mod cluster;
mod forward;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

pub use crate::session_id::SessionId;
pub use cluster::{Announcement, Beat, Cluster, Document, Member, ProviderPause};

use crate::error::Result;

/// The ids from this one on are those of journals of the store's own; no session has one.
pub(crate) const FIRST_OWN: SessionId = SessionId::from_u128(0xff_ffff << 104);
/// The id of the journal with the usage of deleted sessions; no session has it.
pub const DELETED_USAGE: SessionId = SessionId::from_u128(u128::MAX - 1);
/// The id of the journal of turns that were started automatically: see [`crate::starts`].
pub(crate) const STARTS: SessionId = SessionId::from_u128(u128::MAX - 3);
/// The journal of the tokens of people and programs: see [`crate::tokens`].
pub(crate) const TOKENS: SessionId = SessionId::from_u128(u128::MAX - 4);
/// The first journal of the audit log; the others have the ids before it: see [`crate::audit`].
pub(crate) const AUDIT: SessionId = SessionId::from_u128(u128::MAX - 16);

/// The largest payload of one event or checkpoint, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// Number of sessions that are listed at a time.
pub(crate) const SESSIONS_PAGE: usize = 1_024;

/// The result of an engine's method: a boxed future, so that `Arc<dyn Engine>` works.
pub type EngineFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub(crate) type SessionsFuture<'a> = EngineFuture<'a, Vec<SessionInfo>>;

/// The right to write to a session, valid until the session is claimed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The epoch to pass with every write.
    pub epoch: u64,
    /// The last event of the session; 0 if it has none.
    pub last_seq: u64,
}

/// Events to append; either all of them are written or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// The epoch of the writer's claim.
    pub epoch: u64,
    /// The number of the last event that the writer knows of.
    pub expected_seq: u64,
    /// One payload per event, each at most [`MAX_PAYLOAD_BYTES`].
    pub payloads: Vec<Vec<u8>>,
}

impl Append {
    /// Appends these events after the one with this number.
    pub fn new(session: SessionId, epoch: u64, expected_seq: u64, payloads: Vec<Vec<u8>>) -> Self {
        Self {
            session,
            epoch,
            expected_seq,
            payloads,
        }
    }

    /// Appends one event after the last one of a session that was just claimed.
    pub(crate) fn to(session: SessionId, claim: Claim, payload: Vec<u8>) -> Self {
        Self::new(session, claim.epoch, claim.last_seq, vec![payload])
    }
}

/// The deletion of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The session.
    pub session: SessionId,
    /// The number of its last event; `None` deletes it whatever that is.
    pub expected_seq: Option<u64>,
    /// Its usage, if any, which becomes the next event of [`DELETED_USAGE`].
    pub deleted_usage: Option<Vec<u8>>,
}

impl Deletion {
    /// Deletes a session whatever its last event is, without keeping its usage.
    #[must_use]
    pub const fn of_session(session: SessionId) -> Self {
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

/// A state checkpoint: the folded state of the events up to `seq`, so that a reader need not start
/// at event 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last event it covers.
    pub seq: u64,
    /// Its bytes.
    pub state: Vec<u8>,
}

/// The metadata of a session that a store has without reading its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session.
    pub session: SessionId,
    /// Its last event; 0 if it has none.
    pub last_seq: u64,
    /// The epoch of its latest claim.
    pub epoch: u64,
    /// The total size of its payloads.
    pub payload_bytes: u64,
    /// When it was first claimed, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// When it was last written to, in milliseconds since 1970 UTC.
    pub updated_unix_ms: u64,
}

impl SessionInfo {
    /// Its id, as a conversation has it.
    pub fn id(&self) -> unisono_context::SessionId {
        self.session.into()
    }
}

/// The size of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Size of the payloads of all events that are not deleted.
    pub live_bytes: u64,
}

/// The result of a vacuum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vacuumed {
    /// Size on disk before.
    pub before_bytes: u64,
    /// Size on disk after.
    pub after_bytes: u64,
    /// Number of sessions kept, without internal journals.
    pub sessions: u64,
    /// Number of events kept.
    pub events: u64,
}

/// Whether a store accepts writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Writes are accepted.
    Ok,
    /// The disk is full. Reads work, and writes are accepted again when there is room.
    DiskFull {
        /// What is missing, and how much.
        reason: String,
    },
    /// The database does not answer; reads and writes are accepted again when it does.
    Unreachable {
        /// The error that was seen.
        reason: String,
    },
    /// Writes are refused; reads still work. After a failed write in a directory, that lasts until
    /// the process is restarted.
    ReadOnly {
        /// What failed.
        reason: String,
    },
}

/// A durable, fenced journal per session.
///
/// A write returns only when it is on disk. Readers see acknowledged events only. Dropping the
/// future of a write does not undo the write.
pub trait Engine: Send + Sync + 'static {
    /// Claims the session, which need not exist yet, and fences all earlier claims.
    fn claim(&self, session: SessionId) -> EngineFuture<'_, Claim>;

    /// Appends events and returns the number of the last of them.
    ///
    /// Fails with `Fenced` if the epoch is not the session's latest, and with `Conflict` if
    /// `expected_seq` is not its last event; nothing is written then.
    fn append(&self, append: Append) -> EngineFuture<'_, u64>;

    /// Reads at most `limit` events from number `from` on. Returns fewer at the end of the journal,
    /// or if they would be over 64 MiB together.
    fn read(&self, session: SessionId, from: u64, limit: usize) -> EngineFuture<'_, Vec<Event>>;

    /// Returns the first event of each of these sessions, `None` for one without events. The
    /// default reads them one after the other; an engine that can read them together overrides it,
    /// because a list of sessions reads as many as it shows.
    fn first_events(&self, sessions: Vec<SessionId>) -> EngineFuture<'_, Vec<Option<Event>>> {
        Box::pin(async move {
            let mut firsts = Vec::with_capacity(sessions.len());
            for session in sessions {
                firsts.push(self.read(session, 1, 1).await?.pop());
            }
            Ok(firsts)
        })
    }

    /// Returns the last event of each of these sessions, `None` for one without events. Engines
    /// override it as they do [`Engine::first_events`].
    fn last_events(&self, sessions: Vec<SessionInfo>) -> EngineFuture<'_, Vec<Option<Event>>> {
        Box::pin(async move {
            let mut lasts = Vec::with_capacity(sessions.len());
            for info in sessions {
                lasts.push(self.read(info.session, info.last_seq, 1).await?.pop());
            }
            Ok(lasts)
        })
    }

    /// Stores a state checkpoint, which replaces the previous one.
    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> EngineFuture<'_, ()>;

    /// Returns the latest state checkpoint, if there is one.
    fn latest_checkpoint(&self, session: SessionId) -> EngineFuture<'_, Option<Checkpoint>>;

    /// Returns the metadata of one session, if it exists.
    fn session(&self, session: SessionId) -> EngineFuture<'_, Option<SessionInfo>>;

    /// Returns the metadata of the given sessions that exist, in the given order. Engines override it
    /// as they do [`Engine::first_events`].
    fn existing(&self, sessions: Vec<SessionId>) -> SessionsFuture<'_> {
        Box::pin(async move {
            let mut existing = Vec::with_capacity(sessions.len());
            for session in sessions {
                existing.extend(self.session(session).await?);
            }
            Ok(existing)
        })
    }

    /// Returns at most `limit` sessions in ascending order of their ids, starting after `after`.
    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_>;

    /// Returns at most `limit` sessions in descending order of their ids, starting before `before`.
    /// The default reads all sessions before it; an engine that can read backwards overrides it.
    fn newest_sessions(&self, before: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
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

    /// Deletes a session, fences its writers and keeps its usage, all in one write; returns whether
    /// it existed. When [`DELETED_USAGE`] itself is deleted, the usage passed here becomes its only
    /// entry.
    ///
    /// Fails with `Conflict` if `expected_seq` is not its last event, and with `Owned` if another live
    /// member of the cluster works on it; nothing is written then.
    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool>;

    /// Returns the size of the store; zero for an engine without a disk.
    fn space(&self) -> EngineFuture<'_, Space> {
        Box::pin(async { Ok(Space::default()) })
    }

    /// Frees the space of deleted and outdated data; when it returns, none of that is on disk any
    /// more. Reads and writes continue, except for a moment at the end. It copies at most this many
    /// bytes per second, if there is such a limit, and runs to its end even if the future is
    /// dropped.
    ///
    /// Fails with `DiskFull` if there is no room for a copy of the live data, and with `Corrupt` if
    /// that cannot be read; nothing is changed then.
    fn vacuum(&self, _bytes_per_second: Option<u64>) -> EngineFuture<'_, Vacuumed> {
        Box::pin(async { Ok(Vacuumed::default()) })
    }

    /// Fails if this program may not free that space. Nothing is changed.
    fn check_vacuum(&self) -> EngineFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The programs that share the store, if the engine supports several.
    fn cluster(&self) -> Option<&dyn Cluster> {
        None
    }

    /// Returns whether writes are accepted.
    fn health(&self) -> Health;

    /// Finds out whether the store takes writes, for an engine that knows it only from a write. Nothing
    /// stays of it.
    ///
    /// Fails as a write would.
    fn check_writes(&self) -> EngineFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Waits until writes are accepted, if the store could not be opened for writing; otherwise
    /// returns at once.
    fn writable(&self) -> EngineFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Closes the engine once all accepted writes and all reads in progress have returned, and
    /// releases all its resources: the same directory can be opened again at once, even if this
    /// engine is still referenced. Later calls fail with `Closed`.
    fn close(&self) -> EngineFuture<'_, ()>;
}

pub(crate) fn is_of_a_session(journal: SessionId) -> bool {
    journal < FIRST_OWN
}

pub(crate) fn now_unix_ms() -> u64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| {
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    })
}
