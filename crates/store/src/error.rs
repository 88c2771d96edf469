//! The errors of the store, with the numbers and names that a person needs to act on them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::session_id::SessionId;

pub use fault::{Fault, Record};

mod fault;

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another writer was first: read from `last_seq + 1` and decide again.
    #[error(
        "session {session} is at event {last_seq}, not at {expected_seq}: read the events after {expected_seq} and try again"
    )]
    Conflict {
        /// The session.
        session: SessionId,
        /// The last event that the caller expected.
        expected_seq: u64,
        /// The last event of the session.
        last_seq: u64,
    },
    /// The caller's claim has ended, because a later claim owns the session.
    #[error(
        "another process claimed session {session} (epoch {current}, yours is {epoch}): stop writing, or claim it again"
    )]
    Fenced {
        /// The session.
        session: SessionId,
        /// The caller's epoch.
        epoch: u64,
        /// The current epoch of the session; 0 if it was never claimed or is deleted.
        current: u64,
    },
    /// Another program works on the session.
    #[error(
        "session {session} is owned by {owner}{}: send the request there, or stop it and try again",
        At(address.as_deref())
    )]
    Owned {
        /// The session.
        session: SessionId,
        /// The program that owns it.
        owner: String,
        /// The address of that program, if it has one.
        address: Option<String>,
    },
    /// The id is reserved for journals of the store itself.
    #[error(
        "session id {session} is reserved: ids from ffffff00-0000-… on are internal to the store"
    )]
    ReservedId {
        /// The id.
        session: SessionId,
    },
    /// No program that tried so far has all that the session's open turns need.
    #[error(
        "no running program can continue the open turns of session {session}: each lacks an agent kind, a \
          tool server or a provider's key; their logs say which"
    )]
    Waiting {
        /// The session.
        session: SessionId,
    },
    /// This program is being drained, so it accepts no sessions that it does not own.
    #[error(
        "this program is draining and starts no new work: another program takes over session {session}; try again there"
    )]
    Draining {
        /// The session.
        session: SessionId,
    },
    /// An earlier write failed; nothing is written any more until the process is restarted.
    #[error("the store is read-only since {reason}; fix the cause and restart")]
    ReadOnly {
        /// What failed.
        reason: String,
    },
    /// The store could not be opened for writing; later writes are accepted when it can be.
    #[error(
        "the store accepts no writes: {reason}; fix the cause, then writes continue by themselves; no acknowledged data is lost"
    )]
    Unwritable {
        /// What prevents it.
        reason: String,
    },
    /// The disk has no room for a write. Nothing was written; later writes are accepted when there
    /// is room.
    #[error(
        "the disk of {} is full: {}; free some space, then writes continue by themselves; no acknowledged data is lost",
        path.display(), Room(*free_bytes, *needed_bytes)
    )]
    DiskFull {
        /// The file or directory to write.
        path: PathBuf,
        /// The space that is needed.
        needed_bytes: u64,
        /// The space that is free in the file system.
        free_bytes: u64,
    },
    /// The disk of the database has no room for a write. Nothing was written; later writes are accepted
    /// when there is room.
    #[error(
        "the disk of the database is full ({reason}): free some space there, then writes continue by themselves; no acknowledged data is lost"
    )]
    DatabaseFull {
        /// The error of the database.
        reason: String,
    },
    /// The database does not answer, or the connection broke before it did. A write may or may not
    /// be on disk.
    #[error(
        "the database does not respond ({reason}): check that it runs and that `store.url` is right; then writes continue by themselves; no acknowledged data is lost"
    )]
    Unreachable {
        /// The error that was seen.
        reason: String,
    },
    /// The address of the database in the settings cannot be used.
    #[error(
        "`store.url` is no address of a database: {reason}; an example is postgres://unisono@127.0.0.1/unisono"
    )]
    DatabaseUrl {
        /// Why.
        reason: String,
    },
    /// The database cannot be used.
    #[error("the database cannot be used: {reason}")]
    Database {
        /// Why, and what to do.
        reason: String,
    },
    /// A payload is over the limit.
    #[error("{what} of {size_bytes} bytes is over the store's limit of {limit_bytes}: split it")]
    TooLarge {
        /// Which value.
        what: &'static str,
        /// Its size.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// An append without events.
    #[error("an append to session {session} has no event")]
    EmptyAppend {
        /// The session.
        session: SessionId,
    },
    /// A checkpoint that covers events which do not exist.
    #[error(
        "a checkpoint of session {session} covers event {seq}, but its last event is {last_seq}"
    )]
    CheckpointAhead {
        /// The session.
        session: SessionId,
        /// The event the checkpoint covers.
        seq: u64,
        /// The last event of the session.
        last_seq: u64,
    },
    /// A record is damaged.
    #[error("{record} is damaged: {fault}; run `unisono doctor` to see the extent and to repair")]
    Corrupt {
        /// Which record.
        record: Record,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A record that this version cannot read because a newer version wrote it.
    #[error(
        "{record} was written by a newer version of unisono ({what}): nothing is damaged; use the newer version"
    )]
    NewerRecord {
        /// Which record.
        record: Record,
        /// What this build does not know.
        what: String,
    },
    /// A record from before format 1.
    #[error(
        "{record} was written by a version of unisono from before format 1: nothing is damaged; use the version that wrote it"
    )]
    EarlierRecord {
        /// Which record.
        record: Record,
    },
    /// Another process has the store open.
    #[error("the store {} is held by {}: stop it, or use another directory", path.display(), Holder(*pid))]
    Held {
        /// The store's directory.
        path: PathBuf,
        /// The process, where it is known.
        pid: Option<u32>,
    },
    /// The store was written by a newer version.
    #[error("the store {} has format {found}, this version reads format {supported}: nothing was touched; use the newer version", path.display())]
    NewerStore {
        /// The store's directory.
        path: PathBuf,
        /// Its format.
        found: u16,
        /// The format this build reads.
        supported: u16,
    },
    /// The store was written before format 1.
    #[error(
        "the store {} was written by a version of unisono from before format 1: nothing was touched; with that version list its sessions (`unisono sessions`) and export each (`unisono export SESSION -o FILE`), then give this version another directory and `unisono import FILE` (not `export --all`: an archive is in the old format too)",
        path.display()
    )]
    EarlierStore {
        /// The store's directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error("{} is not a store ({why}): nothing was touched; give another directory", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// How that was recognised.
        why: String,
    },
    /// An operation of the operating system failed.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The storage library failed or panicked.
    #[error("the storage engine failed to {doing}: {reason}; run `unisono doctor`")]
    Engine {
        /// What was tried.
        doing: &'static str,
        /// Its error message.
        reason: String,
    },
    /// The operation timed out.
    #[error("no answer within {} s while trying to {doing}: the disk may be stuck", after.as_secs())]
    TimedOut {
        /// What was tried.
        doing: &'static str,
        /// The time that was waited.
        after: Duration,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A record cannot be encoded.
    #[error("cannot encode {record}: {reason}")]
    Encode {
        /// Which record.
        record: Record,
        /// Why.
        reason: String,
    },
    /// An archive is damaged and cannot be imported; nothing of it was stored.
    #[error(
        "the archive is damaged at byte {offset}: {reason}; nothing was stored; use another copy"
    )]
    BadArchive {
        /// The offset of the damage, in bytes.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// An archive from before format 1.
    #[error(
        "the archive {} was written by a version of unisono from before format 1: import it into an empty store with that version, export each session there (`unisono export SESSION -o FILE`), and `unisono import FILE` here",
        path.display()
    )]
    EarlierArchive {
        /// The archive.
        path: PathBuf,
    },
    /// An archive has sessions that exist already; nothing of it was stored.
    #[error(
        "session {session} of the archive is already in the store: nothing was stored; delete it first, or import into another store"
    )]
    SessionExists {
        /// The first such session.
        session: SessionId,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn engine(doing: &'static str, error: &impl std::fmt::Display) -> Self {
        let reason = error.to_string();
        Self::Engine { doing, reason }
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::DatabaseFull { .. } => true,
            Self::Io { source, .. } => is_full(source),
            _ => false,
        }
    }

    /// Whether the same process may retry the write later, after it has read the current state.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unwritable { .. }) || self.is_unanswered() || self.is_disk_full()
    }

    /// Whether the database or the disk did not answer in time. A write may have been done.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }

    /// Whether another program has to work on the session.
    #[must_use]
    pub fn is_owned_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Owned { .. } | Self::Waiting { .. } | Self::Draining { .. }
        )
    }

    /// Whether the store cannot be written but may be readable: the disk is full or mounted
    /// read-only, or the caller has no permission to write.
    #[must_use]
    pub fn is_unwritable(&self) -> bool {
        let kinds = [
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::PermissionDenied,
        ];
        match self {
            Self::Io { source, .. } if kinds.contains(&source.kind()) => true,
            error => error.is_disk_full(),
        }
    }

    /// The error for a record that cannot be read because of this fault.
    pub(crate) fn unreadable(record: Record, fault: Fault) -> Self {
        match fault {
            Fault::Newer { what } => Self::NewerRecord { record, what },
            Fault::Earlier => Self::EarlierRecord { record },
            fault => Self::Corrupt { record, fault },
        }
    }
}

/// The advice for an I/O error, if there is any.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; check the permissions of the directory, or use another one"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; the file system is mounted read-only, use another directory"
        }
        _ if is_full(error) => "; free some space and try again",
        io::ErrorKind::NotADirectory => "; a part of the path is a file, give another directory",
        _ => "",
    }
}

/// Whether the disk is full, or a quota or the size limit of a file is reached.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

struct Mib(u64);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / 1_048_576.0)
    }
}

/// The free and the needed space. If they are equal in the text, only the needed space is shown.
struct Room(u64, u64);

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (free, needed) = (Mib(self.0).to_string(), Mib(self.1).to_string());
        match free == needed {
            true => write!(f, "less than {needed} are free"),
            false => write!(f, "{free} are free, {needed} are needed"),
        }
    }
}

struct At<'e>(Option<&'e str>);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |address| write!(f, " at {address}"))
    }
}

struct Holder(Option<u32>);

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "pid {pid}"),
            None => f.write_str("another process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_never_has_the_space_that_is_needed() {
        let needed_bytes = 24 << 20;
        for (free_bytes, expected) in [
            (8 << 20, "full: 8.0 MiB are free, 24.0 MiB are needed; free"),
            (needed_bytes - 1, "full: less than 24.0 MiB are free; free"),
        ] {
            let error = Error::DiskFull {
                path: PathBuf::from("/store"),
                needed_bytes,
                free_bytes,
            };
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
        }
    }
}
