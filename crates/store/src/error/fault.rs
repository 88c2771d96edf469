//! The names of records, and the faults that a record can have.

use crate::session_id::SessionId;

/// The name of a record, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Record {
    /// An event of a session's journal.
    Event {
        /// The session.
        session: SessionId,
        /// Its number, from 1.
        seq: u64,
    },
    /// The head of a session: its last event, its epoch.
    Head {
        /// The session.
        session: SessionId,
    },
    /// The latest state checkpoint of a session.
    Checkpoint {
        /// The session.
        session: SessionId,
    },
    /// Events, possibly of several sessions, that were written together.
    Block {
        /// Its number, from 0.
        number: u64,
    },
    /// The mark: all blocks before it are indexed.
    Mark,
    /// The list of sessions.
    SessionList,
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event { session, seq } => write!(f, "event {seq} of session {session}"),
            Self::Head { session } => write!(f, "the head of session {session}"),
            Self::Checkpoint { session } => write!(f, "the checkpoint of session {session}"),
            Self::Block { number } => write!(f, "block {number} of the log"),
            Self::Mark => f.write_str("the mark of what is indexed"),
            Self::SessionList => f.write_str("the list of sessions"),
        }
    }
}

/// The fault of a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It is missing.
    #[error("it is missing")]
    Missing,
    /// It does not start with the header of a record.
    #[error("it is not a record")]
    NotARecord,
    /// Its length is wrong.
    #[error("its length is wrong")]
    Truncated,
    /// Its checksum does not match.
    #[error("its checksum is wrong")]
    BadChecksum,
    /// It was written by a newer version.
    #[error("a newer version wrote it ({what})")]
    Newer {
        /// What this build does not know.
        what: String,
    },
    /// It was written before format 1.
    #[error("a program from before format 1 wrote it")]
    Earlier,
    /// Its body is encoded in a way this version does not know.
    #[error("its codec {found} is unknown")]
    UnknownCodec {
        /// The codec's number.
        found: u8,
    },
    /// It is of a kind this version does not know.
    #[error("its kind {found} is unknown")]
    UnknownKind {
        /// The kind's number.
        found: u8,
    },
    /// It is undamaged, but has the key of another record.
    #[error("it has the key of another record")]
    WrongKey,
    /// Its body cannot be decoded as a row.
    #[error("its body does not decode: {reason}")]
    Undecodable {
        /// The decoder's error message.
        reason: String,
    },
    /// It does not continue the hash chain of the record before it.
    #[error("the hash chain breaks at it")]
    BrokenChain,
    /// A part of a large payload is missing or was changed.
    #[error("chunk {index} of its payload is missing or changed")]
    BadChunk {
        /// Which part, from 0.
        index: usize,
    },
    /// The storage library cannot read it.
    #[error("it cannot be read: {reason}")]
    Unreadable {
        /// The library's error message.
        reason: String,
    },
}
