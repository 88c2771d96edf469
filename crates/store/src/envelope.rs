//! The frame around every record on disk, in an archive and in a log. It has the record's kind, its
//! key and a checksum, so a record can be verified, and found again, on its own.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `F5 55 6E 4A` |
//! | 4 | 2 | format, big-endian |
//! | 6 | 1 | codec of the body |
//! | 7 | 1 | kind of record |
//! | 8 | 16 | session (for a chunk: the first half of its hash) |
//! | 24 | 8 | sequence number, big-endian (for a chunk: the third quarter of its hash) |
//! | 32 | 4 | length of the body, big-endian |
//! | 36 | n | body |
//! | 36 + n | 4 | CRC32C of all before it, big-endian |

use serde::Serialize;

use crate::codec;
use crate::error::Fault;
use crate::record;

/// The first bytes of every envelope. The first of them never occurs in UTF-8 text.
pub(crate) const MAGIC: [u8; 4] = [0xF5, 0x55, 0x6E, 0x4A];
/// The format of stores and archives that this build writes and reads.
pub(crate) const FORMAT: u16 = record::FORMAT as u16;
pub(crate) const HEADER_BYTES: usize = 36;
/// Bytes an envelope adds to its body.
pub(crate) const OVERHEAD_BYTES: usize = HEADER_BYTES + 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    Head = 1,
    Event = 2,
    Checkpoint = 3,
    Chunk = 4,
    ArchiveEnd = 5,
    Page = 6,
    Mark = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Head,
            Self::Event,
            Self::Checkpoint,
            Self::Chunk,
            Self::ArchiveEnd,
            Self::Page,
            Self::Mark,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// The key repeated inside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) session: [u8; 16],
    pub(crate) seq: u64,
}

impl Key {
    /// The key of a chunk: the first 24 bytes of its hash.
    pub(crate) fn of_chunk(hash: &[u8; 32]) -> Self {
        let mut session = [0; 16];
        session.copy_from_slice(&hash[..16]);
        let mut seq = [0; 8];
        seq.copy_from_slice(&hash[16..24]);
        Self {
            session,
            seq: u64::from_be_bytes(seq),
        }
    }
}

/// A complete envelope whose checksum was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) body: &'a [u8],
}

/// Frames a row.
///
/// # Errors
/// The reason, as text, if the row is over the codec's limit.
pub(crate) fn seal<T: Serialize>(kind: Kind, key: Key, row: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    seal_onto(&mut bytes, kind, key, row)?;
    Ok(bytes)
}

/// Frames a row and appends it to `bytes`; leaves `bytes` unchanged if that fails.
pub(crate) fn seal_onto<T: Serialize>(
    bytes: &mut Vec<u8>,
    kind: Kind,
    key: Key,
    row: &T,
) -> Result<(), String> {
    let start = open_frame(bytes, kind, key);
    let encoded = codec::encode_onto(bytes, row);
    match encoded {
        Ok(()) => close_frame(bytes, start),
        Err(_) => bytes.truncate(start),
    }
    encoded
}

/// Frames bytes that are not a row.
pub(crate) fn seal_bytes(kind: Kind, key: Key, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + OVERHEAD_BYTES);
    seal_body_onto(&mut bytes, kind, key, |bytes| bytes.extend_from_slice(body));
    bytes
}

/// Frames the body that `put` appends to `bytes`.
pub(crate) fn seal_body_onto(
    bytes: &mut Vec<u8>,
    kind: Kind,
    key: Key,
    put: impl FnOnce(&mut Vec<u8>),
) {
    let start = open_frame(bytes, kind, key);
    put(bytes);
    close_frame(bytes, start);
}

/// Appends a header with length 0; returns its offset.
fn open_frame(bytes: &mut Vec<u8>, kind: Kind, key: Key) -> usize {
    let start = bytes.len();
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&FORMAT.to_be_bytes());
    header[6] = codec::BINCODE_FIXINT;
    header[7] = kind as u8;
    header[8..24].copy_from_slice(&key.session);
    header[24..32].copy_from_slice(&key.seq.to_be_bytes());
    bytes.extend_from_slice(&header);
    start
}

/// Fills in the length of the body after a header, and appends the checksum. Bodies are far below 4
/// GiB, which the codec's limit ensures.
fn close_frame(bytes: &mut Vec<u8>, start: usize) {
    let len = u32::try_from(bytes.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    bytes[start + 32..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[start..]);
    bytes.extend_from_slice(&crc.to_be_bytes());
}

/// Splits consecutive envelopes by the lengths in their headers alone. Bytes that are not an
/// envelope are returned as one last piece.
pub(crate) fn split(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = bytes.first_chunk().and_then(announced_len);
        let len = len.unwrap_or(bytes.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(len);
        bytes = rest;
        (!first.is_empty()).then_some(first)
    })
}

pub(crate) fn carries(bytes: &[u8], kind: Kind, key: Key) -> bool {
    bytes.first_chunk::<HEADER_BYTES>().is_some_and(|header| {
        header[7] == kind as u8
            && header[8..24] == key.session
            && header[24..32] == key.seq.to_be_bytes()
    })
}

/// The total length of the envelope that starts here, read from its header alone.
pub(crate) fn announced_len(header: &[u8; HEADER_BYTES]) -> Option<usize> {
    let len = u32::from_be_bytes([header[32], header[33], header[34], header[35]]);
    (header[..4] == MAGIC).then_some(len as usize + OVERHEAD_BYTES)
}

/// Opens an envelope that must have exactly this length.
///
/// # Errors
/// The fault of the envelope. A newer format is distinguished from damage only if the checksum is
/// correct.
pub(crate) fn open(bytes: &[u8]) -> Result<Envelope<'_>, Fault> {
    let header = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(Fault::Truncated)?;
    if header[..4] != MAGIC {
        return Err(Fault::NotARecord);
    }
    let len = announced_len(header).ok_or(Fault::NotARecord)?;
    if bytes.len() != len {
        return Err(Fault::Truncated);
    }
    let (sealed, crc) = bytes.split_at(len - 4);
    if crc != crc32c::crc32c(sealed).to_be_bytes() {
        return Err(Fault::BadChecksum);
    }
    let format = u16::from_be_bytes([header[4], header[5]]);
    if format > FORMAT {
        return Err(Fault::Newer {
            what: format!("format {format}, this version reads {FORMAT}"),
        });
    }
    if header[6] != codec::BINCODE_FIXINT {
        return Err(Fault::UnknownCodec { found: header[6] });
    }
    let kind = Kind::from_byte(header[7]).ok_or(Fault::UnknownKind { found: header[7] })?;
    let mut session = [0; 16];
    session.copy_from_slice(&header[8..24]);
    let mut seq = [0; 8];
    seq.copy_from_slice(&header[24..32]);
    let key = Key {
        session,
        seq: u64::from_be_bytes(seq),
    };
    Ok(Envelope {
        kind,
        key,
        body: &sealed[HEADER_BYTES..],
    })
}

/// Opens an envelope that must be of this kind and carry this key.
///
/// # Errors
/// As [`open`], or that it is another record.
pub(crate) fn open_as(bytes: &[u8], kind: Kind, key: Key) -> Result<&[u8], Fault> {
    let envelope = open(bytes)?;
    if envelope.kind != kind || envelope.key != key {
        return Err(Fault::WrongKey);
    }
    Ok(envelope.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        session: [7; 16],
        seq: 9,
    };

    #[test]
    fn every_flipped_bit_is_seen() {
        let sealed = seal_bytes(Kind::Event, KEY, b"a body of some bytes");
        assert_eq!(
            open_as(&sealed, Kind::Event, KEY),
            Ok(&b"a body of some bytes"[..])
        );
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(open(&sealed[..len]).is_err(), "length {len}");
        }
    }

    #[test]
    fn envelopes_in_a_row_come_apart() {
        let (one, two) = (
            seal_bytes(Kind::Event, KEY, b"one"),
            seal_bytes(Kind::Head, KEY, b""),
        );
        let row = [&one[..], &two[..], b"rest"].concat();
        let parts: Vec<&[u8]> = split(&row).collect();
        assert_eq!(parts, [&one[..], &two[..], b"rest"]);
        assert!(carries(&one, Kind::Event, KEY) && !carries(&two, Kind::Event, KEY));
        let cut: Vec<&[u8]> = split(&row[..one.len() + 37]).collect();
        assert_eq!(cut, [&one[..], &two[..37]]);
        assert_eq!(split(b"").count(), 0);
    }

    #[test]
    fn a_row_that_is_too_large_leaves_no_trace() {
        let mut bytes = vec![1, 2, 3];
        let row = codec::Block(vec![0; usize::try_from(codec::ROW_LIMIT_BYTES).unwrap()]);
        assert!(seal_onto(&mut bytes, Kind::Event, KEY, &row).is_err());
        assert_eq!(bytes, [1, 2, 3]);
    }

    #[test]
    fn a_record_under_another_key_is_refused() {
        let sealed = seal_bytes(Kind::Event, KEY, b"x");
        let other = Key { seq: 10, ..KEY };
        assert_eq!(open_as(&sealed, Kind::Event, other), Err(Fault::WrongKey));
        assert_eq!(open_as(&sealed, Kind::Head, KEY), Err(Fault::WrongKey));
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut sealed = seal_bytes(Kind::Event, KEY, b"x");
        sealed[5] = 9;
        let end = sealed.len() - 4;
        let crc = crc32c::crc32c(&sealed[..end]).to_be_bytes();
        sealed[end..].copy_from_slice(&crc);
        assert!(matches!(open(&sealed), Err(Fault::Newer { .. })));
    }
}
