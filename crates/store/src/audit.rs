//! The audit log: changes and refused requests, in internal journals of the store.
//!
//! Entries are appended and never changed. The log is a ring of segments, and each segment is a
//! journal. When the newest segment is full or old, the log deletes the oldest one and reuses its
//! journal, so the log is bounded and old entries leave the store. The first event of a segment has
//! its generation, which grows by one per segment; it orders segments and makes positions unique.
//!
//! If several processes share the store, all of them append to the same segments. A process that does
//! not know the number of the latest entry cannot append; the refusal says the number, and it tries
//! again. It reads the log again only if the segment is not the newest one any more.

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

pub use commands::{Command, METHOD, OPENING, record, record_opening, with_audit};

/// Number of segments.
pub const SEGMENTS: u64 = 8;
/// Entries per read.
const PAGE: u64 = 1_024;
/// Maximum number of entries that one call of [`read`] examines.
const EXAMINED: u64 = 16_384;
/// Maximum number of retries of an append that conflicts with another process.
const TRIES: usize = 64;
const DAY_MS: i64 = 86_400_000;

/// A request that changed something or was refused, or a command or an opening that changed the
/// store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Time of the response; of a command, the time before its first change; of an opening, the time
    /// after it.
    pub at: Timestamp,
    /// The name of the token, the person, or the user of the operating system; `None` if unknown.
    pub caller: Option<Arc<str>>,
    /// The owner of that token.
    pub owner: Option<Arc<str>>,
    /// The HTTP method, [`METHOD`] or [`OPENING`].
    pub method: Arc<str>,
    /// The pattern of the route, empty if no route matches the path; or the name of the command or
    /// of the change.
    pub route: Arc<str>,
    /// The MCP tool, the A2A operation, or `login`.
    pub operation: Option<Arc<str>>,
    /// The ids of the objects it concerns, by kind, such as `session`.
    pub object: BTreeMap<Arc<str>, Arc<str>>,
    /// The status of the response; `None` for a command or an opening, or if the client
    /// disconnected before it.
    pub status: Option<u16>,
}

/// Why requests are missing from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The refused requests of a minute exceeded the limit.
    Refusals,
    /// The writer's queue was full.
    Queue,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The first event of a segment.
    Began {
        /// The number of the segment since the log began.
        generation: u64,
        /// The time at which it began.
        at: Timestamp,
    },
    /// A request.
    Action {
        /// The request.
        action: Action,
    },
    /// Requests that were counted instead of recorded.
    Omitted {
        /// The time of the count.
        at: Timestamp,
        /// The number of requests.
        count: u64,
        /// Why they were not recorded.
        cause: Cause,
    },
}

impl Entry {
    /// The time of the entry.
    pub fn time(&self) -> Timestamp {
        match self {
            Entry::Began { at, .. } | Entry::Omitted { at, .. } => *at,
            Entry::Action { action } => action.at,
        }
    }
}

layout! {
    codes Cause { 0 Refusals, 1 Queue }
    struct Action { at, caller, owner, method, route, operation, object, status }
    enum Entry {
        0 Began { generation, at },
        1 Action { action },
        2 Omitted { at, count, cause },
    }
}

/// How long and how much of the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days after which reads omit an entry. The store deletes it with its segment, at most a
    /// seventh of this period later.
    pub days: u32,
    /// Maximum number of entries.
    pub entries: u64,
}

impl Retention {
    /// The time of the oldest entry that reads return.
    pub fn oldest(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(i64::from(self.days) * DAY_MS))
    }

    /// The period during which a segment takes entries.
    fn span_ms(&self) -> i64 {
        i64::from(self.days) * DAY_MS / (SEGMENTS as i64 - 1)
    }

    /// The maximum number of entries in a segment, its first event included.
    fn segment_entries(&self) -> u64 {
        (self.entries / SEGMENTS).max(2)
    }
}

/// The position of an entry. Later entries have greater positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The generation of its segment.
    pub generation: u64,
    /// Its sequence number in the segment.
    pub seq: u64,
}

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
    retention: Retention,
    /// The newest segment; `None` before the first read, and if another process may have begun one.
    newest: Option<Segment>,
}

impl Audit {
    /// Makes a writer to the log of this store, without any access to the store.
    #[must_use]
    pub fn new(journal: &Journal, retention: Retention) -> Audit {
        Audit {
            journal: journal.clone(),
            retention,
            newest: None,
        }
    }

    /// Appends entries; they are on disk when it returns. It makes one append, or several if a
    /// segment becomes full.
    ///
    /// # Errors
    /// The store accepts no writes or fails, or a segment is unreadable. Some entries may be on disk.
    pub async fn append(&mut self, mut entries: &[Entry], now: Timestamp) -> Result<()> {
        let mut tried = 0;
        while !entries.is_empty() {
            tried += 1;
            match self.try_append(entries, now).await {
                Ok(written) => {
                    entries = entries.get(written..).unwrap_or_default();
                    tried = 0;
                }
                Err(Error::Fenced { .. } | Error::Conflict { .. }) if tried < TRIES => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends the entries that fit into the newest segment, and returns their number.
    async fn try_append(&mut self, entries: &[Entry], now: Timestamp) -> Result<usize> {
        let newest = match self.newest.take() {
            Some(newest) => Some(newest),
            None => segments(&self.journal).await?.pop(),
        };
        let room = self.retention.segment_entries();
        let current = newest.filter(|newest| {
            let is_young = now.0.saturating_sub(newest.began.0) < self.retention.span_ms();
            is_young && newest.last < room
        });
        let (segment, began) = match current {
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
        let append = Append::new(segment.journal, segment.epoch, segment.last, payloads);
        match self.journal.engine().append(append).await {
            Ok(last) => {
                self.newest = Some(Segment { last, ..segment });
                Ok(written)
            }
            Err(error) => {
                // The epoch is unchanged, so the segment is, too: others only added entries.
                if let Error::Conflict { last_seq, .. } = error
                    && began.is_none()
                {
                    self.newest = Some(Segment {
                        last: last_seq,
                        ..segment
                    });
                }
                Err(error)
            }
        }
    }

    /// Starts the next segment in the oldest journal of the ring.
    async fn next(
        &self,
        known: Option<Segment>,
        now: Timestamp,
    ) -> Result<(Segment, Option<Entry>)> {
        let segments = segments(&self.journal).await?;
        let number = |segment: &Segment| segment.generation;
        let newest = segments.last();
        if newest.map(number) != known.as_ref().map(number) {
            // Another process began the next segment or deleted old ones.
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
                ..Deletion::of_session(journal)
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

    /// Deletes the segments whose entries have all expired, and returns their number.
    ///
    /// # Errors
    /// The store accepts no writes or fails, or a segment is unreadable.
    pub async fn sweep(&mut self, now: Timestamp) -> Result<usize> {
        let (since, mut deleted) = (self.retention.oldest(now), 0);
        for segment in segments(&self.journal).await? {
            let newest = page(&self.journal, &segment, segment.last, 1).await?.pop();
            if newest.is_none_or(|(_, newest)| newest.time() >= since) {
                continue;
            }
            let deletion = Deletion {
                expected_seq: Some(segment.last),
                ..Deletion::of_session(segment.journal)
            };
            match self.journal.engine().delete_session(deletion).await {
                Ok(was_there) => deleted += usize::from(was_there),
                // Another process appended to it, so it is no longer old.
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
    /// The entries with their positions, newest first.
    pub entries: Vec<(Position, Entry)>,
    /// The position before which the next part begins; `None` at the end of the log.
    pub next: Option<Position>,
}

/// Reads up to `limit` matching entries before a position, newest first and not older than `since`.
/// One call examines a bounded number of entries, so a part may have fewer than `limit` entries, or
/// none, although it has a `next`.
pub async fn read(
    journal: &Journal,
    before: Option<Position>,
    since: Timestamp,
    limit: usize,
    matches: impl Fn(&Entry) -> bool,
) -> Result<Part> {
    let (mut part, mut left) = (Part::default(), EXAMINED);
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
        // The first event marks the beginning and is no entry.
        while last > 1 {
            let count = PAGE.min(last - 1);
            let entries = page(journal, segment, last + 1 - count, count).await?;
            if entries.iter().all(|(_, entry)| entry.time() < since) {
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
                if entry.time() >= since && matches(&entry) {
                    part.entries.push((position, entry));
                }
            }
            last -= count;
        }
    }
    Ok(part)
}

fn journal_of(generation: u64) -> SessionId {
    SessionId::from_u128(AUDIT.0.as_u128() - u128::from(generation % SEGMENTS))
}

/// The journals of the segments, whether they exist or not.
pub(crate) fn journals() -> impl Iterator<Item = SessionId> {
    (0..SEGMENTS).map(journal_of)
}

/// The segments with entries, oldest first.
async fn segments(journal: &Journal) -> Result<Vec<Segment>> {
    let engine = journal.engine();
    let ids: Vec<SessionId> = journals().collect();
    let firsts = engine.first_events(ids.clone()).await?;
    let infos = engine.existing(ids.clone()).await?;
    let mut found = Vec::new();
    for (id, first) in ids.into_iter().zip(firsts) {
        let Some(first) = first else { continue };
        let info = infos.iter().find(|info| info.session == id);
        let (Entry::Began { generation, at }, Some(info)) =
            (decode(id, first.seq, &first.payload)?, info)
        else {
            // Another process deleted it.
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

/// Reads `count` entries of a segment, in order.
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
