//! Reads the events of one session. Keeps the current page and block, because consecutive events
//! often share them.

use crate::disk::keys;
use crate::disk::log::{self, Log, SessionState};
use crate::engine::{Event, MAX_PAYLOAD_BYTES, SessionId};
use crate::envelope::{self, Kind};
use crate::error::{Error, Fault, Record, Result};
use crate::row::{self, EventRow, PageRow, Stamp};

/// A reader of one session's events.
pub(super) struct Cursor<'a> {
    log: &'a Log,
    session: SessionId,
    known: &'a SessionState,
    page: Option<(u64, PageRow)>,
    block: Option<(u64, sled::IVec)>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(log: &'a Log, session: SessionId, known: &'a SessionState) -> Self {
        Self {
            log,
            session,
            known,
            page: None,
            block: None,
        }
    }

    /// Returns an event's stamp and payload.
    pub(super) fn event(&mut self, seq: u64) -> Result<(Stamp, Vec<u8>), Fault> {
        let EventRow { stamp, body } = self.row(seq)?;
        Ok((stamp, self.log.payload(body)?))
    }

    /// Reads events `from..=last` and checks the chain between them and to the next event.
    pub(super) fn events(&mut self, from: u64, last: u64) -> Result<Vec<Event>> {
        let session = self.session;
        let name = |seq| move |fault| Error::unreadable(Record::Event { session, seq }, fault);
        let mut expected = (from == 1).then(|| row::genesis(session));
        let mut room = MAX_PAYLOAD_BYTES;
        let mut events = Vec::new();
        for seq in from..=last {
            let (stamp, payload) = self.event(seq).map_err(name(seq))?;
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
        let after = if last == self.known.head.last_seq {
            self.known.head.last_hash
        } else {
            self.row(last + 1).map_err(name(last + 1))?.stamp.previous
        };
        if expected.is_some_and(|hash| hash != after) {
            return Err(name(last)(Fault::BrokenChain));
        }
        Ok(events)
    }

    fn row(&mut self, seq: u64) -> Result<EventRow, Fault> {
        let key = row::key(self.session, seq);
        let block = self.block_of(seq)?;
        // A session that was deleted and created again may be in a block twice; the later one is
        // valid.
        let records =
            envelope::split(block).filter(|bytes| envelope::carries(bytes, Kind::Event, key));
        log::row_of(records.last().ok_or(Fault::Missing)?, Kind::Event, key)
    }

    /// Returns the block that contains an event.
    fn block_of(&mut self, seq: u64) -> Result<&[u8], Fault> {
        let number = if seq > self.known.written.last_seq {
            self.known.block_of(seq)
        } else {
            let (page, place) = keys::page_of(seq);
            self.page(page)?.blocks.get(place).copied()
        };
        let number = number.ok_or(Fault::Missing)?;
        let block = match self.block.take() {
            Some((at_hand, block)) if at_hand == number => block,
            _ => self.log.block(number)?.ok_or(Fault::Missing)?,
        };
        Ok(&self.block.insert((number, block)).1)
    }

    fn page(&mut self, page: u64) -> Result<&PageRow, Fault> {
        let row = match self.page.take() {
            Some((at_hand, row)) if at_hand == page => row,
            _ => self.log.page(self.session, page)?,
        };
        Ok(&self.page.insert((page, row)).1)
    }
}
