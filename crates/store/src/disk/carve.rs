//! Finds every undamaged record in a raw file, whatever state the file is in.
//!
//! Records have a magic number, their key and a checksum, and sled stores values unchanged and
//! contiguously, so they can be found without sled. Records in the data of another record are left
//! out: an attachment may contain forged ones. Outdated and removed records are found, too;
//! [`Index::follow`] uses the epochs and the hash chain to decide which of them are valid.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;
use uuid::Uuid;

use crate::codec;
use crate::disk::keys::VALUE_LIMIT_BYTES;
use crate::disk::log::assemble;
use crate::engine::{Checkpoint, SessionId};
use crate::envelope::{self, Envelope, HEADER_BYTES, Kind, MAGIC};
use crate::error::{Error, Result};
use crate::row::{Body, CheckpointRow, EventRow, Hash, Head, Stamp};

const WINDOW_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLocation {
    file: usize,
    offset: u64,
    len: usize,
    /// The claim it was written under.
    epoch: u64,
    /// The number of the event, or of the last event that the checkpoint covers.
    seq: u64,
}

/// All undamaged records of a set of files.
#[derive(Debug, Default)]
pub(super) struct Index {
    files: Vec<File>,
    pub(super) heads: BTreeMap<SessionId, Head>,
    pub(super) events: BTreeMap<(SessionId, u64), Vec<RecordLocation>>,
    checkpoints: BTreeMap<SessionId, Vec<RecordLocation>>,
    chunks: HashMap<Hash, RecordLocation>,
}

impl Index {
    /// Adds the records in a file; a missing file has none.
    pub(super) fn add(&mut self, path: &Path) -> Result<()> {
        let io = |error| Error::io("read", path, error);
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(io)?,
        };
        let number = self.files.len();
        let mut window = vec![0; WINDOW_BYTES + VALUE_LIMIT_BYTES];
        let mut base = 0;
        // The end of the last record. The bytes in a record are data, whatever they look like.
        let mut end = 0;
        loop {
            let got = fill(&file, &mut window, base).map_err(io)?;
            let whole = got.min(WINDOW_BYTES);
            for at in memmem::find_iter(&window[..got], &MAGIC).take_while(|at| *at < whole) {
                let offset = base + at as u64;
                if offset >= end
                    && let Some((len, envelope)) = record_at(&window[at..got])
                {
                    end = offset + len as u64;
                    self.keep(
                        envelope,
                        RecordLocation {
                            file: number,
                            offset,
                            len,
                            epoch: 0,
                            seq: envelope.key.seq,
                        },
                    );
                }
            }
            if got <= WINDOW_BYTES {
                break;
            }
            base += WINDOW_BYTES as u64;
        }
        self.files.push(file);
        Ok(())
    }

    fn keep(&mut self, envelope: Envelope<'_>, spot: RecordLocation) {
        let session = SessionId(Uuid::from_bytes(envelope.key.session));
        match envelope.kind {
            Kind::Head => {
                if let Ok(head) = codec::decode::<Head>(envelope.body) {
                    let kept = self.heads.entry(session).or_insert_with(|| head.clone());
                    if (kept.epoch, kept.last_seq) < (head.epoch, head.last_seq) {
                        *kept = head;
                    }
                }
            }
            Kind::Event => {
                if let Ok(row) = codec::decode::<EventRow>(envelope.body) {
                    let spots = self.events.entry((session, spot.seq)).or_default();
                    spots.push(RecordLocation {
                        epoch: row.stamp.epoch,
                        ..spot
                    });
                }
            }
            Kind::Checkpoint => {
                if let Ok(row) = codec::decode::<CheckpointRow>(envelope.body) {
                    self.checkpoints
                        .entry(session)
                        .or_default()
                        .push(RecordLocation {
                            epoch: row.epoch,
                            ..spot
                        });
                }
            }
            Kind::Chunk => {
                self.chunks
                    .insert(*blake3::hash(envelope.body).as_bytes(), spot);
            }
            // Pages and marks are rebuilt.
            Kind::Page | Kind::Mark | Kind::ArchiveEnd => {}
        }
    }

    /// The body of the record at a location, if it can still be read.
    fn body(&self, spot: &RecordLocation) -> Option<Vec<u8>> {
        let mut bytes = vec![0; spot.len];
        self.files
            .get(spot.file)?
            .read_exact_at(&mut bytes, spot.offset)
            .ok()?;
        envelope::open(&bytes)
            .ok()
            .map(|envelope| envelope.body.to_vec())
    }

    /// The event that follows a head in its chain. If there are several, a write was lost in a
    /// crash before it was acknowledged and its number was reused; the one with the later claim is
    /// valid.
    pub(super) fn follow(
        &self,
        session: SessionId,
        born_epoch: u64,
        head: &Head,
    ) -> Option<(Stamp, Vec<u8>)> {
        let spots = self.events.get(&(session, head.last_seq + 1))?;
        let mut spots: Vec<&RecordLocation> = spots
            .iter()
            .filter(|spot| spot.epoch >= born_epoch)
            .collect();
        spots.sort_by_key(|spot| std::cmp::Reverse(spot.epoch));
        spots.into_iter().find_map(|spot| {
            let row: EventRow = codec::decode(&self.body(spot)?).ok()?;
            let payload = self
                .payload(row.body)
                .filter(|_| row.stamp.previous == head.last_hash)?;
            Some((row.stamp, payload))
        })
    }

    /// The event that the newest checkpoint of a session covers, whether or not it can be read.
    pub(super) fn newest_checkpoint(&self, session: SessionId, born_epoch: u64) -> Option<u64> {
        Some(self.checkpoints_by_age(session, born_epoch).first()?.seq)
    }

    /// The newest readable checkpoint of a session that covers at most this event, and its epoch.
    pub(super) fn checkpoint(
        &self,
        session: SessionId,
        born_epoch: u64,
        last_seq: u64,
    ) -> Option<(u64, Checkpoint)> {
        let spots = self.checkpoints_by_age(session, born_epoch).into_iter();
        spots.filter(|spot| spot.seq <= last_seq).find_map(|spot| {
            let row: CheckpointRow = codec::decode(&self.body(spot)?).ok()?;
            let state = self.payload(row.body)?;
            Some((
                row.epoch,
                Checkpoint {
                    seq: spot.seq,
                    state,
                },
            ))
        })
    }

    fn checkpoints_by_age(&self, session: SessionId, born_epoch: u64) -> Vec<&RecordLocation> {
        let spots = self.checkpoints.get(&session).into_iter().flatten();
        let mut spots: Vec<&RecordLocation> =
            spots.filter(|spot| spot.epoch >= born_epoch).collect();
        spots.sort_by_key(|spot| std::cmp::Reverse((spot.epoch, spot.seq)));
        spots
    }

    fn payload(&self, body: Body) -> Option<Vec<u8>> {
        assemble(body, |hash| self.body(self.chunks.get(hash)?)).ok()
    }
}

fn record_at(bytes: &[u8]) -> Option<(usize, Envelope<'_>)> {
    let len = envelope::announced_len(bytes.first_chunk::<HEADER_BYTES>()?)?;
    let envelope = envelope::open(bytes.get(..len)?).ok()?;
    Some((len, envelope))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Key;
    use crate::row;

    #[test]
    fn a_record_in_the_data_of_another_one_is_not_found() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("db");
        let session = SessionId::from_u128(1);
        let head = Head::claimed(session, None, 0);
        let head = envelope::seal(Kind::Head, row::key(session, 0), &head).unwrap();
        let key = Key::of_chunk(&row::digest(&head));
        let chunk = envelope::seal_bytes(Kind::Chunk, key, &head);
        for before in [0, 1, WINDOW_BYTES - HEADER_BYTES, WINDOW_BYTES] {
            for (record, heads) in [(&head, 1), (&chunk, 0)] {
                let mut bytes = vec![0_u8; before];
                bytes.extend_from_slice(record);
                std::fs::write(&path, bytes).unwrap();
                let mut index = Index::default();
                index.add(&path).unwrap();
                assert_eq!(index.heads.len(), heads, "{before}");
                assert_eq!(index.chunks.len(), 1 - heads, "{before}");
            }
        }
    }
}
