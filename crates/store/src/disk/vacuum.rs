//! Reclaims space: writes what is live into a fresh log and puts it in the place of the old one.

use std::path::Path;

use crate::disk::cursor::Cursor;
use crate::disk::fresh::Fresh;
use crate::disk::ledger::{self, Extent, Extents};
use crate::disk::log::{Known, Log};
use crate::disk::trees::Trees;
use crate::disk::{files, open};
use crate::engine::SessionId;
use crate::error::{Error, Record, Result};

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
    copy.all(&trees)?;
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
    fn all(&mut self, trees: &Trees) -> Result<()> {
        let mut after = None;
        loop {
            let page = trees.log()?.sessions(after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for session in page {
                if let Some(known) = trees.known(session)?.filter(|known| !known.head.deleted) {
                    self.session(trees.log()?, session, &known)?;
                }
            }
        }
    }

    fn session(&mut self, log: &Log, session: SessionId, known: &Known) -> Result<()> {
        let head = &known.head;
        let mut cursor = Cursor::new(log, session, known);
        let mut copied = Known::new(head.start(session));
        for seq in 1..=head.last_seq {
            let (stamp, payload) = cursor
                .event(seq)
                .map_err(|fault| Error::unreadable(Record::Event { session, seq }, fault))?;
            copied.head.push(&payload, stamp.at_unix_ms);
            self.fresh.event(session, &mut copied, stamp, &payload)?;
        }
        let checkpoint = log
            .checkpoint(session)
            .map_err(|fault| Error::unreadable(Record::Checkpoint { session }, fault))?;
        copied.head = head.clone();
        self.fresh.end(session, &copied, checkpoint)?;
        self.extents.insert(session, Extent::of(head));
        self.events += head.last_seq;
        Ok(())
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
