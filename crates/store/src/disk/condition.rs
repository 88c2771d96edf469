//! Whether a store takes writes, as its writer has found out: what others ask for at any time.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::room;
use crate::engine::Health;
use crate::error::Error;

/// Whether a store takes writes.
#[derive(Debug)]
pub(super) struct Condition {
    root: PathBuf,
    /// Why it takes none any more.
    read_only: OnceLock<String>,
    /// The room that was missing for the last group; 0: none was.
    missing_bytes: AtomicU64,
}

impl Condition {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            read_only: OnceLock::new(),
            missing_bytes: AtomicU64::new(0),
        }
    }

    /// Why it takes no more writes, if that is so.
    pub(super) fn read_only(&self) -> Option<&String> {
        self.read_only.get()
    }

    /// It takes no more writes; the first reason stays.
    pub(super) fn set_read_only(&self, reason: String) {
        tracing::error!(store = %self.root.display(), reason, "the store is read-only");
        self.read_only.get_or_init(|| reason);
    }

    /// A group was refused for want of room.
    pub(super) fn refused(&self, error: &Error) {
        if let Error::DiskFull { needed_bytes, .. } = error
            && self.missing_bytes.swap(*needed_bytes, Ordering::Relaxed) == 0
        {
            tracing::error!(%error, "the store takes no writes for now");
        }
    }

    /// A group has the room it needs.
    pub(super) fn has_room(&self) {
        if self.missing_bytes.swap(0, Ordering::Relaxed) > 0 {
            tracing::info!(store = %self.root.display(), "the disk has room again, the store takes writes");
        }
    }

    /// Whether it takes writes now.
    pub(super) fn health(&self) -> Health {
        if let Some(reason) = self.read_only() {
            return Health::ReadOnly {
                reason: reason.clone(),
            };
        }
        let missing = self.missing_bytes.load(Ordering::Relaxed);
        match room::check(&self.root, missing) {
            Err(error) if missing > 0 => Health::DiskFull {
                reason: error.to_string(),
            },
            _ => Health::Ok,
        }
    }
}
