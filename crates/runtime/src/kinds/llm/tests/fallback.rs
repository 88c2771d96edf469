//! The last reply of a fallback: a step, from which an attempt after a crash ends the run.

use super::*;

/// The same act by another model.
fn instead(act: Act) -> Act {
    changed(spent(act, 100, 7), |reply| {
        reply.fallback = Some(FallbackUsed::named("other/model"));
    })
}

/// The ending of the run, and the ending of a later attempt that calls no model.
async fn twice(mut attempt: Attempt, model: &Scripted) -> [Answer; 2] {
    let first = run(&attempt, model).await.unwrap();
    attempt.steps = attempt.session.steps();
    attempt.session = Default::default();
    let second = run(&attempt, &Scripted::new([])).await.unwrap();
    assert!(attempt.session.steps().is_empty());
    [first, second]
}

#[tokio::test]
async fn a_fallback_reply_is_a_step_that_determines_the_ending() {
    let calls = spent(Act::call(&[("recall", r#"{"n":2}"#)]), 50, 3);
    let attempt = attempt();
    let session = attempt.session.clone();
    let model = Scripted::new([calls, instead(Act::say("under the mat"))]);
    for answer in twice(attempt, &model).await {
        assert_eq!(&*answer.text, "under the mat");
        assert_eq!(answer.partial, None);
        assert_eq!(answer.usage, Usage::free(Tokens(150), Tokens(10)));
    }
    let steps = session.steps();
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert_eq!(steps[2].fallback().map(|name| &**name), Some("other/model"));
}

#[tokio::test]
async fn the_last_call_of_a_budget_stays_the_last() {
    let mut attempt = attempt();
    attempt.bounded = true;
    attempt.wrapped_up = Some((0, "no more".into()));
    attempt.session.budget([Ok(Some("no more".into()))]);
    let reply = saying(Act::call(&[("recall", r#"{"n":2}"#)]), "so far");
    for answer in twice(attempt, &Scripted::new([instead(reply)])).await {
        assert_eq!(&*answer.text, "so far");
        assert_eq!(answer.partial.as_deref(), Some("no more"));
    }
}

#[tokio::test]
async fn a_rejected_fallback_reply_is_charged_by_model_and_retried() {
    let declined = Act::Reply(Reply {
        text: "I cannot help with that.".into(),
        stop: Stop::Refused,
        ..Reply::default()
    });
    for (act, cause) in [
        (Act::say(" "), RunCause::BadOutput),
        (declined, RunCause::Refused),
    ] {
        let mut attempt = attempt();
        attempt.bounded = true;
        attempt.session.budget([Ok(None)]);
        let model = Scripted::new([instead(act)]);
        let failure = run(&attempt, &model).await.unwrap_err();
        assert_eq!(failure.cause, cause);
        let spent = Step::Spent(run::AuxiliaryUsage {
            usage: Usage::free(Tokens(100), Tokens(7)),
            fallback: Some("other/model".into()),
        });
        let steps = attempt.session.steps();
        assert_eq!(steps, [Arc::new(spent)]);
        // It is charged with the step; the rest of its reservation is released.
        assert_eq!(attempt.session.prepaid(), [Some(1)]);
        assert_eq!(attempt.session.calls().1, [(1, CallEnd::Unsent)]);

        let again = Attempt {
            steps,
            session: Default::default(),
            bounded: false,
            ..attempt
        };
        let model = Scripted::new([Act::say("under the mat")]);
        let answer = run(&again, &model).await.unwrap();
        assert_eq!(&*answer.text, "under the mat");
        assert_eq!(model.requests().len(), 1);
    }
}
