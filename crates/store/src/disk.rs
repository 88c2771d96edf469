//! The disk engine: sled 0.34.7 under a discipline that makes it safe.
//!
//! ```text
//! <store>/FORMAT         what this directory is, and its schema
//! <store>/LOCK           locked by the process that has the store open; holds its pid
//! <store>/acknowledged   the ledger: how far every session was acknowledged
//! <store>/data/          sled's directory
//! <store>/tail           during an open only: the part of the log that sled may cut
//! <store>/quarantine/N/  what a repair took out of use; never deleted by this crate
//! ```
//!
//! - Writes go through one thread, which takes all that is queued, applies it as one atomic batch,
//!   flushes, syncs the log file itself (sled's flush alone does not survive a power cut), and only
//!   then answers. A failed sync is final.
//! - Opening keeps a copy of the log's tail first, because sled cuts what it cannot read there. The
//!   ledger then tells whether anything acknowledged went missing; if so, or if sled cannot open at
//!   all, every record that is still whole is carved out of the raw files into a fresh log.
//! - Values stay at or under 60 KiB: larger payloads are cut into chunks named by their hash.

mod batch;
mod carve;
mod doctor;
mod files;
mod group;
mod keys;
mod ledger;
mod lock;
mod log;
mod open;
mod rescue;
mod salvage;
mod tail;
mod trees;
mod vacuum;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::engine::{
    Answer, Append, Checkpoint, Claim, Engine, Event, Health, SessionId, SessionInfo,
};
use crate::error::{Error, Result};
use crate::row;

pub use doctor::{Checkup, Finding, doctor, repair};
pub use salvage::{Lost, Salvage};
pub use vacuum::{Vacuumed, vacuum};

use group::Command;
use trees::Trees;
use writer::Writer;

/// Commands that may wait for the writer thread; a caller beyond it waits for a place.
const QUEUE_COMMANDS: usize = 1024;
/// The longest wait for the disk before a caller is told that it does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A store in a directory.
#[derive(Debug)]
pub struct Disk {
    trees: Arc<Trees>,
    writer: Mutex<Option<(mpsc::Sender<Command>, JoinHandle<()>)>>,
}

/// An opened store, and what had to be repaired to open it.
#[must_use = "a salvage has to be shown to the user"]
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub disk: Disk,
    /// What a repair saved and lost; none if the store was whole.
    pub salvage: Option<Salvage>,
}

impl Disk {
    /// Opens the store in this directory, or makes one. Blocking: call it off the async threads.
    ///
    /// A damaged store is repaired: whatever is whole is saved into a fresh log, the damaged one is
    /// kept under `quarantine/`, and [`Opened::salvage`] says what was lost, by name.
    ///
    /// # Errors
    /// `Held` by another process, `NewerSchema` and `NotAStore` (nothing is touched), `Io` where the
    /// directory cannot be written, `TimedOut`.
    pub fn open(path: impl AsRef<Path>) -> Result<Opened> {
        let (trees, salvage) = open::open(path.as_ref())?;
        let trees = Arc::new(trees);
        let (sender, receiver) = mpsc::channel(QUEUE_COMMANDS);
        let thread = Writer::start(Arc::clone(&trees), receiver)?;
        Ok(Opened {
            disk: Self {
                trees,
                writer: Mutex::new(Some((sender, thread))),
            },
            salvage,
        })
    }

    async fn write<T>(
        &self,
        doing: &'static str,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        let sender = {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer
                .as_ref()
                .map(|(sender, _)| sender.clone())
                .ok_or(Error::Closed)?
        };
        let (reply, answer) = oneshot::channel();
        let asked = async {
            sender
                .send(command(reply))
                .await
                .map_err(|_| self.trees.why_closed())?;
            answer.await.map_err(|_| self.trees.why_closed())?
        };
        let timed_out = || Error::TimedOut {
            doing,
            after: ANSWER_TIMEOUT,
        };
        tokio::time::timeout(ANSWER_TIMEOUT, asked)
            .await
            .map_err(|_| timed_out())?
    }

    async fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Trees) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
        {
            return Err(Error::Closed);
        }
        let trees = Arc::clone(&self.trees);
        let reading = tokio::task::spawn_blocking(move || read(&trees));
        match tokio::time::timeout(ANSWER_TIMEOUT, reading).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(Error::Engine {
                doing,
                reason: error.to_string(),
            }),
            Err(_) => Err(Error::TimedOut {
                doing,
                after: ANSWER_TIMEOUT,
            }),
        }
    }

    /// Ends the writer thread after the group it is at, and waits for it.
    fn stop(&self) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((sender, thread)) = writer {
            drop(sender);
            if thread.join().is_err() {
                tracing::error!("the store's writer thread panicked");
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Engine for Disk {
    fn claim(&self, session: SessionId) -> Answer<'_, Claim> {
        Box::pin(self.write("claim a session", move |reply| Command::Claim {
            session,
            reply,
        }))
    }

    fn append(&self, append: Append) -> Answer<'_, u64> {
        Box::pin(async move {
            row::check_append(&append)?;
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
            self.write("append events", command).await
        })
    }

    fn read(&self, session: SessionId, from: u64, limit: usize) -> Answer<'_, Vec<Event>> {
        Box::pin(self.ask("read events", move |trees| trees.read(session, from, limit)))
    }

    fn put_checkpoint(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            row::check_checkpoint(&checkpoint)?;
            self.write("keep a checkpoint", move |reply| Command::PutCheckpoint {
                session,
                epoch,
                checkpoint,
                reply,
            })
            .await
        })
    }

    fn latest_checkpoint(&self, session: SessionId) -> Answer<'_, Option<Checkpoint>> {
        Box::pin(self.ask("read a checkpoint", move |trees| trees.checkpoint(session)))
    }

    fn session(&self, session: SessionId) -> Answer<'_, Option<SessionInfo>> {
        Box::pin(self.ask("look a session up", move |trees| trees.info(session)))
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(self.ask("list sessions", move |trees| trees.sessions(after, limit)))
    }

    fn delete_session(&self, session: SessionId) -> Answer<'_, bool> {
        Box::pin(
            self.write("delete a session", move |reply| Command::Delete {
                session,
                reply,
            }),
        )
    }

    fn health(&self) -> Health {
        match self.trees.read_only() {
            Some(reason) => Health::ReadOnly { reason },
            None => Health::Ok,
        }
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let writer = self
                .writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let Some((sender, thread)) = writer else {
                return Ok(());
            };
            drop(sender);
            let joined = tokio::task::spawn_blocking(move || thread.join());
            match tokio::time::timeout(ANSWER_TIMEOUT, joined).await {
                Ok(_) => Ok(()),
                Err(_) => Err(Error::TimedOut {
                    doing: "close the store",
                    after: ANSWER_TIMEOUT,
                }),
            }
        })
    }
}
