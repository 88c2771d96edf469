//! The file's side of an import: the first pass checks the whole file, the second returns its
//! content.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::archive::end_key;
use crate::archive::write::{EARLIER_LINE, FIRST_LINE};
use crate::codec;
use crate::engine::{Checkpoint, SessionId};
use crate::envelope::{self, Envelope, HEADER_BYTES, Key, Kind};
use crate::error::{Error, Fault, Result};
use crate::row::{self, ArchiveEnd, Body, CheckpointRow, EventRow, Hash, Head};

/// Events are sent in items of at most this many, and of about this many bytes.
const ITEM_EVENTS: usize = 256;
const ITEM_BYTES: usize = 4 << 20;

/// A part of a session, in the order in which it has to be stored.
#[derive(Debug)]
pub(super) enum Item {
    Events {
        session: SessionId,
        payloads: Vec<Vec<u8>>,
    },
    Checkpoint {
        session: SessionId,
        checkpoint: Checkpoint,
    },
    /// Ends a session, which may be empty.
    Head { session: SessionId },
    /// Takes back a session that was deleted during the export.
    Deleted { session: SessionId },
}

impl Item {
    pub(super) fn session(&self) -> SessionId {
        match self {
            Self::Events { session, .. }
            | Self::Checkpoint { session, .. }
            | Self::Head { session }
            | Self::Deleted { session } => *session,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Journals {
    pub(super) whole: BTreeSet<SessionId>,
    /// The sessions that were deleted during the export.
    pub(super) deleted: BTreeSet<SessionId>,
}

/// Checks a whole archive and returns its journals.
pub(super) fn check(path: &Path) -> Result<Journals> {
    let mut found = Journals::default();
    walk(path, |item| {
        match item {
            Item::Head { session } => found.whole.extend([session]),
            Item::Deleted { session } => {
                found.whole.remove(&session);
                found.deleted.insert(session);
            }
            Item::Events { .. } | Item::Checkpoint { .. } => {}
        }
        true
    })?;
    Ok(found)
}

/// Sends the content of an archive; ends early when the receiver is closed.
pub(super) fn send(path: &Path, items: &mpsc::Sender<Item>) -> Result<()> {
    walk(path, |item| items.blocking_send(item).is_ok())
}

/// Reads an archive, checks every record against the one before it, and calls `take` with each item
/// until it returns false.
fn walk(path: &Path, mut take: impl FnMut(Item) -> bool) -> Result<()> {
    let mut reader = Reader::open(path)?;
    let mut session = Open::default();
    let mut closed = BTreeSet::new();
    while let Some(bytes) = reader.record()? {
        let bad = |reason: String| Error::BadArchive {
            offset: reader.start,
            reason,
        };
        let envelope = envelope::open(&bytes).map_err(|fault| bad(fault.to_string()))?;
        if envelope.kind == Kind::ArchiveEnd {
            session.must_be_closed().map_err(bad)?;
            reader.check_end(&envelope)?;
            return Ok(());
        }
        let id = SessionId(Uuid::from_bytes(envelope.key.session));
        let is_closed = closed.contains(&id);
        if is_closed && envelope.kind != Kind::Head {
            return Err(bad(format!("session {id} comes twice")));
        }
        for item in session.take(id, &envelope).map_err(bad)? {
            let item = match item {
                Item::Head { session } if is_closed => Item::Deleted { session },
                item => item,
            };
            if let Item::Head { session } = &item {
                closed.insert(*session);
            }
            if !take(item) {
                return Ok(());
            }
        }
        reader.accept(&bytes);
    }
    Err(Error::BadArchive {
        offset: reader.start,
        reason: "it ends early".into(),
    })
}

/// The session whose records are being read.
#[derive(Default)]
struct Open {
    current: Option<(SessionId, Hash)>,
    last_seq: u64,
    payloads: Vec<Vec<u8>>,
    bytes: usize,
    checkpoint: Option<Checkpoint>,
}

impl Open {
    fn must_be_closed(&self) -> Result<(), String> {
        self.current
            .map_or(Ok(()), |(id, _)| Err(format!("session {id} is not closed")))
    }

    /// Processes a record and returns the items that can be stored now.
    fn take(&mut self, id: SessionId, envelope: &Envelope<'_>) -> Result<Vec<Item>, String> {
        let (current, hash) = *self.current.get_or_insert_with(|| (id, row::genesis(id)));
        if current != id {
            return Err(format!(
                "session {current} is not closed before session {id}"
            ));
        }
        match envelope.kind {
            Kind::Event => self.event(id, hash, envelope),
            Kind::Checkpoint => {
                let row: CheckpointRow = codec::decode(envelope.body)?;
                self.checkpoint = Some(Checkpoint {
                    seq: envelope.key.seq,
                    state: inline(row.body)?,
                });
                Ok(Vec::new())
            }
            Kind::Head => self.close(id, hash, &codec::decode(envelope.body)?),
            Kind::Chunk | Kind::Page | Kind::Mark | Kind::ArchiveEnd => {
                Err("a record of this kind has no place here".into())
            }
        }
    }

    fn event(
        &mut self,
        id: SessionId,
        hash: Hash,
        envelope: &Envelope<'_>,
    ) -> Result<Vec<Item>, String> {
        let row: EventRow = codec::decode(envelope.body)?;
        let seq = self.last_seq + 1;
        if envelope.key.seq != seq || row.stamp.previous != hash {
            return Err(format!(
                "event {} does not follow event {} of session {id}",
                envelope.key.seq, self.last_seq
            ));
        }
        let payload = inline(row.body)?;
        self.current = Some((id, row::link(&hash, seq, &row::digest(&payload))));
        self.last_seq = seq;
        let full = self.payloads.len() >= ITEM_EVENTS || self.bytes + payload.len() > ITEM_BYTES;
        let item = if full { self.events(id) } else { None };
        self.bytes += payload.len();
        self.payloads.push(payload);
        Ok(item.into_iter().collect())
    }

    fn events(&mut self, session: SessionId) -> Option<Item> {
        self.bytes = 0;
        let payloads = std::mem::take(&mut self.payloads);
        (!payloads.is_empty()).then_some(Item::Events { session, payloads })
    }

    fn close(&mut self, session: SessionId, hash: Hash, head: &Head) -> Result<Vec<Item>, String> {
        if head.last_seq != self.last_seq || head.last_hash != hash {
            return Err(format!(
                "session {session} ends at event {}, its head says {}",
                self.last_seq, head.last_seq
            ));
        }
        let mut items: Vec<Item> = self.events(session).into_iter().collect();
        if let Some(checkpoint) = self.checkpoint.take() {
            if checkpoint.seq > self.last_seq {
                return Err(format!(
                    "the checkpoint of session {session} covers event {}",
                    checkpoint.seq
                ));
            }
            items.push(Item::Checkpoint {
                session,
                checkpoint,
            });
        }
        items.push(Item::Head { session });
        *self = Self::default();
        Ok(items)
    }
}

fn inline(body: Body) -> Result<Vec<u8>, String> {
    match body {
        Body::Inline(block) => Ok(block.0),
        Body::Chunked { .. } => Err("a payload in chunks has no place here".into()),
    }
}

struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    hasher: blake3::Hasher,
    records: u64,
    /// Where the last record that was read starts.
    start: u64,
    next: u64,
}

impl Reader {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let hasher = blake3::Hasher::new();
        let mut reader = Self {
            file: BufReader::new(file),
            path: path.to_path_buf(),
            hasher,
            records: 0,
            start: 0,
            next: 0,
        };
        let first = reader.bytes(FIRST_LINE.len())?;
        if first == EARLIER_LINE {
            return Err(Error::EarlierArchive { path: reader.path });
        }
        if first != FIRST_LINE {
            return Err(Error::BadArchive {
                offset: 0,
                reason: "it does not start as an archive of format 1".into(),
            });
        }
        reader.hasher.update(FIRST_LINE);
        Ok(reader)
    }

    /// The next record's bytes; `None` at the end of the file.
    fn record(&mut self) -> Result<Option<Vec<u8>>> {
        self.start = self.next;
        let mut bytes = self.bytes(HEADER_BYTES)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let header = bytes.first_chunk::<HEADER_BYTES>();
        let len = header
            .ok_or(Fault::Truncated)
            .and_then(|header| envelope::announced_len(header).ok_or(Fault::NotARecord));
        let bad = |fault: Fault| Error::BadArchive {
            offset: self.start,
            reason: fault.to_string(),
        };
        let len = len.map_err(bad)?;
        if len as u64 > codec::ROW_LIMIT_BYTES {
            return Err(bad(Fault::Truncated));
        }
        bytes.extend(self.bytes(len - HEADER_BYTES)?);
        Ok(Some(bytes))
    }

    /// Reads at most this many bytes; fewer at the end of the file.
    fn bytes(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(len as u64).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        self.next += bytes.len() as u64;
        Ok(bytes)
    }

    fn accept(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.records += 1;
    }

    fn check_end(&mut self, envelope: &Envelope<'_>) -> Result<()> {
        let bad = |offset, reason: &str| {
            Err(Error::BadArchive {
                offset,
                reason: reason.into(),
            })
        };
        let Ok(end) = codec::decode::<ArchiveEnd>(envelope.body) else {
            return bad(self.start, "its end does not decode");
        };
        let key: Key = end_key();
        if envelope.key != key
            || end.records != self.records
            || end.digest != *self.hasher.finalize().as_bytes()
        {
            return bad(self.start, "its end does not fit what is before it");
        }
        if !self.bytes(1)?.is_empty() {
            return bad(self.next - 1, "something follows its end");
        }
        Ok(())
    }
}
