//! Reserved calls: their maximum use, their settlement, and the last call.

use super::*;

const SPENT: &str = "budget_exceeded: the turn's budget of 100 tokens has 7 left";
/// The same, without its cause.
const SHORT: &str = "the turn's budget of 100 tokens has 7 left";

/// An attempt with reserved calls and these answers to the reservations.
fn bounded(answers: impl IntoIterator<Item = Result<Option<Arc<str>>, Failure>>) -> Attempt {
    let mut attempt = attempt();
    attempt.bounded = true;
    attempt.session.budget(answers);
    attempt
}

#[tokio::test]
async fn a_limited_call_is_reserved_at_its_worst_case_and_settled_by_its_step() {
    let attempt = bounded([Ok(None), Ok(None)]);
    let model = Scripted::new([Act::call(&[("recall", r#"{"n":2}"#)]), Act::say("done")]);
    run(&attempt, &model).await.unwrap();
    let (asked, settled) = attempt.session.calls();
    let numbers: Vec<u32> = asked.iter().map(|ask| ask.call).collect();
    assert_eq!(numbers, [1, 2]);
    // One token per byte: persona, task and the longest output at least.
    assert!(asked[0].tokens > Tokens(4_096 + 40), "{asked:?}");
    let (last, _) = asked[0].last.unwrap();
    assert!(
        last >= asked[1].tokens,
        "the call after it was foreseen: {asked:?}"
    );
    assert_eq!(settled, []);
}

#[tokio::test]
async fn the_last_call_of_a_budget_runs_no_tools_and_is_partial() {
    for (reply, expected) in [
        (Act::say("so far, nothing"), "so far, nothing"),
        (Act::call(&[("recall", r#"{"n":2}"#)]), "first thoughts"),
    ] {
        let attempt = bounded([Ok(None), Ok(Some(SPENT.into()))]);
        let first = saying(Act::call(&[("recall", r#"{"n":1}"#)]), "first thoughts");
        let model = Scripted::new([first, reply]);
        let answer = run(&attempt, &model).await.unwrap();
        assert_eq!(&*answer.text, expected);
        assert_eq!(answer.partial.as_deref(), Some(SPENT));
        let requests = model.requests();
        assert_eq!(requests[1].wrap_up.as_deref(), Some(SPENT));
        assert_eq!(
            attempt.session.steps().len(),
            2,
            "the last reply is no step"
        );
    }
}

#[tokio::test]
async fn the_last_text_is_the_result_if_no_call_is_affordable() {
    let refused = || Err(Failure::new(RunCause::Budget, SHORT));
    let attempt = bounded([refused()]);
    let model = Scripted::new([]);
    let failure = run(&attempt, &model).await.unwrap_err();
    assert_eq!((failure.cause, &*failure.reason), (RunCause::Budget, SHORT));
    assert_eq!(model.requests().len(), 0);

    let mut attempt = bounded([refused()]);
    let said = Reply {
        text: "the key is under the mat".into(),
        usage: Usage::free(Tokens(9), Tokens(1)),
        ..Reply::default()
    };
    attempt.steps = vec![
        Arc::new(Step::Model(Reply {
            calls: vec![ToolCall::new("1", "recall", "{}")],
            ..said
        })),
        Arc::new(Step::Tools(Vec::new())),
    ];
    let answer = run(&attempt, &model).await.unwrap();
    assert_eq!(&*answer.text, "the key is under the mat");
    assert_eq!(answer.partial.as_deref(), Some(SPENT));
    assert_eq!(answer.usage.input, Tokens(9));
}

#[tokio::test]
async fn a_failed_call_is_settled_by_the_providers_error() {
    for (class, end) in [
        (Class::Unauthorised, CallEnd::Unsent),
        (Class::IncompleteStream, CallEnd::Lost),
    ] {
        let attempt = bounded([Ok(None)]);
        let model = Scripted::new([Act::FailAs(class)]);
        run(&attempt, &model).await.unwrap_err();
        assert_eq!(attempt.session.calls().1, [(1, end)], "{class:?}");
    }
}

#[tokio::test]
async fn a_prepaid_cost_is_a_step_at_once() {
    let wasted = Usage::free(Tokens(900), Tokens(1));
    let before = |fallback: Option<&str>, then| {
        let fallback = fallback.map(Arc::from);
        Scripted::new([Act::Prepaid(wasted, fallback, Box::new(then))])
    };
    let by = |fallback: Option<&str>| {
        Step::Spent(run::AuxiliaryUsage {
            usage: wasted,
            fallback: fallback.map(Arc::from),
        })
    };
    for (fallback, then) in [
        (None, Act::FailAs(Class::Transport)),
        (Some("b/2"), Act::FailAs(Class::BadRequest)),
    ] {
        let attempt = bounded([Ok(None)]);
        run(&attempt, &before(fallback, then)).await.unwrap_err();
        assert_eq!(*attempt.session.steps()[0], by(fallback));
        assert_eq!(attempt.session.prepaid(), [Some(1)]);
        // Its reservation is charged with the step; the request itself cost nothing.
        assert_eq!(attempt.session.calls().1, [(1, CallEnd::Unsent)]);
    }

    // A call that is dropped.
    let attempt = bounded([Ok(None)]);
    let model = before(None, Act::Hang);
    let given_up = async {
        while attempt.session.steps().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = run(&attempt, &model) => panic!("it hangs"),
        () = given_up => {}
    }
    assert_eq!(*attempt.session.steps()[0], by(None));
    assert_eq!(attempt.session.calls().1, [(1, CallEnd::Lost)]);

    // The next attempt starts afresh: the usage of its replies is its own.
    let mut again = super::tests::attempt();
    again.steps = attempt.session.steps();
    let mut ctx = again.clone();
    ctx.models = Models::default().with(
        "test/scripted",
        Scripted::new([Act::Prepaid(wasted, None, Box::new(Act::say("none")))]),
    );
    let ctx = ctx.ctx();
    assert_eq!(ctx.auxiliary_usage(), wasted);
    let answer = LlmAgent.run(task(), ctx.clone()).await.unwrap();
    assert_eq!(answer.usage, Usage::NONE);
    assert_eq!(ctx.auxiliary_usage(), wasted + wasted);
    assert_eq!(again.session.prepaid(), [None]);
}
