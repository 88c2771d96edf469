//! Reads at an opening what is not yet in heads and pages: the events in the blocks after the mark.

use std::collections::hash_map::Entry;

use uuid::Uuid;

use crate::codec;
use crate::disk::batch::Numbers;
use crate::disk::log::Log;
use crate::disk::trees::Live;
use crate::engine::SessionId;
use crate::envelope::{self, Envelope, Kind};
use crate::error::{Error, Fault, Record, Result};
use crate::row::EventRow;

/// The content of the blocks after the mark.
#[derive(Debug)]
pub(super) struct Replay {
    /// The sessions with events in these blocks.
    pub(super) live: Live,
    /// The first of these blocks.
    pub(super) mark: u64,
    pub(super) numbers: Numbers,
}

/// Reads the blocks after the mark.
pub(super) fn replay(log: &Log) -> Result<Replay> {
    let mark = log.mark()?;
    let mut live = Live::new();
    let mut number = mark;
    let name = |number| move |fault| Error::unreadable(Record::Block { number }, fault);
    while let Some(block) = log.block(number).map_err(name(number))? {
        for record in envelope::split(&block) {
            let envelope = envelope::open(record).map_err(name(number))?;
            if envelope.kind != Kind::Event {
                return Err(name(number)(Fault::WrongKey));
            }
            take(log, &mut live, number, &envelope)?;
        }
        number += 1;
    }
    Ok(Replay {
        live,
        mark,
        numbers: Numbers::starting_at(number),
    })
}

/// Adds an event to the state of its session, unless it belongs to an earlier, deleted session or
/// is known already.
fn take(log: &Log, live: &mut Live, block: u64, envelope: &Envelope<'_>) -> Result<()> {
    let (session, seq) = (
        SessionId(Uuid::from_bytes(envelope.key.session)),
        envelope.key.seq,
    );
    let corrupt = |fault| Error::unreadable(Record::Event { session, seq }, fault);
    let known = match live.entry(session) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(log.known(session)?),
    };
    let Some(known) = known else {
        return Err(Error::unreadable(Record::Head { session }, Fault::Missing));
    };
    let head = &mut known.head;
    let row: EventRow =
        codec::decode(envelope.body).map_err(|reason| corrupt(Fault::Undecodable { reason }))?;
    if head.deleted || seq <= head.last_seq || row.stamp.epoch < head.born_epoch {
        return Ok(());
    }
    if seq != head.last_seq + 1 || row.stamp.previous != head.last_hash {
        return Err(corrupt(Fault::BrokenChain));
    }
    let payload = log.payload(row.body).map_err(corrupt)?;
    head.push(&payload, row.stamp.at_unix_ms);
    known.add_block(block);
    Ok(())
}
