//! A log in the making, which will replace the one in use: by a repair or a vacuum.

use std::path::{Path, PathBuf};

use crate::disk::batch::{Batch, Numbers};
use crate::disk::log::{Known, Log};
use crate::disk::{files, open};
use crate::engine::{Checkpoint, SessionId};
use crate::error::{Error, Result};
use crate::row::Stamp;

/// A batch is written out when it is this large.
const BATCH_BYTES: usize = 8 << 20;

/// A log in `data.new`. Takes one session after the other.
pub(super) struct Fresh {
    log: Log,
    batch: Batch,
    path: PathBuf,
}

impl Fresh {
    pub(super) fn create(root: &Path) -> Result<Self> {
        let path = files::data_new(root);
        files::remove_dir(&path)?;
        Ok(Self {
            log: open::open_log(&path)?,
            batch: Batch::new(Numbers::from(0)),
            path,
        })
    }

    /// Writes the event that `known` ends with.
    pub(super) fn event(
        &mut self,
        session: SessionId,
        known: &mut Known,
        stamp: Stamp,
        payload: &[u8],
    ) -> Result<()> {
        self.batch
            .put_event(&self.log, session, known, stamp, payload)?;
        self.write_if_large()
    }

    /// Writes what is known of a session whose events are written, and its checkpoint.
    pub(super) fn end(
        &mut self,
        session: SessionId,
        known: &Known,
        checkpoint: Option<(u64, Checkpoint)>,
    ) -> Result<()> {
        self.batch.put_known(&self.log, session, known)?;
        if let Some((epoch, checkpoint)) = checkpoint {
            self.batch
                .put_checkpoint(&self.log, session, epoch, checkpoint)?;
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

    fn write(&mut self) -> Result<()> {
        let applied = self.batch.apply(&self.log);
        let written = applied.and_then(|()| self.log.db.flush());
        written.map(drop).map_err(|error| Error::Engine {
            doing: "write a fresh log",
            reason: error.to_string(),
        })
    }

    /// Writes the rest, syncs everything, and closes the log.
    pub(super) fn finish(mut self) -> Result<()> {
        self.batch.put_mark();
        self.write()?;
        open::close(self.log);
        files::sync_data(&self.path)
    }
}
