//! Tests of limits per minute: how long requests wait, and that no time window exceeds its limit.

use proptest::prelude::*;

use super::*;
use crate::fixture::ms;

/// A rate limiter, the queued requests with the time of their last check, and the times at which
/// requests were sent.
#[derive(Clone)]
struct Line {
    meter: RateLimiter,
    waiting: VecDeque<(Ticket, u64)>,
    now: Duration,
    sent: Vec<(Duration, u64)>,
}

fn meter(requests: Option<u32>, tokens: Option<u64>) -> Line {
    let meter = RateLimiter::new(&Limits {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        ..Limits::default()
    });
    Line {
        meter,
        waiting: VecDeque::new(),
        now: Duration::ZERO,
        sent: Vec::new(),
    }
}

impl Line {
    /// Sends the requests whose turn comes until then.
    fn until(&mut self, now: Duration) {
        while let Some((ticket, tokens)) = self.waiting.front().copied() {
            let turn = self.now + self.wait(tokens, Some(ticket)).time;
            if turn > now {
                break;
            }
            self.now = turn;
            self.meter.take(turn, tokens, Some(ticket));
            self.sent.push((turn, tokens));
            self.waiting.pop_front();
        }
        self.now = now;
    }

    fn wait(&self, tokens: u64, ticket: Option<Ticket>) -> Wait {
        self.meter.wait(self.now, tokens, ticket)
    }

    /// Adds a request; returns how long it will wait.
    fn come(&mut self, tokens: u64) -> Duration {
        let wait = self.wait(tokens, None).time;
        if wait.is_zero() {
            self.meter.take(self.now, tokens, None);
            self.sent.push((self.now, tokens));
        } else {
            let ticket = self.meter.join(tokens);
            self.waiting.push_back((ticket, tokens));
        }
        wait
    }

    /// When requests of these numbers of tokens that arrive together are sent, in milliseconds.
    fn turns(&mut self, now: u64, tokens: &[u64]) -> Vec<u128> {
        self.until(ms(now));
        let turns = tokens.iter().map(|tokens| self.come(*tokens).as_millis());
        turns.collect()
    }

    /// Removes the last request in the queue.
    fn give_up(&mut self) {
        let (ticket, _) = self.waiting.pop_back().unwrap();
        self.meter.leave(ticket);
    }

    fn learn(
        &mut self,
        now: Duration,
        requests: Option<ReportedLimit>,
        tokens: Option<ReportedLimit>,
    ) {
        self.until(now);
        self.meter.learn(now, requests, tokens);
    }
}

#[test]
fn without_limits_no_request_waits() {
    let mut meter = meter(None, None);
    assert_eq!(meter.turns(0, &[1, u64::MAX, 1]), [0, 0, 0]);
}

#[test]
fn requests_queue_in_the_order_of_arrival() {
    let mut meter = meter(Some(2), None);
    assert_eq!(meter.turns(0, &[1, 1, 1, 1]), [0, 0, 30_000, 60_000]);
    assert_eq!(meter.turns(30_000, &[1]), [60_000], "behind the others");
    assert_eq!(
        meter.turns(300_000, &[1, 1, 1]),
        [0, 0, 30_000],
        "full again, not fuller"
    );
}

#[test]
fn tokens_queue_too_and_the_longer_wait_applies() {
    let mut meter = meter(Some(60), Some(600));
    assert_eq!(meter.turns(0, &[400, 100, 300, 50]), [0, 0, 20_000, 25_000]);
    assert_eq!(meter.wait(1, None).what, "tokens");
}

#[test]
fn a_request_larger_than_the_limit_waits_for_a_full_bucket() {
    let mut meter = meter(None, Some(600));
    assert_eq!(
        meter.turns(0, &[1_200, 60]),
        [0, 66_000],
        "full at the start"
    );
    assert_eq!(meter.turns(66_000, &[10_000]), [60_000]);
}

#[test]
fn a_place_that_is_not_used_is_free_for_the_next() {
    let mut meter = meter(Some(1), Some(60));
    assert_eq!(meter.turns(0, &[60, 60]), [0, 60_000]);
    meter.give_up();
    assert_eq!(meter.turns(0, &[60]), [60_000]);
}

#[test]
fn returned_tokens_shorten_waits_in_order() {
    let mut meter = meter(None, Some(600));
    assert_eq!(meter.turns(0, &[500, 300, 60]), [0, 20_000, 26_000]);
    let waits = |meter: &Line| -> Vec<u128> {
        let waiting = meter.waiting.iter();
        let wait = |&(ticket, tokens): &(Ticket, u64)| meter.wait(tokens, Some(ticket)).time;
        waiting.map(|of| wait(of).as_millis()).collect()
    };
    assert_eq!(waits(&meter), [20_000, 26_000]);
    // The small request would fit, but it came later.
    meter.meter.settle(500, Some(360));
    assert_eq!(waits(&meter), [6_000, 12_000]);
    meter.until(ms(6_000));
    assert_eq!((meter.sent.len(), waits(&meter)), (2, vec![6_000]));
    meter.meter.settle(300, Some(0));
    assert_eq!(waits(&meter), [0]);
}

#[test]
fn the_minimum_wait_counts_tokens_in_flight() {
    let mut meter = meter(Some(60), Some(600));
    let at_best = |meter: &Line, tokens| meter.wait(tokens, None).at_best.as_millis();
    assert_eq!(meter.turns(0, &[500]), [0]);
    assert_eq!(at_best(&meter, 600), 0, "all of it may be given back");
    meter.meter.settle(500, Some(500));
    assert_eq!(at_best(&meter, 600), 50_000, "it was used");
    assert_eq!(meter.turns(0, &[400]), [30_000]);
    assert_eq!(at_best(&meter, 100), 0, "who stands before it may leave");
    assert_eq!(at_best(&meter, 6_000), 50_000, "a full bucket is enough");
}

#[test]
fn unused_tokens_are_returned() {
    let mut meter = meter(None, Some(600));
    assert_eq!(meter.turns(0, &[600]), [0]);
    meter.meter.settle(600, Some(100));
    assert_eq!(meter.turns(0, &[500]), [0], "less was used than taken");
    meter.meter.settle(500, Some(560));
    assert_eq!(meter.turns(0, &[10]), [7_000], "more was used than taken");
    meter.give_up();
    meter.meter.settle(u64::MAX, Some(0));
    assert_eq!(
        meter.turns(0, &[600, 1]),
        [0, 100],
        "never more than the limit"
    );
}

fn reported(limit: Option<u64>, remaining: u64, reset_ms: u64) -> Option<ReportedLimit> {
    Some(ReportedLimit {
        limit,
        remaining,
        reset: Some(ms(reset_ms)),
    })
}

#[test]
fn an_exhausted_limit_of_the_provider_is_waited_for() {
    // 10 requests a minute, of which none is left: one every 6 s, until the limit is full again.
    let mut meter = meter(None, None);
    meter.learn(ms(0), reported(Some(10), 0, 60_000), None);
    assert_eq!(meter.turns(0, &[1, 1]), [6_000, 12_000]);
    assert_eq!(meter.turns(59_000, &[1]), [0]);
    assert_eq!(meter.turns(60_000, &[1; 20]), [0; 20], "it is over");
}

#[test]
fn no_request_waits_beyond_the_providers_reset() {
    let mut meter = meter(None, None);
    meter.learn(ms(0), None, reported(Some(1_000), 0, 10_000));
    assert_eq!(
        meter.turns(0, &[100, 5_000, 5_000]),
        [1_000, 10_000, 10_000]
    );
    let mut unknown = meter.clone();
    unknown.learn(ms(0), None, reported(None, 0, 3_000));
    assert_eq!(
        unknown.turns(1_000, &[1, 1]),
        [2_000, 2_000],
        "without its size"
    );
}

#[test]
fn a_limit_with_a_rest_delays_no_request() {
    let mut unset = meter(None, None);
    unset.learn(
        ms(0),
        reported(Some(10), 1, 60_000),
        reported(Some(10), 5, 60_000),
    );
    assert_eq!(unset.turns(0, &[100; 5]), [0; 5]);
    let mut set = meter(Some(60), None);
    set.learn(ms(0), reported(Some(60), 1, 59_000), None);
    assert_eq!(
        set.turns(0, &[1, 1]),
        [0, 1_000],
        "but corrects the one that is set"
    );
}

#[test]
fn odd_headers_are_harmless() {
    for odd in [
        reported(Some(0), 0, 1_000),
        reported(Some(u64::MAX), 0, u64::MAX),
        reported(None, 0, 0),
        Some(ReportedLimit {
            limit: Some(5),
            remaining: 0,
            reset: None,
        }),
    ] {
        let mut meter = meter(Some(60), Some(60));
        meter.learn(ms(0), odd, odd);
        let wait = meter.come(1);
        assert!(wait <= ms(60_000), "{odd:?}: {wait:?}");
    }
}

#[test]
fn queued_requests_keep_their_place_when_new_limits_are_reported() {
    let mut meter = meter(None, None);
    meter.learn(ms(0), reported(Some(10), 0, 60_000), None);
    assert_eq!(meter.turns(0, &[1, 1]), [6_000, 12_000]);
    meter.learn(ms(0), reported(Some(10), 0, 60_000), None);
    assert_eq!(meter.turns(0, &[1]), [18_000]);
}

proptest! {
    #[test]
    fn no_window_gets_more_than_the_limit_and_its_burst(
        asks in prop::collection::vec((0_u64..5_000, 1_u64..400), 1..60),
    ) {
        let limit = 600.0;
        let mut meter = meter(None, Some(600));
        let (mut now, mut came) = (0, Vec::new());
        for (pause, tokens) in asks {
            now += pause;
            meter.until(ms(now));
            meter.come(tokens);
            came.push(tokens);
        }
        meter.until(ms(1_000_000_000));
        let sent = meter.sent;
        let order: Vec<u64> = sent.iter().map(|(_, tokens)| *tokens).collect();
        prop_assert_eq!(order, came, "in the order of arrival");
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

#[test]
fn shared_limits_are_divided_and_restored() {
    let mut meter = RateLimiter::new(&Limits {
        requests_per_minute: Some(60),
        tokens_per_minute: Some(6_000),
        ..Limits::default()
    });
    let at = Duration::from_secs;
    meter.share(at(0), 3);
    // A third of both limits: 20 at once, then one every three seconds.
    for _ in 0..20 {
        assert_eq!(meter.wait(at(0), 100, None).time, Duration::ZERO);
        meter.take(at(0), 100, None);
    }
    let wait = meter.wait(at(0), 100, None).time;
    assert_eq!(wait.as_millis(), 3_000);
    assert_eq!(meter.wait(at(3), 100, None).time, Duration::ZERO);
    // The other programs have ended: it refills at the full rate from then on.
    meter.share(at(3), 1);
    meter.take(at(3), 100, None);
    assert_eq!(meter.wait(at(3), 100, None).time.as_millis(), 1_000);
    meter.share(at(3), 0);
    assert_eq!(
        meter.wait(at(3), 100, None).time.as_millis(),
        1_000,
        "at least this one"
    );
}
