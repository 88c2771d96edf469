//! The only writer: a thread behind a bounded queue.
//!
//! It takes a group from the queue (see `intake`), checks each command against the state of its
//! session, applies the valid ones as one atomic batch, flushes, syncs the log file, and only then
//! answers. sled is flushed by this thread alone. If any of this fails, the store is read-only from
//! then on: after a failed sync the content of the disk is unknown, so a sync is never retried. The
//! same happens if the log loses its name, as when a backup takes the place of an open store: the
//! next opening would not find what is written. A group for which there is no room is refused before
//! it reaches sled; the next one is accepted as soon as there is room.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::disk::batch::Batch;
use crate::disk::group::{self, Command, Group, Waiter};
use crate::disk::intake::Intake;
use crate::disk::ledger::{Extent, Ledger};
use crate::disk::log::{Log, SessionState, panic_text};
use crate::disk::preallocation::Preallocation;
use crate::disk::trees::Trees;
use crate::disk::{cache, files};
use crate::engine::SessionId;
use crate::error::{Error, Result};

/// Size from which no further command is added to a group.
const GROUP_LIMIT_BYTES: usize = 16 << 20;
/// Number of sessions kept in memory: about 400 bytes each, and 16 for each block after the mark.
const LIVE_LIMIT: usize = 4096;
/// Time without a command after which this thread hands over to sled what it collected.
const QUIET: Duration = Duration::from_secs(3);
/// Number of blocks between two settlings. An opening after a crash reads about this many blocks,
/// which are 32 MiB of small events.
const SETTLE_EVERY_BLOCKS: u64 = 1024;

/// The writer thread's state.
pub(super) struct Writer {
    trees: Arc<Trees>,
    log_file: File,
    /// Where the log file is; `None` if the file system gives no ids to files.
    log_path: Option<PathBuf>,
    ledger: Ledger,
    preallocation: Preallocation,
    /// Empty between two groups.
    batch: Batch,
    mark: u64,
    /// The block at which to settle next.
    settle_at: u64,
    intake: Intake,
}

impl Writer {
    /// Starts the thread, which ends when all senders of the queue are dropped.
    pub(super) fn start(
        trees: Arc<Trees>,
        queue: mpsc::Receiver<Command>,
    ) -> Result<JoinHandle<()>> {
        let path = files::data(&trees.root).join("db");
        let log_file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let log_path = is_in_place(&log_file, &path).then_some(path);
        let ledger = Ledger::open(&trees.root)?;
        let preallocation = Preallocation::open(&files::data(&trees.root))?;
        let root = trees.root.clone();
        let (batch, mark) = (Batch::new(trees.numbers), trees.mark);
        let writer = Self {
            trees,
            log_file,
            log_path,
            ledger,
            preallocation,
            batch,
            mark,
            settle_at: mark + SETTLE_EVERY_BLOCKS,
            intake: Intake::new(queue),
        };
        let thread = std::thread::Builder::new().name("store-writer".into());
        let thread = thread.spawn(move || writer.run());
        thread.map_err(|error| Error::io("start the writer thread of", &root, error))
    }

    fn run(mut self) {
        // An opening may have read much, and no write may follow.
        self.write_cache_pages();
        while let Some(first) = self.intake.first() {
            match self.trees.condition.read_only() {
                Some(reason) => group::refuse(first, reason),
                None => self.serve(first),
            }
            if self.intake.is_quiet_for(QUIET) {
                self.hand_over();
            }
        }
        self.settle();
        // A vacuum replaces the files next.
        if let Err(reason) = self.check_place() {
            self.trees.condition.set_read_only(reason);
        }
    }

    /// Lets sled free the pages that this thread evicted and replaced.
    fn hand_over(&self) {
        let Ok(log) = self.trees.log() else { return };
        if self.trees.condition.read_only().is_none()
            && let Err(fault) = cache::hand_over(log)
        {
            tracing::warn!(%fault, "the store's cache keeps pages that it does not need");
        }
    }

    fn serve(&mut self, first: Command) {
        let trees = Arc::clone(&self.trees);
        let Ok(log) = trees.log() else { return };
        let mut group = Group::new(&trees, log, &mut self.batch, self.intake.expected());
        group.stage(first);
        while group.bytes() < GROUP_LIMIT_BYTES {
            let Some(command) = self.intake.next() else {
                break;
            };
            group.stage(command);
        }
        let Group {
            changes,
            checkpointed,
            waiters,
            ..
        } = group;
        if !waiters.is_empty() {
            self.commit(log, changes, &checkpointed, waiters);
        }
        self.write_cache_pages();
        if trees.live().len() > LIVE_LIMIT || self.batch.next_block() >= self.settle_at {
            self.settle();
        }
    }

    fn commit(
        &mut self,
        log: &Log,
        changes: HashMap<SessionId, SessionState>,
        checkpointed: &[SessionId],
        waiters: Vec<Waiter>,
    ) {
        if let Err(refused) = self.reserve() {
            self.intake.answering(waiters.len());
            waiters
                .into_iter()
                .for_each(|waiter| waiter(Err(refused.again())));
            return;
        }
        let written = self.write(log);
        self.intake.answering(waiters.len());
        match written {
            Ok(()) => {
                let extents = changes
                    .iter()
                    .map(|(id, known)| (*id, Extent::from_head(&known.head)));
                self.ledger.note(extents);
                let touched: Vec<SessionId> = changes.keys().chain(checkpointed).copied().collect();
                self.trees.follow(changes);
                self.trees.touch(&touched);
                waiters.into_iter().for_each(|waiter| waiter(Ok(())));
            }
            Err(reason) => {
                let error = || Error::ReadOnly {
                    reason: reason.clone(),
                };
                self.trees.condition.set_read_only(reason.clone());
                waiters.into_iter().for_each(|waiter| waiter(Err(error())));
            }
        }
    }

    /// Ensures that there is room for the batch; otherwise discards it.
    fn reserve(&mut self) -> Result<(), NoRoom> {
        match self.preallocation.reserve(self.batch.bytes()) {
            Ok(()) => {
                self.trees.condition.has_room();
                Ok(())
            }
            Err(error) => {
                self.batch.clear();
                self.trees.condition.note_refusal(&error);
                Err(NoRoom(error))
            }
        }
    }

    /// Makes the batch durable, or returns the reason why it may not be.
    fn write(&mut self, log: &Log) -> Result<(), String> {
        log.cache.count(self.batch.bytes());
        unpanicked(|| {
            let applied = self.batch.apply(log);
            applied.map_err(|error| format!("a write to the log failed ({error})"))?;
            let flushed = log.db.flush();
            flushed.map_err(|error| format!("a flush of the log failed ({error})"))?;
            let synced = self.log_file.sync_data();
            synced.map_err(|error| format!("a sync of the log failed ({error})"))?;
            self.check_place()
        })
    }

    /// Fails if the log is not the file of its name any more.
    fn check_place(&self) -> Result<(), String> {
        match &self.log_path {
            Some(path) if !is_in_place(&self.log_file, path) => {
                Err("its files were moved, replaced or removed while it was open".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Writes the pages that sweep the cache, once the log is large.
    fn write_cache_pages(&mut self) {
        let trees = Arc::clone(&self.trees);
        let Ok(log) = trees.log() else { return };
        if !log.cache.needs_pages() || trees.condition.read_only().is_some() {
            return;
        }
        if self.preallocation.reserve(cache::PAGES_BYTES).is_err() {
            return;
        }
        let written = unpanicked(|| {
            let written = log.cache.write_pages(log);
            written.map_err(|error| format!("a write to the log failed ({error})"))
        });
        if let Err(reason) = written {
            trees.condition.set_read_only(reason);
        }
    }

    /// Writes the outdated heads and pages, and the mark, from which an opening starts to read.
    fn settle(&mut self) {
        let trees = Arc::clone(&self.trees);
        let Ok(log) = trees.log() else { return };
        let mark = self.batch.next_block();
        // Also after a failure, so that a damaged page is not tried again with every group.
        self.settle_at = mark + SETTLE_EVERY_BLOCKS;
        if trees.condition.read_only().is_some() {
            return;
        }
        let mut lagging = self.lagging();
        for (session, known) in &mut lagging {
            if let Err(error) = self.batch.put_known(log, *session, known) {
                tracing::warn!(%session, %error, "cannot write a head; it will be read from the blocks");
                self.batch.clear();
                return;
            }
            *known = SessionState::new(known.head.clone());
        }
        if lagging.is_empty() && self.mark == mark {
            return;
        }
        self.batch.put_mark();
        if let Err(NoRoom(error)) = self.reserve() {
            tracing::warn!(%error, "heads are not written; they will be read from the blocks");
            return;
        }
        match self.write(log) {
            Ok(()) => {
                self.mark = mark;
                let mut live = trees.live_mut();
                if live.len() > LIVE_LIMIT {
                    live.clear();
                } else {
                    live.extend(lagging.into_iter().map(|(id, known)| (id, Some(known))));
                }
            }
            Err(reason) => trees.condition.set_read_only(reason),
        }
    }

    /// The sessions whose heads in the log are outdated.
    fn lagging(&self) -> Vec<(SessionId, SessionState)> {
        let live = self.trees.live();
        let known = live
            .iter()
            .filter_map(|(session, known)| Some((*session, known.clone()?)));
        known.filter(|(_, known)| known.lags()).collect()
    }
}

/// Whether a path still names this file.
fn is_in_place(file: &File, path: &Path) -> bool {
    let id = |entry: &Metadata| (entry.dev(), entry.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(named)) => id(&own) == id(&named),
        (Ok(_), Err(error)) => {
            !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        }
        (Err(_), _) => true,
    }
}

/// Calls sled and catches its panics; it panics if a write fails.
fn unpanicked(write: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
        let text = panic_text(panic.as_ref());
        Err(format!("the storage engine panicked ({text})"))
    })
}

/// The reason why a batch was discarded.
struct NoRoom(Error);

impl NoRoom {
    /// A copy of the error, for each caller with a write in the batch.
    fn again(&self) -> Error {
        match &self.0 {
            Error::DiskFull {
                path,
                needed_bytes,
                free_bytes,
            } => Error::DiskFull {
                path: path.clone(),
                needed_bytes: *needed_bytes,
                free_bytes: *free_bytes,
            },
            error => Error::engine("take room for a write", error),
        }
    }
}
