//! The only writer: a thread behind a bounded queue.
//!
//! It takes all that is queued (no timer: what arrives during a sync is the next group), checks each
//! command against the heads, applies the good ones as one atomic batch, flushes, syncs the log file,
//! and only then answers. sled is flushed from this thread alone. If any of it fails, the store is
//! read-only from then on: after a failed sync nobody knows what is on disk, so it is never retried.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use crate::disk::batch::Batch;
use crate::disk::files;
use crate::disk::group::{self, Change, Command, Group};
use crate::disk::ledger::{Extent, Ledger};
use crate::disk::log::{Log, panic_text};
use crate::disk::trees::Trees;
use crate::engine::SessionId;
use crate::error::{Error, Result};

/// A group takes no further command beyond this many bytes.
const GROUP_LIMIT_BYTES: usize = 16 << 20;
/// Heads kept in memory; about 200 bytes each.
const LIVE_LIMIT: usize = 4096;

/// The writer thread's state.
pub(super) struct Writer {
    trees: Arc<Trees>,
    log_file: File,
    ledger: Ledger,
    queue: mpsc::Receiver<Command>,
}

impl Writer {
    /// Starts the thread. It ends when all senders of the queue are gone.
    pub(super) fn start(
        trees: Arc<Trees>,
        queue: mpsc::Receiver<Command>,
    ) -> Result<JoinHandle<()>> {
        let path = files::data(&trees.root).join("db");
        let log_file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let ledger = Ledger::open(&trees.root)?;
        let root = trees.root.clone();
        let writer = Self {
            trees,
            log_file,
            ledger,
            queue,
        };
        let thread = std::thread::Builder::new().name("store-writer".into());
        let thread = thread.spawn(move || writer.run());
        thread.map_err(|error| Error::io("start the writer thread of", &root, error))
    }

    fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            match self.trees.read_only() {
                Some(reason) => group::refuse(first, &reason),
                None => self.serve(first),
            }
        }
        self.settle();
    }

    fn serve(&mut self, first: Command) {
        let trees = Arc::clone(&self.trees);
        let Ok(log) = trees.log() else { return };
        let mut group = Group::new(&trees, log);
        group.stage(first);
        while group.batch.bytes() < GROUP_LIMIT_BYTES {
            let Ok(command) = self.queue.try_recv() else {
                break;
            };
            group.stage(command);
        }
        if !group.waiters.is_empty() {
            self.commit(log, group);
        }
        if trees.live().len() > LIVE_LIMIT {
            self.settle();
        }
    }

    fn commit(&mut self, log: &Log, group: Group<'_>) {
        let Group {
            batch,
            changes,
            waiters,
            ..
        } = group;
        self.hide(&changes);
        match self.write(log, batch) {
            Ok(()) => {
                let extents = changes
                    .iter()
                    .map(|(id, change)| (*id, Extent::of(&change.after.head)));
                self.ledger.note(extents);
                let after = changes
                    .into_iter()
                    .map(|(id, change)| (id, Some(change.after)));
                self.trees.live_mut().extend(after);
                waiters.into_iter().for_each(|waiter| waiter(Ok(())));
            }
            Err(reason) => {
                let error = || Error::ReadOnly {
                    reason: reason.clone(),
                };
                self.trees.set_read_only(reason.clone());
                waiters.into_iter().for_each(|waiter| waiter(Err(error())));
            }
        }
    }

    /// Pins what readers see of these sessions to what is acknowledged.
    fn hide(&self, changes: &HashMap<SessionId, Change>) {
        let mut live = self.trees.live_mut();
        for (session, change) in changes {
            live.entry(*session)
                .or_insert_with(|| change.before.clone());
        }
    }

    /// Makes a batch durable, or says why it may not be.
    fn write(&self, log: &Log, batch: Batch) -> Result<(), String> {
        let written = catch_unwind(AssertUnwindSafe(|| {
            let applied = batch.apply(log);
            applied.map_err(|error| format!("a write to the log failed ({error})"))?;
            let flushed = log.db.flush();
            flushed.map_err(|error| format!("a flush of the log failed ({error})"))?;
            let synced = self.log_file.sync_data();
            synced.map_err(|error| format!("a sync of the log failed ({error})"))
        }));
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            Err(format!(
                "the storage engine panicked ({})",
                panic_text(panic.as_ref())
            ))
        };
        written.unwrap_or_else(panicked)
    }

    /// Writes the records of heads that lag behind and lets go of what is kept in memory.
    fn settle(&self) {
        let Ok(log) = self.trees.log() else { return };
        if self.trees.read_only().is_some() {
            return;
        }
        let mut batch = Batch::default();
        for (session, known) in self.trees.live().iter() {
            let Some(known) = known
                .as_ref()
                .filter(|known| known.written != Extent::of(&known.head))
            else {
                continue;
            };
            if let Err(error) = batch.put_head(*session, &known.head) {
                tracing::warn!(%session, %error, "cannot write a head; it will be read on");
            }
        }
        match self.write(log, batch) {
            Ok(()) => self.trees.live_mut().clear(),
            Err(reason) => self.trees.set_read_only(reason),
        }
    }
}
