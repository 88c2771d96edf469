//! Events as the bytes of a payload, and back.
//!
//! A payload is the record version (two bytes, big-endian), since version 3 how many turns are open
//! (see [`OpenTurns`]), and an [`Event`] in the codec of this crate. The types of the submodules are
//! version 3: they mirror the domain's, name for name, and are converted field by field, so that a
//! change of the domain does not change what is on disk unnoticed. Version 2 had the same types with
//! fewer facts and steps; version 1 is read into them ([`v1`]).
//!
//! - The order of fields and of variants **is** the format. Nothing is inserted, moved or removed.
//! - A change makes a new [`VERSION`]: the types that differ are copied as they were, and [`decode`]
//!   goes on reading the old ones.
//! - Only what its version wrote is read: what decodes encodes, in that version, to the same bytes again.
//!
//! Ids are 128-bit numbers, digests 32 bytes, instants milliseconds since 1970 UTC.

mod agent;
pub(crate) mod budget;
mod checkpoint;
mod codes;
mod compaction;
mod context_part;
mod ending;
mod fact;
mod message;
mod open_turns;
mod policy;
mod run;
mod snapshot;
mod text_map;
mod tokens;
mod tool;
mod topic;
mod turn;
pub(crate) mod usage;
mod v1;

use unisono_session::event;

use crate::codec;
use crate::error::Fault;

use fact::Event;
pub(crate) use open_turns::OpenTurns;

/// The version this build writes. It reads this one and all before it.
pub(crate) const VERSION: u16 = 3;

/// The payload of an event, and what is known of its session after it.
///
/// # Errors
/// The reason, as text, if it is over the codec's limit or could not be read back.
pub(crate) fn encode(event: &event::Event, open: OpenTurns) -> Result<Vec<u8>, String> {
    let record = Event::try_from(event).map_err(|invalid| invalid.to_string())?;
    let body = codec::encode(&record)?;
    let mut payload = Vec::with_capacity(2 + OpenTurns::BYTES + body.len());
    payload.extend_from_slice(&VERSION.to_be_bytes());
    payload.extend_from_slice(&open.to_bytes());
    payload.extend_from_slice(&body);
    Ok(payload)
}

/// What an event's payload says of its session's open turns; unknown where its version, or its
/// place in an append, does not tell.
pub(crate) fn open_turns(payload: &[u8]) -> OpenTurns {
    match payload.split_first_chunk() {
        Some((&version, rest)) if u16::from_be_bytes(version) == VERSION => {
            OpenTurns::split(rest).map_or(OpenTurns::Unknown, |(open, _)| open)
        }
        _ => OpenTurns::Unknown,
    }
}

/// The event of a payload.
///
/// # Errors
/// What is wrong with it: a newer version, or bytes that [`encode`] did not write.
pub(crate) fn decode(payload: &[u8]) -> Result<event::Event, Fault> {
    let (version, body) = payload.split_first_chunk().ok_or(Fault::Truncated)?;
    let record: Event = match u16::from_be_bytes(*version) {
        0 => return Err(undecodable("record version 0 does not exist")),
        1 => {
            let record: v1::Event = codec::decode(body).map_err(undecodable)?;
            let record = Event::from(record);
            if record.fact.since() > 2 {
                return Err(undecodable("version 1 knew no such fact"));
            }
            record
        }
        2 => {
            let record: Event = codec::decode(body).map_err(undecodable)?;
            if record.fact.since() > 2 {
                return Err(undecodable("version 2 knew no such fact"));
            }
            record
        }
        VERSION => {
            let (_, body) = OpenTurns::split(body).ok_or(Fault::Truncated)?;
            codec::decode(body).map_err(undecodable)?
        }
        found => {
            return Err(Fault::Newer {
                found,
                supported: VERSION,
            });
        }
    };
    let event = record.try_into();
    event.map_err(|invalid: Invalid| undecodable(invalid.to_string()))
}

fn undecodable(reason: impl Into<String>) -> Fault {
    Fault::Undecodable {
        reason: reason.into(),
    }
}

/// A record that decodes, but stands for no value of the domain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    /// A range of messages that ends before it begins, or beyond the last number there is.
    #[error("there is no range of messages from {first} to {last}")]
    Span {
        /// Its first message.
        first: u32,
        /// Its last message.
        last: u32,
    },
    /// A step that has a variant of its own for what it says.
    #[error("a summary of the conversation stands where one of a topic or a bulk belongs")]
    Tier,
    /// A turn that has a variant of its own for what it says.
    #[error("wishes about a summary's writer stand where there are none")]
    Plain,
    /// A turn or an ending that has a variant of its own where nothing is lent or handed over.
    #[error("tools or calls of whoever asked stand where there are none")]
    Alone,
    /// A reply that has a variant of its own where nothing is known of how a stand-in was asked.
    #[error("what a stand-in was sent stands where none answered")]
    Own,
    /// A definition that has a variant of its own where it has no pipeline.
    #[error("a pipeline without stages stands where there is none")]
    Stageless,
    /// A table with keys twice, or out of order.
    #[error("its {table} are not in ascending order")]
    Order {
        /// What it lists.
        table: &'static str,
    },
}

#[cfg(test)]
mod tests;
