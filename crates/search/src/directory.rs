//! The directory of an index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Removes only the index of a directory: it is rebuilt from the journal.
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

/// The directory of a store's index.
pub fn directory(store: &Path) -> PathBuf {
    store.join("search")
}
