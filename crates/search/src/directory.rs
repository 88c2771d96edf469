//! The directory of an index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Removes the index of a directory, and nothing else: it is made again from the journal.
///
/// # Errors
/// The directory cannot be removed.
pub fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::Directory {
            doing: "removed",
            path: dir.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Where the index of a store is.
pub fn directory(store: &Path) -> PathBuf {
    store.join("search")
}
