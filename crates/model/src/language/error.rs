//! Why there is no reply, by class: errors that may be retried, and errors that a person must
//! correct.

use std::fmt;
use std::sync::Arc;

use unisono_context::Tokens;

/// Why there is no reply. Never holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The model, as definitions write it.
    pub model: Arc<str>,
    /// The class.
    pub class: Class,
    /// What happened, and what to do.
    pub reason: Arc<str>,
    /// The provider's id of the request, where it gave one.
    pub request_id: Option<Arc<str>>,
    /// Whether a reply had begun, in this attempt or in one before it: something is paid for.
    pub begun: bool,
}

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The key is missing, wrong, or not allowed this (401, 403).
    Unauthorised,
    /// The account has nothing left to spend.
    OutOfQuota,
    /// The provider does not know the model (404).
    UnknownModel,
    /// The request is larger than the model's window.
    Overflow {
        /// The limit the provider named.
        limit: Option<Tokens>,
    },
    /// The provider refuses the request as it is (other 4xx).
    BadRequest,
    /// Too many requests or tokens a minute (429).
    RateLimited {
        /// How long the provider asks to wait.
        retry_after_ms: Option<u64>,
    },
    /// The provider cannot serve it now (408, 409, 5xx, an error in mid-stream).
    Unavailable {
        /// How long the provider asks to wait.
        retry_after_ms: Option<u64>,
    },
    /// The connection could not be made, or broke.
    Transport,
    /// It took too long.
    Timeout(Stage),
    /// The stream ended without its terminal marker.
    IncompleteStream,
    /// What came back is not a reply of this dialect.
    BadReply,
    /// What came back is larger than is read.
    TooLarge,
    /// The provider failed too often and is left alone for a while.
    CircuitOpen {
        /// How long from now on.
        retry_after_ms: u64,
    },
    /// The limit of requests or tokens a minute was not free in time.
    Busy,
    /// The bytes about to be sent are not those that were recorded.
    PrefixMismatch,
    /// The model itself failed, in this process.
    Internal,
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Connecting.
    Connect,
    /// The first byte of the reply.
    FirstByte,
    /// The next piece of the reply.
    Idle,
    /// The whole reply.
    Total,
}

impl Class {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Class::Unauthorised => "unauthorised",
            Class::OutOfQuota => "out_of_quota",
            Class::UnknownModel => "unknown_model",
            Class::Overflow { .. } => "context_overflow",
            Class::BadRequest => "bad_request",
            Class::RateLimited { .. } => "rate_limited",
            Class::Unavailable { .. } => "unavailable",
            Class::Transport => "transport",
            Class::Timeout(Stage::Connect) => "connect_timeout",
            Class::Timeout(Stage::FirstByte) => "first_byte_timeout",
            Class::Timeout(Stage::Idle) => "idle_timeout",
            Class::Timeout(Stage::Total) => "timeout",
            Class::IncompleteStream => "incomplete_stream",
            Class::BadReply => "bad_reply",
            Class::TooLarge => "too_large",
            Class::CircuitOpen { .. } => "circuit_open",
            Class::Busy => "busy",
            Class::PrefixMismatch => "snapshot_mismatch",
            Class::Internal => "internal",
        }
    }

    /// How long the provider is to be left alone, where that is known.
    pub const fn retry_after_ms(self) -> Option<u64> {
        match self {
            Class::RateLimited { retry_after_ms } | Class::Unavailable { retry_after_ms } => {
                retry_after_ms
            }
            Class::CircuitOpen { retry_after_ms } => Some(retry_after_ms),
            _ => None,
        }
    }

    /// Whether the provider was at work on a reply, or done, also where nothing came of it.
    pub const fn was_at_work(self) -> bool {
        matches!(
            self,
            Class::Timeout(Stage::FirstByte | Stage::Idle | Stage::Total)
                | Class::IncompleteStream
                | Class::BadReply
                | Class::TooLarge
        )
    }

    /// Whether the same request may succeed when it is sent again to the same provider.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Class::RateLimited { .. }
                | Class::Unavailable { .. }
                | Class::Transport
                | Class::Timeout(_)
                | Class::IncompleteStream
        )
    }
}

impl Error {
    /// Whether something has to be paid for, though there is no reply.
    pub const fn is_paid_for(&self) -> bool {
        self.begun || self.class.was_at_work()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model {}: {}", self.model, self.reason)?;
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
