//! Reads when the engine cannot: after a failed write it may need another write to finish what it had
//! begun, and refuses reads as well. What was acknowledged is in the file, so it is read from there.

use std::path::Path;

use crate::disk::carve::Index;
use crate::disk::files;
use crate::engine::{Checkpoint, Event, MAX_PAYLOAD_BYTES, SessionId};
use crate::error::{Error, Fault, Record, Result};
use crate::row::Head;

/// Every whole record of the log's file. Nothing is written to it any more.
#[derive(Debug)]
pub(super) struct Rescue {
    index: Index,
}

impl Rescue {
    pub(super) fn new(root: &Path) -> Result<Self> {
        let mut index = Index::default();
        index.add(&files::data(root).join("db"))?;
        Ok(Self { index })
    }

    /// The head of a session that no write was under way for: all that is in the file counts.
    pub(super) fn head(&self, session: SessionId) -> Result<Option<Head>> {
        let Some(known) = self.index.heads.get(&session) else {
            return Ok(None);
        };
        let mut head = known.start(session);
        while !head.deleted
            && let Some((stamp, payload)) = self.index.follow(session, known.born_epoch, &head)
        {
            head.push(&payload, stamp.at_unix_ms);
        }
        if head.last_seq < known.last_seq {
            return Err(missing(session, head.last_seq + 1));
        }
        Ok(Some(head))
    }

    pub(super) fn events(
        &self,
        session: SessionId,
        acknowledged: &Head,
        from: u64,
        last: u64,
    ) -> Result<Vec<Event>> {
        let mut head = acknowledged.start(session);
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        while head.last_seq < last {
            let next = self.index.follow(session, acknowledged.born_epoch, &head);
            let (stamp, payload) = next.ok_or_else(|| missing(session, head.last_seq + 1))?;
            let (seq, _) = head.push(&payload, stamp.at_unix_ms);
            if seq >= from {
                if payload.len() > room {
                    break;
                }
                room -= payload.len();
                events.push(Event { seq, payload });
            }
        }
        Ok(events)
    }

    pub(super) fn checkpoint(&self, session: SessionId, head: Option<Head>) -> Option<Checkpoint> {
        let head = head.filter(|head| !head.deleted)?;
        let found = self
            .index
            .checkpoint(session, head.born_epoch, head.last_seq);
        found.map(|(_, checkpoint)| checkpoint)
    }

    pub(super) fn sessions(&self, after: Option<SessionId>, limit: usize) -> Vec<SessionId> {
        let sessions = self.index.heads.keys().copied();
        let later = sessions.filter(|session| after.is_none_or(|after| *session > after));
        later.take(limit).collect()
    }
}

fn missing(session: SessionId, seq: u64) -> Error {
    Error::unreadable(Record::Event { session, seq }, Fault::Missing)
}
