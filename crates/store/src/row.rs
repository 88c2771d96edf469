//! The rows in the envelopes, format 1, and the hash chain between them.
//!
//! The order of fields is the format. A change needs a new row type with a new kind of record.

use serde::{Deserialize, Serialize};

use crate::codec::Block;
use crate::engine::{Claim, SessionId, SessionInfo};
use crate::envelope::Key;

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// The state of a session without its events; written with every change of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The latest claim.
    pub(crate) epoch: u64,
    /// The claim with which the session was created. If an earlier session with this id was
    /// deleted, its records have lower epochs.
    pub(crate) born_epoch: u64,
    pub(crate) last_seq: u64,
    pub(crate) last_hash: Hash,
    pub(crate) payload_bytes: u64,
    pub(crate) created_unix_ms: u64,
    pub(crate) updated_unix_ms: u64,
    /// Whether this is a tombstone, which is kept so that old claims stay fenced.
    pub(crate) deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    pub(crate) stamp: Stamp,
    pub(crate) body: Body,
}

impl EventRow {
    /// Appends the row of an event with an inline payload. Writes exactly the bytes that the codec
    /// would, which processes every byte of the hash separately and the whole row twice.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// The claim it was written under.
    pub(crate) epoch: u64,
    pub(crate) at_unix_ms: u64,
    /// The hash of the chain before the event.
    pub(crate) previous: Hash,
}

/// The latest state checkpoint; the event it covers is in the envelope's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointRow {
    pub(crate) epoch: u64,
    pub(crate) body: Body,
}

/// The locations of a session's events: the block of each, from the first event of the page on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageRow {
    pub(crate) blocks: Vec<u64>,
}

/// A payload, inline or as references to the chunks it was split into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    Inline(Block),
    Chunked { len_bytes: u64, chunks: Vec<Hash> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchiveEnd {
    pub(crate) records: u64,
    /// BLAKE3 of all bytes before this record.
    pub(crate) digest: Hash,
}

/// The hash of the chain before the first event.
pub(crate) fn genesis(session: SessionId) -> Hash {
    blake3::derive_key("unisono store 2026 journal chain v1", session.0.as_bytes())
}

pub(crate) fn digest(payload: &[u8]) -> Hash {
    *blake3::hash(payload).as_bytes()
}

/// The hash of the chain after an event: of the previous hash, the event's number, and its
/// payload's hash.
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
    /// The head after a claim; `before` is the current head, which may be a tombstone.
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

    /// The head of the same session before its first event.
    pub(crate) fn start(&self, session: SessionId) -> Self {
        Self {
            last_seq: 0,
            last_hash: genesis(session),
            payload_bytes: 0,
            ..self.clone()
        }
    }

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

    /// Adds an event and returns its number and its stamp.
    pub(crate) fn push(&mut self, payload: &[u8], at_unix_ms: u64) -> (u64, Stamp) {
        self.push_digest(digest(payload), payload.len(), at_unix_ms)
    }

    /// As [`Self::push`], for a payload whose hash is known.
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
