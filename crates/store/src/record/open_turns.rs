//! The number of open turns of a session after an event, as stored in the event's payload.
//!
//! The number could be computed from the journal. It is stored so that finding the sessions with
//! unfinished work takes one event of each instead of all of them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenTurns {
    /// The number after this event.
    Known(u32),
    /// Not known: the event was not the last of its append.
    Unknown,
}

/// The encoding of [`OpenTurns::Unknown`].
const UNKNOWN: u32 = u32::MAX;

impl OpenTurns {
    /// Its length in a payload.
    pub(crate) const BYTES: usize = 4;

    pub(crate) fn from_count(open: usize) -> Self {
        match u32::try_from(open) {
            Ok(open) if open != UNKNOWN => Self::Known(open),
            _ => Self::Unknown,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let number = match self {
            Self::Known(open) => open,
            Self::Unknown => UNKNOWN,
        };
        number.to_be_bytes()
    }

    /// Decodes it from the front of the bytes.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (number, rest) = bytes.split_first_chunk()?;
        let open = match u32::from_be_bytes(*number) {
            UNKNOWN => Self::Unknown,
            open => Self::Known(open),
        };
        Some((open, rest))
    }
}
