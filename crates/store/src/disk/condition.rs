//! Whether a store accepts writes. The writer sets it, and others read it at any time.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::preallocation;
use crate::engine::Health;
use crate::error::Error;

/// Whether a store accepts writes.
#[derive(Debug)]
pub(super) struct Condition {
    root: PathBuf,
    /// The reason why no more writes are accepted.
    read_only: OnceLock<String>,
    /// The space that was missing for the last group; 0 if none was.
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

    /// The reason why no more writes are accepted, if so.
    pub(super) fn read_only(&self) -> Option<&String> {
        self.read_only.get()
    }

    /// Sets that no more writes are accepted; the first reason is kept.
    pub(super) fn set_read_only(&self, reason: String) {
        self.read_only.get_or_init(|| {
            tracing::error!(store = %self.root.display(), reason, "the store is read-only");
            reason
        });
    }

    /// Records that a group was refused because there was no room.
    pub(super) fn note_refusal(&self, error: &Error) {
        if let Error::DiskFull { needed_bytes, .. } = error
            && self.missing_bytes.swap(*needed_bytes, Ordering::Relaxed) == 0
        {
            tracing::error!(%error, "the store takes no writes for now");
        }
    }

    /// Records that a group had the room that it needs.
    pub(super) fn has_room(&self) {
        if self.missing_bytes.swap(0, Ordering::Relaxed) > 0 {
            tracing::info!(store = %self.root.display(), "the disk has room again, the store takes writes");
        }
    }

    /// Returns whether writes are accepted now.
    pub(super) fn health(&self) -> Health {
        if let Some(reason) = self.read_only() {
            return Health::ReadOnly {
                reason: reason.clone(),
            };
        }
        let missing = self.missing_bytes.load(Ordering::Relaxed);
        match preallocation::check(&self.root, missing) {
            Err(error) if missing > 0 => Health::DiskFull {
                reason: error.to_string(),
            },
            _ => Health::Ok,
        }
    }
}
