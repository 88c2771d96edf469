//! The open log and its readers. Every read is a point read: one damaged page ends an iteration,
//! and must not hide the records behind it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{OnceLock, PoisonError, RwLock};

use serde::de::DeserializeOwned;

use crate::codec;
use crate::disk::keys;
use crate::disk::lock::Lock;
use crate::engine::{Checkpoint, Event, MAX_PAYLOAD_BYTES, SessionId, SessionInfo};
use crate::envelope::{self, Key, Kind};
use crate::error::{Error, Fault, Record, Result};
use crate::row::{self, Body, CheckpointRow, EventRow, Hash, Head};

/// sled's side of a store.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) db: sled::Db,
    pub(super) journal: sled::Tree,
    pub(super) chunks: sled::Tree,
}

/// A whole event record: its row and its payload.
#[derive(Debug)]
pub(super) struct EventRecord {
    pub(super) epoch: u64,
    pub(super) previous: Hash,
    pub(super) payload: Vec<u8>,
}

impl Log {
    pub(super) fn head(&self, session: SessionId) -> Result<Option<Head>> {
        let record = Record::Head { session };
        let Some(value) = get(&self.journal, &keys::head(session))
            .map_err(|fault| Error::corrupt(record, fault))?
        else {
            return Ok(None);
        };
        let row = row_of(&value, Kind::Head, row::key(session, 0));
        row.map(Some).map_err(|fault| Error::corrupt(record, fault))
    }

    fn event_row(&self, session: SessionId, seq: u64) -> Result<EventRow, Fault> {
        let value = get(&self.journal, &keys::event(session, seq))?.ok_or(Fault::Missing)?;
        row_of(&value, Kind::Event, row::key(session, seq))
    }

    pub(super) fn event(&self, session: SessionId, seq: u64) -> Result<EventRecord, Fault> {
        let EventRow {
            epoch,
            previous,
            body,
        } = self.event_row(session, seq)?;
        Ok(EventRecord {
            epoch,
            previous,
            payload: self.payload(body)?,
        })
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

    /// At most `limit` heads after `after`, tombstones among them.
    pub(super) fn heads(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<(SessionId, Head)>> {
        let from = match after {
            Some(session) => [keys::head(session), vec![0]].concat(),
            None => keys::heads_start(),
        };
        let unreadable = |fault| Error::corrupt(Record::SessionList, fault);
        let mut range = self.journal.range(from..keys::heads_end());
        let mut heads = Vec::new();
        while heads.len() < limit {
            let Some((key, value)) = guarded(|| range.next().transpose()).map_err(unreadable)?
            else {
                break;
            };
            let session =
                keys::session_of_head(&key).ok_or_else(|| unreadable(Fault::NotARecord))?;
            let head = row_of(&value, Kind::Head, row::key(session, 0));
            heads.push((
                session,
                head.map_err(|fault| Error::corrupt(Record::Head { session }, fault))?,
            ));
        }
        Ok(heads)
    }

    /// Reads events `from..=last` and checks the chain from one to the next, and on to what follows.
    fn events(&self, session: SessionId, head: &Head, from: u64, last: u64) -> Result<Vec<Event>> {
        let name = |seq| move |fault| Error::corrupt(Record::Event { session, seq }, fault);
        let mut expected = (from == 1).then(|| row::genesis(session));
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        for seq in from..=last {
            let event = self.event(session, seq).map_err(name(seq))?;
            if expected.is_some_and(|hash| hash != event.previous) {
                return Err(name(seq)(Fault::BrokenChain));
            }
            if event.payload.len() > room {
                return Ok(events);
            }
            room -= event.payload.len();
            expected = Some(row::link(&event.previous, seq, &event.payload));
            events.push(Event {
                seq,
                payload: event.payload,
            });
        }
        let after = if last == head.last_seq {
            head.last_hash
        } else {
            self.event_row(session, last + 1)
                .map_err(name(last + 1))?
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

/// An open store: the log, and what its writer and its readers share.
#[derive(Debug)]
pub(super) struct Trees {
    log: Option<Log>,
    pub(super) root: PathBuf,
    /// Where sessions of the group now being committed stood before it: readers see no further.
    pending: RwLock<HashMap<SessionId, u64>>,
    read_only: OnceLock<String>,
    /// Dropped after the log is closed.
    lock: Option<Lock>,
}

impl Drop for Trees {
    /// sled syncs when it closes, and panics if that fails; everything acknowledged is synced already.
    fn drop(&mut self) {
        let log = self.log.take();
        if catch_unwind(AssertUnwindSafe(|| drop(log))).is_err() {
            tracing::warn!(store = %self.root.display(), "the storage engine panicked while it closed");
        }
    }
}

impl Trees {
    pub(super) fn new(log: Log, root: PathBuf, lock: Lock) -> Self {
        Self {
            log: Some(log),
            root,
            pending: RwLock::default(),
            read_only: OnceLock::new(),
            lock: Some(lock),
        }
    }

    /// Closes the log and keeps the store.
    pub(super) fn into_lock(mut self) -> Option<Lock> {
        self.lock.take()
    }

    pub(super) fn log(&self) -> Result<&Log> {
        self.log.as_ref().ok_or(Error::Closed)
    }

    pub(super) fn read_only(&self) -> Option<String> {
        self.read_only.get().cloned()
    }

    /// Takes no more writes; the first reason stays.
    pub(super) fn set_read_only(&self, reason: String) {
        tracing::error!(store = %self.root.display(), reason, "the store is read-only");
        self.read_only.get_or_init(|| reason);
    }

    pub(super) fn why_closed(&self) -> Error {
        self.read_only()
            .map_or(Error::Closed, |reason| Error::ReadOnly { reason })
    }

    /// Hides what is about to be applied from readers.
    pub(super) fn hide(&self, before: HashMap<SessionId, u64>) {
        *self.pending.write().unwrap_or_else(PoisonError::into_inner) = before;
    }

    /// Shows readers everything again.
    pub(super) fn reveal(&self) {
        self.pending
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The last acknowledged event. The head must have been read before: a group is hidden before
    /// its heads change, so what is not pending now was acknowledged when the head was read.
    fn acknowledged(&self, session: SessionId, head: &Head) -> u64 {
        let pending = self.pending.read().unwrap_or_else(PoisonError::into_inner);
        pending
            .get(&session)
            .map_or(head.last_seq, |before| head.last_seq.min(*before))
    }

    pub(super) fn read(&self, session: SessionId, from: u64, limit: usize) -> Result<Vec<Event>> {
        let log = self.log()?;
        let Some(head) = log.head(session)? else {
            return Ok(Vec::new());
        };
        let from = from.max(1);
        let last = self
            .acknowledged(session, &head)
            .min(from.saturating_add(limit as u64) - 1);
        if from > last || limit == 0 {
            return Ok(Vec::new());
        }
        match log.events(session, &head, from, last) {
            // Somebody deleted the session meanwhile.
            Err(Error::Corrupt { .. })
                if log
                    .head(session)?
                    .is_none_or(|now| now.deleted || now.born_epoch != head.born_epoch) =>
            {
                Ok(Vec::new())
            }
            result => result,
        }
    }

    pub(super) fn checkpoint(&self, session: SessionId) -> Result<Option<Checkpoint>> {
        let checkpoint = self
            .log()?
            .checkpoint(session)
            .map_err(|fault| Error::corrupt(Record::Checkpoint { session }, fault))?;
        Ok(checkpoint.map(|(_, checkpoint)| checkpoint))
    }

    pub(super) fn info(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        let head = self.log()?.head(session)?;
        Ok(head.and_then(|head| self.info_of(session, &head)))
    }

    fn info_of(&self, session: SessionId, head: &Head) -> Option<SessionInfo> {
        Some(SessionInfo {
            last_seq: self.acknowledged(session, head),
            ..head.info(session)?
        })
    }

    pub(super) fn sessions(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let (log, mut after) = (self.log()?, after);
        let mut infos = Vec::new();
        while infos.len() < limit {
            let heads = log.heads(after, limit - infos.len())?;
            let Some((last, _)) = heads.last() else { break };
            after = Some(*last);
            infos.extend(
                heads
                    .iter()
                    .filter_map(|(session, head)| self.info_of(*session, head)),
            );
        }
        Ok(infos)
    }
}
