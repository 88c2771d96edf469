//! Allocates space for the log before it is needed.
//!
//! A write that fails because the disk is full breaks sled permanently: it accepts no writes and no
//! reads until it is opened again. Therefore blocks after the end of the log's file are allocated
//! in advance, and the possible size of a group is compared with them first. If they cannot be
//! allocated, the group is refused before it reaches sled, so later groups are accepted when there
//! is room again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::disk::files;
use crate::disk::open::SEGMENT_BYTES;
use crate::error::{Error, Result};

const SEGMENT: u64 = SEGMENT_BYTES as u64;
/// Segments reserved for data that sled moves by itself.
const SPARE_SEGMENTS: u64 = 2;
/// Largest amount of space that must be free before writes are accepted again.
const REFUSED_LIMIT: usize = 4 << 20;
/// Number of bytes that sled may write for one byte: it rewrites the leaf into which the byte is
/// inserted.
const FACTOR: u64 = 6;

/// The blocks allocated for a log.
#[derive(Debug)]
pub(super) struct Preallocation {
    file: File,
    path: PathBuf,
    /// The offset up to which the file has blocks.
    until: u64,
    /// The file's length and number of blocks when they were last read.
    seen: (u64, u64),
    /// The size that was refused last. Writes stay refused until there is room for it: otherwise a
    /// session could claim its journal again and again, and each time have a result refused that
    /// was already paid for.
    refused: usize,
}

impl Preallocation {
    /// For the log in this directory of sled.
    pub(super) fn open(data: &Path) -> Result<Self> {
        let path = data.join("db");
        let file = OpenOptions::new().write(true).open(&path);
        Ok(Self {
            file: file.map_err(|error| Error::io("open", &path, error))?,
            path,
            until: 0,
            seen: (0, 0),
            refused: 0,
        })
    }

    /// Ensures that this many bytes can be written to the log.
    ///
    /// # Errors
    /// `DiskFull`; nothing was written.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<()> {
        let wanted = bytes.max(self.refused);
        let taken = self.take(wanted);
        self.refused = match &taken {
            Ok(()) => 0,
            Err(_) => wanted.min(REFUSED_LIMIT),
        };
        taken
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        let (len, blocks) = self.look()?;
        // sled truncates free segments at the end, together with the blocks allocated after them.
        if len < self.seen.0 || blocks < self.seen.1 {
            self.until = 0;
        }
        let spare = (bytes as u64).saturating_mul(FACTOR) + SPARE_SEGMENTS * SEGMENT;
        let need = (len + spare).next_multiple_of(SEGMENT);
        if need <= self.until {
            self.seen = (len, blocks);
            return Ok(());
        }
        let from = self.until.max(len);
        // Allocates one more segment, so that this is seldom needed.
        if self.allocate(from, need + SEGMENT).is_ok() {
            self.until = need + SEGMENT;
        } else {
            self.allocate(from, need)?;
            self.until = need;
        }
        self.seen = self.look()?;
        Ok(())
    }

    fn allocate(&self, from: u64, until: u64) -> Result<()> {
        let needed_bytes = until.saturating_sub(from);
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, needed_bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // The file system does not support this; its free space is checked instead.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return check(&self.path, needed_bytes),
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
                    return Err(full(&self.path, needed_bytes));
                }
                Err(errno) => return Err(Error::io("take room for", &self.path, errno.into())),
            }
        }
    }

    fn look(&self) -> Result<(u64, u64)> {
        let meta = self.file.metadata();
        let meta = meta.map_err(|error| Error::io("look at", &self.path, error))?;
        Ok((meta.len(), meta.blocks()))
    }

    /// Frees the allocated blocks that were not written to, once the log is closed. A file that
    /// sled still has open, because it is truncating it, is left unchanged.
    pub(super) fn release(data: &Path) {
        let path = data.join("db");
        let file = OpenOptions::new().write(true).open(&path);
        let released = file.and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.set_len(file.metadata()?.len())
        });
        if let Err(error) = released {
            tracing::debug!(path = %path.display(), %error, "the room behind the log stays taken");
        }
    }
}

/// Fails if the file system of a path has less free space than this.
pub(super) fn check(path: &Path, needed_bytes: u64) -> Result<()> {
    match free_bytes(path) {
        Some(free) if free < needed_bytes => Err(full(path, needed_bytes)),
        _ => Ok(()),
    }
}

fn full(path: &Path, needed_bytes: u64) -> Error {
    Error::DiskFull {
        path: path.to_path_buf(),
        needed_bytes,
        free_bytes: free_bytes(path).unwrap_or(0),
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists())?;
    let about = rustix::fs::statvfs(there).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Checks the room for what an opening writes at most: the copy of the tail, a snapshot, and the
/// first segments.
pub(super) fn check_for_opening(root: &Path, tail_bytes: u64) -> Result<()> {
    if !files::data(root).join("db").exists() {
        return check(root, SPARE_SEGMENTS * SEGMENT);
    }
    let snapshots = std::fs::read_dir(files::data(root)).into_iter().flatten();
    let snapshots = snapshots
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("snap."))
        .filter_map(|entry| Some(entry.metadata().ok()?.len()));
    let snapshot = snapshots.max().unwrap_or(0);
    check(root, tail_bytes + 2 * snapshot + SPARE_SEGMENTS * SEGMENT)
}
