//! Errors of the search index, which can always be rebuilt from the journal.

use std::path::PathBuf;

use unisono_store::is_full;

use crate::query::TooLarge;

/// The result of a search or an update.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a search or an update failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index files cannot be read or written.
    #[error("the search index cannot be {doing}: {reason}")]
    Engine {
        /// The failed action: `read`, `written`.
        doing: &'static str,
        /// The error of the search engine.
        reason: String,
    },
    /// The disk is full. Committed data stays readable.
    #[error(
        "the search index cannot be {doing}: {reason}; free some space, then indexing continues by itself"
    )]
    DiskFull {
        /// The failed action: `written`, `made`.
        doing: &'static str,
        /// The error of the operating system.
        reason: String,
    },
    /// The index files are damaged, and the index must be rebuilt.
    #[error("the search index is damaged: {reason}; `unisono doctor` rebuilds it")]
    Damaged {
        /// The reason.
        reason: String,
    },
    /// The directory cannot be created or removed.
    #[error("the search index at {} cannot be {doing}: {source}", path.display())]
    Directory {
        /// The failed action.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] unisono_store::Error),
    /// The query exceeds its limits.
    #[error(transparent)]
    Query(#[from] TooLarge),
    /// The index has not caught up with the journal.
    #[error("the search index is still being built; try again in a moment")]
    Behind,
    /// The program was built without the search engine.
    #[error("this program was built without search (feature `search`)")]
    NotBuilt,
    /// The index is closed.
    #[error("the search index is closed")]
    Closed,
}

impl Error {
    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Directory { source, .. } => is_full(source),
            Error::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// A copy of the error for a further waiting caller.
    #[cfg(feature = "index")]
    pub(crate) fn copy(&self) -> Error {
        match self {
            Error::Engine { doing, reason } => Error::Engine {
                doing,
                reason: reason.clone(),
            },
            Error::DiskFull { doing, reason } => Error::DiskFull {
                doing,
                reason: reason.clone(),
            },
            Error::Damaged { .. } | Error::Behind => Error::Behind,
            Error::Closed => Error::Closed,
            other => {
                let (doing, reason) = ("written", other.to_string());
                match other.is_disk_full() {
                    true => Error::DiskFull { doing, reason },
                    false => Error::Engine { doing, reason },
                }
            }
        }
    }
}
