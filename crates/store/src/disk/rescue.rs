//! Reads the store when the engine cannot. The engine may need a write to complete an interrupted
//! operation, or to open at all, which a full or read-only disk does not allow. The acknowledged
//! data is in the files, so it is read from there.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::disk::carve::Index;
use crate::disk::ledger::{Extent, Extents};
use crate::disk::{files, tail};
use crate::engine::{Checkpoint, Event, MAX_PAYLOAD_BYTES, SessionId};
use crate::error::{Error, Fault, Record, Result};
use crate::row::Head;

/// Number of cached heads and read positions, of about 200 bytes each.
const KEPT: usize = 4096;

/// All undamaged records of the log's files, which are not written any more. Needs about 200 bytes
/// of memory for each event.
#[derive(Debug)]
pub(super) struct Rescue {
    index: Index,
    /// The acknowledged extents, which must be readable.
    extents: Extents,
    /// The last heads of sessions whose chain was followed completely.
    heads: Mutex<HashMap<SessionId, Head>>,
    /// The heads at which the last reads of sessions ended, from which the next reads continue.
    places: Mutex<HashMap<SessionId, Head>>,
}

impl Rescue {
    /// For the log of an open store, which knows what it acknowledged.
    pub(super) fn new(root: &Path) -> Result<Self> {
        Self::index(&files::data(root), None, Extents::new())
    }

    /// For a store that cannot be opened, with the acknowledged extents of its ledger.
    pub(super) fn of_closed(root: &Path, extents: Extents) -> Result<Self> {
        // If a swap was interrupted between its two renames, the new log was complete.
        let data = match files::data(root) {
            data if data.exists() => data,
            _ => files::data_new(root),
        };
        Self::index(&data, Some(&tail::path(root)), extents)
    }

    fn index(data: &Path, tail: Option<&Path>, extents: Extents) -> Result<Self> {
        let mut index = Index::default();
        index.add(&data.join("db"))?;
        tail.map_or(Ok(()), |tail| index.add(tail))?;
        Ok(Self {
            index,
            extents,
            heads: Mutex::default(),
            places: Mutex::default(),
        })
    }

    /// The head of a session to which no write was in progress: all its events in the files are
    /// valid.
    pub(super) fn head(&self, session: SessionId) -> Result<Option<Head>> {
        if let Some(head) = get(&self.heads, session) {
            return Ok(Some(head));
        }
        let extent = self.extents.get(&session);
        let Some(known) = self.index.heads.get(&session) else {
            return match extent {
                Some(extent) if !extent.deleted => {
                    Err(Error::unreadable(Record::Head { session }, Fault::Missing))
                }
                _ => Ok(None),
            };
        };
        let mut head = known.start(session);
        while !head.deleted
            && let Some((stamp, payload)) = self.index.follow(session, known.born_epoch, &head)
        {
            head.push(&payload, stamp.at_unix_ms);
        }
        let acknowledged = extent.filter(|extent| **extent > Extent::from_head(&head));
        let missing = acknowledged.is_some_and(|extent| extent.last_seq > head.last_seq);
        if head.last_seq < known.last_seq || missing {
            return Err(self::missing(session, head.last_seq + 1));
        }
        put(&self.heads, session, head.clone());
        Ok(Some(head))
    }

    pub(super) fn events(
        &self,
        session: SessionId,
        acknowledged: &Head,
        from: u64,
        last: u64,
    ) -> Result<Vec<Event>> {
        let place = get(&self.places, session);
        let place =
            place.filter(|head| head.last_seq < from && head.born_epoch == acknowledged.born_epoch);
        let mut head = place.unwrap_or_else(|| acknowledged.start(session));
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        while head.last_seq < last {
            let next = self.index.follow(session, acknowledged.born_epoch, &head);
            let (stamp, payload) = next.ok_or_else(|| missing(session, head.last_seq + 1))?;
            if head.last_seq + 1 >= from {
                if payload.len() > room {
                    break;
                }
                room -= payload.len();
            }
            let (seq, _) = head.push(&payload, stamp.at_unix_ms);
            if seq >= from {
                events.push(Event { seq, payload });
            }
        }
        put(&self.places, session, head);
        Ok(events)
    }

    pub(super) fn checkpoint(&self, session: SessionId, head: Option<Head>) -> Option<Checkpoint> {
        let head = head.filter(|head| !head.deleted)?;
        let found = self
            .index
            .checkpoint(session, head.born_epoch, head.last_seq);
        found.map(|(_, checkpoint)| checkpoint)
    }

    /// All sessions that are in the files or must be, including deleted ones.
    pub(super) fn known_sessions(&self) -> BTreeSet<SessionId> {
        let there = self.index.heads.keys();
        there.chain(self.extents.keys()).copied().collect()
    }

    pub(super) fn sessions(&self, after: Option<SessionId>, limit: usize) -> Vec<SessionId> {
        let sessions = self.index.heads.keys().copied();
        let later = sessions.filter(|session| after.is_none_or(|after| *session > after));
        later.take(limit).collect()
    }

    pub(super) fn newest_sessions(
        &self,
        before: Option<SessionId>,
        limit: usize,
    ) -> Vec<SessionId> {
        let sessions = self.index.heads.keys().rev().copied();
        let earlier = sessions.filter(|session| before.is_none_or(|before| *session < before));
        earlier.take(limit).collect()
    }
}

fn get(kept: &Mutex<HashMap<SessionId, Head>>, session: SessionId) -> Option<Head> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get(&session).cloned()
}

fn put(kept: &Mutex<HashMap<SessionId, Head>>, session: SessionId, head: Head) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(session, head);
}

fn missing(session: SessionId, seq: u64) -> Error {
    Error::unreadable(Record::Event { session, seq }, Fault::Missing)
}
