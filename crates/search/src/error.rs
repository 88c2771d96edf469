//! Errors of an index, which is never the truth and can be rebuilt.

use std::path::PathBuf;

use unisono_store::is_full;

use crate::query::TooLarge;

/// The result of a search or an update.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the index could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its files cannot be read or written.
    #[error("the search index cannot be {doing}: {reason}")]
    Engine {
        /// What was being done: `read`, `written`.
        doing: &'static str,
        /// What the search engine says.
        reason: String,
    },
    /// There is no room on the disk for what was to be written; what was committed can be read.
    #[error(
        "the search index cannot be {doing}: {reason}; free some space, then indexing continues by itself"
    )]
    DiskFull {
        /// What was being done: `written`, `made`.
        doing: &'static str,
        /// What the operating system says.
        reason: String,
    },
    /// It is not what was written; it has to be made anew.
    #[error("the search index is damaged: {reason}; `unisono doctor` rebuilds it")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// Its directory cannot be made or removed.
    #[error("the search index at {} cannot be {doing}: {source}", path.display())]
    Directory {
        /// What was being done.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The journal it is made from cannot be read.
    #[error(transparent)]
    Store(#[from] unisono_store::Error),
    /// What is asked for is larger than a query may be.
    #[error(transparent)]
    Query(#[from] TooLarge),
    /// It is still being brought up to the journal.
    #[error("the search index is still being built; try again in a moment")]
    Behind,
    /// The program was built without the search engine.
    #[error("this program was built without search (feature `search`)")]
    NotBuilt,
    /// Nobody keeps the index any more.
    #[error("the search index is closed")]
    Closed,
}

impl Error {
    /// Whether room on the disk is what is missing.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::DiskFull { .. } => true,
            Error::Directory { source, .. } => is_full(source),
            Error::Store(error) => error.is_disk_full(),
            _ => false,
        }
    }

    /// The same error for another one who waits for it.
    #[cfg(feature = "index")]
    pub(crate) fn again(&self) -> Error {
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
