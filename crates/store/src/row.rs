//! The rows inside the envelopes, schema 1, and the rules that hold between them.
//!
//! Field order is the format. A change makes a new row type for a new schema; the old one stays
//! readable.

use serde::{Deserialize, Serialize};

use crate::codec::Block;
use crate::engine::{Append, Checkpoint, Claim, MAX_PAYLOAD_BYTES, SessionId, SessionInfo};
use crate::envelope::Key;
use crate::error::{Error, Result};

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// What is known of a session without reading its events; written with every change to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The latest claim.
    pub(crate) epoch: u64,
    /// The claim that began this life of the session: records of earlier epochs are of a deleted one.
    pub(crate) born_epoch: u64,
    pub(crate) last_seq: u64,
    pub(crate) last_hash: Hash,
    pub(crate) payload_bytes: u64,
    pub(crate) created_unix_ms: u64,
    pub(crate) updated_unix_ms: u64,
    /// A tombstone: kept so that old claims stay fenced.
    pub(crate) deleted: bool,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    pub(crate) stamp: Stamp,
    pub(crate) body: Body,
}

/// What is known of an event beside its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// The claim it was written under.
    pub(crate) epoch: u64,
    pub(crate) at_unix_ms: u64,
    /// The chain's hash before it.
    pub(crate) previous: Hash,
}

/// The latest state checkpoint; the event it covers is in the envelope's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointRow {
    pub(crate) epoch: u64,
    pub(crate) body: Body,
}

/// A payload, in place or as the chunks it was cut into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    Inline(Block),
    Chunked { len_bytes: u64, chunks: Vec<Hash> },
}

/// The last row of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchiveEnd {
    pub(crate) records: u64,
    /// BLAKE3 of all bytes before this record.
    pub(crate) digest: Hash,
}

/// The chain's hash before the first event.
pub(crate) fn genesis(session: SessionId) -> Hash {
    blake3::derive_key("unisono store 2026 journal chain v1", session.0.as_bytes())
}

/// The hash of a payload.
pub(crate) fn digest(payload: &[u8]) -> Hash {
    *blake3::hash(payload).as_bytes()
}

/// The chain's hash after an event: of the hash before it, its number, and its payload's hash.
pub(crate) fn link(previous: &Hash, seq: u64, payload: &Hash) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(previous)
        .update(&seq.to_be_bytes())
        .update(payload);
    *hasher.finalize().as_bytes()
}

pub(crate) fn key(session: SessionId, seq: u64) -> Key {
    Key {
        session: session.0.into_bytes(),
        seq,
    }
}

impl Head {
    /// The head after a claim; `before` is the head so far, tombstone or not.
    pub(crate) fn claimed(session: SessionId, before: Option<Self>, now_unix_ms: u64) -> Self {
        let epoch = before.as_ref().map_or(0, |head| head.epoch) + 1;
        match before {
            Some(head) if !head.deleted => Self { epoch, ..head },
            _ => Self {
                epoch,
                born_epoch: epoch,
                last_seq: 0,
                last_hash: genesis(session),
                payload_bytes: 0,
                created_unix_ms: now_unix_ms,
                updated_unix_ms: now_unix_ms,
                deleted: false,
            },
        }
    }

    /// The tombstone of this session.
    pub(crate) fn deleted(self, session: SessionId, now_unix_ms: u64) -> Self {
        let last_hash = genesis(session);
        Self {
            epoch: self.epoch + 1,
            last_seq: 0,
            last_hash,
            payload_bytes: 0,
            updated_unix_ms: now_unix_ms,
            deleted: true,
            ..self
        }
    }

    pub(crate) fn claim(&self) -> Claim {
        Claim {
            epoch: self.epoch,
            last_seq: self.last_seq,
        }
    }

    /// Adds an event and gives its number and its stamp.
    pub(crate) fn push(&mut self, payload: &[u8], at_unix_ms: u64) -> (u64, Stamp) {
        self.push_digest(digest(payload), payload.len(), at_unix_ms)
    }

    /// As [`Self::push`], where the payload's hash is known.
    pub(crate) fn push_digest(
        &mut self,
        digest: Hash,
        len_bytes: usize,
        at_unix_ms: u64,
    ) -> (u64, Stamp) {
        let stamp = Stamp {
            epoch: self.epoch,
            at_unix_ms,
            previous: self.last_hash,
        };
        self.last_seq += 1;
        self.last_hash = link(&stamp.previous, self.last_seq, &digest);
        self.payload_bytes += len_bytes as u64;
        self.updated_unix_ms = at_unix_ms;
        (self.last_seq, stamp)
    }

    pub(crate) fn info(&self, session: SessionId) -> Option<SessionInfo> {
        (!self.deleted).then_some(SessionInfo {
            session,
            last_seq: self.last_seq,
            epoch: self.epoch,
            payload_bytes: self.payload_bytes,
            created_unix_ms: self.created_unix_ms,
            updated_unix_ms: self.updated_unix_ms,
        })
    }
}

/// The head a write may build on, or why it may not.
pub(crate) fn admit_writer(session: SessionId, epoch: u64, head: Option<Head>) -> Result<Head> {
    let current = head
        .as_ref()
        .map_or(0, |head| if head.deleted { 0 } else { head.epoch });
    match head {
        Some(head) if current == epoch && epoch != 0 => Ok(head),
        _ => Err(Error::Fenced {
            session,
            epoch,
            current,
        }),
    }
}

/// Checks an append against the head and gives the head it may build on.
pub(crate) fn admit_append(append: &Append, head: Option<Head>) -> Result<Head> {
    let &Append {
        session,
        epoch,
        expected_seq,
        ..
    } = append;
    let head = admit_writer(session, epoch, head)?;
    if head.last_seq != expected_seq {
        return Err(Error::Conflict {
            session,
            expected_seq,
            last_seq: head.last_seq,
        });
    }
    Ok(head)
}

/// Checks a checkpoint against the head.
pub(crate) fn admit_checkpoint(
    session: SessionId,
    epoch: u64,
    seq: u64,
    head: Option<Head>,
) -> Result<()> {
    let last_seq = admit_writer(session, epoch, head)?.last_seq;
    if seq > last_seq {
        return Err(Error::CheckpointAhead {
            session,
            seq,
            last_seq,
        });
    }
    Ok(())
}

/// Checks what can be checked of an append before it queues.
pub(crate) fn check_append(append: &Append) -> Result<()> {
    if append.payloads.is_empty() {
        return Err(Error::EmptyAppend {
            session: append.session,
        });
    }
    let sum: usize = append.payloads.iter().map(Vec::len).sum();
    check_size("an append", sum)
}

/// Checks what can be checked of a checkpoint before it queues.
pub(crate) fn check_checkpoint(checkpoint: &Checkpoint) -> Result<()> {
    check_size("a checkpoint", checkpoint.state.len())
}

fn check_size(what: &'static str, bytes: usize) -> Result<()> {
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Error::TooLarge {
            what,
            size_bytes: bytes as u64,
            limit_bytes: MAX_PAYLOAD_BYTES as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! The bytes of schema 1, held still by golden files: a store of today opens tomorrow.

    use std::path::Path;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::codec;
    use crate::envelope::{self, Kind};

    const SESSION: SessionId = SessionId::from_u128(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);

    fn golden<T>(name: &str, kind: Kind, seq: u64, row: &T)
    where
        T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        let sealed = envelope::seal(kind, key(SESSION, seq), &codec::encode(row).unwrap());
        if std::env::var_os("UNISONO_BLESS").is_some() {
            std::fs::write(&path, &sealed).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            sealed, bytes,
            "the bytes of {name} changed: that needs a new schema"
        );
        let body = envelope::open_as(&bytes, kind, key(SESSION, seq)).unwrap();
        assert_eq!(codec::decode::<T>(body).as_ref(), Ok(row));
    }

    fn stamp() -> Stamp {
        Stamp {
            epoch: 3,
            at_unix_ms: 1_790_000_000_123,
            previous: genesis(SESSION),
        }
    }

    #[test]
    fn head_bytes() {
        let head = Head {
            epoch: 3,
            born_epoch: 2,
            last_seq: 258,
            last_hash: link(&genesis(SESSION), 258, &digest(b"payload")),
            payload_bytes: 65_536,
            created_unix_ms: 1_790_000_000_000,
            updated_unix_ms: 1_790_000_000_123,
            deleted: true,
        };
        golden("head.bin", Kind::Head, 0, &head);
    }

    #[test]
    fn event_bytes() {
        let body = Body::Inline(Block(b"payload".to_vec()));
        golden(
            "event-inline.bin",
            Kind::Event,
            258,
            &EventRow {
                stamp: stamp(),
                body,
            },
        );
        let body = Body::Chunked {
            len_bytes: 70_000,
            chunks: vec![digest(b"a"), digest(b"b")],
        };
        golden(
            "event-chunked.bin",
            Kind::Event,
            259,
            &EventRow {
                stamp: stamp(),
                body,
            },
        );
    }

    #[test]
    fn checkpoint_bytes() {
        let body = Body::Inline(Block(b"state".to_vec()));
        golden(
            "checkpoint.bin",
            Kind::Checkpoint,
            258,
            &CheckpointRow { epoch: 3, body },
        );
    }

    #[test]
    fn archive_end_bytes() {
        let end = ArchiveEnd {
            records: 7,
            digest: digest(b"all before"),
        };
        golden("archive-end.bin", Kind::ArchiveEnd, u64::MAX, &end);
    }

    #[test]
    fn a_row_is_all_of_its_bytes() {
        let bytes = codec::encode(&stamp()).unwrap();
        assert!(codec::decode::<Stamp>(&bytes[..bytes.len() - 1]).is_err());
        assert!(codec::decode::<Stamp>(&[&bytes[..], &[0]].concat()).is_err());
        // A length that is not there is refused before anything is allocated for it.
        assert!(codec::decode::<Block>(&u64::MAX.to_le_bytes()).is_err());
    }
}
