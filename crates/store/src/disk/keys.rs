//! The keys of the two sled trees, and the size limits of their values.
//!
//! | tree | key | value |
//! |---|---|---|
//! | `journal` | `1 session` | the session's head, as of when it was last written |
//! | `journal` | `2 number` | a block: events of all sessions, in the order in which they came |
//! | `journal` | `3 session` | the session's latest checkpoint |
//! | `journal` | `4 session page` | the blocks of [`PAGE_EVENTS`] events of the session, up to its head |
//! | `journal` | `5` | the mark: events in the blocks before it are in a page and a head |
//! | `chunks` | hash | a part of a large payload |
//!
//! Numbers are big-endian, so that keys sort as they count.

use uuid::Uuid;

use crate::engine::SessionId;
use crate::envelope::OVERHEAD_BYTES;

/// Largest value that is stored in sled: a leaf of sixteen of them fits well in a segment, so sled
/// never moves one to a separate file, which it would not sync.
pub(super) const VALUE_LIMIT_BYTES: usize = 60 << 10;
/// Largest payload that is stored inline; also the size of a chunk. It leaves room for the row.
pub(super) const INLINE_LIMIT_BYTES: usize = VALUE_LIMIT_BYTES - OVERHEAD_BYTES - 256;
/// Size limit for adding another event to a block: reading one event reads its leaf of blocks.
pub(super) const BLOCK_LIMIT_BYTES: usize = 32 << 10;
/// Events of a session that share a page.
pub(super) const PAGE_EVENTS: u64 = 64;

const HEAD: u8 = 1;
const BLOCK: u8 = 2;
const CHECKPOINT: u8 = 3;
const PAGE: u8 = 4;
const MARK: u8 = 5;

pub(super) fn head(session: SessionId) -> Vec<u8> {
    with(HEAD, session)
}

pub(super) fn block(number: u64) -> [u8; 9] {
    let mut key = [BLOCK; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(super) fn checkpoint(session: SessionId) -> Vec<u8> {
    with(CHECKPOINT, session)
}

pub(super) fn page(session: SessionId, page: u64) -> Vec<u8> {
    let mut key = with(PAGE, session);
    key.extend_from_slice(&page.to_be_bytes());
    key
}

pub(super) fn mark() -> [u8; 1] {
    [MARK]
}

/// The page of an event, and its index there.
pub(super) fn page_of(seq: u64) -> (u64, usize) {
    let (page, place) = ((seq - 1) / PAGE_EVENTS, (seq - 1) % PAGE_EVENTS);
    (page, usize::try_from(place).unwrap_or(usize::MAX))
}

fn with(kind: u8, session: SessionId) -> Vec<u8> {
    let mut key = Vec::with_capacity(25);
    key.push(kind);
    key.extend_from_slice(session.0.as_bytes());
    key
}

pub(super) fn heads_end() -> Vec<u8> {
    vec![HEAD + 1]
}

/// The first possible key of a head.
pub(super) fn heads_start() -> Vec<u8> {
    vec![HEAD]
}

pub(super) fn session_of_head(key: &[u8]) -> Option<SessionId> {
    let (&kind, id) = key.split_first()?;
    let id: [u8; 16] = id.try_into().ok()?;
    (kind == HEAD).then_some(SessionId(Uuid::from_bytes(id)))
}
