//! Limits per minute: who waits how long, and that no window of time gets more than it may.

use proptest::prelude::*;

use super::*;

const EVER: Duration = Duration::MAX;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn meter(requests: Option<u32>, tokens: Option<u64>) -> Meter {
    Meter::new(&Limits {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        ..Limits::default()
    })
}

/// When requests of so many tokens that come at once are sent, in milliseconds.
fn turns(meter: &mut Meter, now: u64, tokens: &[u64]) -> Vec<u128> {
    tokens
        .iter()
        .map(|tokens| {
            meter
                .take(ms(now), *tokens, EVER)
                .map_or(u128::MAX, |wait| wait.as_millis())
        })
        .collect()
}

#[test]
fn without_limits_nobody_waits() {
    let mut meter = meter(None, None);
    assert_eq!(turns(&mut meter, 0, &[1, u64::MAX, 1]), [0, 0, 0]);
}

#[test]
fn requests_queue_in_the_order_of_arrival() {
    let mut meter = meter(Some(2), None);
    assert_eq!(turns(&mut meter, 0, &[1, 1, 1, 1]), [0, 0, 30_000, 60_000]);
    assert_eq!(
        turns(&mut meter, 30_000, &[1]),
        [60_000],
        "behind the others"
    );
    assert_eq!(
        turns(&mut meter, 300_000, &[1, 1, 1]),
        [0, 0, 30_000],
        "full again, not fuller"
    );
}

#[test]
fn tokens_queue_too_and_the_longer_wait_counts() {
    let mut meter = meter(Some(60), Some(600));
    assert_eq!(
        turns(&mut meter, 0, &[400, 100, 300, 50]),
        [0, 0, 20_000, 25_000]
    );
    assert_eq!(
        meter.take(ms(0), 1, ms(1_000)).map_err(|full| full.what),
        Err("tokens")
    );
}

#[test]
fn a_request_larger_than_the_limit_waits_for_a_full_bucket() {
    let mut meter = meter(None, Some(600));
    assert_eq!(
        turns(&mut meter, 0, &[1_200, 60]),
        [0, 66_000],
        "full at the start"
    );
    let mut meter = super::Meter::clone(&meter);
    assert_eq!(turns(&mut meter, 66_000, &[10_000]), [60_000]);
}

#[test]
fn who_would_wait_too_long_takes_nothing() {
    let mut meter = meter(Some(1), None);
    assert_eq!(meter.take(ms(0), 1, ms(0)), Ok(ms(0)));
    let full = Full {
        wait: ms(60_000),
        what: "requests",
    };
    for _ in 0..3 {
        assert_eq!(meter.take(ms(0), 1, ms(59_999)), Err(full));
    }
    assert_eq!(meter.take(ms(0), 1, ms(60_000)), Ok(ms(60_000)));
}

#[test]
fn a_place_that_is_not_used_is_free_for_the_next() {
    let mut meter = meter(Some(1), Some(60));
    assert_eq!(turns(&mut meter, 0, &[60, 60]), [0, 60_000]);
    meter.give_back(60);
    assert_eq!(turns(&mut meter, 0, &[60]), [60_000]);
}

#[test]
fn what_was_not_used_is_put_right() {
    let mut meter = meter(None, Some(600));
    assert_eq!(turns(&mut meter, 0, &[600]), [0]);
    meter.settle(600, 100);
    assert_eq!(
        turns(&mut meter, 0, &[500]),
        [0],
        "less was used than taken"
    );
    meter.settle(500, 560);
    assert_eq!(
        turns(&mut meter, 0, &[10]),
        [7_000],
        "more was used than taken"
    );
    meter.settle(10, 0);
    meter.settle(u64::MAX, 0);
    assert_eq!(
        turns(&mut meter, 0, &[600, 1]),
        [0, 100],
        "never more than the limit"
    );
}

fn told(limit: Option<u64>, remaining: u64, reset_ms: u64) -> Option<Told> {
    Some(Told {
        limit,
        remaining,
        reset: Some(ms(reset_ms)),
    })
}

#[test]
fn a_limit_the_provider_says_is_used_up_is_waited_for() {
    // 10 requests a minute, of which none is left: one each 6 s, until all is as new.
    let mut meter = meter(None, None);
    meter.learn(ms(0), told(Some(10), 0, 60_000), None);
    assert_eq!(turns(&mut meter, 0, &[1, 1]), [6_000, 12_000]);
    assert_eq!(turns(&mut meter, 59_000, &[1]), [0]);
    assert_eq!(turns(&mut meter, 60_000, &[1; 20]), [0; 20], "it is over");
}

#[test]
fn nobody_waits_longer_than_until_the_provider_is_as_new() {
    let mut meter = meter(None, None);
    meter.learn(ms(0), None, told(Some(1_000), 0, 10_000));
    assert_eq!(
        turns(&mut meter, 0, &[100, 5_000, 5_000]),
        [1_000, 10_000, 10_000]
    );
    let mut unknown = super::Meter::clone(&meter);
    unknown.learn(ms(0), None, told(None, 0, 3_000));
    assert_eq!(
        turns(&mut unknown, 1_000, &[1, 1]),
        [2_000, 2_000],
        "without its size"
    );
}

#[test]
fn a_limit_with_something_left_holds_nobody_back() {
    let mut unset = meter(None, None);
    unset.learn(ms(0), told(Some(10), 1, 60_000), told(Some(10), 5, 60_000));
    assert_eq!(turns(&mut unset, 0, &[100; 5]), [0; 5]);
    let mut set = meter(Some(60), None);
    set.learn(ms(0), told(Some(60), 1, 59_000), None);
    assert_eq!(
        turns(&mut set, 0, &[1, 1]),
        [0, 1_000],
        "but corrects the one that is set"
    );
}

#[test]
fn odd_headers_do_no_harm() {
    for odd in [
        told(Some(0), 0, 1_000),
        told(Some(u64::MAX), 0, u64::MAX),
        told(None, 0, 0),
        Some(Told {
            limit: Some(5),
            remaining: 0,
            reset: None,
        }),
    ] {
        let mut meter = meter(Some(60), Some(60));
        meter.learn(ms(0), odd, odd);
        let wait = meter.take(ms(0), 1, EVER);
        assert!(wait.is_ok(), "{odd:?}: {wait:?}");
    }
}

#[test]
fn those_in_the_queue_keep_their_place_when_the_provider_tells_more() {
    let mut meter = meter(None, None);
    meter.learn(ms(0), told(Some(10), 0, 60_000), None);
    assert_eq!(turns(&mut meter, 0, &[1, 1]), [6_000, 12_000]);
    meter.learn(ms(0), told(Some(10), 0, 60_000), None);
    assert_eq!(turns(&mut meter, 0, &[1]), [18_000]);
}

proptest! {
    #[test]
    fn no_window_gets_more_than_the_limit_and_its_burst(
        asks in prop::collection::vec((0_u64..5_000, 1_u64..400), 1..60),
    ) {
        let limit = 600.0;
        let mut meter = meter(None, Some(600));
        let (mut now, mut sent) = (0, Vec::new());
        for (pause, tokens) in asks {
            now += pause;
            let wait = meter.take(ms(now), tokens, EVER).unwrap_or(EVER);
            sent.push((ms(now).saturating_add(wait), tokens));
        }
        prop_assert!(sent.is_sorted_by_key(|(at, _)| *at), "{:?}", sent);
        for from in 0..sent.len() {
            let mut sum = 0.0;
            for to in from..sent.len() {
                sum += sent[to].1 as f64;
                let window = (sent[to].0 - sent[from].0).as_secs_f64();
                prop_assert!(sum <= limit + window * limit / 60.0 + 1e-3, "{from}..={to}: {sum}");
            }
        }
    }
}
