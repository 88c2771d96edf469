//! Calls of the search engine, and its failures.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenWriteError};
use unisono_store::is_full;

use crate::error::{Error, Result};

/// Runs a function of the search engine. On damaged files it may panic, which counts as damage.
pub(crate) fn guarded<T>(doing: &'static str, f: impl FnOnce() -> tantivy::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Error::from_tantivy(doing, &error)),
        Err(panic) => Err(Error::Damaged {
            reason: format!("the search engine panicked: {}", panic_text(panic.as_ref())),
        }),
    }
}

impl Error {
    fn from_tantivy(doing: &'static str, error: &TantivyError) -> Error {
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
            // Unknown files that are in the way are kept.
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
    use std::path::PathBuf;
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
            let error = Error::from_tantivy("written", &error);
            assert!(error.is_disk_full() && error.copy().is_disk_full());
            assert!(error.to_string().contains("free some space"), "{error}");
        }
        let other = TantivyError::IoError(Arc::new(io::ErrorKind::NotFound.into()));
        assert!(!Error::from_tantivy("written", &other).is_disk_full());
    }
}
