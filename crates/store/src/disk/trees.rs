//! An open store: the log, and the state that its writer and its readers share.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::disk::batch::Numbers;
use crate::disk::condition::Condition;
use crate::disk::cursor::Cursor;
use crate::disk::files;
use crate::disk::lock::Lock;
use crate::disk::log::{Log, SessionState};
use crate::disk::preallocation::Preallocation;
use crate::disk::replay::Replay;
use crate::disk::rescue::Rescue;
use crate::engine::{Checkpoint, Event, SessionId, SessionInfo};
use crate::error::{Error, Record, Result};
use crate::row::Head;

/// The acknowledged state of sessions; `None` for one whose first write is in progress.
pub(super) type Live = HashMap<SessionId, Option<SessionState>>;

/// An open store.
#[derive(Debug)]
pub(super) struct Trees {
    log: Option<Log>,
    pub(super) root: PathBuf,
    /// The block numbers at the opening, from which the writer continues.
    pub(super) numbers: Numbers,
    pub(super) mark: u64,
    /// The acknowledged state of the sessions that were written to lately. Readers see this state,
    /// whatever is being applied to the log. A session is added before its first change is applied.
    live: RwLock<Live>,
    /// Whether writes are accepted; outlives the store.
    pub(super) condition: Arc<Condition>,
    /// The sessions written to since recording was turned on.
    touched: Mutex<Option<BTreeSet<SessionId>>>,
    /// Created when a read first needs it.
    rescue: OnceLock<Option<Rescue>>,
    /// Dropped after the log is closed.
    lock: Option<Lock>,
}

impl Drop for Trees {
    /// sled syncs when it closes, and panics if that fails. All acknowledged data is synced
    /// already.
    fn drop(&mut self) {
        let log = self.log.take();
        if catch_unwind(AssertUnwindSafe(|| drop(log))).is_err() {
            tracing::warn!(store = %self.root.display(), "the storage engine panicked while it closed");
        }
        if self.condition.read_only().is_none() {
            Preallocation::release(&files::data(&self.root));
        }
    }
}

impl Trees {
    pub(super) fn new(log: Log, replay: Replay, root: PathBuf, lock: Lock) -> Self {
        Self {
            log: Some(log),
            condition: Arc::new(Condition::new(&root)),
            root,
            numbers: replay.numbers,
            mark: replay.mark,
            live: RwLock::new(replay.live),
            touched: Mutex::new(None),
            rescue: OnceLock::new(),
            lock: Some(lock),
        }
    }

    /// Closes the log and returns the store's lock.
    pub(super) fn into_lock(mut self) -> Option<Lock> {
        self.lock.take()
    }

    pub(super) fn log(&self) -> Result<&Log> {
        self.log.as_ref().ok_or(Error::Closed)
    }

    /// Locks these sessions for reading. Every change is one insert, so a poisoned lock is ignored.
    pub(super) fn live(&self) -> RwLockReadGuard<'_, Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks these sessions for changes; for the writer only.
    pub(super) fn live_mut(&self) -> RwLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self, session: SessionId) -> Result<Option<SessionState>> {
        if let Some(known) = self.live().get(&session) {
            return Ok(known.clone());
        }
        let read = self.log()?.known(session);
        // If a write to it began meanwhile, the state that was read may be half of a change, or not
        // acknowledged.
        self.live().get(&session).cloned().map_or(read, Ok)
    }

    /// As [`Self::known`] without the locations of events. From now on readers see exactly this
    /// state of the session, whatever is being applied to the log. The writer calls it before it
    /// changes a session.
    pub(super) fn pinned(&self, session: SessionId) -> Result<Option<SessionState>> {
        if let Some(known) = self.live().get(&session) {
            return Ok(known.as_ref().map(SessionState::without_places));
        }
        let known = self.log()?.known(session)?;
        self.live_mut().insert(session, known.clone());
        Ok(known)
    }

    /// Makes the changes of a group visible to readers; its sessions were pinned before.
    pub(super) fn follow(&self, changes: HashMap<SessionId, SessionState>) {
        let mut live = self.live_mut();
        for (session, after) in changes {
            match live.entry(session).or_default() {
                Some(known) => known.follow(after),
                unknown => *unknown = Some(after),
            }
        }
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>> {
        match self.known(session) {
            Err(error) => self.rescue(error)?.head(session),
            known => Ok(known?.map(|known| known.head)),
        }
    }

    /// Returns the rescue reader, if the error is that a failed write broke the engine.
    fn rescue(&self, error: Error) -> Result<&Rescue> {
        if self.condition.read_only().is_none() {
            return Err(error);
        }
        let rescue = self.rescue.get_or_init(|| Rescue::new(&self.root).ok());
        rescue.as_ref().ok_or(error)
    }

    pub(super) fn read(&self, session: SessionId, from: u64, limit: usize) -> Result<Vec<Event>> {
        let read = match self.known(session) {
            Ok(Some(known)) => self.events(session, &known, from, limit),
            Ok(None) => return Ok(Vec::new()),
            Err(error) => Err(error),
        };
        read.or_else(|error| {
            let rescue = self.rescue(error)?;
            let Some(head) = self.head(session)? else {
                return Ok(Vec::new());
            };
            window(&head, from, limit).map_or(Ok(Vec::new()), |(from, last)| {
                rescue.events(session, &head, from, last)
            })
        })
    }

    fn events(
        &self,
        session: SessionId,
        known: &SessionState,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let Some((from, last)) = window(&known.head, from, limit) else {
            return Ok(Vec::new());
        };
        match Cursor::new(self.log()?, session, known).events(from, last) {
            // The session is being deleted meanwhile.
            Err(Error::Corrupt { .. }) if self.is_another_life(session, &known.head) => {
                Ok(Vec::new())
            }
            events => events,
        }
    }

    /// Starts recording the sessions that are written to.
    pub(super) fn note_touched(&self) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.get_or_insert_default();
    }

    /// Returns the sessions that were written to since then, or since the last call.
    pub(super) fn take_touched(&self) -> BTreeSet<SessionId> {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Stops recording.
    pub(super) fn forget_touched(&self) {
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Records sessions that were written to; the data that was written can be read already.
    pub(super) fn touch(&self, sessions: &[SessionId]) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(touched) = &mut *touched {
            touched.extend(sessions);
        }
    }

    pub(super) fn is_another_life(&self, session: SessionId, head: &Head) -> bool {
        let now = self.log().and_then(|log| log.known(session));
        let now = now.map(|known| known.map(|known| known.head));
        now.is_ok_and(|now| now.is_none_or(|now| now.deleted || now.born_epoch != head.born_epoch))
    }

    pub(super) fn checkpoint(&self, session: SessionId) -> Result<Option<Checkpoint>> {
        let corrupt = |fault| Error::unreadable(Record::Checkpoint { session }, fault);
        match self.log()?.checkpoint(session).map_err(corrupt) {
            Err(error) => Ok(self.rescue(error)?.checkpoint(session, self.head(session)?)),
            checkpoint => Ok(checkpoint?.map(|(_, checkpoint)| checkpoint)),
        }
    }

    pub(super) fn info(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        Ok(self.head(session)?.and_then(|head| head.info(session)))
    }

    pub(super) fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.listed(after, limit, Log::sessions, Rescue::sessions)
    }

    pub(super) fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.listed(before, limit, Log::newest_sessions, Rescue::newest_sessions)
    }

    /// Lists sessions after one, in the order of the log or of the rescue reader.
    fn listed(
        &self,
        mut behind: Option<SessionId>,
        limit: usize,
        of_log: impl Fn(&Log, Option<SessionId>, usize) -> Result<Vec<SessionId>>,
        of_rescue: impl Fn(&Rescue, Option<SessionId>, usize) -> Vec<SessionId>,
    ) -> Result<Vec<SessionInfo>> {
        let log = self.log()?;
        let mut infos = Vec::new();
        while infos.len() < limit {
            let room = limit - infos.len();
            let page = match of_log(log, behind, room) {
                Err(error) => of_rescue(self.rescue(error)?, behind, room),
                page => page?,
            };
            let Some(last) = page.last() else { break };
            behind = Some(*last);
            for session in page {
                infos.extend(self.info(session)?);
            }
        }
        Ok(infos)
    }
}

/// The first and last of at most `limit` events from number `from` on, if there are any.
pub(super) fn window(head: &Head, from: u64, limit: usize) -> Option<(u64, u64)> {
    let from = from.max(1);
    let last = head.last_seq.min(from.saturating_add(limit as u64) - 1);
    (from <= last && limit > 0).then_some((from, last))
}
