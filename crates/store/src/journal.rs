//! The journal of sessions: an engine that speaks in events.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};
use unisono_context::SessionId;
use unisono_session::Event;
use unisono_session::usage::Deleted;
use uuid::Uuid;

use crate::engine::Cluster;
use crate::engine::{
    self, Append, Claim, DELETED_USAGE, Engine, Health, SESSIONS_PAGE, SessionInfo, Space, Vacuumed,
};
use crate::error::{Error, Record, Result};
use crate::imports::{self, Imports};
use crate::record::{self, OpenTurns};
use crate::{deleted_usage, grants};

mod owners;

use owners::Owners;

/// The first events of a session that are more than this are stored in parts of about this size.
const PART_BYTES: usize = 2 << 20;

/// The events of all sessions, durable as the engine below makes them.
///
/// Cheap to clone; the clones share the engine.
#[derive(Clone)]
pub struct Journal {
    engine: Arc<dyn Engine>,
    /// Held by who sums up what is left of deleted sessions.
    summing: Arc<Mutex<()>>,
    imports: Arc<Imports>,
    owners: Arc<Owners>,
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
    /// A journal on this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Journal {
        Journal {
            engine,
            summing: Arc::default(),
            imports: Arc::default(),
            owners: Arc::default(),
            only: None,
        }
    }

    /// The right to sum up, unless somebody has it.
    pub(crate) fn summing(&self) -> Option<MutexGuard<'_, ()>> {
        self.summing.try_lock().ok()
    }

    /// The engine below: for archives, and for what is not an event.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Takes the session, which need not exist yet: all earlier claims are fenced from now on.
    ///
    /// # Errors
    /// The store takes no writes, or failed.
    pub async fn claim(&self, session: SessionId) -> Result<Claim> {
        let session = session.into();
        self.imports.settled(&self.engine, session).await?;
        self.engine.claim(session).await
    }

    /// Takes back what imports left that were cut short, by a crash or by a failure, and that no other
    /// program works on. What cannot be taken back now is hidden. Answers how many sessions there were. To be
    /// called before anything else, and when another program is gone.
    ///
    /// # Errors
    /// The store failed, or what was noted of them cannot be read.
    pub async fn sweep(&self) -> Result<usize> {
        self.imports.sweep(&self.engine).await
    }

    /// Appends events, all or none, and answers with the number of the last of them once they are
    /// on disk. After them so many turns of the session are open: see [`Journal::has_open_turns`].
    ///
    /// The first events of a session may be a whole conversation: more than some 2 MiB are encoded
    /// and stored a part at a time, and nobody sees the session before its last part is there.
    ///
    /// # Errors
    /// [`Error::Fenced`] if `epoch` is not the session's latest, [`Error::Conflict`] if
    /// `expected_seq` is not its last event, [`Error::Encode`] or [`Error::TooLarge`] for an event
    /// that cannot be written, [`Error::EmptyAppend`] for none: then nothing is written. Or the
    /// store takes no writes, or failed.
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
            open: OpenTurns::of(open_turns),
        };
        let first = parts.next(expected_seq, at_once)?;
        if parts.events.is_empty() {
            return self.engine.append(first).await;
        }
        let import = self
            .imports
            .begin(&self.engine, session.into(), epoch)
            .await?;
        let stored = self.append_parts(first, parts).await;
        import.end(&self.engine, stored).await
    }

    async fn append_parts(&self, first: Append, mut parts: Parts<'_>) -> Result<u64> {
        let mut last = self.engine.append(first).await?;
        while !parts.events.is_empty() {
            let next = parts.next(last, PART_BYTES)?;
            last = self.engine.append(next).await?;
        }
        Ok(last)
    }

    /// Reads at most `limit` events with their numbers, from number `from` on. Fewer come back at
    /// the end of the journal, or where they would be over 64 MiB together; none only at its end.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names an event that is damaged, [`Error::NewerRecord`] one that a newer
    /// version wrote. Or the store failed.
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

    /// The same, with no more events than take `bytes` together on disk; the first of them always
    /// comes.
    ///
    /// # Errors
    /// As of [`Journal::read`].
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

    /// The first event of each of these sessions, by one read; none for one that has no events.
    ///
    /// # Errors
    /// As of [`Journal::read`], of any of them.
    pub async fn first_events(&self, sessions: &[SessionId]) -> Result<Vec<Option<Event>>> {
        let ids = sessions.iter().map(|&session| session.into()).collect();
        let firsts = self.engine.first_events(ids).await?;
        let firsts = sessions.iter().zip(firsts).map(|(&session, first)| {
            let first = first.map(|event| decoded(session, event)).transpose()?;
            let first = first.map(|(_, event)| event);
            Ok(first.filter(|first| self.is_shown(first)))
        });
        firsts.collect()
    }

    /// Whether the session has at least one event.
    ///
    /// # Errors
    /// The store failed.
    pub async fn exists(&self, session: SessionId) -> Result<bool> {
        Ok(self.session(session).await?.is_some())
    }

    /// What the store knows of a session; none: it has no event.
    ///
    /// # Errors
    /// The store failed.
    pub async fn session(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        let id = engine::SessionId::from(session);
        let info = self.engine.session(id).await?;
        let info = info.filter(|info| info.last_seq > 0 && self.is_seen(id));
        match info {
            Some(_) if !self.shows(session).await? => Ok(None),
            info => Ok(info),
        }
    }

    /// At most `limit` sessions in the order of their ids, those after `after` only. One that was
    /// claimed and has no event yet is among them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let mut after = after.map(Into::into);
        let mut sessions = Vec::new();
        // What is not seen leaves room on its page.
        while sessions.len() < limit {
            let room = self.room(limit - sessions.len());
            let page = self.engine.sessions(after, room).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.session);
            sessions.extend(self.seen(page).await?);
        }
        sessions.truncate(limit);
        Ok(sessions)
    }

    /// The same from the largest id back, which the newest session has: at most `limit` sessions,
    /// those before `before` only. Costs no more for those that are older.
    ///
    /// # Errors
    /// The store failed.
    pub async fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let mut before = before.map(Into::into);
        let mut sessions = Vec::new();
        while sessions.len() < limit {
            let room = self.room(limit - sessions.len());
            let page = self.engine.newest_sessions(before, room).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.session);
            sessions.extend(self.seen(page).await?);
        }
        sessions.truncate(limit);
        Ok(sessions)
    }

    /// How many sessions are looked at for so many: an owner may have few of many.
    fn room(&self, wanted: usize) -> usize {
        match self.only {
            Some(_) => wanted.max(SESSIONS_PAGE),
            None => wanted,
        }
    }

    /// Whether a journal is a session's, and all of it there.
    fn is_seen(&self, journal: engine::SessionId) -> bool {
        is_of_a_session(journal) && !self.imports.hides(journal)
    }

    /// Whether turns of a session are open, by its last event alone; none where that does not tell,
    /// because a repair cut the journal: then its fold does.
    ///
    /// # Errors
    /// The store failed, or the event cannot be read.
    pub async fn has_open_turns(&self, session: &SessionInfo) -> Result<Option<bool>> {
        let mut last = self.engine.last_events(vec![*session]).await?;
        Ok(has_open_turns(last.pop().flatten()))
    }

    /// Those of these sessions that may have open turns, by the last event of each alone. One that
    /// does not tell is among them.
    ///
    /// # Errors
    /// As [`Journal::has_open_turns`].
    pub async fn unfinished_of(&self, sessions: Vec<SessionInfo>) -> Result<Vec<SessionId>> {
        let lasts = self.engine.last_events(sessions.clone()).await?;
        let unfinished = sessions.iter().zip(lasts);
        let unfinished = unfinished.filter(|(_, last)| has_open_turns(last.clone()) != Some(false));
        Ok(unfinished.map(|(info, _)| info.session.into()).collect())
    }

    /// The sessions that may have open turns: nothing costs the length of a journal.
    ///
    /// # Errors
    /// As [`Journal::has_open_turns`].
    pub async fn unfinished(&self) -> Result<Vec<SessionId>> {
        let (mut unfinished, mut after) = (Vec::new(), None);
        loop {
            let page = self.sessions(after, SESSIONS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(unfinished);
            };
            after = Some(last.session.into());
            unfinished.extend(self.unfinished_of(page).await?);
        }
    }

    /// The programs that use the store together, where several may.
    pub fn cluster(&self) -> Option<&dyn Cluster> {
        self.engine.cluster()
    }

    /// Removes a session and fences its writers; answers whether there was one. What its models
    /// were used for is kept with it: see [`Journal::deleted`]. Costs one read of its journal.
    ///
    /// # Errors
    /// The store takes no writes, or failed; [`Error::Conflict`] if somebody keeps writing to it.
    pub async fn delete(&self, session: SessionId) -> Result<bool> {
        if !self.shows(session).await? {
            return Ok(false);
        }
        let deleted = deleted_usage::delete(self, session).await;
        // Another one may have its id now.
        self.owners.forget(session);
        deleted
    }

    /// What sessions used that were deleted; nothing where only an owner's sessions are there.
    ///
    /// # Errors
    /// The store failed, or what was kept cannot be read.
    pub async fn deleted(&self) -> Result<Deleted> {
        match self.only {
            Some(_) => Ok(Deleted::default()),
            None => deleted_usage::read(self).await,
        }
    }

    /// How much room it takes.
    ///
    /// # Errors
    /// The store failed.
    pub async fn space(&self) -> Result<Space> {
        self.engine.space().await
    }

    /// Gives back the room of what was deleted or is outdated: see [`Engine::vacuum`].
    ///
    /// # Errors
    /// There is no room for a copy of what is live, or the store failed.
    pub async fn vacuum(&self, bytes_per_second: Option<u64>) -> Result<Vacuumed> {
        self.engine.vacuum(bytes_per_second).await
    }

    /// Whether it takes writes.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Waits until writes are taken, where the store could not be opened to write.
    ///
    /// # Errors
    /// It is closed.
    pub async fn writable(&self) -> Result<()> {
        self.engine.writable().await
    }

    /// Ends the engine when all accepted writes are answered. Later calls fail with
    /// [`Error::Closed`].
    ///
    /// # Errors
    /// The store failed.
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

/// Whether a journal is a session's, and not the store's own.
pub(crate) fn is_of_a_session(journal: engine::SessionId) -> bool {
    let own = [
        grants::ID,
        DELETED_USAGE,
        imports::ID,
        engine::STARTS,
        engine::TOKENS,
    ];
    !own.contains(&journal)
}

/// What the last event of a session says of its open turns.
fn has_open_turns(last: Option<engine::Event>) -> Option<bool> {
    match last.map(|event| record::open_turns(&event.payload)) {
        Some(OpenTurns::Known(open)) => Some(open > 0),
        Some(OpenTurns::Unknown) => None,
        // Nothing was ever written, or somebody deletes it.
        None => Some(false),
    }
}

/// Events that are to be stored.
struct Parts<'e> {
    session: engine::SessionId,
    epoch: u64,
    /// Those that are left.
    events: &'e [Event],
    /// The open turns after the last of them.
    open: OpenTurns,
}

impl Parts<'_> {
    /// The next of them, up to about so many bytes.
    fn next(&mut self, expected_seq: u64, bytes: usize) -> Result<Append> {
        let (mut payloads, mut so_far) = (Vec::new(), 0);
        while let Some((event, rest)) = self.events.split_first() {
            if so_far >= bytes {
                break;
            }
            // What is said holds after all of them: where a repair left only some, nothing is said.
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
        Ok(Append {
            session: self.session,
            epoch: self.epoch,
            expected_seq,
            payloads,
        })
    }
}

/// An event with its number.
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
