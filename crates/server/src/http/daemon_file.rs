//! The file beside a store with the address of the daemon that holds the store.

use std::fs;
use std::io;
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
/// opened the store as soon as it was closed, or one on a store that took the place of this one.
#[derive(Debug)]
pub struct DaemonFile {
    store: PathBuf,
    announced: DaemonInfo,
}

impl DaemonInfo {
    /// Reads the file; none if no daemon holds the store.
    pub fn find(store: &Path) -> Option<DaemonInfo> {
        let text = fs::read_to_string(store.join(NAME)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the file, readable by its owner only.
    pub fn announce(&self, store: &Path) -> io::Result<DaemonFile> {
        let text = serde_json::to_string(self)?;
        write_atomically(&store.join(NAME), &format!("{text}\n"))?;
        Ok(DaemonFile {
            store: store.to_owned(),
            announced: self.clone(),
        })
    }
}

impl Drop for DaemonFile {
    fn drop(&mut self) {
        if DaemonInfo::find(&self.store).as_ref() == Some(&self.announced) {
            // A stale file names a process that does not hold the store.
            let _ = fs::remove_file(self.store.join(NAME));
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
        let next = DaemonInfo { pid: 8, ..running };
        let _file = next.announce(store.path()).unwrap();
        drop(announced);
        assert_eq!(DaemonInfo::find(store.path()), Some(next));
        fs::write(store.path().join(NAME), "half a fi").unwrap();
        assert_eq!(DaemonInfo::find(store.path()), None);
    }
}
