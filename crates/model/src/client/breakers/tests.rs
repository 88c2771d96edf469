//! Tests of which failures concern a model, and which its whole provider.

use super::*;
use crate::language::Stage;

const POLICY: BreakerPolicy = BreakerPolicy {
    failures: 2,
    cool_down: Duration::from_secs(30),
    cool_down_max: Duration::from_secs(30),
};
const NOW: Duration = Duration::from_secs(100);

fn names() -> [Arc<str>; 2] {
    ["a".into(), "b".into()]
}

fn unavailable() -> Class {
    Class::UNAVAILABLE
}

/// A request that was admitted, and failed.
fn fail(breakers: &mut Breakers, model: &Arc<str>, class: Class, reached: bool) {
    let passes = breakers.admit(NOW, model).unwrap();
    let failure = Failure::new(class, format!("{} of {model}", class.code()));
    breakers.failed(NOW, model, passes, &failure, reached);
}

#[test]
fn a_failing_model_delays_no_other() {
    for class in [
        unavailable(),
        Class::Transport,
        Class::IncompleteStream,
        Class::Timeout(Stage::FirstByte),
        Class::Timeout(Stage::Idle),
    ] {
        let [a, b] = names();
        let mut breakers = Breakers::new(POLICY);
        for _ in 0..2 {
            fail(&mut breakers, &a, class, true);
        }
        let refused = breakers.check(NOW, &a).unwrap_err();
        let left = Class::CircuitOpen {
            retry_after_ms: 30_000,
        };
        assert_eq!(refused.class, left);
        let expected = format!(
            "model `a` failed too often; requests to it are paused for 30.0 s more; it failed last with: {} \
             of a",
            class.code()
        );
        assert_eq!(refused.reason, expected);
        assert_eq!(
            breakers.admit(NOW, &b),
            Ok(BreakerPasses::ORDINARY),
            "{class:?}"
        );
    }
}

#[test]
fn a_failed_connection_opens_the_breaker_for_all_models() {
    for class in [Class::Transport, Class::Timeout(Stage::Connect)] {
        let [a, b] = names();
        let mut breakers = Breakers::new(POLICY);
        fail(&mut breakers, &a, class, false);
        fail(&mut breakers, &b, class, false);
        for model in [&a, &b] {
            let refused = breakers.check(NOW, model).unwrap_err();
            let text = &refused.reason;
            assert!(text.starts_with("the provider failed"), "{refused:?}");
            assert!(refused.reason.ends_with(" of b"), "{refused:?}");
        }
        let later = NOW + POLICY.cool_down;
        let probe = breakers.admit(later, &a).unwrap();
        assert!(probe.is_probe() && probe.model == Pass::Ordinary);
        assert!(breakers.check(later, &b).is_err(), "one at a time");
        // The provider is available again, whatever it answers for that model.
        let failure = Failure::new(unavailable(), "busy");
        breakers.failed(later, &a, probe, &failure, true);
        assert_eq!(breakers.admit(later, &b), Ok(BreakerPasses::ORDINARY));
    }
}

#[test]
fn a_key_that_is_refused_for_some_models_delays_no_other() {
    let [a, b] = names();
    let c: Arc<str> = "c".into();
    let mut breakers = Breakers::new(POLICY);
    for model in [&a, &b] {
        for _ in 0..2 {
            fail(&mut breakers, model, Class::Unauthorised, true);
        }
        let refused = breakers.check(NOW, model).unwrap_err();
        // Waiting does not help: the failure is permanent.
        assert_eq!(refused.class, Class::Unauthorised);
        assert_eq!(refused.reason, format!("unauthorised of {model}"));
    }
    assert_eq!(breakers.check(NOW, &c), Ok(()), "the key may be for others");
    let later = NOW + POLICY.cool_down;
    let probe = breakers.admit(later, &a).unwrap();
    breakers.answered(later, &a, probe, Verdict::Answers);
    assert_eq!(breakers.check(later, &a), Ok(()));
}

#[test]
fn a_response_closes_the_breaker_and_an_abandoned_attempt_does_not() {
    let [a, _] = names();
    let mut breakers = Breakers::new(POLICY);
    fail(&mut breakers, &a, unavailable(), true);
    let passes = breakers.admit(NOW, &a).unwrap();
    breakers.answered(NOW, &a, passes, Verdict::Answers);
    fail(&mut breakers, &a, unavailable(), true);
    assert_eq!(breakers.check(NOW, &a), Ok(()), "not two in a row");
    fail(&mut breakers, &a, unavailable(), true);
    let later = NOW + POLICY.cool_down;
    let probe = breakers.admit(later, &a).unwrap();
    assert_eq!(probe.model, Pass::Probe(1));
    breakers.abandoned(later, &a, probe);
    assert_eq!(breakers.admit(later, &a).unwrap().model, Pass::Probe(2));
}

#[test]
fn closed_breakers_are_removed_if_there_are_many() {
    let mut breakers = Breakers::new(POLICY);
    let [a, _] = names();
    for _ in 0..2 {
        fail(&mut breakers, &a, unavailable(), true);
    }
    for number in 0..4 * MOST_MODELS {
        fail(
            &mut breakers,
            &format!("m{number}").into(),
            unavailable(),
            true,
        );
    }
    assert!(breakers.models.len() <= MOST_MODELS);
    assert!(breakers.check(NOW, &a).is_err(), "what is left alone stays");
}
