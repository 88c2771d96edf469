//! Copies the live data into a fresh log: first all of it while the store is written to, and then
//! the changes since, until few are left for the moment in which writing is blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::disk::cursor::Cursor;
use crate::disk::fresh::NewLog;
use crate::disk::ledger::{Extent, Extents};
use crate::disk::log::SessionState;
use crate::disk::preallocation;
use crate::disk::trees::Trees;
use crate::engine::SessionId;
use crate::engine::is_of_a_session;
use crate::error::{Error, Fault, Record, Result};
use crate::row::Head;

/// Number of sessions listed at a time.
const PAGE: usize = 256;
/// Size from which a log takes noticeable time to open, if sled has no snapshot of it.
const LARGE_BYTES: u64 = 64 << 20;
/// Longest sleep, so that closing a store need not wait long.
const NAP: Duration = Duration::from_millis(20);

/// The speed limit of a copy, and whether it was cancelled.
#[derive(Debug)]
pub(super) struct CopyRate {
    bytes_per_second: Option<u64>,
    stop: Arc<AtomicBool>,
    began: Instant,
    bytes: u64,
}

impl CopyRate {
    pub(super) fn new(bytes_per_second: Option<u64>, stop: Arc<AtomicBool>) -> Self {
        Self {
            bytes_per_second,
            stop,
            began: Instant::now(),
            bytes: 0,
        }
    }

    /// Without a speed limit.
    pub(super) fn unbounded() -> Self {
        Self::new(None, Arc::default())
    }

    /// Removes the speed limit from now on, because callers are waiting.
    fn hurry(&mut self) {
        self.bytes_per_second = None;
    }

    /// Waits until this many more bytes may have been copied.
    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            let Some(rate) = self.bytes_per_second else {
                return Ok(());
            };
            let due = Duration::from_secs_f64(self.bytes as f64 / rate.max(1) as f64);
            match due.checked_sub(self.began.elapsed()) {
                Some(early) if !early.is_zero() => std::thread::sleep(early.min(NAP)),
                _ => return Ok(()),
            }
        }
    }
}

pub(super) struct Copy {
    fresh: NewLog,
    /// The copied sessions, with their heads at that time.
    copied: BTreeMap<SessionId, Head>,
    /// The sessions that were deleted after they had been copied.
    forgotten: BTreeMap<SessionId, Head>,
    rate: CopyRate,
}

impl Copy {
    /// Creates an empty copy, if there is room for a store with this many live bytes.
    pub(super) fn begin(root: &Path, live_bytes: u64, rate: CopyRate) -> Result<Self> {
        preallocation::check(root, live_bytes)?;
        Ok(Self {
            fresh: NewLog::create(root)?,
            copied: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            rate,
        })
    }

    /// Copies every live session.
    pub(super) fn copy_all(&mut self, trees: &Trees) -> Result<()> {
        let mut after = None;
        loop {
            let page = trees.log()?.sessions(after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for session in page {
                self.session(trees, session)?;
            }
        }
    }

    /// Closes a large copy and opens it again, which makes sled write a snapshot, so that the store
    /// opens quickly once the copy is in place. sled begins a new segment for that.
    pub(super) fn reopen_large(&mut self) -> Result<()> {
        match self.rate.bytes > LARGE_BYTES {
            true => self.fresh.reopen(),
            false => Ok(()),
        }
    }

    /// Copies the changes of these sessions since they were copied.
    pub(super) fn copy_changes(
        &mut self,
        trees: &Trees,
        sessions: BTreeSet<SessionId>,
    ) -> Result<()> {
        // Needed before their pages can be read again.
        self.fresh.write()?;
        for session in sessions {
            self.session(trees, session)?;
        }
        Ok(())
    }

    /// Copies the remaining changes and makes the copy durable. Returns the extent of each session,
    /// and the numbers of sessions, without internal journals, and of events. Nobody may write meanwhile.
    pub(super) fn finish(
        mut self,
        trees: &Trees,
        sessions: BTreeSet<SessionId>,
    ) -> Result<(Extents, u64, u64)> {
        self.rate.hurry();
        self.copy_changes(trees, sessions)?;
        self.fresh.finish()?;
        let events = self.copied.values().map(|head| head.last_seq).sum();
        let sessions = self.copied.keys();
        let count = sessions
            .filter(|session| is_of_a_session(**session))
            .count() as u64;
        let heads = self.copied.iter().chain(&self.forgotten);
        let extents = heads.map(|(session, head)| (*session, Extent::from_head(head)));
        Ok((extents.collect(), count, events))
    }

    fn session(&mut self, trees: &Trees, session: SessionId) -> Result<()> {
        let known = match trees.known(session)? {
            Some(known) if !known.head.deleted => known,
            Some(known) if self.copied.contains_key(&session) => {
                return self.forget(session, known.head);
            }
            _ => return Ok(()),
        };
        let same = |head: &&Head| head.born_epoch == known.head.born_epoch;
        let so_far = self.copied.get(&session).filter(same).cloned();
        let so_far = so_far.unwrap_or_else(|| known.head.start(session));
        let mut copied = SessionState::new(so_far);
        let mut cursor = Cursor::new(trees.log()?, session, &known);
        for seq in copied.head.last_seq + 1..=known.head.last_seq {
            let (stamp, payload) = match cursor.event(seq) {
                Ok(event) => event,
                Err(fault) => return self.gone(trees, session, &known.head, seq, fault),
            };
            copied.head.push(&payload, stamp.at_unix_ms);
            self.fresh.event(session, &mut copied, stamp, &payload)?;
            self.rate.spend(payload.len())?;
        }
        let checkpoint = trees.log()?.checkpoint(session);
        let checkpoint =
            checkpoint.map_err(|fault| Error::unreadable(Record::Checkpoint { session }, fault))?;
        copied.head = known.head.clone();
        self.fresh.end(session, &copied, checkpoint)?;
        self.forgotten.remove(&session);
        self.copied.insert(session, known.head);
        self.rate.spend(0)
    }

    /// Handles an event that cannot be read: its session is being deleted, or it is damaged.
    fn gone(
        &mut self,
        trees: &Trees,
        session: SessionId,
        head: &Head,
        seq: u64,
        fault: Fault,
    ) -> Result<()> {
        if trees.is_another_life(session, head) {
            // Writes to it are recorded, so it is copied again.
            return self.forget(session, head.deleted(session, head.updated_unix_ms));
        }
        Err(Error::unreadable(Record::Event { session, seq }, fault))
    }

    /// Leaves out a session that was copied completely or in part.
    fn forget(&mut self, session: SessionId, tombstone: Head) -> Result<()> {
        let last_seq = self.copied.remove(&session).map_or(0, |head| head.last_seq);
        self.fresh.forget(session, last_seq, &tombstone)?;
        self.forgotten.insert(session, tombstone);
        Ok(())
    }
}
