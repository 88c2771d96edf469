//! What can go wrong with an index, which is never the truth: it can be made anew.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenWriteError};
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
    #[error("the search index cannot be {doing}: {reason}; free some space, it goes on by itself")]
    DiskFull {
        /// What was being done: `written`, `made`.
        doing: &'static str,
        /// What the operating system says.
        reason: String,
    },
    /// It is not what was written; it has to be made anew.
    #[error("the search index is damaged: {reason}; `unisono doctor` makes it anew")]
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
    #[error("the search index is still being made; try again in a moment")]
    Behind,
    /// Nobody keeps the index any more.
    #[error("the search index is closed")]
    Closed,
}

/// Carries out what the search engine does. On damaged files it may panic, which is damage.
pub(crate) fn guarded<T>(doing: &'static str, f: impl FnOnce() -> tantivy::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Error::of(doing, &error)),
        Err(panic) => Err(Error::Damaged {
            reason: format!("the search engine panicked: {}", panic_text(panic.as_ref())),
        }),
    }
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

    fn of(doing: &'static str, error: &TantivyError) -> Error {
        let reason = error.to_string();
        match error {
            TantivyError::IoError(source)
            | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: source, .. })
            | TantivyError::LockFailure(LockError::IoError(source), _)
                if is_full(source) =>
            {
                Error::DiskFull { doing, reason: source.to_string() }
            }
            TantivyError::DataCorruption(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::SchemaError(_)
            | TantivyError::OpenReadError(_)
            // Files that are in the way and that nobody knows of stay in the way.
            | TantivyError::OpenWriteError(OpenWriteError::FileAlreadyExists(_))
            | TantivyError::InternalError(_) => Error::Damaged { reason },
            _ => Error::Engine { doing, reason },
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a reason")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_and_stays_so_for_all_who_wait() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let open = OpenWriteError::wrap_io_error(full(), PathBuf::from("segment"));
        for error in [
            TantivyError::IoError(Arc::new(full())),
            TantivyError::OpenWriteError(open),
            TantivyError::LockFailure(LockError::wrap_io_error(full()), None),
        ] {
            let error = Error::of("written", &error);
            assert!(error.is_disk_full() && error.again().is_disk_full());
            assert!(error.to_string().contains("free some space"), "{error}");
        }
        let other = TantivyError::IoError(Arc::new(io::ErrorKind::NotFound.into()));
        assert!(!Error::of("written", &other).is_disk_full());
    }
}
