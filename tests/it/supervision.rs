//! Agents that panic, fail, hang: each run ends in a recorded state and its siblings go on.

use unisono_model::language::{Completion, LanguageModel, Request};
use unisono_model::prompt::{Prefix, Shared};
use unisono_session::State;
use unisono_session::agent::{Definition, OnFailure};
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::{Ending, RunCause};
use unisono_tests::agents::{Echo, Failing, Hanging, Panicking, Tally};
use unisono_tests::scenario::{definition, facts_until_end, model_driven, until, wait};
use unisono_tests::{Scenario, scenario};

fn retrying(id: &str, retries: u32) -> Definition {
    Definition {
        retries,
        ..definition(id)
    }
}

async fn run(plan: &Scenario) -> (Outcome, Vec<Fact>) {
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    let mut events = handle.events(0).await.expect("events");
    let outcome = wait(&handle, turn).await.outcome;
    let facts = facts_until_end(&mut events, turn).await;
    drop((handle, events));
    world.stop().await;
    (outcome, facts)
}

fn endings(facts: &[Fact]) -> Vec<Ending> {
    let ended = facts.iter().filter_map(|fact| match fact {
        Fact::RunEnded { ending, .. } => Some((**ending).clone()),
        _ => None,
    });
    ended.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_agent_is_tried_again_and_its_siblings_are_unharmed() {
    let tally = Tally::default();
    let plan = scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(
            retrying("shaky", 2),
            Panicking {
                times: 2,
                tally: tally.clone(),
            },
        )
        .delegate(definition("sibling"), Echo(tally.clone()));
    let (outcome, facts) = run(&plan).await;
    assert_eq!(outcome, Outcome::Answered);
    assert_eq!(tally.of("shaky"), 3);
    assert_eq!(tally.of("sibling"), 1);
    let retried = facts.iter().filter_map(|fact| match fact {
        Fact::RunRetried {
            attempt, reason, ..
        } => Some((*attempt, reason.to_string())),
        _ => None,
    });
    let retried: Vec<_> = retried.collect();
    assert_eq!(
        retried
            .iter()
            .map(|(attempt, _)| *attempt)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    assert!(retried[0].1.contains("told to panic"), "{retried:?}");
}

/// Panics when it renders a context.
struct Unrendered;

impl LanguageModel for Unrendered {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        assert!(shared.snapshot.is_none(), "the model was told to panic");
        Prefix::new("")
    }

    fn complete(&self, _: Request) -> Completion<'_> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_panics_at_a_context_fails_the_turn_and_not_the_session() {
    // A short context is rendered by the session, a long one on another thread.
    for messages in [8, 200] {
        let plan = scenario()
            .messages(messages)
            .model("test/scripted", Unrendered)
            .led_by(model_driven("lead", &[]));
        let (outcome, _) = run(&plan).await;
        let Outcome::Failed { code, reason } = &outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(&**code, "render_failed");
        assert!(reason.contains("told to panic"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_that_panics_stops_nobody_else() {
    let tally = Tally::default();
    let plan = scenario().lead(definition("lead"), Hanging(tally.clone()));
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    until(|| tally.of("started") == 1).await;
    let looking = handle.clone();
    let looked = tokio::spawn(async move {
        let look = |state: &State| assert_eq!(state.events(), 0, "told to panic");
        looking.inspect(look).await
    });
    assert!(looked.await.expect_err("it panics").is_panic());
    let open = handle
        .inspect(move |state| state.turn(turn).is_some())
        .await;
    assert!(open.expect("inspected"));
    assert_eq!((tally.of("started"), tally.of("dropped")), (1, 0));
    handle.cancel(turn).await.expect("cancelled");
    drop(handle);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delegate_is_named_to_the_lead() {
    let tally = Tally::default();
    let plan = scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(definition("broken"), Failing(RunCause::BadInput))
        .delegate(definition("sibling"), Echo(tally.clone()));
    let (outcome, facts) = run(&plan).await;
    assert_eq!(outcome, Outcome::Answered);
    let failed = endings(&facts).into_iter().filter(|ending| {
        matches!(
            ending,
            Ending::Failed {
                cause: RunCause::BadInput,
                ..
            }
        )
    });
    assert_eq!(failed.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_may_not_fail_ends_the_turn_and_stops_its_siblings() {
    let tally = Tally::default();
    let fatal = Definition {
        on_failure: OnFailure::Fail,
        ..definition("broken")
    };
    let plan = scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(definition("hanging"), Hanging(tally.clone()))
        .delegate(fatal, Failing(RunCause::BadInput));
    let (outcome, facts) = run(&plan).await;
    assert!(matches!(outcome, Outcome::Failed { ref code, .. } if &**code == "delegate_failed"));
    assert!(endings(&facts).contains(&Ending::Cancelled));
    assert_eq!(tally.of("lead"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_takes_too_long_times_out() {
    let tally = Tally::default();
    let slow = Definition {
        timeout_ms: 50,
        ..definition("hanging")
    };
    let plan = scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(slow, Hanging(tally.clone()));
    let (outcome, facts) = run(&plan).await;
    assert_eq!(outcome, Outcome::Answered);
    let timed_out = |e: &Ending| {
        matches!(
            e,
            Ending::Failed {
                cause: RunCause::Timeout,
                ..
            }
        )
    };
    assert!(endings(&facts).iter().any(timed_out));
    assert_eq!((tally.of("started"), tally.of("dropped")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_turn_stops_every_run_of_it() {
    let tally = Tally::default();
    let mut plan = scenario().lead(definition("lead"), Echo(tally.clone()));
    for n in 0..8 {
        plan = plan.delegate(definition(&format!("hanging-{n}")), Hanging(tally.clone()));
    }
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    until(|| tally.of("started") == 8).await;
    handle.cancel(turn).await.expect("cancelled");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Cancelled);
    until(|| tally.of("dropped") == 8).await;
    drop(handle);
    world.stop().await;
}
