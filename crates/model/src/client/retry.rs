//! Which errors are retried, and after what time: exponential backoff with full jitter, never
//! sooner than the provider requests.
//!
//! Full jitter: the wait is drawn evenly between zero and a bound that doubles with every attempt,
//! so that requests that failed together do not return together (M. Brooker, *Exponential Backoff
//! and Jitter*, AWS Architecture Blog, 2015).

use std::fmt;
use std::time::Duration;

use crate::language::{Class, Stage};

/// How often and how patiently a request is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in all; 0 counts as 1.
    pub attempts: u32,
    /// The bound of the first wait.
    pub base: Duration,
    /// The bound of every wait.
    pub cap: Duration,
    /// A provider that asks for a longer wait than this is not waited for.
    pub longest_wait: Duration,
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub class: Class,
    /// Which one it was, from 1.
    pub attempt: u32,
    /// The provider said that trying again is of no use.
    pub vetoed: bool,
    /// What was reserved for the request is used in part, and may not be enough for another.
    pub spent: bool,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The same request again, after a wait.
    Retry {
        /// The wait.
        after: Duration,
    },
    /// The error is returned.
    GiveUp(Reason),
}

/// Why a request is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The same request would fail again.
    Permanent,
    /// The provider said so.
    Vetoed,
    /// What was reserved for it is used in part.
    Spent,
    /// All attempts are used up.
    Attempts(u32),
    /// The provider asks for a longer wait than it is given.
    TooLong {
        /// What it asks for.
        asked: Duration,
        /// What it is given at most.
        most: Duration,
    },
    /// The call's time is over before the wait would be.
    NoTimeLeft,
}

/// Decides. `left` is what the call may still take, `draw` a random number from 0 up to 1.
///
/// Tried again are the statuses 408, 409, 429 and 5xx, broken connections, incomplete streams,
/// and timeouts other than that of the whole call.
pub fn decide(policy: &Policy, failed: &Failed, left: Duration, draw: f64) -> Decision {
    let class = failed.class;
    if !class.is_transient() || class == Class::Timeout(Stage::Total) {
        return Decision::GiveUp(Reason::Permanent);
    }
    if failed.vetoed {
        return Decision::GiveUp(Reason::Vetoed);
    }
    if failed.spent {
        return Decision::GiveUp(Reason::Spent);
    }
    if failed.attempt >= policy.attempts {
        return Decision::GiveUp(Reason::Attempts(failed.attempt));
    }
    let asked = retry_after(class);
    let most = left.min(policy.longest_wait);
    if let Some(asked) = asked
        && asked >= most
    {
        return Decision::GiveUp(Reason::TooLong { asked, most });
    }
    let after = asked.unwrap_or_default() + backoff(policy, failed.attempt).mul_f64(draw);
    if after < left {
        Decision::Retry { after }
    } else {
        Decision::GiveUp(Reason::NoTimeLeft)
    }
}

/// How long the provider asks to wait.
pub fn retry_after(class: Class) -> Option<Duration> {
    class.retry_after_ms().map(Duration::from_millis)
}

/// The bound of the wait after an attempt.
fn backoff(policy: &Policy, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    policy.base.saturating_mul(1 << doublings).min(policy.cap)
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            longest_wait: Duration::from_secs(120),
        }
    }
}

/// The end of an error's sentence; empty where the error says it all.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Permanent | Reason::Attempts(1) => Ok(()),
            Reason::Vetoed => f.write_str("; the provider asks not to try again"),
            Reason::Spent => f.write_str(
                "; not sent again: it is paid for out of what was reserved for one reply",
            ),
            Reason::Attempts(attempts) => write!(f, "; gave up after {attempts} attempts"),
            Reason::TooLong { asked, most } => write!(
                f,
                "; the provider asks to wait {:.1} s, longer than the {:.1} s it is given",
                asked.as_secs_f64(),
                most.as_secs_f64()
            ),
            Reason::NoTimeLeft => f.write_str("; no time is left to try again"),
        }
    }
}

#[cfg(test)]
mod tests;
