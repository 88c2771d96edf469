//! One process per store: a locked file with the holder's pid in it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
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
        let io = |doing| move |error| Error::io(doing, &root.join("LOCK"), error);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io("open the lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                return Err(Error::Held {
                    path: root.to_path_buf(),
                    pid,
                });
            }
            Err(errno) => return Err(io("lock")(errno.into())),
        }
        file.set_len(0).map_err(io("write"))?;
        writeln!(file, "{}", std::process::id()).map_err(io("write"))?;
        Ok(Self { file })
    }
}
