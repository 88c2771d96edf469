//! Failed attempts: the cause decides about another attempt.

use std::any::Any;
use std::sync::Arc;

use unisono_model::language::{Class, Error};
use unisono_session::run::RunCause;

/// A failed attempt. Its cause decides whether another attempt follows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Failure {
    /// The cause.
    pub cause: RunCause,
    /// The reason, and where it happened.
    pub reason: Arc<str>,
    /// The time in milliseconds before which another attempt would fail, too, if it is known.
    pub wait_ms: Option<u64>,
}

impl Failure {
    /// A failure with that cause.
    pub fn new(cause: RunCause, reason: impl Into<Arc<str>>) -> Failure {
        Failure {
            cause,
            reason: reason.into(),
            wait_ms: None,
        }
    }
}

pub(crate) fn model_failure(error: &Error) -> Failure {
    Failure {
        wait_ms: error.retry_after_ms(),
        ..Failure::new(cause_of_class(error.class), error.to_string())
    }
}

/// The cause of an attempt that ended with such an error.
pub(crate) const fn cause_of_class(class: Class) -> RunCause {
    match class {
        Class::RateLimited { .. }
        | Class::Unavailable { .. }
        | Class::Transport
        | Class::Timeout(_)
        | Class::IncompleteStream
        | Class::CircuitOpen { .. }
        | Class::Busy => RunCause::Unavailable,
        Class::Unauthorised | Class::OutOfQuota | Class::UnknownModel | Class::BadRequest => {
            RunCause::Rejected
        }
        Class::Overflow { .. } => RunCause::Overflow,
        Class::PrefixMismatch => RunCause::SnapshotMismatch,
        Class::BadReply | Class::TooLarge => RunCause::BadOutput,
        Class::Internal => RunCause::Model,
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it does not say why")
}

#[cfg(test)]
mod tests {
    //! Errors with and without another attempt.

    use unisono_model::language::Stage;

    use super::*;

    #[test]
    fn only_retryable_errors_lead_to_another_attempt() {
        let retried = [
            Class::RateLimited {
                retry_after_ms: None,
            },
            Class::Unavailable {
                retry_after_ms: Some(5),
            },
            Class::Transport,
            Class::Timeout(Stage::FirstByte),
            Class::IncompleteStream,
            Class::CircuitOpen { retry_after_ms: 9 },
            Class::Busy,
            Class::BadReply,
            Class::TooLarge,
            Class::Internal,
        ];
        let given_up = [
            (Class::Unauthorised, "provider_rejected"),
            (Class::OutOfQuota, "provider_rejected"),
            (Class::UnknownModel, "provider_rejected"),
            (Class::BadRequest, "provider_rejected"),
            (Class::Overflow { limit: None }, "context_overflow"),
            (Class::PrefixMismatch, "snapshot_mismatch"),
        ];
        for class in retried {
            assert!(cause_of_class(class).is_retryable(), "{class:?}");
        }
        for (class, code) in given_up {
            assert!(!cause_of_class(class).is_retryable(), "{class:?}");
            assert_eq!(cause_of_class(class).code(), code, "{class:?}");
        }
        assert!(
            retried
                .iter()
                .filter(|c| c.is_transient())
                .all(|c| cause_of_class(*c) == RunCause::Unavailable)
        );
    }
}
