//! The list of what repairs have lost, kept beside the log until a user has acknowledged it. After
//! a repair all remaining data is undamaged, so nothing else would show the loss.
//!
//! A line of `<store>/losses` has a session, the first and the last of its lost events, the time in
//! milliseconds since 1970 UTC, and the directory under `quarantine` with the damaged files.

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use uuid::Uuid;

use crate::disk::files;
use crate::disk::salvage::LostData;
use crate::engine::SessionId;
use crate::error::{Error, Result};

/// Events of a session that a repair could not save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The session.
    pub session: SessionId,
    /// The first event lost.
    pub first: u64,
    /// The last event that is known to have existed.
    pub last: u64,
    /// When the loss was found, in milliseconds since 1970 UTC.
    pub at_unix_ms: u64,
    /// The name of the directory under `quarantine` with the damaged files.
    pub quarantine: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {}",
            self.session, self.first, self.last, self.at_unix_ms, self.quarantine
        )
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("losses")
}

/// Returns the losses that no user has acknowledged, the oldest first. A line that cannot be read
/// is ignored.
///
/// # Errors
/// The file exists and cannot be read.
pub fn losses(store: &Path) -> Result<Vec<Loss>> {
    let path = path(store);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(read).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// Cached access to the losses: the file is read again only if it changed. An open store may lose
/// more, for example when one that was only read is opened for writing.
#[derive(Debug)]
pub struct Losses {
    store: PathBuf,
    read: Mutex<(Option<Stamp>, Arc<[Loss]>)>,
}

/// Identifies a version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Losses {
    /// Creates it for the store in a directory.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn open(store: &Path) -> Result<Losses> {
        let stamp = stamp(store);
        Ok(Losses {
            store: store.to_owned(),
            read: Mutex::new((stamp, losses(store)?.into())),
        })
    }

    /// Returns the current losses, the oldest first; the last known ones if the file cannot be
    /// read.
    pub fn now(&self) -> Arc<[Loss]> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.store);
        if read.0 != stamp {
            match losses(&self.store) {
                Ok(losses) => *read = (stamp, losses.into()),
                Err(error) => tracing::warn!(%error, "the list of losses cannot be read"),
            }
        }
        read.1.clone()
    }
}

fn stamp(store: &Path) -> Option<Stamp> {
    let of = |found: Metadata| Stamp {
        inode: std::os::unix::fs::MetadataExt::ino(&found),
        bytes: found.len(),
        changed: found.modified().ok(),
    };
    std::fs::metadata(path(store)).ok().map(of)
}

/// Acknowledges all losses, so that they are no longer reported. Returns their number.
pub fn acknowledge_losses(store: &Path) -> Result<usize> {
    let known = losses(store)?.len();
    match std::fs::remove_file(path(store)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path(store), error))
        }
        _ => files::sync_dir(store).map(|()| known),
    }
}

/// Adds the losses of a repair to the list. The same loss is added once.
pub(super) fn note(
    root: &Path,
    lost: &[LostData],
    quarantine: &Path,
    at_unix_ms: u64,
) -> Result<()> {
    let mut known = losses(root)?;
    let before = known.len();
    let quarantine = quarantine.file_name().unwrap_or_default().to_string_lossy();
    for lost in lost {
        // A checkpoint can be rebuilt from the events.
        let &LostData::Events {
            session,
            first,
            last,
        } = lost
        else {
            continue;
        };
        let same = |loss: &Loss| (loss.session, loss.first, loss.last) == (session, first, last);
        if !known.iter().any(same) {
            known.push(Loss {
                session,
                first,
                last,
                at_unix_ms,
                quarantine: quarantine.to_string(),
            });
        }
    }
    if known.len() == before {
        return Ok(());
    }
    let text: String = known.iter().map(|loss| format!("{loss}\n")).collect();
    files::replace(&path(root), text.as_bytes())
}

fn read(line: &str) -> Option<Loss> {
    let mut words = line.splitn(5, ' ');
    Some(Loss {
        session: SessionId(Uuid::parse_str(words.next()?).ok()?),
        first: words.next()?.parse().ok()?,
        last: words.next()?.parse().ok()?,
        at_unix_ms: words.next()?.parse().ok()?,
        quarantine: words.next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_until_a_person_has_taken_note() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        assert_eq!(losses(root).unwrap(), []);
        let watched = Losses::open(root).unwrap();
        let session = SessionId::from_u128(7);
        let events = |first| LostData::Events {
            session,
            first,
            last: 9,
        };
        let lost = [events(3), LostData::Checkpoint { session }];
        note(root, &lost, &root.join("quarantine/1"), 5).unwrap();
        note(root, &lost, &root.join("quarantine/2"), 6).unwrap();
        note(root, &[events(2)], &root.join("quarantine/2"), 6).unwrap();
        let known = losses(root).unwrap();
        assert_eq!(known.len(), 2, "{known:?}");
        assert_eq!((known[0].first, known[0].quarantine.as_str()), (3, "1"));
        assert_eq!((known[1].first, known[1].at_unix_ms), (2, 6));
        std::fs::write(path(root), format!("{}\nnonsense\n", known[0])).unwrap();
        assert_eq!(losses(root).unwrap(), known[..1]);
        assert_eq!(*watched.now(), known[..1]);
        assert_eq!(acknowledge_losses(root).unwrap(), 1);
        assert_eq!(acknowledge_losses(root).unwrap(), 0);
        assert_eq!(losses(root).unwrap(), []);
        assert_eq!(*watched.now(), []);
        note(root, &lost, &root.join("quarantine/3"), 7).unwrap();
        assert_eq!(*watched.now(), losses(root).unwrap()[..]);
        assert_eq!(watched.now().len(), 1);
    }
}
