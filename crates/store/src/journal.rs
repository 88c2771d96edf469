//! The journal of sessions: encodes and decodes events over an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, MutexGuard};
use unisono_context::SessionId;
use unisono_session::Event;
use unisono_session::usage::DeletedUsage;
use uuid::Uuid;

use crate::append_times::AppendTimes;
use crate::contents::Loaded;
use crate::engine::{
    self, Append, Claim, Cluster, Engine, FIRST_OWN, Health, SessionInfo, Space, Vacuumed,
    is_of_a_session,
};
use crate::error::{Error, Record, Result};
use crate::imports::Imports;
use crate::record::{self, OpenTurns};

pub(crate) mod deleted_usage;
mod members;
mod owned;
mod owners;
mod unfinished;

use owned::{Owned, Within};
use owners::Owners;
use unfinished::Finished;

/// If the first events of a session are larger than this, they are stored in parts of about this
/// size.
const PART_BYTES: usize = 2 << 20;

/// The events of all sessions, as durable as the engine makes them.
///
/// Cheap to clone; the clones share the engine.
#[derive(Clone)]
pub struct Journal {
    engine: Arc<dyn Engine>,
    /// Locked while the usage of deleted sessions is summed up.
    summing: Arc<Mutex<()>>,
    imports: Arc<Imports>,
    loaded: Arc<Loaded>,
    owners: Arc<Owners>,
    owned: Arc<Owned>,
    finished: Arc<Finished>,
    append_times: Arc<AppendTimes>,
    /// Sessions of others than this owner are not there.
    only: Option<Arc<str>>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Creates a journal on this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Journal {
        Journal {
            engine,
            summing: Arc::default(),
            imports: Arc::default(),
            loaded: Arc::default(),
            owners: Arc::default(),
            owned: Arc::default(),
            finished: Arc::default(),
            append_times: Arc::default(),
            only: None,
        }
    }

    /// The same journal on another engine, which has the same sessions.
    pub(crate) fn on(&self, engine: Arc<dyn Engine>) -> Journal {
        Journal {
            engine,
            ..self.clone()
        }
    }

    /// Locks the summing of usage, unless it is locked already.
    pub(crate) fn summing(&self) -> Option<MutexGuard<'_, ()>> {
        self.summing.try_lock().ok()
    }

    /// The contents of attachments that are in use.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The underlying engine, for archives and for data that is not an event.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Claims the session, which need not exist yet, and fences all earlier claims.
    ///
    /// # Errors
    /// The id is one of the store's own, the store accepts no writes, or failed.
    pub async fn claim(&self, session: SessionId) -> Result<Claim> {
        let session = session.into();
        if !is_of_a_session(session) {
            return Err(Error::ReservedId { session });
        }
        self.imports.resolve(&self.engine, session).await?;
        self.engine.claim(session).await
    }

    /// Deletes the sessions of unfinished imports that no other program works on. Those that cannot
    /// be deleted now are hidden. Returns their number. Call it before anything else, and when
    /// another program is gone.
    ///
    /// # Errors
    /// The store failed, or the list of unfinished imports cannot be read.
    pub async fn sweep(&self) -> Result<usize> {
        self.imports.sweep(&self.engine).await
    }

    /// Appends events, all or none, and returns the number of the last of them once they are on
    /// disk. `open_turns` is the number of open turns of the session after them, or [`usize::MAX`] if
    /// it is not known: see [`Journal::has_open_turns`].
    ///
    /// The first events of a session may be a whole conversation. More than about 2 MiB are encoded
    /// and stored in parts, and the session is not visible before its last part is stored.
    ///
    /// # Errors
    /// [`Error::Fenced`] if `epoch` is not the session's latest, [`Error::Conflict`] if
    /// `expected_seq` is not its last event, [`Error::Encode`] or [`Error::TooLarge`] for an event
    /// that cannot be written, [`Error::EmptyAppend`] without events; nothing is written then. Or
    /// the store accepts no writes, or failed.
    pub async fn append(
        &self,
        session: SessionId,
        epoch: u64,
        expected_seq: u64,
        events: &[Event],
        open_turns: usize,
    ) -> Result<u64> {
        let at_once = if expected_seq == 0 {
            PART_BYTES
        } else {
            usize::MAX
        };
        let mut parts = Parts {
            session: session.into(),
            epoch,
            events,
            open: OpenTurns::from_count(open_turns),
        };
        let first = parts.next(expected_seq, at_once)?;
        if expected_seq == 0 {
            self.owned.note(session);
        }
        if parts.events.is_empty() {
            let begun = Instant::now();
            let appended = self.engine.append(first).await;
            if appended.is_ok() {
                self.append_times.record(begun.elapsed());
            }
            return appended;
        }
        let import = self
            .imports
            .begin(&self.engine, session.into(), epoch)
            .await?;
        let stored = self.append_parts(first, parts).await;
        import.end(&self.engine, stored).await
    }

    /// The time that appends took, without imports of several parts.
    pub fn append_times(&self) -> &AppendTimes {
        &self.append_times
    }

    async fn append_parts(&self, first: Append, mut parts: Parts<'_>) -> Result<u64> {
        let mut last = self.engine.append(first).await?;
        while !parts.events.is_empty() {
            let next = parts.next(last, PART_BYTES)?;
            last = self.engine.append(next).await?;
        }
        Ok(last)
    }

    /// Reads at most `limit` events with their numbers, from number `from` on. Returns fewer at the
    /// end of the journal, or if they would be over 64 MiB together, and none only at its end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names a damaged event, [`Error::NewerRecord`] one that a newer version
    /// wrote. Or the store failed.
    pub async fn read(
        &self,
        session: SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>> {
        if !self.shows(session).await? {
            return Ok(Vec::new());
        }
        let events = self.engine.read(session.into(), from, limit).await?;
        let decoded = events.into_iter().map(|event| decoded(session, event));
        decoded.collect()
    }

    /// As [`Journal::read`], limited to events of `bytes` together on disk; at least one event is
    /// returned if there is any.
    pub async fn read_within(
        &self,
        session: SessionId,
        from: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(u64, Event)>> {
        if !self.shows(session).await? {
            return Ok(Vec::new());
        }
        let events = self.engine.read(session.into(), from, limit).await?;
        let mut left = bytes;
        let fitting = events.into_iter().enumerate().map_while(|(n, event)| {
            let rest = left.checked_sub(event.payload.len());
            left = rest.unwrap_or_default();
            (n == 0 || rest.is_some()).then_some(event)
        });
        fitting.map(|event| decoded(session, event)).collect()
    }

    /// Reads the first event of each of these sessions together; `None` for one without events, and for
    /// a damaged one, which is logged.
    pub async fn first_events(&self, sessions: &[SessionId]) -> Result<Vec<Option<Event>>> {
        let ids = sessions.iter().map(|&session| session.into()).collect();
        let firsts = self.readable_firsts(ids).await?;
        let firsts = sessions.iter().zip(firsts).map(|(&session, first)| {
            let first = first.map(|event| decoded(session, event)).transpose()?;
            let first = first.map(|(_, event)| event);
            Ok(first.filter(|first| self.is_shown(first)))
        });
        firsts.collect()
    }

    /// The first events of sessions, except those of damaged ones: these are missing in lists, and do
    /// not hide the others.
    async fn readable_firsts(
        &self,
        ids: Vec<engine::SessionId>,
    ) -> Result<Vec<Option<engine::Event>>> {
        match self.engine.first_events(ids.clone()).await {
            Err(Error::Corrupt { .. }) => {}
            firsts => return firsts,
        }
        let mut firsts = Vec::with_capacity(ids.len());
        for id in ids {
            firsts.push(match self.engine.first_events(vec![id]).await {
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::warn!(%error, "a session is left out of lists");
                    None
                }
                first => first?.pop().flatten(),
            });
        }
        Ok(firsts)
    }

    /// Whether the session has at least one event.
    pub async fn exists(&self, session: SessionId) -> Result<bool> {
        Ok(self.session(session).await?.is_some())
    }

    /// What the store knows of a session; none: it has no event.
    pub async fn session(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        let info = self.engine.session(session.into()).await?;
        let info = info.filter(|info| info.last_seq > 0);
        Ok(self.shown(info.into_iter().collect()).await?.pop())
    }

    /// What the store knows of these sessions, in the same order, without those that have no event.
    pub async fn existing(&self, sessions: &[SessionId]) -> Result<Vec<SessionInfo>> {
        let ids = sessions.iter().map(|&session| session.into()).collect();
        let mut existing = self.engine.existing(ids).await?;
        existing.retain(|info| info.last_seq > 0);
        self.shown(existing).await
    }

    /// Returns at most `limit` sessions in ascending order of their ids, starting after `after`. A
    /// session that was claimed and has no event yet is included, unless the journal is limited to
    /// one owner.
    pub async fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        if let Some(owner) = &self.only {
            return self.owned_within(owner, Within::After(after), limit).await;
        }
        let mut after = after.map(Into::into);
        let mut sessions = Vec::new();
        // Hidden sessions do not count towards the limit.
        while sessions.len() < limit {
            let page = self.engine.sessions(after, limit - sessions.len()).await?;
            let Some(last) = page.last() else { break };
            // All that follows is the store's own.
            let is_end = !is_of_a_session(last.session);
            after = Some(last.session);
            sessions.extend(page.into_iter().filter(|info| self.is_seen(info.session)));
            if is_end {
                break;
            }
        }
        sessions.truncate(limit);
        Ok(sessions)
    }

    /// Returns at most `limit` sessions in descending order of their ids, starting before `before`;
    /// the newest session has the largest id. Older pages take no more time than newer ones.
    pub async fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        if let Some(owner) = &self.only {
            return self
                .owned_within(owner, Within::Before(before), limit)
                .await;
        }
        let before = before.map_or(FIRST_OWN, Into::into);
        let mut before = Some(before.min(FIRST_OWN));
        let mut sessions = Vec::new();
        while sessions.len() < limit {
            let room = limit - sessions.len();
            let page = self.engine.newest_sessions(before, room).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.session);
            sessions.extend(page.into_iter().filter(|info| self.is_seen(info.session)));
        }
        sessions.truncate(limit);
        Ok(sessions)
    }

    /// Whether a journal is that of a session, and the session is not hidden.
    fn is_seen(&self, journal: engine::SessionId) -> bool {
        is_of_a_session(journal) && !self.imports.hides(journal)
    }

    /// The programs that share the store, if the engine supports several.
    pub fn cluster(&self) -> Option<&dyn Cluster> {
        self.engine.cluster()
    }

    /// Deletes a session and fences its writers; returns whether it existed. Its model usage is
    /// kept: see [`Journal::deleted`]. Reads its journal once.
    ///
    /// # Errors
    /// The store accepts no writes, or failed; [`Error::Conflict`] if the session is being written
    /// to without a pause.
    pub async fn delete(&self, session: SessionId) -> Result<bool> {
        if !self.shows(session).await? {
            return Ok(false);
        }
        let known = self.before_deletion(session);
        let deleted = deleted_usage::delete(self, session).await;
        if matches!(deleted, Ok(true)) {
            self.after_deletion(session, known);
        }
        // Another one may have its id now.
        self.owners.forget(session);
        deleted
    }

    /// Returns the usage of deleted sessions; nothing if the journal is limited to one owner.
    pub async fn deleted(&self) -> Result<DeletedUsage> {
        match self.only {
            Some(_) => Ok(DeletedUsage::default()),
            None => deleted_usage::read(self).await,
        }
    }

    /// Returns the size of the store.
    pub async fn space(&self) -> Result<Space> {
        self.engine.space().await
    }

    /// Frees the space of deleted and outdated data: see [`Engine::vacuum`].
    ///
    /// # Errors
    /// There is no room for a copy of the live data, or the store failed.
    pub async fn vacuum(&self, bytes_per_second: Option<u64>) -> Result<Vacuumed> {
        self.engine.vacuum(bytes_per_second).await
    }

    /// Checks whether this program may vacuum. Nothing is changed.
    ///
    /// # Errors
    /// It may not, or the store failed.
    pub async fn check_vacuum(&self) -> Result<()> {
        self.engine.check_vacuum().await
    }

    /// Returns whether writes are accepted.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Waits until writes are accepted, if the store could not be opened for writing.
    pub async fn writable(&self) -> Result<()> {
        self.engine.writable().await
    }

    /// Closes the engine once all accepted writes have returned. Later calls fail with
    /// [`Error::Closed`].
    pub async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}

impl From<SessionId> for engine::SessionId {
    fn from(session: SessionId) -> Self {
        Self(Uuid::from_u128(session.as_u128()))
    }
}

impl From<engine::SessionId> for SessionId {
    fn from(session: engine::SessionId) -> Self {
        Self::new(session.0)
    }
}

/// Events to store, in parts.
struct Parts<'e> {
    session: engine::SessionId,
    epoch: u64,
    /// The events that are not stored yet.
    events: &'e [Event],
    /// The number of open turns after the last event.
    open: OpenTurns,
}

impl Parts<'_> {
    /// The next events, up to about this many bytes.
    fn next(&mut self, expected_seq: u64, bytes: usize) -> Result<Append> {
        let (mut payloads, mut so_far) = (Vec::new(), 0);
        while let Some((event, rest)) = self.events.split_first() {
            if so_far >= bytes {
                break;
            }
            // The number is that after all events. If a repair keeps only some of them, it is
            // missing from these.
            let open = match rest {
                [] => self.open,
                _ => OpenTurns::Unknown,
            };
            let payload = record::encode(event, open).map_err(|reason| Error::Encode {
                record: Record::Event {
                    session: self.session,
                    seq: expected_seq + payloads.len() as u64 + 1,
                },
                reason,
            })?;
            so_far += payload.len();
            payloads.push(payload);
            self.events = rest;
        }
        Ok(Append::new(
            self.session,
            self.epoch,
            expected_seq,
            payloads,
        ))
    }
}

fn decoded(session: SessionId, event: engine::Event) -> Result<(u64, Event)> {
    let named = Record::Event {
        session: session.into(),
        seq: event.seq,
    };
    let decoded = record::decode(&event.payload);
    let decoded = decoded.map_err(|fault| Error::unreadable(named, fault))?;
    Ok((event.seq, decoded))
}

#[cfg(test)]
mod tests;
