//! The file beside a store with the address of the daemon that holds the store.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use unisono_store::private::write_atomically;

const NAME: &str = "daemon.json";

/// A daemon that holds a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonInfo {
    /// The address of the daemon.
    pub url: String,
    /// The file with its token.
    pub token_file: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// Removes the file when it is dropped, unless another daemon has written its own meanwhile: one that
/// opened the store as soon as it was closed, or one on a store that took the place of this one. In
/// containers both may have the same address and process id.
#[derive(Debug)]
pub struct DaemonFile {
    path: PathBuf,
    inode: u64,
}

impl DaemonInfo {
    /// Reads the file; none if no daemon holds the store.
    pub fn find(store: &Path) -> Option<DaemonInfo> {
        let text = fs::read_to_string(store.join(NAME)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the file, readable by its owner only.
    pub fn announce(&self, store: &Path) -> io::Result<DaemonFile> {
        let (path, text) = (store.join(NAME), serde_json::to_string(self)?);
        write_atomically(&path, &format!("{text}\n"))?;
        let inode = fs::metadata(&path)?.ino();
        Ok(DaemonFile { path, inode })
    }
}

impl Drop for DaemonFile {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // A stale file names a process that does not hold the store.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_as_long_as_it_is_announced() {
        let store = tempfile::tempdir().unwrap();
        let running = DaemonInfo {
            url: "http://127.0.0.1:7007".to_owned(),
            token_file: "/token".into(),
            pid: 7,
        };
        assert_eq!(DaemonInfo::find(store.path()), None);
        let announced = running.announce(store.path()).unwrap();
        assert_eq!(DaemonInfo::find(store.path()), Some(running.clone()));
        drop(announced);
        assert_eq!(DaemonInfo::find(store.path()), None);
        let announced = running.announce(store.path()).unwrap();
        let _next = running.announce(store.path()).unwrap();
        drop(announced);
        assert_eq!(DaemonInfo::find(store.path()), Some(running));
        fs::write(store.path().join(NAME), "half a fi").unwrap();
        assert_eq!(DaemonInfo::find(store.path()), None);
    }
}
