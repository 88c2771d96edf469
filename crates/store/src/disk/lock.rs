//! One process per store: a locked file with the holder's pid in it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
const SHARED: FlockOperation = FlockOperation::NonBlockingLockShared;

/// A lock, held as long as any of its clones exists; the kernel releases it when the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    file: File,
}

impl Drop for Held {
    /// Closing the file is not enough: a child process that is being started has it open, too,
    /// until it executes its own program.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(%error, "cannot release the store's lock");
        }
    }
}

impl Lock {
    /// Locks the store, or returns an error that names the holder.
    pub(crate) fn take(root: &Path) -> Result<Self> {
        let path = root.join("LOCK");
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::io("open the lock", &path, error))?;
        lock(root, &mut file, EXCLUSIVE)?;
        if let Err(error) = note(&file) {
            tracing::warn!(store = %root.display(), %error, "cannot note which process holds the store");
        }
        Ok(Self::from_file(file))
    }

    fn from_file(file: File) -> Self {
        let held = Arc::new(Held { file });
        Self { held }
    }

    /// Writes this process's id into a lock that was taken without it.
    pub(super) fn note(&self, root: &Path) -> io::Result<()> {
        note(&OpenOptions::new().write(true).open(root.join("LOCK"))?)
    }

    /// Locks a store for reading only, without writing the process id. On a read-only file system
    /// nobody writes, so any number of processes may read.
    pub(super) fn take_unmarked(root: &Path) -> Result<Option<Self>> {
        let path = root.join("LOCK");
        let mut file = match File::open(&path) {
            // The store was never opened for writing.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| Error::io("open the lock", &path, error))?,
        };
        let operation = match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => SHARED,
            _ => EXCLUSIVE,
        };
        lock(root, &mut file, operation).map(|()| Some(Self::from_file(file)))
    }

    /// Has a lock for reading exclude other readers, before this process writes. If there are
    /// others, it stays as it is.
    pub(super) fn make_exclusive(&self, root: &Path) -> Result<()> {
        let mut file = &self.held.file;
        let made = lock(root, &mut file, EXCLUSIVE);
        if made.is_err() {
            // The kernel releases a lock before it changes it.
            lock(root, &mut file, SHARED)?;
        }
        made
    }
}

fn note(file: &File) -> io::Result<()> {
    let pid = format!("{}\n", std::process::id());
    // Overwrites the content and truncates then, which needs no new block; a full disk has none.
    file.write_all_at(pid.as_bytes(), 0)?;
    file.set_len(pid.len() as u64)
}

/// Locks the file, or returns an error that names the holder.
fn lock<F: AsFd + Read>(root: &Path, file: &mut F, operation: FlockOperation) -> Result<()> {
    match flock(&*file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = file
                .read_to_string(&mut text)
                .ok()
                .and_then(|_| text.trim().parse().ok());
            Err(Error::Held {
                path: root.to_path_buf(),
                pid,
            })
        }
        Err(errno) => Err(Error::io("lock", &root.join("LOCK"), errno.into())),
    }
}
