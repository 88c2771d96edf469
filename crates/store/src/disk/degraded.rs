//! A store that could not be opened for writing, because the disk is full or mounted read-only. It
//! is read as it is, and opened for writing as soon as possible.
//!
//! Each write tries to open it, and so does [`Engine::writable`] at intervals. Conditions that can
//! be seen from outside are checked first, so an attempt changes nothing if they are unchanged. The
//! store stays locked during the transition.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::RwLock;

use crate::disk::{Disk, ReadOnlyDisk, files, preallocation, tail};
use crate::engine::{
    Append, Checkpoint, Claim, Deletion, Engine, EngineFuture, Event, Health, SessionId,
    SessionInfo, Space, Vacuumed,
};
use crate::error::{Error, Result};

/// Interval of the attempts while nobody writes.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// Pause after an attempt that failed although the conditions looked good, because an attempt reads
/// the whole log again.
const REST: Duration = Duration::from_secs(60);

/// A store that can only be read until it can be opened for writing.
#[derive(Debug)]
pub struct DegradedDisk {
    state: Arc<RwLock<State>>,
    status: Arc<Mutex<Status>>,
}

#[derive(Debug)]
struct State {
    root: PathBuf,
    store: Store,
    /// Earliest time of the next attempt, and why the last one failed.
    rest: Option<(Instant, String)>,
}

#[derive(Debug)]
enum Store {
    ReadOnly(ReadOnlyDisk),
    Writable(Arc<Disk>),
    Closed,
}

/// The state that can be read without waiting.
#[derive(Debug)]
enum Status {
    Degraded { reason: String, full: bool },
    Writable(Arc<Disk>),
}

impl DegradedDisk {
    /// Opens the store in this directory as it is; `error` is the reason why it could not be opened
    /// for writing. Blocking: do not call it on an async thread.
    pub fn open(path: impl AsRef<Path>, error: &Error) -> Result<Self> {
        let root = path.as_ref().to_path_buf();
        let disk = ReadOnlyDisk::open(&root, error.to_string())?;
        if let Some(lock) = disk.lock() {
            // This may succeed on a full disk, but not on one that is read-only.
            drop(lock.note(&root));
        }
        Ok(Self {
            state: Arc::new(RwLock::new(State {
                root,
                store: Store::ReadOnly(disk),
                rest: None,
            })),
            status: Arc::new(Mutex::new(Status::from_error(error))),
        })
    }

    /// Returns the store to read from.
    async fn reading(&self) -> Result<Arc<dyn Engine>> {
        match &self.state.read().await.store {
            Store::ReadOnly(disk) => Ok(Arc::new(disk.clone())),
            Store::Writable(disk) => Ok(Arc::clone(disk) as Arc<dyn Engine>),
            Store::Closed => Err(Error::Closed),
        }
    }

    /// Returns the store to write to; opens it now if that is possible.
    async fn writing(&self) -> Result<Arc<Disk>> {
        if let Store::Writable(disk) = &self.state.read().await.store {
            return Ok(Arc::clone(disk));
        }
        // Nobody may read the files while the engine may change them.
        let mut state = Arc::clone(&self.state).write_owned().await;
        let status = Arc::clone(&self.status);
        // Runs to its end even if the caller is dropped.
        let trying = tokio::task::spawn_blocking(move || {
            let opened = state.open();
            let reached = match &opened {
                Ok(disk) => Status::Writable(Arc::clone(disk)),
                Err(error) => Status::from_error(error),
            };
            *status.lock().unwrap_or_else(PoisonError::into_inner) = reached;
            opened
        });
        let failed = |error| Error::engine("open the store to write", &error);
        trying.await.map_err(failed)?
    }
}

impl Status {
    fn from_error(error: &Error) -> Self {
        let reason = match error {
            Error::Unwritable { reason } => reason.clone(),
            error => error.to_string(),
        };
        Self::Degraded {
            reason,
            full: error.is_disk_full(),
        }
    }
}

impl State {
    /// Opens it for writing, or returns the reason why that is not yet possible.
    fn open(&mut self) -> Result<Arc<Disk>> {
        let lock = match &self.store {
            Store::Writable(disk) => return Ok(Arc::clone(disk)),
            Store::Closed => return Err(Error::Closed),
            Store::ReadOnly(disk) => disk.lock(),
        };
        probe(&self.root).map_err(transient)?;
        if let Some((until, failure)) = &self.rest
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            let reason = format!("{failure}; the next try is in {} s", left.as_secs() + 1);
            return Err(Error::Unwritable { reason });
        }
        if let Some(lock) = &lock {
            lock.make_exclusive(&self.root).map_err(transient)?;
        }
        match Disk::open_held(&self.root, lock.clone()) {
            Ok(disk) => {
                tracing::info!(store = %self.root.display(), "the store takes writes");
                let disk = Arc::new(disk);
                self.store = Store::Writable(Arc::clone(&disk));
                Ok(disk)
            }
            Err(error) => {
                self.rest = Some((Instant::now() + REST, error.to_string()));
                // The engine may have changed the files before it failed.
                let again = ReadOnlyDisk::open_held(&self.root, error.to_string(), lock)?;
                self.store = Store::ReadOnly(again);
                Err(transient(error))
            }
        }
    }
}

/// Checks whether it can be opened for writing, as far as that is possible without changing
/// anything.
fn probe(root: &Path) -> Result<()> {
    for path in [root.join("LOCK"), files::data(root).join("db")] {
        match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("write to", &path, error));
            }
            _ => {}
        }
    }
    preallocation::check_for_opening(root, tail::size_bytes(root))
}

/// The error for a refused write that can be retried later.
fn transient(error: Error) -> Error {
    match error {
        error if error.is_transient() => error,
        error => Error::Unwritable {
            reason: error.to_string(),
        },
    }
}

/// Methods of the store as it is, or as it was opened for writing.
macro_rules! through {
    ($($open:ident: $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(fn $method(&self, $($argument: $type),*) -> EngineFuture<'_, $answer> {
            Box::pin(async move { self.$open().await?.$method($($argument),*).await })
        })+
    };
}

impl Engine for DegradedDisk {
    through! {
        writing: claim(session: SessionId) -> Claim;
        writing: append(append: Append) -> u64;
        reading: read(session: SessionId, from: u64, limit: usize) -> Vec<Event>;
        reading: first_events(sessions: Vec<SessionId>) -> Vec<Option<Event>>;
        writing: put_checkpoint(session: SessionId, epoch: u64, checkpoint: Checkpoint) -> ();
        reading: latest_checkpoint(session: SessionId) -> Option<Checkpoint>;
        reading: session(session: SessionId) -> Option<SessionInfo>;
        reading: existing(sessions: Vec<SessionId>) -> Vec<SessionInfo>;
        reading: sessions(after: Option<SessionId>, limit: usize) -> Vec<SessionInfo>;
        reading: newest_sessions(before: Option<SessionId>, limit: usize) -> Vec<SessionInfo>;
        writing: delete_session(deletion: Deletion) -> bool;
        reading: space() -> Space;
        writing: vacuum(bytes_per_second: Option<u64>) -> Vacuumed;
    }

    fn health(&self) -> Health {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match &*status {
            Status::Writable(disk) => disk.health(),
            Status::Degraded { reason, full } => {
                let reason = reason.clone();
                match full {
                    true => Health::DiskFull { reason },
                    false => Health::ReadOnly { reason },
                }
            }
        }
    }

    fn writable(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            loop {
                match self.writing().await {
                    Ok(_) => return Ok(()),
                    Err(Error::Closed) => return Err(Error::Closed),
                    Err(_) => tokio::time::sleep(TRY_EVERY).await,
                }
            }
        })
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let store = std::mem::replace(&mut self.state.write().await.store, Store::Closed);
            match store {
                Store::Writable(disk) => disk.close().await,
                Store::ReadOnly(_) | Store::Closed => Ok(()),
            }
        })
    }
}
