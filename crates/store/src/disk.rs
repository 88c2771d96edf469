//! The disk engine: sled 0.34.7, used under rules that make it safe.
//!
//! ```text
//! <store>/FORMAT         what this directory is, and its format
//! <store>/LOCK           locked by the process that has the store open; holds its pid
//! <store>/acknowledged   the ledger: how far every session was acknowledged
//! <store>/data/          sled's directory
//! <store>/tail           during an open only: the part of the log that sled may cut
//! <store>/losses         what repairs lost, until a person has taken note of it
//! <store>/quarantine/N/  what a repair took out of use; never deleted by this crate
//! ```
//!
//! - All writes go through one thread. It takes everything that is queued, applies it as one atomic
//!   batch, flushes, syncs the log file itself (sled's flush alone does not survive a power cut),
//!   and only then acknowledges. A failed sync is final.
//! - Opening first copies the log's tail, because sled cuts off what it cannot read there. The
//!   ledger then shows whether anything acknowledged is missing. If so, or if sled cannot open the
//!   log at all, every record that is still undamaged is carved out of the raw files into a fresh
//!   log.
//! - Events of all sessions are stored in the order in which they arrived, in blocks of about 32
//!   KiB: a group is a few large insertions at the end of the tree, however many sessions it is
//!   for. The locations of a session's events are in its pages, which are written when they are
//!   full or when the writer settles. An opening reads the blocks written after the last settling.
//! - Values are at most 60 KiB: larger payloads are split into chunks, whose keys are their hashes.

mod batch;
mod cache;
mod carve;
mod condition;
mod copy;
mod cursor;
mod degraded;
mod doctor;
mod files;
mod fresh;
mod group;
mod intake;
mod keys;
mod ledger;
mod lock;
mod log;
mod losses;
mod open;
mod preallocation;
mod read_only;
mod replay;
mod rescue;
mod salvage;
mod tail;
mod trees;
mod vacuum;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, RwLock, mpsc, oneshot};

use crate::admit;
use crate::engine::{
    Append, Checkpoint, Claim, Deletion, Engine, EngineFuture, Event, Health, SessionId,
    SessionInfo, SessionsFuture, Space, Vacuumed,
};
use crate::error::{Error, Result};
use crate::row;

pub use degraded::DegradedDisk;
pub use doctor::{Checkup, Finding, doctor, repair};
pub use files::is_store;
pub use losses::{Loss, Losses, acknowledge_losses, losses};
pub use read_only::ReadOnlyDisk;
pub use salvage::{LostData, Salvage};
pub use vacuum::vacuum;

use cache::Sweeper;
use condition::Condition;
use group::Command;
#[cfg_attr(
    not(feature = "postgres"),
    allow(unused_imports, reason = "another engine's")
)]
pub(crate) use lock::Lock;
use trees::Trees;
use writer::Writer;

/// Capacity of the writer thread's queue, in commands; further callers wait for a free slot.
const QUEUE_COMMANDS: usize = 1024;
/// Longest time to wait for the disk before the caller receives a timeout error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A store in a directory.
#[derive(Debug)]
pub struct Disk {
    /// Locked shared by every read in progress; set to `None` when the store is closed.
    running: Arc<RwLock<Option<Running>>>,
    condition: Arc<Condition>,
    /// Locked during a vacuum.
    vacuuming: Arc<Mutex<()>>,
    /// Set when the store is about to be closed.
    closing: Arc<AtomicBool>,
}

/// An opened store, and what had to be repaired to open it.
#[must_use = "a salvage has to be shown to the user"]
#[derive(Debug)]
pub struct OpenedDisk {
    /// The store.
    pub disk: Disk,
    /// The result of a repair; `None` if the store was undamaged.
    pub salvage: Option<Salvage>,
    /// Number of files and directories to which others had permissions before this opening.
    pub narrowed: u64,
}

impl Disk {
    /// Opens the store in this directory, or creates one. Blocking: do not call it on an async
    /// thread.
    ///
    /// A damaged store is repaired: all undamaged records are saved into a fresh log, the damaged
    /// log is kept under `quarantine/`, and [`OpenedDisk::salvage`] names what was lost.
    ///
    /// # Errors
    /// `Held` by another process, `NewerStore`, `EarlierStore` and `NotAStore` (nothing is changed
    /// then), `DiskFull`, `Io` if the directory cannot be written, `TimedOut`. If
    /// [`Error::is_unwritable`] is true, [`ReadOnlyDisk::open`] may succeed.
    pub fn open(path: impl AsRef<Path>) -> Result<OpenedDisk> {
        let whole = open::open(path.as_ref())?;
        Ok(OpenedDisk {
            disk: Self::on(whole.trees)?,
            salvage: whole.salvage,
            narrowed: whole.narrowed,
        })
    }

    /// Opens a store that is locked already, or was never opened. The result of a repair is logged,
    /// and added to the list of losses.
    fn open_held(root: &Path, lock: Option<Lock>) -> Result<Self> {
        let whole = match lock {
            Some(lock) => open::open_held(root, lock)?,
            None => open::open(root)?,
        };
        if let Some(salvage) = whole.salvage {
            tracing::error!(%salvage, "the store was damaged and is repaired");
        }
        Self::on(whole.trees)
    }

    fn on(trees: Trees) -> Result<Self> {
        let condition = Arc::clone(&trees.condition);
        Ok(Self {
            running: Arc::new(RwLock::new(Some(Running::start(trees)?))),
            condition,
            vacuuming: Arc::default(),
            closing: Arc::default(),
        })
    }

    async fn write<T>(
        &self,
        doing: &'static str,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        in_time(doing, async {
            let (reply, answer) = oneshot::channel();
            self.send(command(reply)).await?;
            answer.await.map_err(|_| self.why_closed())?
        })
        .await
    }

    /// Queues a command; waits only if the queue is full.
    async fn send(&self, command: Command) -> Result<()> {
        let (queue, command) = {
            let running = self.running.read().await;
            let running = running.as_ref().ok_or(Error::Closed)?;
            match running.queue.try_send(command) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(self.why_closed()),
                // Closing does not wait for callers that wait for the queue.
                Err(TrySendError::Full(command)) => (running.queue.clone(), command),
            }
        };
        let sent = queue.send(command).await;
        sent.map_err(|_| self.why_closed())
    }

    async fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Trees) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        in_time(doing, async {
            let running = Arc::clone(&self.running).read_owned().await;
            let reading = tokio::task::spawn_blocking(move || match &*running {
                Some(running) => read(&running.trees),
                None => Err(Error::Closed),
            });
            let failed = |error| Err(Error::engine(doing, &error));
            reading.await.unwrap_or_else(failed)
        })
        .await
    }

    /// The reason why the writer does not answer any more.
    fn why_closed(&self) -> Error {
        match self.condition.read_only() {
            Some(reason) => Error::ReadOnly {
                reason: reason.clone(),
            },
            None => Error::Closed,
        }
    }
}

/// The resources of an open store. Dropping it ends the writer after its current group, waits for
/// it, and releases the log and the lock.
#[derive(Debug)]
struct Running {
    queue: mpsc::Sender<Command>,
    writer: Option<JoinHandle<()>>,
    sweeper: Option<Sweeper>,
    trees: Arc<Trees>,
}

impl Running {
    fn start(trees: Trees) -> Result<Self> {
        let trees = Arc::new(trees);
        let (queue, commands) = mpsc::channel(QUEUE_COMMANDS);
        let writer = Some(Writer::start(Arc::clone(&trees), commands)?);
        let sweeper = Some(Sweeper::start(Arc::clone(&trees))?);
        Ok(Self {
            sweeper,
            queue,
            writer,
            trees,
        })
    }
}

impl Running {
    /// Ends the writer after its current group, and returns the trees it wrote to. Nobody may be
    /// reading.
    fn end(mut self) -> Result<Trees> {
        self.stop();
        let trees = Arc::clone(&self.trees);
        drop(self);
        Arc::into_inner(trees).ok_or(Error::Closed)
    }

    fn stop(&mut self) {
        drop(self.sweeper.take());
        // The writer ends when all senders are dropped.
        self.queue = mpsc::channel(1).0;
        if self
            .writer
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the store's writer thread panicked");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for an answer, with a timeout.
async fn in_time<T>(doing: &'static str, answer: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
    answer.unwrap_or(Err(Error::TimedOut {
        doing,
        after: ANSWER_TIMEOUT,
    }))
}

impl Engine for Disk {
    fn claim(&self, session: SessionId) -> EngineFuture<'_, Claim> {
        Box::pin(self.write("claim a session", move |reply| Command::Claim {
            session,
            reply,
        }))
    }

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            admit::check_append(&append)?;
            let digests = append
                .payloads
                .iter()
                .map(|payload| row::digest(payload))
                .collect();
            let command = |reply| Command::Append {
                append,
                digests,
                reply,
            };
            let appended = self.write("append events", command).await?;
            Ok(appended.last_seq)
        })
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> EngineFuture<'_, Vec<Event>> {
        Box::pin(self.ask("read events", move |trees| trees.read(session, from, limit)))
    }

    fn first_events(&self, sessions: Vec<SessionId>) -> EngineFuture<'_, Vec<Option<Event>>> {
        Box::pin(self.ask("read first events", move |trees| {
            let firsts = sessions.into_iter();
            firsts
                .map(|session| Ok(trees.read(session, 1, 1)?.pop()))
                .collect()
        }))
    }

    fn last_events(&self, sessions: Vec<SessionInfo>) -> EngineFuture<'_, Vec<Option<Event>>> {
        Box::pin(self.ask("read last events", move |trees| {
            let lasts = sessions.into_iter();
            lasts
                .map(|info| Ok(trees.read(info.session, info.last_seq, 1)?.pop()))
                .collect()
        }))
    }

    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            admit::check_checkpoint(&checkpoint)?;
            self.write("keep a checkpoint", move |reply| Command::PutCheckpoint {
                session,
                epoch,
                checkpoint,
                reply,
            })
            .await
        })
    }

    fn latest_checkpoint(&self, session: SessionId) -> EngineFuture<'_, Option<Checkpoint>> {
        Box::pin(self.ask("read a checkpoint", move |trees| trees.checkpoint(session)))
    }

    fn session(&self, session: SessionId) -> EngineFuture<'_, Option<SessionInfo>> {
        Box::pin(self.ask("look a session up", move |trees| trees.info(session)))
    }

    fn existing(&self, sessions: Vec<SessionId>) -> SessionsFuture<'_> {
        Box::pin(self.ask("look sessions up", move |trees| {
            let infos = sessions.into_iter();
            infos
                .filter_map(|session| trees.info(session).transpose())
                .collect()
        }))
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(self.ask("list sessions", move |trees| trees.sessions(after, limit)))
    }

    fn newest_sessions(&self, before: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(self.ask("list sessions", move |trees| {
            trees.newest_sessions(before, limit)
        }))
    }

    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            admit::check_deletion(&deletion)?;
            self.write("delete a session", |reply| Command::Delete {
                deletion,
                reply,
            })
            .await
        })
    }

    fn space(&self) -> EngineFuture<'_, Space> {
        Box::pin(self.ask("measure the store", vacuum::space))
    }

    fn vacuum(&self, bytes_per_second: Option<u64>) -> EngineFuture<'_, Vacuumed> {
        Box::pin(async move {
            let online = vacuum::Online {
                alone: Arc::clone(&self.vacuuming).lock_owned().await,
                running: Arc::clone(&self.running),
                bytes_per_second,
                stop: Arc::clone(&self.closing),
            };
            let done = tokio::spawn(online.run()).await;
            done.unwrap_or_else(|error| Err(Error::engine("vacuum the store", &error)))
        })
    }

    fn health(&self) -> Health {
        self.condition.health()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(in_time("close the store", async {
            // Abandons a copy in progress.
            self.closing.store(true, Ordering::Release);
            let _alone = self.vacuuming.lock().await;
            let mut running = Arc::clone(&self.running).write_owned().await;
            // Runs to its end even if the caller is dropped.
            let closing = tokio::task::spawn_blocking(move || drop(running.take()));
            let failed = |error| Error::engine("close the store", &error);
            closing.await.map_err(failed)
        }))
    }
}
