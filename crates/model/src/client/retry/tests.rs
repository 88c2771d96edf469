//! Which failures are tried again, and when.

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

fn failed(class: Class, attempt: u32) -> Failed {
    Failed {
        class,
        attempt,
        vetoed: false,
        spent: false,
    }
}

fn limited(retry_after_ms: u64) -> Class {
    C::RateLimited {
        retry_after_ms: Some(retry_after_ms),
    }
}

#[test]
fn what_is_tried_again() {
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
            Decision::Retry { after: ms(250) }
        } else {
            Decision::GiveUp(Reason::Permanent)
        };
        assert_eq!(
            decide(&POLICY, &failed(class, 1), LONG, 0.5),
            expected,
            "{class:?}"
        );
    }
}

#[test]
fn how_long_it_waits() {
    let unavailable = C::Unavailable {
        retry_after_ms: None,
    };
    // Attempt, draw in percent, left, expected.
    let table = [
        (unavailable, 1, 0, LONG, Decision::Retry { after: ms(0) }),
        (
            unavailable,
            1,
            100,
            LONG,
            Decision::Retry { after: ms(500) },
        ),
        (
            unavailable,
            2,
            100,
            LONG,
            Decision::Retry { after: ms(1_000) },
        ),
        (
            unavailable,
            3,
            50,
            LONG,
            Decision::Retry { after: ms(1_000) },
        ),
        (
            unavailable,
            4,
            50,
            LONG,
            Decision::GiveUp(Reason::Attempts(4)),
        ),
        (
            unavailable,
            1,
            50,
            ms(251),
            Decision::Retry { after: ms(250) },
        ),
        (
            unavailable,
            1,
            50,
            ms(250),
            Decision::GiveUp(Reason::NoTimeLeft),
        ),
        // Never sooner than asked, and not all at once.
        (
            limited(2_000),
            1,
            0,
            LONG,
            Decision::Retry { after: ms(2_000) },
        ),
        (
            limited(2_000),
            1,
            100,
            LONG,
            Decision::Retry { after: ms(2_500) },
        ),
        (limited(0), 1, 0, LONG, Decision::Retry { after: ms(0) }),
        (
            C::Unavailable {
                retry_after_ms: Some(700),
            },
            2,
            50,
            LONG,
            Decision::Retry { after: ms(1_200) },
        ),
        // Longer than it is given: at once, whatever the draw.
        (
            limited(120_000),
            1,
            0,
            LONG,
            Decision::GiveUp(Reason::TooLong {
                asked: ms(120_000),
                most: ms(120_000),
            }),
        ),
        (
            limited(5_000),
            1,
            0,
            ms(4_000),
            Decision::GiveUp(Reason::TooLong {
                asked: ms(5_000),
                most: ms(4_000),
            }),
        ),
        (
            limited(3_900),
            1,
            100,
            ms(4_000),
            Decision::GiveUp(Reason::NoTimeLeft),
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
fn a_veto_holds() {
    let spent = Failed {
        spent: true,
        ..failed(C::Transport, 1)
    };
    assert_eq!(
        decide(&POLICY, &spent, LONG, 0.5),
        Decision::GiveUp(Reason::Spent)
    );
    let vetoed = Failed {
        vetoed: true,
        ..failed(C::Transport, 1)
    };
    assert_eq!(
        decide(&POLICY, &vetoed, LONG, 0.5),
        Decision::GiveUp(Reason::Vetoed)
    );
}

#[test]
fn no_attempts_are_one() {
    for attempts in [0, 1] {
        let policy = Policy { attempts, ..POLICY };
        let decision = decide(&policy, &failed(C::Transport, 1), LONG, 0.5);
        assert_eq!(decision, Decision::GiveUp(Reason::Attempts(1)));
    }
}

#[test]
fn reasons_end_a_sentence() {
    let table = [
        (Reason::Permanent, ""),
        (Reason::Attempts(1), ""),
        (Reason::Attempts(4), "; gave up after 4 attempts"),
        (
            Reason::TooLong {
                asked: ms(90_000),
                most: ms(1_500),
            },
            "; the provider asks to wait 90.0 s, longer than the 1.5 s it is given",
        ),
    ];
    for (reason, expected) in table {
        assert_eq!(reason.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn a_wait_is_at_least_what_is_asked_and_ends_in_time(
        asked in prop::option::of(0_u64..200_000),
        attempt in 1_u32..10,
        left in 0_u64..700_000,
        draw in 0.0..1.0_f64,
    ) {
        let class = C::RateLimited { retry_after_ms: asked };
        match decide(&POLICY, &failed(class, attempt), ms(left), draw) {
            Decision::Retry { after } => {
                prop_assert!(attempt < POLICY.attempts);
                prop_assert!(after >= ms(asked.unwrap_or(0)) && after < ms(left));
                prop_assert!(after <= ms(asked.unwrap_or(0)) + POLICY.cap);
                prop_assert!(asked.is_none_or(|asked| ms(asked) < POLICY.longest_wait));
            }
            Decision::GiveUp(reason) => prop_assert_ne!(reason, Reason::Permanent),
        }
    }
}
