//! Decides when a requested summary is retried. Pure: time and randomness are arguments.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::allowance::Allowance;

/// The maximum of the first pause after a failed request …
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// … which doubles with each try, up to this value.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The reason why no model wrote an acceptable summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoSummary {
    pub(super) reason: Arc<str>,
    /// The earliest time at which the same request may succeed, because its provider is
    /// unavailable. None: a reply was unacceptable; another one may be better at once.
    pub(super) not_before: Option<Instant>,
    /// Whether the last request was not sent.
    pub(super) is_unsent: bool,
    /// Whether no budget, limit or circuit breaker allowed the last request: the model did not fail.
    pub(super) was_not_asked: bool,
}

impl NoSummary {
    /// A model did not reply in time.
    pub(super) fn late(model: &str) -> NoSummary {
        NoSummary::from(format!("model {model}: no summary in time"))
    }

    /// A request to a model could not be reserved.
    pub(super) fn unreserved(model: &str, reason: &str) -> NoSummary {
        NoSummary {
            was_not_asked: true,
            ..NoSummary::from(format!("model {model}: {reason}"))
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for NoSummary {
    fn from(reason: T) -> NoSummary {
        NoSummary {
            reason: reason.into(),
            not_before: None,
            is_unsent: false,
            was_not_asked: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Try again, not before this time.
    Again(Instant),
    /// Give up: no time is left.
    OutOfTime,
    /// Give up: the provider is unavailable for this time, which is longer than the remaining time.
    Unreachable(Duration),
}

pub(super) fn decide_retry(
    failed: &NoSummary,
    allowance: &Allowance,
    now: Instant,
) -> RetryDecision {
    let at = failed.not_before.map_or(now, |at| at.max(now));
    match (allowance.has_time(now), allowance.has_time(at)) {
        (false, _) => RetryDecision::OutOfTime,
        (true, false) => RetryDecision::Unreachable(at - now),
        (true, true) => RetryDecision::Again(at),
    }
}

/// The pause after this number of failed requests: exponential backoff with full jitter, and never
/// sooner than the provider permits. `random` is any number.
pub(super) fn pause(failures: u32, retry_after_ms: Option<u64>, random: u64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    let bound = doubled.min(LONGEST_PAUSE).as_millis() as u64;
    let jitter = Duration::from_millis(random % bound.max(1));
    jitter.max(Duration::from_millis(retry_after_ms.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_pause_is_within_its_bound_and_never_sooner_than_the_provider_allows() {
        assert_eq!(pause(0, None, 499), Duration::from_millis(499));
        assert_eq!(pause(0, None, 500), Duration::ZERO);
        assert_eq!(pause(1, None, 999), Duration::from_millis(999));
        assert_eq!(pause(40, None, 7_999), Duration::from_millis(7_999));
        assert_eq!(pause(0, Some(20_000), 499), 20 * SECOND);
    }

    #[test]
    fn a_provider_is_awaited_only_if_it_returns_in_time() {
        let now = Instant::now();
        let allowance = Allowance::new(now, now, 30 * SECOND);
        let failed = |wait: Option<Duration>| NoSummary {
            not_before: wait.map(|wait| now + wait),
            ..NoSummary::from("broken")
        };
        assert_eq!(
            decide_retry(&failed(None), &allowance, now),
            RetryDecision::Again(now)
        );
        let waited = decide_retry(&failed(Some(5 * SECOND)), &allowance, now);
        assert_eq!(waited, RetryDecision::Again(now + 5 * SECOND));
        let refused = decide_retry(&failed(Some(40 * SECOND)), &allowance, now);
        assert_eq!(refused, RetryDecision::Unreachable(40 * SECOND));
        let late = now + 29 * SECOND;
        assert_eq!(
            decide_retry(&failed(None), &allowance, late),
            RetryDecision::OutOfTime
        );
    }
}
