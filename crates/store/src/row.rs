//! The rows inside the envelopes, format 1, and the hash chain between them.
//!
//! Field order is the format. A change makes a new row type for a new kind of record.

use serde::{Deserialize, Serialize};

use crate::codec::Block;
use crate::engine::{Claim, SessionId, SessionInfo};
use crate::envelope::Key;

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

impl EventRow {
    /// Puts the row of an event with its payload in place behind what is there: the very bytes that
    /// the codec makes of it, which handles every byte of the hash by itself and the whole row twice.
    pub(crate) fn put_inline(bytes: &mut Vec<u8>, stamp: &Stamp, payload: &[u8]) {
        const INLINE: u32 = 0;
        bytes.extend_from_slice(&stamp.epoch.to_le_bytes());
        bytes.extend_from_slice(&stamp.at_unix_ms.to_le_bytes());
        bytes.extend_from_slice(&stamp.previous);
        bytes.extend_from_slice(&INLINE.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(payload);
    }
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

/// Where the events of a session lie: the block of each, from the first event of the page on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageRow {
    pub(crate) blocks: Vec<u64>,
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
    let mut linked = [0; 72];
    linked[..32].copy_from_slice(previous);
    linked[32..40].copy_from_slice(&seq.to_be_bytes());
    linked[40..].copy_from_slice(payload);
    digest(&linked)
}

pub(crate) fn key(session: SessionId, seq: u64) -> Key {
    Key {
        session: session.0.into_bytes(),
        seq,
    }
}

impl AsRef<Self> for Head {
    fn as_ref(&self) -> &Self {
        self
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

    /// The head of the same life before its first event.
    pub(crate) fn start(&self, session: SessionId) -> Self {
        Self {
            last_seq: 0,
            last_hash: genesis(session),
            payload_bytes: 0,
            ..self.clone()
        }
    }

    /// The tombstone of this session.
    pub(crate) fn deleted(&self, session: SessionId, now_unix_ms: u64) -> Self {
        Self {
            epoch: self.epoch + 1,
            updated_unix_ms: now_unix_ms,
            deleted: true,
            ..self.start(session)
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

#[cfg(test)]
mod tests;
