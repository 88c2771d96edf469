//! Tests of which failures are retried, and when.

use proptest::prelude::*;

use super::*;
use crate::fixture::ms;
use crate::language::Class as C;

const POLICY: RetryPolicy = RetryPolicy {
    attempts: 4,
    base: Duration::from_millis(500),
    cap: Duration::from_secs(30),
    longest_wait: Duration::from_secs(120),
};
const LONG: Duration = Duration::from_secs(600);

fn failed(class: Class, attempt: u32) -> FailedAttempt {
    FailedAttempt {
        class,
        attempt,
        no_retry: false,
        reservation_used: false,
    }
}

fn limited(retry_after_ms: Option<u64>) -> Class {
    C::RateLimited { retry_after_ms }
}

fn unavailable(retry_after_ms: Option<u64>) -> Class {
    C::Unavailable { retry_after_ms }
}

fn retry(after_ms: u64) -> RetryDecision {
    RetryDecision::Retry {
        after: ms(after_ms),
    }
}

fn too_long(asked: u64, most: u64) -> RetryDecision {
    let (asked, most) = (ms(asked), ms(most));
    RetryDecision::GiveUp(GiveUpReason::TooLong { asked, most })
}

#[test]
fn which_errors_are_retried() {
    let table = [
        (limited(None), true),
        (unavailable(None), true),
        (C::Transport, true),
        (C::IncompleteStream, true),
        (C::Timeout(Stage::Connect), true),
        (C::Timeout(Stage::FirstByte), true),
        (C::Timeout(Stage::Idle), true),
        (C::Timeout(Stage::Total), false),
        (C::Unauthorised, false),
        (C::OutOfQuota, false),
        (C::UnknownModel, false),
        (C::Overflow { limit: None }, false),
        (C::BadRequest, false),
        (C::BadReply, false),
        (C::TooLarge, false),
        (C::CircuitOpen { retry_after_ms: 9 }, false),
        (C::Busy, false),
        (C::PrefixMismatch, false),
        (C::Internal, false),
    ];
    for (class, again) in table {
        let expected = match again {
            true => retry(250),
            false => RetryDecision::GiveUp(GiveUpReason::Permanent),
        };
        let decision = decide(&POLICY, &failed(class, 1), LONG, 0.5);
        assert_eq!(decision, expected, "{class:?}");
    }
}

#[test]
fn waits_between_attempts() {
    use GiveUpReason::{Attempts, NoTimeLeft};
    use RetryDecision::GiveUp;
    let unset = unavailable(None);
    // Attempt, random draw in percent, time left, expected delay.
    let table = rows! {
        (unset, 1, 0, LONG, retry(0)),
        (unset, 1, 100, LONG, retry(500)),
        (unset, 2, 100, LONG, retry(1_000)),
        (unset, 3, 50, LONG, retry(1_000)),
        (unset, 4, 50, LONG, GiveUp(Attempts(4))),
        (unset, 1, 50, ms(251), retry(250)),
        (unset, 1, 50, ms(250), GiveUp(NoTimeLeft)),
        // Never sooner than the provider asked, and not all at the same time.
        (limited(Some(2_000)), 1, 0, LONG, retry(2_000)),
        (limited(Some(2_000)), 1, 100, LONG, retry(2_500)),
        (limited(Some(0)), 1, 0, LONG, retry(0)),
        (unavailable(Some(700)), 2, 50, LONG, retry(1_200)),
        // The wait is longer than the time left: it fails at once, whatever the draw.
        (limited(Some(120_000)), 1, 0, LONG, too_long(120_000, 120_000)),
        (limited(Some(5_000)), 1, 0, ms(4_000), too_long(5_000, 4_000)),
        (limited(Some(3_900)), 1, 100, ms(4_000), GiveUp(NoTimeLeft)),
    };
    for (class, attempt, percent, left, expected) in table {
        let draw = f64::from(percent) / 100.0;
        let decision = decide(&POLICY, &failed(class, attempt), left, draw);
        assert_eq!(
            decision, expected,
            "{class:?}, attempt {attempt}, draw {draw}, left {left:?}"
        );
    }
}

#[test]
fn the_bound_doubles_up_to_its_cap() {
    let bounds: Vec<_> = [1, 2, 3, 6, 7, 8, 100, u32::MAX]
        .map(|attempt| backoff(&POLICY, attempt).as_millis())
        .into();
    assert_eq!(
        bounds,
        [500, 1_000, 2_000, 16_000, 30_000, 30_000, 30_000, 30_000]
    );
}

#[test]
fn a_denied_retry_is_not_made() {
    let failed = failed(C::Transport, 1);
    let spent = FailedAttempt {
        reservation_used: true,
        ..failed
    };
    let no_retry = FailedAttempt {
        no_retry: true,
        ..failed
    };
    for (failed, reason) in [
        (spent, GiveUpReason::ReservationUsed),
        (no_retry, GiveUpReason::NoRetry),
    ] {
        let decision = decide(&POLICY, &failed, LONG, 0.5);
        assert_eq!(decision, RetryDecision::GiveUp(reason));
    }
}

#[test]
fn zero_attempts_count_as_one() {
    for attempts in [0, 1] {
        let policy = RetryPolicy { attempts, ..POLICY };
        let decision = decide(&policy, &failed(C::Transport, 1), LONG, 0.5);
        assert_eq!(decision, RetryDecision::GiveUp(GiveUpReason::Attempts(1)));
    }
}

#[test]
fn reasons_end_a_sentence() {
    let table = rows! {
        (GiveUpReason::Permanent, ""),
        (GiveUpReason::Attempts(1), ""),
        (GiveUpReason::Attempts(4), "; gave up after 4 attempts"),
        (
            GiveUpReason::TooLong { asked: ms(90_000), most: ms(1_500) },
            "; the provider asks to wait 90.0 s, longer than the 1.5 s allowed",
        ),
    };
    for (reason, expected) in table {
        assert_eq!(reason.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn a_wait_is_at_least_the_requested_one_and_ends_in_time(
        asked in prop::option::of(0_u64..200_000),
        attempt in 1_u32..10,
        left in 0_u64..700_000,
        draw in 0.0..1.0_f64,
    ) {
        let class = C::RateLimited { retry_after_ms: asked };
        match decide(&POLICY, &failed(class, attempt), ms(left), draw) {
            RetryDecision::Retry { after } => {
                prop_assert!(attempt < POLICY.attempts);
                prop_assert!(after >= ms(asked.unwrap_or(0)) && after < ms(left));
                prop_assert!(after <= ms(asked.unwrap_or(0)) + POLICY.cap);
                prop_assert!(asked.is_none_or(|asked| ms(asked) < POLICY.longest_wait));
            }
            RetryDecision::GiveUp(reason) => prop_assert_ne!(reason, GiveUpReason::Permanent),
        }
    }
}
