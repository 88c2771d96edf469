//! The open log, and reading it. Every record is read by its key: a damaged page would end an
//! iteration, and so hide the records after it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;

use crate::codec;
use crate::disk::cache::Cache;
use crate::disk::keys;
use crate::engine::{Checkpoint, SessionId};
use crate::envelope::{self, Envelope, Key, Kind};
use crate::error::{Error, Fault, Record, Result};
use crate::row::{self, Body, CheckpointRow, Hash, Head, PageRow};

#[derive(Debug)]
pub(super) struct Log {
    pub(super) db: sled::Db,
    pub(super) journal: sled::Tree,
    pub(super) chunks: sled::Tree,
    pub(super) cache: Cache,
}

/// The state of a session: its head, and the locations of its last events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionState {
    pub(super) head: Head,
    /// The head as it is in the log. It is not written with every event, which would double the
    /// work. The locations of the events up to it are in pages, and those of the later events in
    /// `runs`, which an opening rebuilds from the blocks.
    pub(super) written: Head,
    runs: Vec<Run>,
}

/// The events from `first` up to the next run are in this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u64,
    block: u64,
}

impl AsRef<Head> for SessionState {
    fn as_ref(&self) -> &Head {
        &self.head
    }
}

impl SessionState {
    /// Creates the state of a session whose head is written.
    pub(super) fn new(head: Head) -> Self {
        Self {
            written: head.clone(),
            head,
            runs: Vec::new(),
        }
    }

    /// Whether the head in the log is outdated.
    pub(super) fn lags(&self) -> bool {
        self.written != self.head
    }

    /// A copy without the locations of its events, which is all that a write needs. There may be
    /// one location for each block after the mark, too many to copy with every event.
    pub(super) fn without_places(&self) -> Self {
        Self {
            head: self.head.clone(),
            written: self.written.clone(),
            runs: Vec::new(),
        }
    }

    /// Applies the result of writes to a copy by [`Self::without_places`]: appends the locations of
    /// their events, unless the session was deleted and created again.
    pub(super) fn follow(&mut self, after: Self) {
        if after.head.deleted || after.head.born_epoch != self.head.born_epoch {
            *self = after;
            return;
        }
        self.head = after.head;
        self.written = after.written;
        self.runs.extend(after.runs);
    }

    /// Records the block of the head's last event.
    pub(super) fn add_block(&mut self, block: u64) {
        if self.runs.last().is_none_or(|run| run.block != block) {
            let first = self.head.last_seq;
            self.runs.push(Run { first, block });
        }
    }

    /// The block of an event after the written head.
    pub(super) fn block_of(&self, seq: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.first <= seq);
        Some(self.runs.get(after.checked_sub(1)?)?.block)
    }
}

impl Log {
    /// Reads the state of a session from the log. Later events are in the blocks after the mark.
    pub(super) fn known(&self, session: SessionId) -> Result<Option<SessionState>> {
        let corrupt = |fault| Error::unreadable(Record::Head { session }, fault);
        let Some(value) = get(&self.journal, &keys::head(session)).map_err(corrupt)? else {
            return Ok(None);
        };
        let head = row_of(&value, Kind::Head, row::key(session, 0)).map_err(corrupt)?;
        Ok(Some(SessionState::new(head)))
    }

    pub(super) fn page(&self, session: SessionId, page: u64) -> Result<PageRow, Fault> {
        let value = get(&self.journal, &keys::page(session, page))?.ok_or(Fault::Missing)?;
        row_of(&value, Kind::Page, row::key(session, page))
    }

    pub(super) fn block(&self, number: u64) -> Result<Option<sled::IVec>, Fault> {
        let value = get(&self.journal, &keys::block(number))?;
        let block = value.filter(|value| !value.is_empty());
        self.cache
            .count(block.as_ref().map_or(0, |block| block.len()));
        Ok(block)
    }

    /// The first block that may contain events which are in no page.
    pub(super) fn mark(&self) -> Result<u64> {
        let corrupt = |fault| Error::unreadable(Record::Mark, fault);
        let Some(value) = get(&self.journal, &keys::mark()).map_err(corrupt)? else {
            return Ok(0);
        };
        match envelope::open(&value).map_err(corrupt)? {
            Envelope {
                kind: Kind::Mark,
                key,
                ..
            } => Ok(key.seq),
            _ => Err(corrupt(Fault::WrongKey)),
        }
    }

    /// Reads the latest checkpoint and the epoch under which it was written.
    pub(super) fn checkpoint(
        &self,
        session: SessionId,
    ) -> Result<Option<(u64, Checkpoint)>, Fault> {
        let Some(value) = get(&self.journal, &keys::checkpoint(session))? else {
            return Ok(None);
        };
        let key = envelope::open(&value)?.key;
        let row: CheckpointRow = row_of(&value, Kind::Checkpoint, row::key(session, key.seq))?;
        let state = self.payload(row.body)?;
        Ok(Some((
            row.epoch,
            Checkpoint {
                seq: key.seq,
                state,
            },
        )))
    }

    /// Returns the bytes of a body, from its chunks if it was split.
    pub(super) fn payload(&self, body: Body) -> Result<Vec<u8>, Fault> {
        assemble(body, |hash| {
            let value = get(&self.chunks, hash).ok()??;
            self.cache.count(value.len());
            envelope::open_as(&value, Kind::Chunk, Key::of_chunk(hash))
                .ok()
                .map(<[u8]>::to_vec)
        })
    }

    /// Whether exactly these bytes are stored under this hash.
    pub(super) fn has_chunk(&self, hash: &Hash, bytes: &[u8]) -> bool {
        let value = get(&self.chunks, hash).ok().flatten();
        value.is_some_and(|value| {
            envelope::open_as(&value, Kind::Chunk, Key::of_chunk(hash)) == Ok(bytes)
        })
    }

    /// Lists at most `limit` sessions after `after`, including deleted ones.
    pub(super) fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let from = match after {
            Some(session) => [keys::head(session), vec![0]].concat(),
            None => keys::heads_start(),
        };
        heads(self.journal.range(from..keys::heads_end()), limit)
    }

    /// Lists at most `limit` sessions before `before` in descending order, including deleted ones.
    pub(super) fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let to = before.map_or_else(keys::heads_end, keys::head);
        heads(self.journal.range(keys::heads_start()..to).rev(), limit)
    }
}

/// Collects the sessions of these heads, at most this many.
fn heads(
    mut range: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    limit: usize,
) -> Result<Vec<SessionId>> {
    let unreadable = |fault| Error::unreadable(Record::SessionList, fault);
    let mut sessions = Vec::new();
    while sessions.len() < limit {
        let next = guarded(|| range.next().transpose()).map_err(unreadable)?;
        let Some((key, _)) = next else { break };
        let session = keys::session_of_head(&key);
        sessions.push(session.ok_or_else(|| unreadable(Fault::NotARecord))?);
    }
    Ok(sessions)
}

/// Joins a body's parts; `chunk` returns the bytes under a hash, if they exist.
pub(super) fn assemble(
    body: Body,
    chunk: impl Fn(&Hash) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Fault> {
    let (len_bytes, hashes) = match body {
        Body::Inline(block) => return Ok(block.0),
        Body::Chunked { len_bytes, chunks } => (len_bytes, chunks),
    };
    let mut payload = Vec::new();
    for (index, hash) in hashes.iter().enumerate() {
        let bytes = chunk(hash).filter(|bytes| blake3::hash(bytes).as_bytes() == hash);
        payload.extend_from_slice(&bytes.ok_or(Fault::BadChunk { index })?);
    }
    if payload.len() as u64 == len_bytes {
        Ok(payload)
    } else {
        Err(Fault::Truncated)
    }
}

/// Decodes the row in a record of this kind and key.
pub(super) fn row_of<T: DeserializeOwned>(value: &[u8], kind: Kind, key: Key) -> Result<T, Fault> {
    let body = envelope::open_as(value, kind, key)?;
    codec::decode(body).map_err(|reason| Fault::Undecodable { reason })
}

fn get(tree: &sled::Tree, key: &[u8]) -> Result<Option<sled::IVec>, Fault> {
    guarded(|| tree.get(key))
}

/// Calls sled and catches its panics; it panics on some damage.
pub(super) fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, Fault> {
    let reason = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic_text(panic.as_ref()),
    };
    Err(Fault::Unreadable { reason })
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".into())
}
