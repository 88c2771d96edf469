//! Tests of the gate: breaker, cool-down and limits together, as a fan-out uses them.

use super::*;
use crate::client::breaker::Pass;
use crate::client::limits;
use crate::fixture::ms;

fn gate(limits: Limits) -> Gate {
    let breaker = BreakerPolicy {
        failures: 2,
        cool_down: ms(10_000),
        cool_down_max: ms(10_000),
    };
    Gate::new(&limits, &RetryPolicy::default(), breaker)
}

fn request() -> AdmissionRequest {
    AdmissionRequest {
        model: "m".into(),
        tokens: 10,
        ticket: None,
        patience: Duration::from_secs(60),
        probe_wait: Duration::ZERO,
    }
}

const GO: Step = Step::Go(BreakerPasses::ORDINARY);

/// A probe, to find out whether the model is available again.
fn probe(number: u64) -> BreakerPasses {
    BreakerPasses {
        model: Pass::Probe(number),
        ..BreakerPasses::ORDINARY
    }
}

/// A request that was admitted as a probe, and reserved this many tokens.
fn sent(passes: BreakerPasses, taken: u64) -> SentRequest {
    SentRequest {
        model: "m".into(),
        passes,
        taken,
    }
}

fn failure(class: Class) -> Failure {
    Failure::new(class, "cannot connect")
}

fn limited(retry_after_ms: Option<u64>) -> Class {
    Class::RateLimited { retry_after_ms }
}

fn unavailable(retry_after_ms: Option<u64>) -> Class {
    Class::Unavailable { retry_after_ms }
}

fn circuit_open(retry_after_ms: u64) -> Class {
    Class::CircuitOpen { retry_after_ms }
}

fn token_gate(tokens: u64) -> Gate {
    gate(Limits {
        tokens_per_minute: Some(tokens),
        ..Limits::default()
    })
}

fn one_request_gate() -> Gate {
    gate(Limits {
        requests_per_minute: Some(1),
        ..Limits::default()
    })
}

fn request_of(tokens: u64) -> AdmissionRequest {
    AdmissionRequest {
        tokens,
        ..request()
    }
}

/// An ordinary request fails at 0 s, after it reached the provider.
fn fail(gate: &mut Gate, class: Class) {
    let ordinary = sent(BreakerPasses::ORDINARY, 10);
    gate.failed(ms(0), &ordinary, &failure(class), true);
}

fn queued(step: Step, wait: Duration) -> AdmissionRequest {
    match step {
        Step::Queued(ticket, time) if time == wait => AdmissionRequest {
            ticket: Some(ticket),
            ..request()
        },
        other => panic!("not {wait:?} in line: {other:?}"),
    }
}

fn refused(step: &Step) -> Option<(Class, &str)> {
    match step {
        Step::Refused(failure) => Some((failure.class, &failure.reason)),
        _ => None,
    }
}

#[test]
fn a_rate_limited_request_delays_its_siblings() {
    let mut gate = gate(Limits::default());
    assert_eq!(gate.step(ms(0), &request(), 0.0), GO);
    fail(&mut gate, limited(Some(2_000)));
    assert_eq!(gate.step(ms(0), &request(), 0.0), Step::Wait(ms(2_000)));
    assert_eq!(
        gate.step(ms(500), &request(), 1.0),
        Step::Wait(ms(2_000)),
        "spread out"
    );
    assert_eq!(gate.step(ms(2_000), &request(), 1.0), GO);
}

#[test]
fn cool_downs_by_error_class() {
    let table = [
        (limited(None), Some(500)),
        (limited(Some(7_000)), Some(7_000)),
        (unavailable(Some(3_000)), Some(3_000)),
        (unavailable(None), None),
        (Class::Transport, None),
        (Class::BadRequest, None),
        // A day: after two minutes one request may try.
        (limited(Some(86_400_000)), Some(120_000)),
    ];
    for (class, hold) in table {
        let mut gate = gate(Limits::default());
        fail(&mut gate, class);
        let patient = AdmissionRequest {
            patience: Duration::MAX,
            ..request()
        };
        let expected = hold.map_or(GO, |hold| Step::Wait(ms(hold)));
        assert_eq!(gate.step(ms(0), &patient, 0.0), expected, "{class:?}");
    }
}

#[test]
fn a_request_that_cannot_wait_long_enough_is_rejected_at_once() {
    let mut gate = gate(Limits::default());
    fail(&mut gate, limited(Some(90_000)));
    let step = gate.step(ms(0), &request(), 0.0);
    let (class, reason) = refused(&step).unwrap();
    assert_eq!(class, Class::Busy);
    assert!(
        reason.contains("90.0 s more") && reason.contains("60.0 s"),
        "{reason}"
    );
}

#[test]
fn a_place_in_the_limit_is_given_once() {
    let mut gate = gate(Limits {
        requests_per_minute: Some(60),
        tokens_per_minute: Some(60),
        ..Limits::default()
    });
    assert_eq!(gate.step(ms(0), &request_of(60), 0.0), GO);
    gate.succeeded(ms(0), &sent(BreakerPasses::ORDINARY, 60), Some(60));
    let first = queued(gate.step(ms(0), &request(), 0.0), ms(10_000));
    let second = queued(gate.step(ms(0), &request(), 0.0), ms(20_000));
    assert_eq!(queued(gate.step(ms(4_000), &first, 0.0), ms(6_000)), first);
    assert_eq!(
        queued(gate.step(ms(4_000), &second, 0.0), ms(16_000)),
        second
    );
    assert_eq!(gate.step(ms(10_000), &first, 0.0), GO);
    let third = queued(gate.step(ms(10_000), &request(), 0.0), ms(20_000));
    gate.leave(second.ticket.unwrap());
    assert_eq!(
        queued(gate.step(ms(10_000), &third, 0.0), ms(10_000)),
        third
    );
}

/// This many tokens are reserved by a request in progress, and were used by earlier ones, of a
/// limit of 60.
#[test]
fn a_request_waits_only_if_it_can_be_sent_in_time() {
    let patient = |seconds| AdmissionRequest {
        tokens: 40,
        patience: Duration::from_secs(seconds),
        ..request()
    };
    for (under_way, used, patience, expected) in rows! {
        (0, 0, 0, Ok(0)),
        // Reserved tokens may be returned until the deadline of the request.
        (60, 0, 5, Ok(5_000)),
        (60, 0, 39, Ok(39_000)),
        (60, 0, 41, Ok(40_000)),
        (60, 0, 0, Err("had no room in the time this request may wait, and has none for 40.0 s")),
        (30, 30, 10, Ok(10_000)),
        (30, 30, 9, Err("has no room for 10.0 s, longer than the 9.0 s")),
        (0, 60, 39, Err("has no room for 40.0 s, longer than the 39.0 s")),
        (0, 60, 40, Ok(40_000)),
    } {
        let mut gate = token_gate(60);
        for (tokens, ends) in [(used, true), (under_way, false)] {
            assert_eq!(gate.step(ms(0), &request_of(tokens), 0.0), GO);
            if ends {
                gate.succeeded(ms(0), &sent(BreakerPasses::ORDINARY, tokens), Some(tokens));
            }
        }
        let step = gate.step(ms(0), &patient(patience), 0.0);
        let case = format!("{under_way} {used} {patience}: {step:?}");
        match (expected, &step) {
            (Ok(0), Step::Go(_)) => {}
            (Ok(wait), Step::Queued(_, time)) => assert_eq!(*time, ms(wait), "{case}"),
            (Err(expected), Step::Refused(failure)) => {
                assert_eq!(failure.class, Class::Busy);
                assert!(failure.reason.contains(expected), "{case}");
                assert!(failure.reason.starts_with("the limit of tokens"), "{case}");
            }
            _ => panic!("{case}"),
        }
    }
}

#[test]
fn queued_requests_respect_the_cool_down() {
    let mut gate = one_request_gate();
    assert_eq!(gate.step(ms(0), &request(), 0.0), GO);
    let waiting = queued(gate.step(ms(0), &request(), 0.0), ms(60_000));
    fail(&mut gate, limited(Some(1_000)));
    assert_eq!(gate.step(ms(0), &waiting, 0.0), Step::Wait(ms(1_000)));
}

#[test]
fn a_failing_provider_gets_one_probe_after_the_cool_down() {
    let mut gate = gate(Limits::default());
    for _ in 0..2 {
        assert_eq!(gate.step(ms(0), &request(), 0.0), GO);
        fail(&mut gate, Class::Transport);
    }
    let step = gate.step(ms(4_000), &request(), 0.0);
    let (class, reason) = refused(&step).unwrap();
    assert_eq!(class, circuit_open(6_000));
    assert!(reason.contains("6.0 s"), "{reason}");
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), Step::Go(probe(1)));
    let step = gate.step(ms(10_000), &request(), 0.0);
    assert_eq!(step, Step::AwaitProbe(MAX_PROBE_WAIT), "one at a time");
    gate.abandoned(ms(10_000), &sent(probe(1), 10));
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), Step::Go(probe(2)));
    gate.succeeded(ms(10_000), &sent(probe(2), 10), None);
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), GO);
}

#[test]
fn a_probe_succeeds_when_the_response_begins() {
    let mut gate = gate(Limits::default());
    for _ in 0..2 {
        fail(&mut gate, Class::Transport);
    }
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), Step::Go(probe(1)));
    for (patience, waited, left) in [(60_000, 0, 5_000), (900, 0, 900), (60_000, 3_000, 2_000)] {
        let waiting = AdmissionRequest {
            patience: ms(patience),
            probe_wait: ms(waited),
            ..request()
        };
        let step = gate.step(ms(10_000), &waiting, 0.0);
        assert_eq!(step, Step::AwaitProbe(ms(left)));
    }
    let soon = circuit_open(1_000);
    for (patience, waited) in [(0, 0), (60_000, 5_000)] {
        let hurried = AdmissionRequest {
            patience: ms(patience),
            probe_wait: ms(waited),
            ..request()
        };
        let step = gate.step(ms(10_000), &hurried, 0.0);
        assert_eq!(refused(&step).map(|(class, _)| class), Some(soon));
    }
    gate.response_started(ms(10_500), &sent(probe(1), 10));
    assert_eq!(gate.step(ms(10_500), &request(), 0.0), GO, "before its end");
    // A failure after that counts as an ordinary failure.
    let sent = sent(probe(1), 10);
    let broken = failure(Class::IncompleteStream);
    gate.failed(ms(11_000), &sent, &broken, true);
    assert_eq!(gate.step(ms(11_000), &request(), 0.0), GO);
}

#[test]
fn a_probe_that_cannot_admit_a_request_is_not_awaited() {
    let mut gate = gate(Limits::default());
    let ordinary = sent(BreakerPasses::ORDINARY, 10);
    // No connection: the provider's breaker opens. The model's breaker opens for longer.
    for _ in 0..2 {
        gate.failed(ms(0), &ordinary, &failure(Class::Transport), false);
    }
    gate.hold(ms(5_000), Some(&"m".into()), ms(10_000));
    let other = AdmissionRequest {
        model: "other".into(),
        ..request()
    };
    let Step::Go(passes) = gate.step(ms(10_000), &other, 0.0) else {
        panic!("no probe");
    };
    assert!(passes.is_probe());
    let step = gate.step(ms(10_000), &other, 0.0);
    assert_eq!(step, Step::AwaitProbe(MAX_PROBE_WAIT));
    let step = gate.step(ms(10_000), &request(), 0.0);
    let left = refused(&step).map(|(class, _)| class);
    assert_eq!(left, Some(circuit_open(5_000)));
    assert_eq!(gate.pause_ms(ms(10_000), &"m".into()), Some(5_000));
}

#[test]
fn a_refused_key_is_not_awaited() {
    let mut gate = gate(Limits::default());
    for _ in 0..2 {
        fail(&mut gate, Class::Unauthorised);
    }
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), Step::Go(probe(1)));
    let step = gate.step(ms(10_000), &request(), 0.0);
    let class = refused(&step).map(|(class, _)| class);
    assert_eq!(class, Some(Class::Unauthorised));
    assert_eq!(gate.pause_ms(ms(10_000), &"m".into()), None);
}

#[test]
fn a_rejected_request_takes_nothing_from_the_limits() {
    let mut gate = one_request_gate();
    for _ in 0..2 {
        fail(&mut gate, Class::Transport);
    }
    assert!(refused(&gate.step(ms(0), &request(), 0.0)).is_some());
    assert_eq!(gate.step(ms(10_000), &request(), 0.0), Step::Go(probe(1)));
}

#[test]
fn reported_limits_and_used_tokens_are_counted() {
    let mut gate = token_gate(60);
    assert_eq!(gate.step(ms(0), &request_of(60), 0.0), GO);
    gate.succeeded(ms(0), &sent(BreakerPasses::ORDINARY, 60), Some(30));
    assert_eq!(gate.step(ms(0), &request_of(30), 0.0), GO);
    gate.succeeded(ms(0), &sent(BreakerPasses::ORDINARY, 30), None);
    let waiting = queued(gate.step(ms(0), &request(), 0.0), ms(10_000));
    assert_eq!(gate.step(ms(10_000), &waiting, 0.0), GO);
    let headers = ResponseHeaders {
        requests: Some(limits::ReportedLimit {
            limit: Some(1),
            remaining: 0,
            reset: Some(ms(30_000)),
        }),
        ..ResponseHeaders::default()
    };
    gate.learn(ms(20_000), &headers);
    queued(gate.step(ms(20_000), &request(), 0.0), ms(30_000));
}

#[test]
fn what_the_provider_said_is_told_to_others_and_what_the_network_did_is_not() {
    let provider = |wait| vec![(None, ms(wait))];
    let model = |wait| vec![(Some(Arc::from("m")), ms(wait))];
    let shortest = RetryPolicy::default().base.as_millis() as u64;
    let rows = rows! {
        // the second failure in a row, and the pauses that other programs are told of
        (limited(Some(7_000)), true, provider(7_000)),
        (limited(None), true, provider(shortest)),
        (unavailable(None), true, model(10_000)),
        (unavailable(Some(3_000)), true, [model(10_000), provider(3_000)].concat()),
        (Class::Transport, true, Vec::new()),
        (Class::Transport, false, Vec::new()),
        (Class::Unauthorised, true, Vec::new()),
        (Class::BadRequest, true, Vec::new()),
    };
    for (class, reached, expected) in rows {
        let mut gate = gate(Limits::default());
        for round in 0..2 {
            let held = gate.failed(
                ms(0),
                &sent(BreakerPasses::ORDINARY, 10),
                &failure(class),
                reached,
            );
            if round == 1 {
                assert_eq!(held, expected, "{class:?}");
            }
        }
    }
}

#[test]
fn a_wait_reported_by_another_program_is_kept_and_then_probed() {
    let mut gate = gate(Limits::default());
    gate.hold(ms(0), None, ms(4_000));
    assert_eq!(gate.step(ms(0), &request(), 0.0), Step::Wait(ms(4_000)));
    assert_eq!(gate.step(ms(4_000), &request(), 0.0), GO);
    // A longer pause of a model is shortened to the maximum of this program's policy.
    let model: Arc<str> = "m".into();
    gate.hold(ms(5_000), Some(&model), ms(99_000));
    let Step::Refused(refused) = gate.step(ms(5_000), &request(), 0.0) else {
        panic!("it is asked");
    };
    assert_eq!(refused.class, circuit_open(10_000));
    assert!(refused.reason.contains("another daemon"), "{refused:?}");
    let other = AdmissionRequest {
        model: "other".into(),
        ..request()
    };
    assert_eq!(gate.step(ms(5_000), &other, 0.0), GO);
    assert_eq!(gate.step(ms(15_000), &request(), 0.0), Step::Go(probe(1)));
    // A pause of another program has no effect while a probe is in flight.
    gate.hold(ms(15_000), Some(&model), ms(9_000));
    gate.succeeded(ms(15_001), &sent(probe(1), 10), None);
    assert_eq!(gate.step(ms(15_002), &request(), 0.0), GO);
}
