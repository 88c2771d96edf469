//! The file beside a store that says where the daemon that holds it answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use unisono::replace::replace;

const NAME: &str = "daemon.json";

/// A daemon that holds a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Where it answers.
    pub url: String,
    /// The file with the token that it wants.
    pub token_file: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// Takes the file away when it is dropped.
#[derive(Debug)]
pub struct Announced(PathBuf);

impl Running {
    /// What is said of the daemon that holds a store; none: nothing.
    pub fn of(store: &Path) -> Option<Running> {
        let text = fs::read_to_string(store.join(NAME)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Says so beside the store, for its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn announce(&self, store: &Path) -> io::Result<Announced> {
        let (path, text) = (store.join(NAME), serde_json::to_string(self)?);
        replace(&path, &format!("{text}\n"))?;
        Ok(Announced(path))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // One that is left behind names a process that does not hold the store.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_as_long_as_it_is_announced() {
        let store = tempfile::tempdir().unwrap();
        let running = Running {
            url: "http://127.0.0.1:7007".to_owned(),
            token_file: "/token".into(),
            pid: 7,
        };
        assert_eq!(Running::of(store.path()), None);
        let announced = running.announce(store.path()).unwrap();
        assert_eq!(Running::of(store.path()), Some(running));
        drop(announced);
        assert_eq!(Running::of(store.path()), None);
        fs::write(store.path().join(NAME), "half a fi").unwrap();
        assert_eq!(Running::of(store.path()), None);
    }
}
