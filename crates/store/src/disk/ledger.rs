//! The ledger: the acknowledged extent of every session, kept beside the log.
//!
//! Sled considers the first record that it cannot read at the end of its log to be the end. The
//! ledger makes it possible to distinguish a truncated or changed log from one that really ends
//! there. It is written after the log is synced and is not synced itself, so it never claims too
//! much: after a power cut it may claim too little, otherwise it is exact.
//!
//! A row is 40 bytes: session, epoch, last event, flags, CRC32C. The last valid row of a session
//! counts; invalid rows are ignored.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::disk::files;
use crate::engine::SessionId;
use crate::error::{Error, Result};
use crate::row::Head;

const ROW_BYTES: usize = 40;
const DELETED: u32 = 1;
/// A ledger with fewer rows than this is never rewritten.
const REWRITE_FROM_ROWS: u64 = 4096;

/// The acknowledged extent of a session. Later states compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) epoch: u64,
    pub(super) last_seq: u64,
    pub(super) deleted: bool,
}

impl Extent {
    pub(super) fn from_head(head: &Head) -> Self {
        Self {
            epoch: head.epoch,
            last_seq: head.last_seq,
            deleted: head.deleted,
        }
    }
}

pub(super) type Extents = BTreeMap<SessionId, Extent>;

/// The ledger, open for writing.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    path: PathBuf,
    len: u64,
}

pub(super) fn path(root: &Path) -> PathBuf {
    root.join("acknowledged")
}

/// Reads the ledger; a missing one is empty. A ledger with many outdated rows is rewritten.
pub(super) fn read(root: &Path) -> Result<Extents> {
    let extents = look(root)?;
    let rows = std::fs::metadata(path(root)).map_or(0, |meta| meta.len()) / ROW_BYTES as u64;
    if rows >= REWRITE_FROM_ROWS && rows > 4 * extents.len() as u64 {
        rewrite(root, &extents)?;
    }
    Ok(extents)
}

/// As [`read`], without writing anything.
pub(super) fn look(root: &Path) -> Result<Extents> {
    let path = path(root);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(decode_all(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Extents::new()),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

fn decode_all(bytes: &[u8]) -> Extents {
    let mut extents = Extents::new();
    for row in bytes.as_chunks::<ROW_BYTES>().0 {
        if let Some((session, extent)) = decode(row) {
            extents.insert(session, extent);
        }
    }
    extents
}

/// Replaces the ledger by one with exactly these extents, durably.
pub(super) fn rewrite(root: &Path, extents: &Extents) -> Result<()> {
    let rows: Vec<u8> = extents
        .iter()
        .flat_map(|(session, extent)| encode(*session, *extent))
        .collect();
    files::replace(&path(root), &rows)
}

impl Ledger {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let path = path(root);
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        let len = file
            .metadata()
            .map_err(|error| Error::io("read", &path, error))?
            .len();
        Ok(Self {
            file,
            path,
            len: len.next_multiple_of(ROW_BYTES as u64),
        })
    }

    /// Adds acknowledgements. A failure disables only the check at the next opening, so it is
    /// logged and not returned.
    pub(super) fn note(&mut self, heads: impl Iterator<Item = (SessionId, Extent)>) {
        let mut rows = Vec::with_capacity(heads.size_hint().0 * ROW_BYTES);
        heads.for_each(|(session, extent)| rows.extend_from_slice(&encode(session, extent)));
        match self.file.write_all_at(&rows, self.len) {
            Ok(()) => self.len += rows.len() as u64,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot note acknowledgements")
            }
        }
    }
}

fn encode(session: SessionId, extent: Extent) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..16].copy_from_slice(session.0.as_bytes());
    row[16..24].copy_from_slice(&extent.epoch.to_be_bytes());
    row[24..32].copy_from_slice(&extent.last_seq.to_be_bytes());
    row[32..36].copy_from_slice(&(if extent.deleted { DELETED } else { 0 }).to_be_bytes());
    let crc = crc32c::crc32c(&row[..36]).to_be_bytes();
    row[36..].copy_from_slice(&crc);
    row
}

fn decode(row: &[u8; ROW_BYTES]) -> Option<(SessionId, Extent)> {
    let (sealed, crc) = row.split_at(36);
    if crc != crc32c::crc32c(sealed).to_be_bytes() {
        return None;
    }
    let session = SessionId(Uuid::from_slice(&sealed[..16]).ok()?);
    let epoch = u64::from_be_bytes(sealed[16..24].try_into().ok()?);
    let last_seq = u64::from_be_bytes(sealed[24..32].try_into().ok()?);
    let flags = u32::from_be_bytes(sealed[32..36].try_into().ok()?);
    Some((
        session,
        Extent {
            epoch,
            last_seq,
            deleted: flags & DELETED != 0,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_row_of_a_session_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (SessionId::from_u128(1), SessionId::from_u128(2));
        let at = |last_seq| Extent {
            epoch: 1,
            last_seq,
            deleted: false,
        };
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.note([(a, at(1)), (b, at(7)), (a, at(2)), (a, at(3))].into_iter());
        let file = OpenOptions::new()
            .write(true)
            .open(path(dir.path()))
            .unwrap();
        file.write_all_at(b"x", 3 * 40 + 20).unwrap();
        file.set_len(4 * 40 + 11).unwrap();
        assert_eq!(
            read(dir.path()).unwrap(),
            Extents::from([(a, at(2)), (b, at(7))])
        );
        let mut again = Ledger::open(dir.path()).unwrap();
        again.note([(a, at(4))].into_iter());
        assert_eq!(read(dir.path()).unwrap()[&a], at(4));
    }
}
