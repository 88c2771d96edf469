//! How many turns of its session are open after an event, as its payload says.
//!
//! It follows from the journal, and stands in it so that whoever looks for sessions with work left
//! reads one event of each instead of all of them.

/// How many turns are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenTurns {
    /// So many, after this event.
    Known(u32),
    /// Not said: the event was appended with others behind it.
    Unknown,
}

/// Stands for [`OpenTurns::Unknown`].
const UNKNOWN: u32 = u32::MAX;

impl OpenTurns {
    /// Its length in a payload.
    pub(crate) const BYTES: usize = 4;

    /// What follows from the number of open turns.
    pub(crate) fn of(open: usize) -> Self {
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

    /// Takes it off the front.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (number, rest) = bytes.split_first_chunk()?;
        let open = match u32::from_be_bytes(*number) {
            UNKNOWN => Self::Unknown,
            open => Self::Known(open),
        };
        Some((open, rest))
    }
}
