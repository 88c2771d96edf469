//! Which errors are retried, and after what time: exponential backoff with full jitter, never
//! sooner than the provider requests.
//!
//! Full jitter: the wait is drawn evenly between zero and a bound that doubles with every attempt,
//! so that requests that failed together do not return together (M. Brooker, *Exponential Backoff
//! and Jitter*, AWS Architecture Blog, 2015).

use std::fmt;
use std::time::Duration;

use crate::language::{Class, Stage};
use crate::provider::RetryPolicy;

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Its class.
    pub class: Class,
    /// Its number, from 1.
    pub attempt: u32,
    /// The provider asked not to retry.
    pub no_retry: bool,
    /// A part of the request's reservation is used; the rest may not suffice for another attempt.
    pub reservation_used: bool,
}

/// The decision after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Sends the same request again after a wait.
    Retry {
        /// The wait.
        after: Duration,
    },
    /// Returns the error.
    GiveUp(GiveUpReason),
}

/// Why a request is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The same request would fail again.
    Permanent,
    /// The provider asked not to retry.
    NoRetry,
    /// A part of its reservation is used.
    ReservationUsed,
    /// All attempts are used up.
    Attempts(u32),
    /// The provider requests a longer wait than allowed.
    TooLong {
        /// The requested wait.
        asked: Duration,
        /// The maximum wait.
        most: Duration,
    },
    /// The call's remaining time is too short for the wait.
    NoTimeLeft,
}

/// Decides about a retry. `left` is the remaining time of the call, `draw` a random number from 0
/// to below 1.
///
/// Retried are the statuses 408, 409, 429 and 5xx, broken connections, incomplete streams, and
/// timeouts except the total one.
pub fn decide(
    policy: &RetryPolicy,
    failed: &FailedAttempt,
    left: Duration,
    draw: f64,
) -> RetryDecision {
    let class = failed.class;
    if !class.is_transient() || class == Class::Timeout(Stage::Total) {
        return RetryDecision::GiveUp(GiveUpReason::Permanent);
    }
    if failed.no_retry {
        return RetryDecision::GiveUp(GiveUpReason::NoRetry);
    }
    if failed.reservation_used {
        return RetryDecision::GiveUp(GiveUpReason::ReservationUsed);
    }
    if failed.attempt >= policy.attempts {
        return RetryDecision::GiveUp(GiveUpReason::Attempts(failed.attempt));
    }
    let asked = retry_after(class);
    let most = left.min(policy.longest_wait);
    if let Some(asked) = asked
        && asked >= most
    {
        return RetryDecision::GiveUp(GiveUpReason::TooLong { asked, most });
    }
    let after = asked.unwrap_or_default() + backoff(policy, failed.attempt).mul_f64(draw);
    if after < left {
        RetryDecision::Retry { after }
    } else {
        RetryDecision::GiveUp(GiveUpReason::NoTimeLeft)
    }
}

/// The wait that the provider requests.
pub fn retry_after(class: Class) -> Option<Duration> {
    class.retry_after_ms().map(Duration::from_millis)
}

/// The upper bound of the wait after an attempt.
fn backoff(policy: &RetryPolicy, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    policy.base.saturating_mul(1 << doublings).min(policy.cap)
}

/// The end of an error message; may be empty.
impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GiveUpReason::Permanent | GiveUpReason::Attempts(1) => Ok(()),
            GiveUpReason::NoRetry => f.write_str("; the provider asks not to retry"),
            GiveUpReason::ReservationUsed => {
                f.write_str("; not sent again: the budget reserved for it covers one reply")
            }
            GiveUpReason::Attempts(attempts) => write!(f, "; gave up after {attempts} attempts"),
            GiveUpReason::TooLong { asked, most } => write!(
                f,
                "; the provider asks to wait {:.1} s, longer than the {:.1} s allowed",
                asked.as_secs_f64(),
                most.as_secs_f64()
            ),
            GiveUpReason::NoTimeLeft => f.write_str("; no time is left to try again"),
        }
    }
}

#[cfg(test)]
mod tests;
