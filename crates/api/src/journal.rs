//! A store's journal as it is on disk, for programs of the same kind that look at it through the
//! daemon that holds it.

use serde::{Deserialize, Serialize};

/// What a store knows of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Info {
    /// The session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its last event.
    pub last_seq: u64,
    /// The epoch of its writer.
    pub epoch: u64,
    /// The sum of its events, in bytes.
    pub payload_bytes: u64,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// When it was last written to, in milliseconds since 1970 UTC.
    pub updated_unix_ms: u64,
}

/// Events with their numbers: for each its number and its length as 64 bits, little-endian, then
/// its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBlock(pub Vec<(u64, Vec<u8>)>);

impl EventBlock {
    /// As bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (seq, payload) in &self.0 {
            bytes.extend_from_slice(&seq.to_le_bytes());
            bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    /// From bytes; none where they are cut off.
    pub fn read(mut bytes: &[u8]) -> Option<EventBlock> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let (seq, rest) = bytes.split_first_chunk::<8>()?;
            let (length, rest) = rest.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (payload, rest) = rest.split_at_checked(length)?;
            events.push((u64::from_le_bytes(*seq), payload.to_vec()));
            bytes = rest;
        }
        Some(EventBlock(events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_as_it_went_and_a_cut_one_does_not() {
        let block = EventBlock(vec![
            (1, b"one".to_vec()),
            (2, Vec::new()),
            (9, vec![0; 300]),
        ]);
        let bytes = block.write();
        assert_eq!(EventBlock::read(&bytes), Some(block));
        assert_eq!(EventBlock::read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(EventBlock::read(&[]), Some(EventBlock::default()));
    }
}
