//! Why there is no reply, by class: errors that may be retried, and errors that a person must
//! correct.

use std::fmt;
use std::sync::Arc;

use unisono_context::Tokens;

/// Why there is no reply. Never contains an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The model's name, as in definitions.
    pub model: Arc<str>,
    /// The class.
    pub class: Class,
    /// What happened, and what to do.
    pub reason: Arc<str>,
    /// The provider's request id, if it gave one.
    pub request_id: Option<Arc<str>>,
    /// Whether a reply had begun, in this attempt or an earlier one, so that it must be paid for.
    pub begun: bool,
    /// The remaining time in which the provider's circuit breaker sends no request to the model.
    pub pause_ms: Option<u64>,
}

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The key is missing, wrong, or lacks a permission (401, 403).
    Unauthorised,
    /// The account's credit is used up.
    OutOfQuota,
    /// The provider does not know the model (404).
    UnknownModel,
    /// The request is larger than the model's window.
    Overflow {
        /// The limit that the provider named.
        limit: Option<Tokens>,
    },
    /// The provider rejects the request (other 4xx).
    BadRequest,
    /// Too many requests or tokens per minute (429).
    RateLimited {
        /// How long the provider asks to wait.
        retry_after_ms: Option<u64>,
    },
    /// The provider cannot serve the request now (408, 409, 5xx, an error within a stream).
    Unavailable {
        /// How long the provider asks to wait.
        retry_after_ms: Option<u64>,
    },
    /// The connection failed or was interrupted.
    Transport,
    /// A timeout.
    Timeout(Stage),
    /// The stream ended without its terminal marker.
    IncompleteStream,
    /// The response is not a reply of this dialect.
    BadReply,
    /// The response is larger than the cap.
    TooLarge,
    /// The provider failed too often; its circuit breaker is open.
    CircuitOpen {
        /// The remaining time.
        retry_after_ms: u64,
    },
    /// The limit of requests or tokens per minute left no room in time.
    Busy,
    /// The bytes of the request differ from the recorded ones.
    PrefixMismatch,
    /// The model failed within this process.
    Internal,
}

/// The stage of a timeout.
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
    /// A provider without a time to wait.
    pub(crate) const UNAVAILABLE: Class = Class::Unavailable {
        retry_after_ms: None,
    };
    pub(crate) const RATE_LIMITED: Class = Class::RateLimited {
        retry_after_ms: None,
    };

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

    /// The time until a retry is useful, if known.
    pub const fn retry_after_ms(self) -> Option<u64> {
        match self {
            Class::RateLimited { retry_after_ms } | Class::Unavailable { retry_after_ms } => {
                retry_after_ms
            }
            Class::CircuitOpen { retry_after_ms } => Some(retry_after_ms),
            _ => None,
        }
    }

    /// The same class with another time until a retry is useful, if its class has one.
    #[must_use]
    pub fn with_retry_after(self, retry_after_ms: Option<u64>) -> Class {
        match self {
            Class::RateLimited { .. } => Class::RateLimited { retry_after_ms },
            Class::Unavailable { .. } => Class::Unavailable { retry_after_ms },
            Class::CircuitOpen { .. } => Class::CircuitOpen {
                retry_after_ms: retry_after_ms.unwrap_or_default(),
            },
            class => class,
        }
    }

    /// Whether the provider was working on a reply or had finished it, even if none was received.
    pub const fn was_at_work(self) -> bool {
        matches!(
            self,
            Class::Timeout(Stage::FirstByte | Stage::Idle | Stage::Total)
                | Class::IncompleteStream
                | Class::BadReply
                | Class::TooLarge
        )
    }

    /// Whether the same request may succeed if it is retried at the same provider.
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
    /// An error of a model, without a request id; nothing must be paid for.
    pub fn new(model: impl Into<Arc<str>>, class: Class, reason: impl Into<Arc<str>>) -> Error {
        Error {
            model: model.into(),
            class,
            reason: reason.into(),
            request_id: None,
            begun: false,
            pause_ms: None,
        }
    }

    /// Whether usage must be paid for although there is no reply.
    pub const fn is_paid_for(&self) -> bool {
        self.begun || self.class.was_at_work()
    }

    /// The time until a retry is useful, in milliseconds, if known.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.class.retry_after_ms().max(self.pause_ms)
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
