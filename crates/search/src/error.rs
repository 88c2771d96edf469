//! What can go wrong with an index, which is never the truth: it can be made anew.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use tantivy::TantivyError;
use tantivy::directory::error::OpenWriteError;

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
    /// The same error for another one who waits for it.
    pub(crate) fn again(&self) -> Error {
        match self {
            Error::Engine { doing, reason } => Error::Engine {
                doing,
                reason: reason.clone(),
            },
            Error::Damaged { .. } | Error::Behind => Error::Behind,
            Error::Closed => Error::Closed,
            other => Error::Engine {
                doing: "written",
                reason: other.to_string(),
            },
        }
    }

    fn of(doing: &'static str, error: &TantivyError) -> Error {
        let reason = error.to_string();
        match error {
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
