//! Identifiers and instants, each its own type so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps an id made elsewhere; this crate makes none.
            pub const fn new(id: Uuid) -> Self {
                Self(id)
            }

            /// The id from its 128 bits.
            pub const fn from_u128(bits: u128) -> Self {
                Self(Uuid::from_u128(bits))
            }

            /// The 128 bits, in the order in which UUIDv7 ids sort by time.
            pub const fn as_u128(self) -> u128 {
                self.0.as_u128()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(s: &str) -> Result<Self, Self::Err> {
                s.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// A conversation. UUIDv7.
    SessionId
);
uuid_id!(
    /// One message. UUIDv7, unique within its session.
    MessageId
);
uuid_id!(
    /// A stored summary and the range it covers. UUIDv7.
    CheckpointId
);
uuid_id!(
    /// One input of a branch, its runs and its answer. UUIDv7.
    TurnId
);
uuid_id!(
    /// The work of one agent on one task. UUIDv7.
    RunId
);
uuid_id!(
    /// One tool call with effects outside. UUIDv7; the tool's server can recognise a repetition of
    /// the call by it.
    CallId
);

/// The name of an agent: `[a-z0-9][a-z0-9_-]*`, as in `agents/<id>.md`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Arc<str>);

impl AgentId {
    /// Wraps a name; validity is checked where definitions are loaded.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({})", self.0)
    }
}

impl From<&str> for AgentId {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// The position of a message on its branch, from 1. People, masks, quotes and `recall` use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u32);

impl Ordinal {
    /// The root message's ordinal.
    pub const FIRST: Ordinal = Ordinal(1);

    /// The ordinal after this one.
    #[must_use]
    pub const fn next(self) -> Ordinal {
        Ordinal(self.0 + 1)
    }
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// An instant in milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Whether it is known. Messages of conversations without times have the epoch.
    pub fn is_known(self) -> bool {
        self != Timestamp::default()
    }

    /// This instant moved by `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }

    /// Whole days of UTC since 1970-01-01.
    pub const fn day(self) -> i64 {
        const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
        self.0.div_euclid(DAY_MS)
    }

    /// Milliseconds from `earlier` to this instant; negative when the clock went backwards.
    pub const fn ms_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}
