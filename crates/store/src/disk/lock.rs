//! One process per store: a locked file with the holder's pid in it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Held for as long as the store is open; the kernel releases it when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file is not enough: a child that is being started has it open too, until it runs
    /// its own program.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(%error, "cannot release the store's lock");
        }
    }
}

impl Lock {
    /// Takes the store, or says who holds it.
    pub(super) fn take(root: &Path) -> Result<Self> {
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
        lock(root, &mut file)?;
        let pid = format!("{}\n", std::process::id());
        // Over what is there and cut then: so it needs no new block, which a full disk has not.
        let noted = file.write_all_at(pid.as_bytes(), 0);
        let noted = noted.and_then(|()| file.set_len(pid.len() as u64));
        if let Err(error) = noted {
            tracing::warn!(store = %root.display(), %error, "cannot note which process holds the store");
        }
        Ok(Self { file })
    }

    /// Takes a store that is only read: as it is, without a note of who holds it.
    pub(super) fn take_unmarked(root: &Path) -> Result<Option<Self>> {
        let path = root.join("LOCK");
        let mut file = match File::open(&path) {
            // Nobody ever opened it to write.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| Error::io("open the lock", &path, error))?,
        };
        lock(root, &mut file).map(|()| Some(Self { file }))
    }
}

/// Locks the file, or says who has it.
fn lock(root: &Path, file: &mut File) -> Result<()> {
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
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
