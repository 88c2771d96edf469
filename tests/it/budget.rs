//! Budgets of real trees: what is spent stays within them, whoever works at the same time.

use unisono_context::Tokens;
use unisono_model::language::Usage;
use unisono_model::language::scripted::{Act, Scripted};
use unisono_runtime::Options;
use unisono_session::agent::Definition;
use unisono_session::budget::broker::DaemonBudget;
use unisono_session::budget::{Amount, Caps, EXCEEDED, TurnCaps};
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::{Ending, Reply, RunCause};
use unisono_session::{Event, State};
use unisono_tests::scenario::{model_driven, wait};
use unisono_tests::{Scenario, scenario};

const MODEL: &str = "test/scripted";
/// What each call uses.
const USED: u64 = 700;
/// The most a call can use, by the texts of this test and the models' longest output.
const WORST: u64 = 6_000;

fn agent(id: &str, max_output: u64) -> Definition {
    let mut agent = model_driven(id, &["recall"]);
    agent.limits.max_output = Tokens(max_output);
    agent.model = MODEL.into();
    agent
}

/// A model that calls a tool so often, then answers.
fn talkative(calls: usize) -> Scripted {
    Scripted::by(move |request| {
        let act = if request.exchange.len() < calls * 2 && request.wrap_up.is_none() {
            Act::call(&[("recall", r#"{"n":1}"#)])
        } else {
            Act::say("that is all")
        };
        match act {
            Act::Reply(reply) => Act::Reply(Reply {
                usage: Usage::free(Tokens(USED - 100), Tokens(100)),
                ..reply
            }),
            other => other,
        }
    })
}

fn tokens(most: u64) -> Caps {
    Caps {
        tokens: Some(Tokens(most)),
        ..Caps::NONE
    }
}

fn team(plan: Scenario, delegates: usize) -> Scenario {
    let plan = plan.led_by(agent("lead", 400));
    (0..delegates).fold(plan, |plan, n| plan.asked(agent(&format!("part-{n}"), 400)))
}

/// Folds a journal and checks the turn's budget after each event; gives what was spent.
fn spent(events: &[Event], cap: u64) -> u64 {
    let mut state = State::default();
    for event in events {
        state.apply(event).expect("folds");
        for turn in state.open_turns() {
            let account = state.budget().turn(turn.accepted.id).expect("an account");
            assert!(
                account.in_use().tokens.0 <= cap,
                "{account:?} at {}",
                event.fact
            );
        }
    }
    let account = state.budget().session();
    assert_eq!((account.open, account.kept), (Amount::ZERO, Amount::ZERO));
    account.spent.tokens.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_turn_uses_its_budget_up_and_no_more() {
    let cap = 12 * WORST;
    let plan = team(scenario(), 40)
        .model(MODEL, talkative(5))
        .caps(TurnCaps {
            turn: tokens(cap),
            ..TurnCaps::default()
        });
    let (_directory, world, handle, turn) = plan.ask("What is due?").await;
    wait(&handle, turn).await;
    let events = world.events_of(handle.id()).await;
    let spent = spent(&events, cap);
    assert!(spent * 10 >= cap * 8, "{spent} of {cap}");
    let over = events.iter().filter(|event| match &event.fact {
        Fact::RunEnded { ending, .. } => match &**ending {
            Ending::Finished { partial, .. } => partial
                .as_ref()
                .is_some_and(|why| why.starts_with(EXCEEDED)),
            Ending::Failed { cause, .. } => *cause == RunCause::Budget,
            Ending::Cancelled => false,
        },
        _ => false,
    });
    assert!(over.count() > 0, "somebody was stopped");
    drop(handle);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_the_daemons_budget_and_give_back_what_they_do_not_use() {
    let cap = 6 * WORST;
    let rules = DaemonBudget {
        caps: tokens(cap),
        period_hours: None,
    };
    let options = Options {
        budget: Some(rules),
        ..Options::default()
    };
    let plan = team(scenario(), 2)
        .model(MODEL, talkative(1))
        .options(options);
    let directory = tempfile::tempdir().expect("a directory");
    let mut total = 0;
    // A restart between them takes back what nobody uses.
    for round in 0..2 {
        let world = plan.start(directory.path()).await;
        let mut asked = Vec::new();
        for _ in 0..4 {
            asked.push(world.ask(&plan, "What is due?").await);
        }
        for (handle, turn) in asked {
            wait(&handle, turn).await;
            total += spent(&world.events_of(handle.id()).await, u64::MAX);
        }
        assert!(total <= cap, "round {round}: {total} of {cap}");
        world.stop().await;
    }
    assert!(total * 10 >= cap * 8, "{total} of {cap}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_time_is_up_fails_and_says_so() {
    let plan = scenario()
        .lead(
            unisono_tests::scenario::definition("lead"),
            unisono_tests::agents::Hanging(Default::default()),
        )
        .caps(TurnCaps {
            turn: Caps {
                time_ms: Some(300),
                ..Caps::NONE
            },
            ..TurnCaps::default()
        });
    let (_directory, world, handle, turn) = plan.ask("What is due?").await;
    let outcome = wait(&handle, turn).await.outcome;
    let expected = Outcome::Failed {
        code: EXCEEDED.into(),
        reason: "the turn's time of 0.3 s is used up".into(),
    };
    assert_eq!(outcome, expected);
    drop(handle);
    world.stop().await;
}
