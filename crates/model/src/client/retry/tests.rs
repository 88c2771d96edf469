//! Tests of which failures are retried, and when.

use proptest::prelude::*;

use super::*;
use crate::language::Class as C;

const POLICY: Policy = Policy {
    attempts: 4,
    base: Duration::from_millis(500),
    cap: Duration::from_secs(30),
    longest_wait: Duration::from_secs(120),
};
const LONG: Duration = Duration::from_secs(600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn failed(class: Class, attempt: u32) -> FailedAttempt {
    FailedAttempt {
        class,
        attempt,
        no_retry: false,
        reservation_used: false,
    }
}

fn limited(retry_after_ms: u64) -> Class {
    C::RateLimited {
        retry_after_ms: Some(retry_after_ms),
    }
}

#[test]
fn which_errors_are_retried() {
    let table = [
        (
            C::RateLimited {
                retry_after_ms: None,
            },
            true,
        ),
        (
            C::Unavailable {
                retry_after_ms: None,
            },
            true,
        ),
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
        let expected = if again {
            RetryDecision::Retry { after: ms(250) }
        } else {
            RetryDecision::GiveUp(GiveUpReason::Permanent)
        };
        assert_eq!(
            decide(&POLICY, &failed(class, 1), LONG, 0.5),
            expected,
            "{class:?}"
        );
    }
}

#[test]
fn waits_between_attempts() {
    let unavailable = C::Unavailable {
        retry_after_ms: None,
    };
    // Attempt, random draw in percent, time left, expected delay.
    let table = [
        (
            unavailable,
            1,
            0,
            LONG,
            RetryDecision::Retry { after: ms(0) },
        ),
        (
            unavailable,
            1,
            100,
            LONG,
            RetryDecision::Retry { after: ms(500) },
        ),
        (
            unavailable,
            2,
            100,
            LONG,
            RetryDecision::Retry { after: ms(1_000) },
        ),
        (
            unavailable,
            3,
            50,
            LONG,
            RetryDecision::Retry { after: ms(1_000) },
        ),
        (
            unavailable,
            4,
            50,
            LONG,
            RetryDecision::GiveUp(GiveUpReason::Attempts(4)),
        ),
        (
            unavailable,
            1,
            50,
            ms(251),
            RetryDecision::Retry { after: ms(250) },
        ),
        (
            unavailable,
            1,
            50,
            ms(250),
            RetryDecision::GiveUp(GiveUpReason::NoTimeLeft),
        ),
        // Never sooner than the provider asked, and not all at the same time.
        (
            limited(2_000),
            1,
            0,
            LONG,
            RetryDecision::Retry { after: ms(2_000) },
        ),
        (
            limited(2_000),
            1,
            100,
            LONG,
            RetryDecision::Retry { after: ms(2_500) },
        ),
        (
            limited(0),
            1,
            0,
            LONG,
            RetryDecision::Retry { after: ms(0) },
        ),
        (
            C::Unavailable {
                retry_after_ms: Some(700),
            },
            2,
            50,
            LONG,
            RetryDecision::Retry { after: ms(1_200) },
        ),
        // The wait is longer than the time left: it fails at once, whatever the draw.
        (
            limited(120_000),
            1,
            0,
            LONG,
            RetryDecision::GiveUp(GiveUpReason::TooLong {
                asked: ms(120_000),
                most: ms(120_000),
            }),
        ),
        (
            limited(5_000),
            1,
            0,
            ms(4_000),
            RetryDecision::GiveUp(GiveUpReason::TooLong {
                asked: ms(5_000),
                most: ms(4_000),
            }),
        ),
        (
            limited(3_900),
            1,
            100,
            ms(4_000),
            RetryDecision::GiveUp(GiveUpReason::NoTimeLeft),
        ),
    ];
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
    let spent = FailedAttempt {
        reservation_used: true,
        ..failed(C::Transport, 1)
    };
    assert_eq!(
        decide(&POLICY, &spent, LONG, 0.5),
        RetryDecision::GiveUp(GiveUpReason::ReservationUsed)
    );
    let no_retry = FailedAttempt {
        no_retry: true,
        ..failed(C::Transport, 1)
    };
    assert_eq!(
        decide(&POLICY, &no_retry, LONG, 0.5),
        RetryDecision::GiveUp(GiveUpReason::NoRetry)
    );
}

#[test]
fn zero_attempts_count_as_one() {
    for attempts in [0, 1] {
        let policy = Policy { attempts, ..POLICY };
        let decision = decide(&policy, &failed(C::Transport, 1), LONG, 0.5);
        assert_eq!(decision, RetryDecision::GiveUp(GiveUpReason::Attempts(1)));
    }
}

#[test]
fn reasons_end_a_sentence() {
    let table = [
        (GiveUpReason::Permanent, ""),
        (GiveUpReason::Attempts(1), ""),
        (GiveUpReason::Attempts(4), "; gave up after 4 attempts"),
        (
            GiveUpReason::TooLong {
                asked: ms(90_000),
                most: ms(1_500),
            },
            "; the provider asks to wait 90.0 s, longer than the 1.5 s allowed",
        ),
    ];
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
