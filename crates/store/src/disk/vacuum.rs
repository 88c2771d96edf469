//! Reclaims space: writes the live data into a fresh log and replaces the old one by it, for a
//! closed or an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{OwnedMutexGuard, OwnedRwLockWriteGuard, RwLock};

use crate::disk::copy::{Copy, CopyRate};
use crate::disk::ledger::{self, Extents};
use crate::disk::trees::Trees;
use crate::disk::{Running, files, open};
use crate::engine::{Space, Vacuumed};
use crate::error::{Error, Result};

/// Number of passes that copy the changes made meanwhile, before writers have to wait for the rest.
const PASSES: usize = 4;
/// Number of sessions listed at a time.
const PAGE: usize = 1024;

/// Rewrites a closed store without outdated and deleted data, and without chunks that nothing
/// refers to. Needs room for a second copy of the live data. Blocking. A crash leaves the old or
/// the new store.
///
/// # Errors
/// As [`crate::Disk::open`]; `Corrupt` if a record is damaged, and then nothing is changed.
pub fn vacuum(path: impl AsRef<Path>) -> Result<Vacuumed> {
    let root = path.as_ref();
    let open::OpenedLog { trees, salvage, .. } = open::open(root)?;
    if let Some(salvage) = salvage {
        tracing::error!(%salvage, "the store was repaired before the vacuum");
    }
    let before_bytes = size_bytes(&files::data(root));
    let live_bytes = space(&trees)?.live_bytes;
    let mut copy = Copy::begin(root, live_bytes, CopyRate::unbounded())?;
    copy.copy_all(&trees)?;
    let finished = copy.finish(&trees, trees.take_touched())?;
    // The store's lock must outlive the swap, and the log must be closed before it.
    let lock = trees.into_lock();
    let done = put_in_place(root, before_bytes, &finished)?;
    drop(lock);
    Ok(done)
}

fn put_in_place(
    root: &Path,
    before_bytes: u64,
    (extents, sessions, events): &(Extents, u64, u64),
) -> Result<Vacuumed> {
    files::swap_and_remove(root)?;
    ledger::rewrite(root, extents)?;
    Ok(Vacuumed {
        before_bytes,
        after_bytes: size_bytes(&files::data(root)),
        sessions: *sessions,
        events: *events,
    })
}

/// The state of an online vacuum, which runs to its end even if the caller is dropped.
pub(super) struct Online {
    pub(super) running: Arc<RwLock<Option<Running>>>,
    pub(super) bytes_per_second: Option<u64>,
    /// Set when the store is to be closed.
    pub(super) stop: Arc<AtomicBool>,
    /// Ensures that only one vacuum runs at a time.
    pub(super) alone: OwnedMutexGuard<()>,
}

impl Online {
    pub(super) async fn run(self) -> Result<Vacuumed> {
        let trees = match &*self.running.read().await {
            Some(running) => Arc::clone(&running.trees),
            None => return Err(Error::Closed),
        };
        if let Some(reason) = trees.condition.read_only() {
            let reason = reason.clone();
            return Err(Error::ReadOnly { reason });
        }
        let rate = CopyRate::new(self.bytes_per_second, Arc::clone(&self.stop));
        let copying = tokio::task::spawn_blocking(move || copy_live(&trees, rate));
        let copy = copying.await.unwrap_or_else(|error| Err(stopped(&error)))?;
        let running = Arc::clone(&self.running).write_owned().await;
        // From here on it cannot be cancelled.
        let swapping = tokio::task::spawn_blocking(move || swap(running, copy));
        let swapped = swapping.await.unwrap_or_else(|error| Err(stopped(&error)));
        drop(self.alone);
        swapped
    }
}

fn stopped(error: &tokio::task::JoinError) -> Error {
    Error::engine("vacuum the store", error)
}

/// Copies the live data, and then the changes made meanwhile; writers continue.
fn copy_live(trees: &Trees, rate: CopyRate) -> Result<Copy> {
    trees.note_touched();
    let copied = Copy::begin(&trees.root, space(trees)?.live_bytes, rate).and_then(|mut copy| {
        copy.copy_all(trees)?;
        copy.reopen_large()?;
        for _ in 0..PASSES {
            let touched = trees.take_touched();
            if touched.is_empty() {
                break;
            }
            copy.copy_changes(trees, touched)?;
        }
        Ok(copy)
    });
    if copied.is_err() {
        trees.forget_touched();
        abandon(&trees.root);
    }
    copied
}

/// Removes an abandoned copy.
fn abandon(root: &Path) {
    if let Err(error) = files::remove_dir(&files::data_new(root)) {
        tracing::warn!(store = %root.display(), %error, "half a copy is left until the next opening");
    }
}

/// Ends the writer, copies the rest, puts the copy in place and continues with it. Readers and
/// writers wait meanwhile.
fn swap(mut running: OwnedRwLockWriteGuard<Option<Running>>, copy: Copy) -> Result<Vacuumed> {
    let old = running.take().ok_or(Error::Closed)?;
    let condition = Arc::clone(&old.trees.condition);
    let trees = match old.end() {
        Ok(trees) => trees,
        Err(error) => {
            condition.set_read_only("it could not be closed for a vacuum".into());
            return Err(error);
        }
    };
    let root = trees.root.clone();
    let before_bytes = size_bytes(&files::data(&root));
    let finished = match condition.read_only() {
        Some(reason) => Err(Error::ReadOnly {
            reason: reason.clone(),
        }),
        None => copy.finish(&trees, trees.take_touched()),
    };
    let lock = trees.into_lock().ok_or(Error::Closed)?;
    let done = match finished {
        Ok(finished) => put_in_place(&root, before_bytes, &finished),
        Err(error) => {
            abandon(&root);
            Err(error)
        }
    };
    // Continues with the log that is in place now, the old one or the new one.
    let opened = open::open_locked(&root, lock).and_then(|(mut trees, _)| {
        trees.condition = Arc::clone(&condition);
        Running::start(trees)
    });
    match opened {
        Ok(next) => *running = Some(next),
        Err(error) => {
            condition.set_read_only(format!("it did not open again after a vacuum ({error})"));
            return Err(error);
        }
    }
    done
}

/// The size of a store, and about how much of that is live.
pub(super) fn space(trees: &Trees) -> Result<Space> {
    let (mut live_bytes, mut after) = (0, None);
    loop {
        let page = trees.sessions(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = Some(last.session);
        live_bytes += page.iter().map(|info| info.payload_bytes).sum::<u64>();
    }
    Ok(Space {
        disk_bytes: size_bytes(&files::data(&trees.root)),
        live_bytes,
    })
}

/// Size of the files of a directory, without the space that is reserved after the log.
fn size_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(|meta| meta.is_file())
        .map(|meta| (meta.blocks() * 512).min(meta.len().next_multiple_of(4096)))
        .sum()
}
