//! A batch of changes to the log, framed and cut to size, on its way to sled.

use crate::codec::{self, Block};
use crate::disk::keys;
use crate::disk::log::Log;
use crate::engine::{Checkpoint, SessionId};
use crate::envelope::{self, Key, Kind};
use crate::error::{Error, Record, Result};
use crate::row::{self, Body, CheckpointRow, EventRow, Hash, Head, Stamp};

/// Changes that are applied together. Chunks go first: a record never precedes its chunks.
#[derive(Debug, Default)]
pub(super) struct Batch {
    journal: sled::Batch,
    chunks: sled::Batch,
    bytes: usize,
}

impl Batch {
    /// About how many bytes it will write.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn put_head(&mut self, session: SessionId, head: &Head) -> Result<()> {
        let row = encode(head, Record::Head { session })?;
        self.put(
            keys::head(session),
            envelope::seal(Kind::Head, row::key(session, 0), &row),
        );
        Ok(())
    }

    pub(super) fn put_event(
        &mut self,
        log: &Log,
        session: SessionId,
        (seq, stamp): (u64, Stamp),
        payload: Vec<u8>,
    ) -> Result<()> {
        let body = self.body(log, payload);
        let row = encode(&EventRow { stamp, body }, Record::Event { session, seq })?;
        let sealed = envelope::seal(Kind::Event, row::key(session, seq), &row);
        self.put(keys::event(session, seq), sealed);
        Ok(())
    }

    pub(super) fn put_checkpoint(
        &mut self,
        log: &Log,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        let body = self.body(log, checkpoint.state);
        let row = encode(
            &CheckpointRow { epoch, body },
            Record::Checkpoint { session },
        )?;
        let sealed = envelope::seal(Kind::Checkpoint, row::key(session, checkpoint.seq), &row);
        self.put(keys::checkpoint(session), sealed);
        Ok(())
    }

    /// Removes a session's events and checkpoint; its chunks may be others' too and go at a vacuum.
    pub(super) fn remove(&mut self, session: SessionId, last_seq: u64) {
        for seq in 1..=last_seq {
            self.journal.remove(keys::event(session, seq));
        }
        self.journal.remove(keys::checkpoint(session));
    }

    /// Gives the batch to sled. Not durable before a flush and a sync.
    pub(super) fn apply(self, log: &Log) -> sled::Result<()> {
        log.chunks.apply_batch(self.chunks)?;
        log.journal.apply_batch(self.journal)
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        self.journal.insert(key, value);
    }

    fn body(&mut self, log: &Log, payload: Vec<u8>) -> Body {
        if payload.len() <= keys::INLINE_LIMIT_BYTES {
            return Body::Inline(Block(payload));
        }
        let len_bytes = payload.len() as u64;
        let chunks = payload
            .chunks(keys::INLINE_LIMIT_BYTES)
            .map(|chunk| self.put_chunk(log, chunk))
            .collect();
        Body::Chunked { len_bytes, chunks }
    }

    /// Keeps a chunk under its hash, unless the very same bytes are there already.
    fn put_chunk(&mut self, log: &Log, bytes: &[u8]) -> Hash {
        let hash = *blake3::hash(bytes).as_bytes();
        if !log.has_chunk(&hash, bytes) {
            let sealed = envelope::seal(Kind::Chunk, Key::of_chunk(&hash), bytes);
            self.bytes += sealed.len();
            self.chunks.insert(&hash, sealed);
        }
        hash
    }
}

fn encode<T: serde::Serialize>(row: &T, record: Record) -> Result<Vec<u8>> {
    codec::encode(row).map_err(|reason| Error::Encode { record, reason })
}
