//! Tests of the circuit breaker: its transitions, and that it admits one probe at a time.

use proptest::prelude::*;

use super::*;

const POLICY: BreakerPolicy = BreakerPolicy {
    failures: 3,
    cool_down: Duration::from_secs(30),
    cool_down_max: Duration::from_secs(30),
};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A breaker that opened at 0 s.
fn open() -> Breaker {
    let mut breaker = Breaker::new(POLICY);
    for _ in 0..3 {
        assert_eq!(breaker.admit(s(0)), Ok(Pass::Ordinary));
        breaker.report(s(0), Pass::Ordinary, Verdict::Fails);
    }
    breaker
}

#[test]
fn it_opens_after_failures_in_a_row_and_for_its_time() {
    let mut breaker = open();
    assert_eq!(breaker.admit(s(0)), Err(BreakerOpen { left: s(30) }));
    assert_eq!(breaker.check(s(29)), Err(BreakerOpen { left: s(1) }));
    assert_eq!(breaker.check(s(30)), Ok(()));
    assert_eq!(breaker.admit(s(30)), Ok(Pass::Probe(1)));
}

#[test]
fn the_pause_doubles_until_a_request_is_answered() {
    let mut breaker = Breaker::new(BreakerPolicy {
        failures: 1,
        cool_down: s(5),
        cool_down_max: s(30),
    });
    let mut now = s(0);
    for pause in [5, 10, 20, 30, 30] {
        let pass = breaker.admit(now).unwrap();
        breaker.report(now, pass, Verdict::Fails);
        assert_eq!(breaker.check(now), Err(BreakerOpen { left: s(pause) }));
        now += s(pause);
    }
    for (verdict, pause) in [(Verdict::Responds, 30), (Verdict::Answers, 5)] {
        let probe = breaker.admit(now).unwrap();
        breaker.report(now, probe, verdict);
        breaker.report(now, Pass::Ordinary, Verdict::Fails);
        assert_eq!(breaker.check(now), Err(BreakerOpen { left: s(pause) }));
        now += s(pause);
    }
}

#[test]
fn a_success_resets_the_count_of_failures() {
    let mut breaker = Breaker::new(POLICY);
    for verdict in [
        Verdict::Fails,
        Verdict::Fails,
        Verdict::Answers,
        Verdict::Fails,
    ] {
        breaker.report(s(0), Pass::Ordinary, verdict);
    }
    assert_eq!(breaker.admit(s(0)), Ok(Pass::Ordinary));
    breaker.report(s(0), Pass::Ordinary, Verdict::Unknown);
    breaker.report(s(0), Pass::Ordinary, Verdict::Fails);
    assert_eq!(breaker.admit(s(0)), Ok(Pass::Ordinary), "two in a row");
}

#[test]
fn the_result_of_the_probe_decides() {
    let refused = Err(BreakerOpen { left: s(0) });
    // The result of the probe; then the requests that are admitted at once, and 30 s later.
    let table = rows! {
        (Verdict::Answers, Ok(Pass::Ordinary), Ok(Pass::Ordinary)),
        (Verdict::Fails, Err(BreakerOpen { left: s(30) }), Ok(Pass::Probe(2))),
        (Verdict::Unknown, Ok(Pass::Probe(2)), refused),
    };
    for (verdict, at_once, later) in table {
        let mut breaker = open();
        assert_eq!(breaker.admit(s(30)), Ok(Pass::Probe(1)));
        assert_eq!(breaker.admit(s(31)), refused, "one probe at a time");
        breaker.report(s(32), Pass::Probe(1), verdict);
        assert_eq!(breaker.admit(s(32)), at_once, "{verdict:?}");
        assert_eq!(breaker.admit(s(62)), later, "{verdict:?}");
    }
}

#[test]
fn requests_in_flight_when_the_breaker_opened() {
    let mut breaker = open();
    breaker.report(s(20), Pass::Ordinary, Verdict::Fails);
    assert_eq!(
        breaker.check(s(30)),
        Ok(()),
        "one that fails does not prolong it"
    );
    breaker.report(s(20), Pass::Ordinary, Verdict::Answers);
    assert_eq!(
        breaker.admit(s(20)),
        Ok(Pass::Ordinary),
        "one that is answered closes it"
    );
    let mut probing = open();
    assert_eq!(probing.admit(s(30)), Ok(Pass::Probe(1)));
    probing.report(s(31), Pass::Ordinary, Verdict::Fails);
    assert_eq!(
        probing.check(s(31)),
        Err(BreakerOpen { left: s(0) }),
        "only the probe counts"
    );
}

#[test]
fn an_old_probe_is_not_taken_for_a_later_one() {
    let mut breaker = open();
    assert_eq!(breaker.admit(s(30)), Ok(Pass::Probe(1)));
    breaker.report(s(31), Pass::Ordinary, Verdict::Answers);
    for _ in 0..3 {
        breaker.report(s(31), Pass::Ordinary, Verdict::Fails);
    }
    assert_eq!(breaker.admit(s(61)), Ok(Pass::Probe(2)));
    breaker.report(s(62), Pass::Probe(1), Verdict::Fails);
    breaker.report(s(62), Pass::Probe(1), Verdict::Unknown);
    let under_way = Err(BreakerOpen { left: s(0) });
    assert_eq!(breaker.check(s(62)), under_way, "the second one decides");
    breaker.report(s(63), Pass::Probe(2), Verdict::Unknown);
    assert_eq!(breaker.admit(s(63)), Ok(Pass::Probe(3)));
}

#[test]
fn zero_failures_switch_it_off() {
    let mut breaker = Breaker::new(BreakerPolicy {
        failures: 0,
        ..POLICY
    });
    for _ in 0..100 {
        breaker.report(s(0), Pass::Ordinary, Verdict::Fails);
    }
    assert_eq!(breaker.admit(s(0)), Ok(Pass::Ordinary));
}

#[test]
fn verdicts_by_error_class() {
    let retry_after_ms = None;
    let unavailable = Class::Unavailable { retry_after_ms };
    let limited = Class::RateLimited { retry_after_ms };
    let table = [
        (unavailable, Verdict::Fails),
        (Class::Transport, Verdict::Fails),
        (Class::IncompleteStream, Verdict::Fails),
        (Class::Timeout(Stage::FirstByte), Verdict::Fails),
        (Class::Timeout(Stage::Total), Verdict::Unknown),
        (limited, Verdict::Answers),
        (Class::Unauthorised, Verdict::Answers),
        (Class::BadRequest, Verdict::Answers),
        (Class::BadReply, Verdict::Unknown),
        (Class::Busy, Verdict::Unknown),
    ];
    for (class, verdict) in table {
        assert_eq!(Verdict::from_class(class), verdict, "{class:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Wait(u64),
    Admit,
    Report(usize, Verdict),
}

fn act() -> impl Strategy<Value = Act> {
    let verdict = prop_oneof![
        1 => Just(Verdict::Answers),
        3 => Just(Verdict::Fails),
        1 => Just(Verdict::Unknown),
    ];
    prop_oneof![
        1 => (0_u64..20).prop_map(Act::Wait),
        3 => Just(Act::Admit),
        3 => (any::<usize>(), verdict).prop_map(|(which, verdict)| Act::Report(which, verdict)),
    ]
}

proptest! {
    #[test]
    fn one_probe_at_a_time_and_never_stuck(acts in prop::collection::vec(act(), 0..200)) {
        let mut breaker = Breaker::new(POLICY);
        let (mut now, mut under_way) = (s(0), Vec::new());
        for act in acts {
            match act {
                Act::Wait(seconds) => now += s(seconds),
                Act::Admit => {
                    if let Ok(pass) = breaker.admit(now) {
                        under_way.push(pass);
                    }
                }
                Act::Report(which, verdict) if !under_way.is_empty() => {
                    let pass = under_way.remove(which % under_way.len());
                    breaker.report(now, pass, verdict);
                }
                Act::Report(..) => {}
            }
            if let State::Probing(awaited) = breaker.state {
                let awaited = under_way.iter().filter(|pass| **pass == Pass::Probe(awaited));
                prop_assert_eq!(awaited.count(), 1, "a probe that nobody reports");
            }
        }
        // Once all have reported, a request is admitted after a cool-down.
        for pass in under_way {
            breaker.report(now, pass, Verdict::Fails);
        }
        prop_assert!(breaker.admit(now + POLICY.cool_down).is_ok());
    }
}
