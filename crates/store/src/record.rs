//! Encodes facts as payloads, and decodes them.
//!
//! A payload is the mark of this format (two bytes), for an event the number of open turns (see
//! [`OpenTurns`]), and the value in its [`layout`]. The fields of each type are listed in
//! [`mod@context`] and [`mod@session`]: those lists are the format.
//!
//! - A field is added at the end of its list, after the semicolon; a variant gets the next number.
//!   Nothing else is changed, moved or removed, and [`FORMAT`] stays the same.
//! - Only the canonical encoding is accepted: a decoded payload encodes to the same bytes again.

mod context;
pub(crate) mod layout;
mod open_turns;
mod session;

use unisono_session::event;

use crate::codec::ROW_LIMIT_BYTES;
use crate::engine::SessionId;
use crate::error::{self, Error, Fault, Record};

use layout::{Layout, undecodable};
pub(crate) use open_turns::OpenTurns;

/// The first byte of every payload. Payloads before format 1 started with 0.
const MARK: u8 = b'u';
/// The format that this build writes and reads. Added fields and variants do not change it.
pub(crate) const FORMAT: u8 = 1;

/// Encodes an event, with the number of open turns of its session after it.
///
/// # Errors
/// The reason, as text, if it is too large or could not be decoded again.
pub(crate) fn encode(event: &event::Event, open: OpenTurns) -> Result<Vec<u8>, String> {
    let mut payload = begun();
    payload.extend_from_slice(&open.to_bytes());
    event.put(&mut payload)?;
    fits(payload)
}

/// The number of open turns in an event's payload; unknown if the event was not the last of its
/// append, or the payload has another format.
pub(crate) fn open_turns(payload: &[u8]) -> OpenTurns {
    let body = body(payload).ok().and_then(OpenTurns::split);
    body.map_or(OpenTurns::Unknown, |(open, _)| open)
}

/// Decodes an event.
///
/// # Errors
/// The fault of the payload: another format, or bytes that [`encode`] did not write.
pub(crate) fn decode(payload: &[u8]) -> Result<event::Event, Fault> {
    let (_, event) = OpenTurns::split(body(payload)?).ok_or(Fault::Truncated)?;
    whole(event)
}

/// Encodes an entry of one of the store's own journals.
pub(crate) fn encode_own<T: Layout>(value: &T) -> Result<Vec<u8>, String> {
    let mut payload = begun();
    value.put(&mut payload)?;
    fits(payload)
}

/// As [`encode_own`], with an error that names the entry.
pub(crate) fn encode_entry<T: Layout>(
    value: &T,
    session: SessionId,
    seq: u64,
) -> error::Result<Vec<u8>> {
    encode_own(value).map_err(|reason| Error::Encode {
        record: Record::Event { session, seq },
        reason,
    })
}

/// Decodes an entry of one of the store's own journals.
pub(crate) fn decode_own<T: Layout>(payload: &[u8]) -> Result<T, Fault> {
    whole(body(payload)?)
}

/// The bytes after the mark.
fn body(payload: &[u8]) -> Result<&[u8], Fault> {
    match payload {
        [MARK, FORMAT, body @ ..] => Ok(body),
        [MARK, 0, ..] => Err(undecodable("format 0 does not exist")),
        [MARK, found, ..] => Err(Fault::Newer {
            what: format!("format {found}, this version reads {FORMAT}"),
        }),
        [0, _, ..] => Err(Fault::Earlier),
        [_, _, ..] => Err(undecodable("it has no format")),
        _ => Err(Fault::Truncated),
    }
}

/// Decodes a value that must have exactly this length.
fn whole<T: Layout>(mut bytes: &[u8]) -> Result<T, Fault> {
    let value = T::take(&mut bytes)?;
    match bytes {
        [] => Ok(value),
        _ => Err(Fault::Truncated),
    }
}

/// A new payload with its mark, and capacity for most events.
fn begun() -> Vec<u8> {
    const ROOM_BYTES: usize = 512;
    let mut payload = Vec::with_capacity(ROOM_BYTES);
    payload.extend_from_slice(&[MARK, FORMAT]);
    payload
}

/// Returns the payload if it is not too large, without its unused capacity.
fn fits(mut payload: Vec<u8>) -> Result<Vec<u8>, String> {
    if payload.len() as u64 > ROW_LIMIT_BYTES {
        return Err(format!("it is over {ROW_LIMIT_BYTES} bytes"));
    }
    payload.shrink_to_fit();
    Ok(payload)
}

#[cfg(test)]
mod tests;
