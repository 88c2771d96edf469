//! Opens a store: checks and locks it, copies the tail, opens sled in a guarded thread, compares
//! the log with the ledger, and repairs it if necessary.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::disk::cache::{self, Cache};
use crate::disk::ledger::{self, Extent, Extents};
use crate::disk::lock::Lock;
use crate::disk::log::{Log, panic_text};
use crate::disk::replay::{Replay, replay};
use crate::disk::salvage::{self, Salvage};
use crate::disk::trees::Trees;
use crate::disk::{files, preallocation, tail};
use crate::error::{Error, Result};

/// sled's unit of allocation. Measurements showed that smaller ones lose data in a power cut.
pub(super) const SEGMENT_BYTES: usize = 8 << 20;
/// Time limit for opening, plus one second for every 16 MiB of log.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which a log that is locked is tried again.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a log cannot be used as it is.
enum OpenFailure {
    /// It is damaged and can be salvaged.
    Damaged(String),
    /// Another error, to be returned to the user.
    Error(Error),
}

impl From<Error> for OpenFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt { .. } => Self::Damaged(error.to_string()),
            error => Self::Error(error),
        }
    }
}

pub(super) struct OpenedLog {
    pub(super) trees: Trees,
    /// The result of a repair, if one was needed.
    pub(super) salvage: Option<Salvage>,
    /// Number of files and directories to which others had permissions.
    pub(super) narrowed: u64,
}

/// Opens the store, repairing it if it is damaged.
pub(super) fn open(root: &Path) -> Result<OpenedLog> {
    let (lock, narrowed) = enter(root)?;
    whole(root, lock, narrowed)
}

/// As [`open`], for a store that is locked already.
pub(super) fn open_held(root: &Path, lock: Lock) -> Result<OpenedLog> {
    files::check(root)?;
    lock.note(root)
        .map_err(|error| Error::io("write to", &root.join("LOCK"), error))?;
    let narrowed = files::prepare(root)?;
    whole(root, lock, narrowed)
}

fn whole(root: &Path, lock: Lock, narrowed: u64) -> Result<OpenedLog> {
    let (trees, salvage) = open_locked(root, lock)?;
    Ok(OpenedLog {
        trees,
        salvage,
        narrowed,
    })
}

pub(super) fn open_locked(root: &Path, lock: Lock) -> Result<(Trees, Option<Salvage>)> {
    let extents = ledger::read(root)?;
    // sled is not opened if there is no room to write: it would fail half-way.
    preallocation::check_for_opening(root, tail::size_bytes(root))?;
    let is_copied = tail::keep(root)?;
    let (log, replay, salvage) = match open_whole(root, &extents) {
        Ok((log, replay)) => (log, replay, None),
        Err(OpenFailure::Error(error)) => {
            leave(root, is_copied, &error)?;
            return Err(error);
        }
        Err(OpenFailure::Damaged(reason)) => {
            tracing::error!(store = %root.display(), reason, "the store is damaged, saving what is whole");
            let salvage = salvage::salvage(root, &extents, reason)?;
            let log = open_log(&files::data(root))?;
            let replay = replay(&log)?;
            (log, replay, Some(salvage))
        }
    };
    let settled = files::sync_data(&files::data(root))
        .and_then(|()| files::sync_dir(root))
        .and_then(|()| tail::release(root));
    if let Err(error) = settled {
        close(log);
        return Err(error);
    }
    // Restricts the files that sled created; their directory was closed before.
    files::narrow(root);
    let trees = Trees::new(log, replay, root.to_path_buf(), lock);
    Ok((trees, salvage))
}

/// Removes the copy of the tail that this opening made if another process has the log open. That process
/// goes on with the log: the copy would keep what it deletes, and the next opening would make none.
fn leave(root: &Path, is_copied: bool, error: &Error) -> Result<()> {
    match error {
        Error::Held { .. } if is_copied => tail::release(root),
        _ => Ok(()),
    }
}

/// Checks the directory, locks it, and completes what an earlier process began.
pub(super) fn enter(root: &Path) -> Result<(Lock, u64)> {
    files::check(root)?;
    let lock = Lock::take(root)?;
    let narrowed = files::prepare(root)?;
    Ok((lock, narrowed))
}

fn open_whole(root: &Path, extents: &Extents) -> Result<(Log, Replay), OpenFailure> {
    let log = open_guarded(&files::data(root))?;
    match inspect(root, &log, extents) {
        Ok(replay) => Ok((log, replay)),
        Err(trouble) => {
            close(log);
            Err(trouble)
        }
    }
}

/// Reads the blocks after the mark, and checks that the log has everything that was acknowledged.
fn inspect(root: &Path, log: &Log, extents: &Extents) -> Result<Replay, OpenFailure> {
    if files::has_blobs(&files::data(root)) {
        return Err(OpenFailure::Damaged(
            "a value lies outside the log, where it is not synced".into(),
        ));
    }
    let replay = replay(log)?;
    for (session, extent) in extents {
        let known = match replay.live.get(session) {
            Some(known) => known.clone(),
            None => log.known(*session)?,
        };
        match known {
            Some(known) if Extent::from_head(&known.head) >= *extent => {}
            // A vacuum drops tombstones.
            None if extent.deleted => {}
            known => {
                let last_seq = known.map_or(0, |known| known.head.last_seq);
                return Err(OpenFailure::Damaged(format!(
                    "session {session} was acknowledged up to event {}, the log has it up to {last_seq}",
                    extent.last_seq
                )));
            }
        }
    }
    Ok(replay)
}

/// Opens a log that was just written and so must be undamaged.
pub(super) fn open_log(data: &Path) -> Result<Log> {
    open_guarded(data).map_err(|trouble| match trouble {
        OpenFailure::Error(error) => error,
        OpenFailure::Damaged(reason) => Error::Engine {
            doing: "open its log",
            reason,
        },
    })
}

/// Opens sled in a separate thread: on a damaged log it may panic or never return.
fn open_guarded(data: &Path) -> Result<Log, OpenFailure> {
    files::make_data(data)?;
    let log_bytes = std::fs::metadata(data.join("db")).map_or(0, |meta| meta.len());
    let timeout = OPEN_TIMEOUT + Duration::from_secs(log_bytes >> 24);
    let (sender, opened) = mpsc::sync_channel(1);
    let path = data.to_path_buf();
    let thread = std::thread::Builder::new()
        .name("store-open".into())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                open_sled(&path, Instant::now() + LOCK_TIMEOUT)
            }));
            // If the time limit has passed, the receiver is gone; dropping the result closes the
            // log.
            drop(sender.send(result));
        });
    thread.map_err(|error| OpenFailure::Error(Error::io("start a thread to open", data, error)))?;
    match opened.recv_timeout(timeout) {
        Ok(Ok(Ok(log))) => Ok(log),
        Ok(Ok(Err(error))) => Err(trouble(data, error)),
        Ok(Err(panic)) => Err(panicked(data, &panic_text(panic.as_ref()))),
        Err(_) => Err(OpenFailure::Damaged(format!(
            "the storage engine did not open within {} s",
            timeout.as_secs()
        ))),
    }
}

/// Interprets a panic of sled. It panics on some damage, and also on errors of the operating system
/// while it closes, which are not damage.
fn panicked(data: &Path, said: &str) -> OpenFailure {
    let code = said.split_once("Os { code: ");
    let code = code.and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    match code.map(std::io::Error::from_raw_os_error) {
        Some(source) => OpenFailure::Error(Error::io("open", data, source)),
        None => OpenFailure::Damaged(format!("the storage engine panicked: {said}")),
    }
}

/// Interprets an error of sled. An error of the operating system is not damage, and neither is a
/// log that another process has open, which may be if the store's own lock was removed; other errors
/// are.
fn trouble(data: &Path, error: sled::Error) -> OpenFailure {
    match error {
        sled::Error::Io(source) if is_lock(&source) => OpenFailure::Error(Error::Held {
            path: data.parent().unwrap_or(data).to_path_buf(),
            pid: None,
        }),
        sled::Error::Io(source) if source.raw_os_error().is_some() => {
            OpenFailure::Error(Error::io("open", data, source))
        }
        // sled's own message ends with a backtrace that is always empty.
        sled::Error::Corruption { at, .. } => OpenFailure::Damaged(match at {
            Some(at) => format!("its log is damaged at byte {}", at.lid()),
            None => "its log is damaged".to_owned(),
        }),
        error => OpenFailure::Damaged(error.to_string()),
    }
}

fn open_sled(data: &PathBuf, deadline: Instant) -> sled::Result<Log> {
    loop {
        match config(data).open() {
            // This process holds the store's own lock, so a log that it closed a moment ago is
            // still releasing sled's lock.
            Err(sled::Error::Io(error)) if is_lock(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
            Ok(db) => {
                let (journal, chunks) = (db.open_tree("journal")?, db.open_tree("chunks")?);
                return Ok(Log {
                    db,
                    journal,
                    chunks,
                    cache: Cache::default(),
                });
            }
        }
    }
}

fn is_lock(error: &std::io::Error) -> bool {
    error.to_string().starts_with("could not acquire lock")
}

fn config(data: &PathBuf) -> sled::Config {
    sled::Config::new()
        .path(data)
        .segment_size(SEGMENT_BYTES)
        .mode(sled::Mode::LowSpace)
        .flush_every_ms(None)
        .cache_capacity(cache::CAPACITY_BYTES)
        .use_compression(false)
}

/// Closes a log that may be damaged.
pub(super) fn close(log: Log) {
    if catch_unwind(AssertUnwindSafe(|| drop(log))).is_err() {
        tracing::warn!("the storage engine panicked while it closed a log");
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn a_log_that_another_process_has_open_is_not_damaged() {
        let root = tempfile::tempdir().unwrap();
        let data = files::data(root.path());
        files::make_data(&data).unwrap();
        drop(open_sled(&data, Instant::now()).unwrap());
        let log = std::fs::File::open(data.join("db")).unwrap();
        flock(&log, FlockOperation::LockExclusive).unwrap();
        let error = open_sled(&data, Instant::now()).unwrap_err();
        let error = match trouble(&data, error) {
            OpenFailure::Error(error) => error,
            OpenFailure::Damaged(reason) => panic!("damaged: {reason}"),
        };
        match &error {
            Error::Held { path, pid: None } => assert_eq!(path, root.path()),
            error => panic!("{error}"),
        }
        let tail = tail::path(root.path());
        for is_copied in [true, false] {
            let was_copied = tail::keep(root.path()).unwrap();
            assert!(was_copied && tail.exists());
            assert!(!tail::keep(root.path()).unwrap());
            leave(root.path(), is_copied, &error).unwrap();
            assert_eq!(tail.exists(), !is_copied);
        }
    }
}
