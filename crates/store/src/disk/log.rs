//! The open log and how it is read. Every read of a record is a point read: one damaged page ends an
//! iteration, and must not hide the records behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;

use crate::codec;
use crate::disk::keys;
use crate::disk::ledger::Extent;
use crate::engine::{Checkpoint, Event, MAX_PAYLOAD_BYTES, SessionId};
use crate::envelope::{self, Key, Kind};
use crate::error::{Error, Fault, Record, Result};
use crate::row::{self, Body, CheckpointRow, EventRow, Hash, Head, Stamp};

/// sled's side of a store.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) db: sled::Db,
    pub(super) journal: sled::Tree,
    pub(super) chunks: sled::Tree,
}

/// The head of a session, and how far the log's own record of it goes.
///
/// The record is not written with every event (it would double the work): the events behind it are
/// read on from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) head: Head,
    pub(super) written: Extent,
}

impl Log {
    /// The head of a session, with every event that is in the log.
    pub(super) fn head(&self, session: SessionId) -> Result<Option<Known>> {
        let record = Record::Head { session };
        let corrupt = |fault| Error::unreadable(record, fault);
        let Some(value) = get(&self.journal, &keys::head(session)).map_err(corrupt)? else {
            return Ok(None);
        };
        let head: Head = row_of(&value, Kind::Head, row::key(session, 0)).map_err(corrupt)?;
        let written = Extent::of(&head);
        let head = self.read_on(session, head)?;
        Ok(Some(Known { head, written }))
    }

    /// Follows the events behind a head's record.
    fn read_on(&self, session: SessionId, mut head: Head) -> Result<Head> {
        while !head.deleted {
            let seq = head.last_seq + 1;
            let fault = match self.event(session, seq) {
                Ok((stamp, payload)) if stamp.previous == head.last_hash => {
                    head.push(&payload, stamp.at_unix_ms);
                    continue;
                }
                Ok(_) => Fault::BrokenChain,
                Err(Fault::Missing) => break,
                Err(fault) => fault,
            };
            return Err(Error::unreadable(Record::Event { session, seq }, fault));
        }
        Ok(head)
    }

    fn event_row(&self, session: SessionId, seq: u64) -> Result<EventRow, Fault> {
        let value = get(&self.journal, &keys::event(session, seq))?.ok_or(Fault::Missing)?;
        row_of(&value, Kind::Event, row::key(session, seq))
    }

    /// An event's stamp and payload.
    pub(super) fn event(&self, session: SessionId, seq: u64) -> Result<(Stamp, Vec<u8>), Fault> {
        let EventRow { stamp, body } = self.event_row(session, seq)?;
        Ok((stamp, self.payload(body)?))
    }

    /// The latest checkpoint and the epoch it was written under.
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

    fn payload(&self, body: Body) -> Result<Vec<u8>, Fault> {
        assemble(body, |hash| {
            let value = get(&self.chunks, hash).ok()??;
            envelope::open_as(&value, Kind::Chunk, Key::of_chunk(hash))
                .ok()
                .map(<[u8]>::to_vec)
        })
    }

    /// Whether exactly these bytes lie under this hash.
    pub(super) fn has_chunk(&self, hash: &Hash, bytes: &[u8]) -> bool {
        let value = get(&self.chunks, hash).ok().flatten();
        value.is_some_and(|value| {
            envelope::open_as(&value, Kind::Chunk, Key::of_chunk(hash)) == Ok(bytes)
        })
    }

    /// At most `limit` sessions after `after`, deleted ones among them.
    pub(super) fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let from = match after {
            Some(session) => [keys::head(session), vec![0]].concat(),
            None => keys::heads_start(),
        };
        let unreadable = |fault| Error::unreadable(Record::SessionList, fault);
        let mut range = self.journal.range(from..keys::heads_end());
        let mut sessions = Vec::new();
        while sessions.len() < limit {
            let next = guarded(|| range.next().transpose()).map_err(unreadable)?;
            let Some((key, _)) = next else { break };
            let session = keys::session_of_head(&key);
            sessions.push(session.ok_or_else(|| unreadable(Fault::NotARecord))?);
        }
        Ok(sessions)
    }

    /// Reads events `from..=last` and checks the chain from one to the next, and on to what follows.
    pub(super) fn events(
        &self,
        session: SessionId,
        head: &Head,
        from: u64,
        last: u64,
    ) -> Result<Vec<Event>> {
        let name = |seq| move |fault| Error::unreadable(Record::Event { session, seq }, fault);
        let mut expected = (from == 1).then(|| row::genesis(session));
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        for seq in from..=last {
            let (stamp, payload) = self.event(session, seq).map_err(name(seq))?;
            if expected.is_some_and(|hash| hash != stamp.previous) {
                return Err(name(seq)(Fault::BrokenChain));
            }
            if payload.len() > room {
                return Ok(events);
            }
            room -= payload.len();
            expected = Some(row::link(&stamp.previous, seq, &row::digest(&payload)));
            events.push(Event { seq, payload });
        }
        let after = if last == head.last_seq {
            head.last_hash
        } else {
            self.event_row(session, last + 1)
                .map_err(name(last + 1))?
                .stamp
                .previous
        };
        if expected.is_some_and(|hash| hash != after) {
            return Err(name(last)(Fault::BrokenChain));
        }
        Ok(events)
    }
}

/// Joins a body's parts; `chunk` gives the bytes under a hash, if they are there.
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

fn row_of<T: DeserializeOwned>(value: &[u8], kind: Kind, key: Key) -> Result<T, Fault> {
    let body = envelope::open_as(value, kind, key)?;
    codec::decode(body).map_err(|reason| Fault::Undecodable { reason })
}

fn get(tree: &sled::Tree, key: &[u8]) -> Result<Option<sled::IVec>, Fault> {
    guarded(|| tree.get(key))
}

/// Calls into sled, which panics on some damage.
pub(super) fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, Fault> {
    let reason = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic_text(panic.as_ref()),
    };
    Err(Fault::Unreadable { reason })
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".into())
}
