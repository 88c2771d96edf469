//! Keys of the two sled trees, and the sizes of what lies under them.
//!
//! `journal`: `1 session` → head, `2 session seq` → event, `3 session` → checkpoint.
//! `chunks`: `hash` → chunk. Numbers are big-endian, so that keys sort as they count.

use crate::engine::SessionId;
use crate::envelope::OVERHEAD_BYTES;
use uuid::Uuid;

/// The largest value given to sled: a leaf of sixteen of them stays well inside a segment, so that
/// sled never moves one to a file of its own, which it would not sync.
pub(super) const VALUE_LIMIT_BYTES: usize = 60 << 10;
/// The largest payload kept in its record; also the size of a chunk. Leaves room for the row.
pub(super) const INLINE_LIMIT_BYTES: usize = VALUE_LIMIT_BYTES - OVERHEAD_BYTES - 256;

const HEAD: u8 = 1;
const EVENT: u8 = 2;
const CHECKPOINT: u8 = 3;

pub(super) fn head(session: SessionId) -> Vec<u8> {
    with(HEAD, session)
}

pub(super) fn checkpoint(session: SessionId) -> Vec<u8> {
    with(CHECKPOINT, session)
}

pub(super) fn event(session: SessionId, seq: u64) -> Vec<u8> {
    let mut key = with(EVENT, session);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

fn with(kind: u8, session: SessionId) -> Vec<u8> {
    let mut key = Vec::with_capacity(25);
    key.push(kind);
    key.extend_from_slice(session.0.as_bytes());
    key
}

/// The first key after all heads.
pub(super) fn heads_end() -> Vec<u8> {
    vec![EVENT]
}

/// The first key a head can have.
pub(super) fn heads_start() -> Vec<u8> {
    vec![HEAD]
}

/// The session whose head lies under this key.
pub(super) fn session_of_head(key: &[u8]) -> Option<SessionId> {
    let (&kind, id) = key.split_first()?;
    let id: [u8; 16] = id.try_into().ok()?;
    (kind == HEAD).then_some(SessionId(Uuid::from_bytes(id)))
}
