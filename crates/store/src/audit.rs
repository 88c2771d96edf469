//! Who changed what, and who was refused, in journals of the store's own.
//!
//! Entries are appended and never changed. They stand in a ring of segments, each a journal: when the
//! newest one is full or old, the oldest one is deleted and becomes the next, so that the log is
//! bounded and old entries leave the store. The first event of a segment has its generation, which
//! grows by one from segment to segment; it orders the segments and makes positions unambiguous.
//!
//! If several processes share the store, all of them append to the same segments: a process that has
//! not read the latest entry cannot write, and tries again.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::Timestamp;

use crate::engine::{AUDIT, Append, Deletion, SessionId};
use crate::error::{Error, Fault, Record, Result};
use crate::grants::join;
use crate::journal::Journal;
use crate::record;
use crate::record::layout::{Fields, Layout, layout, put_optional, unknown};

mod commands;

pub use commands::{Command, METHOD, recorded};

/// Number of segments.
pub const SEGMENTS: u64 = 8;
/// Number of entries that are read at a time.
const PAGE: u64 = 1_024;
/// Number of entries that one call of [`read`] looks at.
const LOOKED_AT: u64 = 16_384;
/// How often an append is tried again because another process wrote meanwhile.
const TRIES: usize = 64;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A request that changed something or was refused, or a command that changed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it was answered; of a command, when it began to change something.
    pub at: Timestamp,
    /// The name of the token, the person, or the user of the operating system; `None` if nobody is
    /// known.
    pub who: Option<Arc<str>>,
    /// The owner of that token.
    pub owner: Option<Arc<str>>,
    /// The method of HTTP, or [`METHOD`].
    pub method: Arc<str>,
    /// The pattern of the route, empty if there is no such route; or the name of the command.
    pub route: Arc<str>,
    /// The tool of MCP, the operation of A2A, or `login`.
    pub operation: Option<Arc<str>>,
    /// The ids of what it is about, by kind, such as `session`.
    pub object: BTreeMap<Arc<str>, Arc<str>>,
    /// The status of the answer; `None` of a command, or if the client left before it.
    pub status: Option<u16>,
}

/// Why entries are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// More requests were refused than are recorded in a minute.
    Refusals,
    /// The queue of the writer was full.
    Queue,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The first event of a segment.
    Began {
        /// The number of the segment since the log began.
        generation: u64,
        /// When.
        at: Timestamp,
    },
    /// A request.
    Done {
        /// The request.
        done: Done,
    },
    /// Requests that are not recorded one by one.
    LeftOut {
        /// When they were counted.
        at: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        cause: Cause,
    },
}

impl Entry {
    /// When it was made.
    pub fn at(&self) -> Timestamp {
        match self {
            Entry::Began { at, .. } | Entry::LeftOut { at, .. } => *at,
            Entry::Done { done } => done.at,
        }
    }
}

layout! {
    codes Cause { 0 Refusals, 1 Queue }
    struct Done { at, who, owner, method, route, operation, object, status }
    enum Entry {
        0 Began { generation, at },
        1 Done { done },
        2 LeftOut { at, count, cause },
    }
}

/// How much of the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Days after which an entry is not shown any more; it leaves the store with its segment, at
    /// most a seventh of that time later.
    pub days: u32,
    /// Maximum number of entries.
    pub entries: u64,
}

impl Kept {
    /// The oldest instant that is shown.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(i64::from(self.days) * DAY_MS))
    }

    /// How long a segment is appended to.
    fn span_ms(&self) -> i64 {
        i64::from(self.days) * DAY_MS / (SEGMENTS as i64 - 1)
    }

    /// The entries of a segment, its first event included.
    fn segment_entries(&self) -> u64 {
        (self.entries / SEGMENTS).max(2)
    }
}

/// The place of an entry: later entries have greater places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The generation of its segment.
    pub generation: u64,
    /// Its number in the segment.
    pub seq: u64,
}

/// A segment that has entries.
#[derive(Clone, Copy, Debug)]
struct Segment {
    journal: SessionId,
    generation: u64,
    began: Timestamp,
    epoch: u64,
    last: u64,
}

/// The writer of the log.
#[derive(Debug)]
pub struct Audit {
    journal: Journal,
    kept: Kept,
    /// The newest segment; `None` before it was read, and after another process wrote.
    newest: Option<Segment>,
}

impl Audit {
    /// A writer to the log of this store; nothing is read or written yet.
    #[must_use]
    pub fn new(journal: &Journal, kept: Kept) -> Audit {
        Audit {
            journal: journal.clone(),
            kept,
            newest: None,
        }
    }

    /// Appends entries; they are on disk when it returns. They are one append, unless a segment ends
    /// among them.
    ///
    /// # Errors
    /// The store accepts no writes, or failed; a segment cannot be read. Some entries may be on disk.
    pub async fn append(&mut self, mut entries: &[Entry], now: Timestamp) -> Result<()> {
        let mut tried = 0;
        while !entries.is_empty() {
            tried += 1;
            match self.try_append(entries, now).await {
                Ok(written) => {
                    entries = entries.get(written..).unwrap_or_default();
                    tried = 0;
                }
                Err(Error::Fenced { .. } | Error::Conflict { .. }) if tried < TRIES => {
                    self.newest = None;
                }
                Err(error) => {
                    self.newest = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Appends as many entries as the newest segment has room for, and returns how many.
    async fn try_append(&mut self, entries: &[Entry], now: Timestamp) -> Result<usize> {
        let newest = match self.newest {
            Some(newest) => Some(newest),
            None => segments(&self.journal).await?.pop(),
        };
        let room = self.kept.segment_entries();
        let goes_on = newest.filter(|newest| {
            let is_young = now.0.saturating_sub(newest.began.0) < self.kept.span_ms();
            is_young && newest.last < room
        });
        let (segment, began) = match goes_on {
            Some(segment) => (segment, None),
            None => self.next(newest, now).await?,
        };
        let left = room - segment.last - u64::from(began.is_some());
        let written = entries.len().min(left as usize);
        let mut payloads = Vec::with_capacity(written + 1);
        for entry in began.iter().chain(entries.iter().take(written)) {
            let seq = segment.last + 1 + payloads.len() as u64;
            payloads.push(record::encode_entry(entry, segment.journal, seq)?);
        }
        let append = Append {
            session: segment.journal,
            epoch: segment.epoch,
            expected_seq: segment.last,
            payloads,
        };
        let last = self.journal.engine().append(append).await?;
        self.newest = Some(Segment { last, ..segment });
        Ok(written)
    }

    /// Empties the oldest place of the ring for the next segment.
    async fn next(
        &self,
        known: Option<Segment>,
        now: Timestamp,
    ) -> Result<(Segment, Option<Entry>)> {
        let segments = segments(&self.journal).await?;
        let number = |segment: &Segment| segment.generation;
        let newest = segments.last();
        if newest.map(number) != known.as_ref().map(number) {
            // Another process began the next segment, or deleted old ones.
            return Err(Error::Conflict {
                session: journal_of(0),
                expected_seq: known.map_or(0, |known| known.last),
                last_seq: newest.map_or(0, |newest| newest.last),
            });
        }
        let generation = known.map_or(0, |known| known.generation + 1);
        let journal = journal_of(generation);
        let engine = self.journal.engine();
        if let Some(oldest) = segments.iter().find(|oldest| oldest.journal == journal) {
            let deletion = Deletion {
                expected_seq: Some(oldest.last),
                ..Deletion::of(journal)
            };
            engine.delete_session(deletion).await?;
        }
        let claim = match self.journal.cluster() {
            Some(_) => join(engine.as_ref(), journal).await?,
            None => engine.claim(journal).await?,
        };
        let segment = Segment {
            journal,
            generation,
            began: now,
            epoch: claim.epoch,
            last: 0,
        };
        let began = Entry::Began {
            generation,
            at: now,
        };
        Ok((segment, Some(began)))
    }

    /// Deletes the segments whose entries are all older than is kept. Returns how many.
    ///
    /// # Errors
    /// The store accepts no writes, or failed; a segment cannot be read.
    pub async fn sweep(&mut self, now: Timestamp) -> Result<usize> {
        let (since, mut deleted) = (self.kept.since(now), 0);
        for segment in segments(&self.journal).await? {
            let newest = page(&self.journal, &segment, segment.last, 1).await?.pop();
            if newest.is_none_or(|(_, newest)| newest.at() >= since) {
                continue;
            }
            let deletion = Deletion {
                expected_seq: Some(segment.last),
                ..Deletion::of(segment.journal)
            };
            match self.journal.engine().delete_session(deletion).await {
                Ok(was_there) => deleted += usize::from(was_there),
                // Somebody writes to it: it is not old any more.
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
            self.newest = None;
        }
        Ok(deleted)
    }
}

/// A part of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The entries, the newest first, with their places.
    pub entries: Vec<(Position, Entry)>,
    /// Where the next part begins; `None` if there is none.
    pub next: Option<Position>,
}

/// Reads at most `limit` entries that are wanted, the newest first, before a place and not older than
/// `since`. One call looks at a bounded number of entries: a part may have fewer than `limit`, or none,
/// although there is a next one.
///
/// # Errors
/// The store failed; an entry cannot be read.
pub async fn read(
    journal: &Journal,
    before: Option<Position>,
    since: Timestamp,
    limit: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> Result<Part> {
    let (mut part, mut left) = (Part::default(), LOOKED_AT);
    let segments = segments(journal).await?;
    let is_before = |generation: u64| before.is_none_or(|before| generation <= before.generation);
    for segment in segments
        .iter()
        .rev()
        .filter(|one| is_before(one.generation))
    {
        let mut last = match before {
            Some(before) if before.generation == segment.generation => {
                segment.last.min(before.seq.saturating_sub(1))
            }
            _ => segment.last,
        };
        // The first event is not an entry.
        while last > 1 {
            let count = PAGE.min(last - 1);
            let entries = page(journal, segment, last + 1 - count, count).await?;
            if entries.iter().all(|(_, entry)| entry.at() < since) {
                return Ok(part);
            }
            for (position, entry) in entries.into_iter().rev() {
                if left == 0 || part.entries.len() == limit {
                    part.next = Some(Position {
                        seq: position.seq + 1,
                        ..position
                    });
                    return Ok(part);
                }
                left -= 1;
                if entry.at() >= since && is_wanted(&entry) {
                    part.entries.push((position, entry));
                }
            }
            last -= count;
        }
    }
    Ok(part)
}

/// The place of a generation in the ring.
fn journal_of(generation: u64) -> SessionId {
    SessionId::from_u128(AUDIT.0.as_u128() - u128::from(generation % SEGMENTS))
}

/// The segments that have entries, the oldest first.
async fn segments(journal: &Journal) -> Result<Vec<Segment>> {
    let engine = journal.engine();
    let ids: Vec<SessionId> = (0..SEGMENTS).map(journal_of).collect();
    let firsts = engine.first_events(ids.clone()).await?;
    let mut found = Vec::new();
    for (id, first) in ids.into_iter().zip(firsts) {
        let Some(first) = first else { continue };
        let (Entry::Began { generation, at }, Some(info)) = (
            decode(id, first.seq, &first.payload)?,
            engine.session(id).await?,
        ) else {
            // It was deleted meanwhile.
            continue;
        };
        found.push(Segment {
            journal: id,
            generation,
            began: at,
            epoch: info.epoch,
            last: info.last_seq,
        });
    }
    found.sort_by_key(|segment| segment.generation);
    Ok(found)
}

/// Some entries of a segment, in their order.
async fn page(
    journal: &Journal,
    segment: &Segment,
    from: u64,
    count: u64,
) -> Result<Vec<(Position, Entry)>> {
    let read = journal.engine().read(segment.journal, from, count as usize);
    let events = read.await?.into_iter();
    let each = events.map(|event| {
        let position = Position {
            generation: segment.generation,
            seq: event.seq,
        };
        Ok((
            position,
            decode(segment.journal, event.seq, &event.payload)?,
        ))
    });
    each.collect()
}

fn decode(session: SessionId, seq: u64, payload: &[u8]) -> Result<Entry> {
    let of = Record::Event { session, seq };
    record::decode_own(payload).map_err(|fault| Error::unreadable(of, fault))
}

#[cfg(test)]
mod tests;
