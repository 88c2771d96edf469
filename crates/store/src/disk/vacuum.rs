//! Reclaims space: writes what is live into a fresh log and puts it in the place of the old one.

use std::path::Path;

use crate::disk::ledger::{self, Extent, Extents};
use crate::disk::log::{Known, Log};
use crate::disk::salvage::Fresh;
use crate::disk::{files, open};
use crate::engine::SessionId;
use crate::error::{Error, Record, Result};
use crate::row::Head;

const PAGE: usize = 256;

/// What a vacuum did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacuumed {
    /// Bytes on disk before.
    pub before_bytes: u64,
    /// Bytes on disk after.
    pub after_bytes: u64,
    /// Sessions carried over.
    pub sessions: u64,
    /// Events carried over.
    pub events: u64,
}

/// Rewrites a closed store without what is outdated, deleted, or a chunk that nothing refers to.
/// Needs room for a second copy of what is live. Blocking. A crash leaves the old or the new store.
///
/// # Errors
/// As [`crate::Disk::open`]; `Corrupt` if a record is damaged, and then nothing is changed.
pub fn vacuum(path: impl AsRef<Path>) -> Result<Vacuumed> {
    let root = path.as_ref();
    let (trees, salvage) = open::open(root)?;
    if let Some(salvage) = salvage {
        tracing::error!(%salvage, "the store was repaired before the vacuum");
    }
    let before_bytes = size_bytes(&files::data(root));
    let mut copy = Copy {
        fresh: Fresh::create(root)?,
        extents: Extents::new(),
        events: 0,
    };
    copy.all(trees.log()?)?;
    let Copy {
        fresh,
        extents,
        events,
    } = copy;
    fresh.finish()?;
    // The store's lock must outlive the swap, and the log must be closed before it.
    let lock = trees.into_lock();
    files::swap_and_remove(root)?;
    ledger::rewrite(root, &extents)?;
    drop(lock);
    let after_bytes = size_bytes(&files::data(root));
    Ok(Vacuumed {
        before_bytes,
        after_bytes,
        sessions: extents.len() as u64,
        events,
    })
}

struct Copy {
    fresh: Fresh,
    extents: Extents,
    events: u64,
}

impl Copy {
    fn all(&mut self, log: &Log) -> Result<()> {
        let mut after = None;
        loop {
            let page = log.sessions(after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for session in page {
                if let Some(Known { head, .. }) =
                    log.head(session)?.filter(|known| !known.head.deleted)
                {
                    self.session(log, session, &head)?;
                }
            }
        }
    }

    fn session(&mut self, log: &Log, session: SessionId, head: &Head) -> Result<()> {
        let Fresh { log: to, batch, .. } = &mut self.fresh;
        batch.put_head(session, head)?;
        let checkpoint = log
            .checkpoint(session)
            .map_err(|fault| Error::unreadable(Record::Checkpoint { session }, fault))?;
        if let Some((epoch, checkpoint)) = checkpoint {
            batch.put_checkpoint(to, session, epoch, checkpoint)?;
        }
        self.extents.insert(session, Extent::of(head));
        for seq in 1..=head.last_seq {
            let (stamp, payload) = log
                .event(session, seq)
                .map_err(|fault| Error::unreadable(Record::Event { session, seq }, fault))?;
            let Fresh { log: to, batch, .. } = &mut self.fresh;
            batch.put_event(to, session, (seq, stamp), payload)?;
            self.events += 1;
            self.fresh.write_if_large()?;
        }
        self.fresh.write_if_large()
    }
}

/// Bytes really taken by the files of a directory.
fn size_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.blocks() * 512)
        .sum()
}
