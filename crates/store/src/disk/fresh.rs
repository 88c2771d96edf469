//! A new log, with which a repair or a vacuum replaces the current one.

use std::path::{Path, PathBuf};

use crate::disk::batch::{Batch, Numbers};
use crate::disk::log::{Log, SessionState};
use crate::disk::preallocation::Preallocation;
use crate::disk::replay::replay;
use crate::disk::{files, open};
use crate::engine::{Checkpoint, SessionId};
use crate::error::{Error, Result};
use crate::row::{Head, Stamp};

/// Size at which a batch is written.
const BATCH_BYTES: usize = 8 << 20;

/// A log in `data.new`, to which sessions are written one after the other.
pub(super) struct NewLog {
    log: Option<Log>,
    batch: Batch,
    preallocation: Preallocation,
    path: PathBuf,
}

impl NewLog {
    pub(super) fn create(root: &Path) -> Result<Self> {
        let path = files::data_new(root);
        files::remove_dir(&path)?;
        let log = open::open_log(&path)?;
        Ok(Self {
            log: Some(log),
            batch: Batch::new(Numbers::starting_at(0)),
            preallocation: Preallocation::open(&path)?,
            path,
        })
    }

    /// Writes the last event of `known`.
    pub(super) fn event(
        &mut self,
        session: SessionId,
        known: &mut SessionState,
        stamp: Stamp,
        payload: &[u8],
    ) -> Result<()> {
        let log = self.log.as_ref().ok_or(Error::Closed)?;
        self.batch.put_event(log, session, known, stamp, payload)?;
        self.write_if_large()
    }

    /// Writes the head and the pages of a session after its events, and its checkpoint.
    pub(super) fn end(
        &mut self,
        session: SessionId,
        known: &SessionState,
        checkpoint: Option<(u64, Checkpoint)>,
    ) -> Result<()> {
        let log = self.log.as_ref().ok_or(Error::Closed)?;
        self.batch.put_known(log, session, known)?;
        if let Some((epoch, checkpoint)) = checkpoint {
            self.batch.put_checkpoint(log, session, epoch, checkpoint)?;
        }
        self.write_if_large()
    }

    fn write_if_large(&mut self) -> Result<()> {
        if self.batch.bytes() < BATCH_BYTES {
            Ok(())
        } else {
            self.write()
        }
    }

    /// Leaves out a session that was deleted after it had been written.
    pub(super) fn forget(&mut self, session: SessionId, last_seq: u64, head: &Head) -> Result<()> {
        self.batch.remove(session, last_seq);
        self.batch.put_head(session, head)
    }

    /// Closes the log and opens it again.
    pub(super) fn reopen(&mut self) -> Result<()> {
        self.batch.put_mark();
        self.write()?;
        if let Some(log) = self.log.take() {
            open::close(log);
        }
        let log = open::open_log(&self.path)?;
        self.batch = Batch::new(replay(&log)?.numbers);
        self.log = Some(log);
        Ok(())
    }

    pub(super) fn write(&mut self) -> Result<()> {
        self.preallocation.reserve(self.batch.bytes())?;
        let log = self.log.as_ref().ok_or(Error::Closed)?;
        let applied = self.batch.apply(log);
        let written = applied.and_then(|()| log.db.flush());
        let failed = |error| Error::engine("write a fresh log", &error);
        written.map(drop).map_err(failed)
    }

    /// Writes the rest, syncs everything, and closes the log.
    pub(super) fn finish(mut self) -> Result<()> {
        self.batch.put_mark();
        self.write()?;
        if let Some(log) = self.log.take() {
            open::close(log);
        }
        Preallocation::release(&self.path);
        files::narrow(&self.path);
        files::sync_data(&self.path)
    }
}
