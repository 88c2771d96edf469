//! The first event of a content's journal.
//!
//! A repair finds records in damaged files by their first bytes. The bytes of a client must not look like
//! a record, because the record around them may be damaged: in a content with such bytes, a zero follows
//! each beginning of them.

use std::borrow::Cow;

use memchr::memmem;

use crate::envelope::MAGIC;
use crate::error::Fault;

/// The first byte of an event with a content as it is.
const PLAIN: u8 = 1;
/// The first byte of an event with a content in which zeros are inserted.
const DIVIDED: u8 = 2;
/// A zero follows these bytes.
const BEGINNING: &[u8] = &[MAGIC[0], MAGIC[1], MAGIC[2]];

/// The event with a content.
pub(super) fn encode(content: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(1 + content.len());
    if memmem::find(content, &MAGIC).is_none() {
        payload.push(PLAIN);
        payload.extend_from_slice(content);
        return payload;
    }
    payload.push(DIVIDED);
    let mut rest = content;
    while let Some((part, after)) = split(rest) {
        payload.extend_from_slice(part);
        payload.push(0);
        rest = after;
    }
    payload.extend_from_slice(rest);
    payload
}

/// The content in an event.
pub(super) fn decode(payload: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    match payload {
        [PLAIN, content @ ..] => Ok(content.into()),
        [DIVIDED, rest @ ..] => {
            let mut content = Vec::with_capacity(rest.len());
            let mut rest = rest;
            while let Some((part, after)) = split(rest) {
                content.extend_from_slice(part);
                rest = after.get(1..).ok_or(Fault::Truncated)?;
            }
            content.extend_from_slice(rest);
            Ok(content.into())
        }
        [found, ..] => Err(Fault::Newer {
            what: format!("content of format {found}, this version reads {DIVIDED}"),
        }),
        [] => Err(Fault::Truncated),
    }
}

/// The bytes up to the end of the first [`BEGINNING`], and the bytes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memmem::find(bytes, BEGINNING)?;
    bytes.split_at_checked(at + BEGINNING.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: [u8; 5] = [0, 0xF5, 0x55, 0x6E, 0x4A];

    #[test]
    fn a_content_without_the_bytes_of_a_record_is_stored_as_it_is() {
        assert_eq!(encode(b""), [PLAIN]);
        assert_eq!(encode(b"\xF5\x55\x6Ex"), b"\x01\xF5\x55\x6Ex");
        assert_eq!(encode(b"\xF5\x55\x6E\x4A"), b"\x02\xF5\x55\x6E\0\x4A");
        assert_eq!(decode(b""), Err(Fault::Truncated));
        assert_eq!(decode(b"\x02\xF5\x55\x6E"), Err(Fault::Truncated));
        assert!(matches!(decode(b"\x03x"), Err(Fault::Newer { .. })));
    }

    proptest! {
        #[test]
        fn no_event_has_the_bytes_of_a_record(
            bytes in prop::collection::vec(prop::sample::select(BYTES.to_vec()), 0..64),
            records in 0_usize..3,
        ) {
            let content = [MAGIC.repeat(records), bytes].concat();
            let payload = encode(&content);
            prop_assert!(memmem::find(&payload, &MAGIC).is_none(), "{payload:x?}");
            prop_assert_eq!(decode(&payload).unwrap().into_owned(), content);
        }
    }
}
