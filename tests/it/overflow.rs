//! A provider that finds a request too large which was counted to fit: less is sent once, then it
//! is said plainly.

use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Refusal, Script};
use unisono_session::Event;
use unisono_session::agent::Definition;
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::{Ending, RunCause, Step};
use unisono_tests::scenario;
use unisono_tests::scenario::wait;
use unisono_tests::wire::{CLAUDE, asking_claude, claude};

/// A lead that looks something up before it answers.
fn reader() -> Definition {
    Definition {
        tools: vec!["recall".into()],
        max_model_calls: 6,
        ..asking_claude("lead")
    }
}

fn too_large() -> Act {
    Act::refuse(Refusal::Overflow {
        limit: 90_000,
        actual: 90_100,
    })
}

fn looks_up() -> Act {
    Act::answer(Answer::call("recall", r#"{"query":"supplier part store"}"#))
}

/// The bytes of what tools answered in a request.
fn results(request: &Recorded) -> usize {
    let body = request.json();
    let messages = body["messages"].as_array().expect("messages");
    let blocks = messages.iter().filter_map(|m| m["content"].as_array());
    let results = blocks.flatten().filter(|b| b["type"] == "tool_result");
    results
        .map(|result| result["content"].to_string().len())
        .sum()
}

/// How a turn ended whose provider does that, what its journal says, and what was sent.
async fn answered(script: Script) -> (Outcome, Vec<Event>, Vec<Recorded>) {
    let provider = FakeProvider::play(script).await;
    let plan = scenario()
        .messages(40)
        .model(CLAUDE, claude(&provider.url()))
        .led_by(reader())
        .colleague(asking_claude("helper"));
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    let outcome = wait(&handle, turn).await.outcome;
    let events = world.events_of(handle.id()).await;
    drop(handle);
    world.stop().await;
    (outcome, events, provider.requests())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_sent_again_once_with_less() {
    let script = Script::sequence([
        looks_up(),
        looks_up(),
        too_large(),
        Act::answer(Answer::text("Part 3 is late.")),
    ]);
    let (outcome, events, sent) = answered(script).await;
    assert_eq!(outcome, Outcome::Answered);
    assert_eq!(sent.len(), 4);
    let (refused, again) = (results(&sent[2]), results(&sent[3]));
    assert!(again < refused * 3 / 4, "{again} of {refused} bytes");
    // What was found is on disk: another attempt sends less at once.
    let narrowed = events.iter().filter(|event| match &event.fact {
        Fact::RunStepped { step, .. } => matches!(**step, Step::Narrowed { .. }),
        _ => false,
    });
    assert_eq!(narrowed.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_less_is_an_error_with_the_numbers() {
    let (outcome, events, sent) = answered(Script::always(too_large())).await;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome}");
    let longest = |sent: &Recorded| sent.json()["max_tokens"].as_u64().expect("a number");
    assert_eq!(sent.len(), 2, "once more, and never the same");
    assert!(longest(&sent[1]) < longest(&sent[0]));
    let failed = events.iter().find_map(|event| match &event.fact {
        Fact::RunEnded { ending, .. } => Some(ending.clone()),
        _ => None,
    });
    let failed = failed.expect("it has ended");
    let (cause, reason) = match &*failed {
        Ending::Failed { cause, reason, .. } => (Some(*cause), &**reason),
        _ => (None, ""),
    };
    assert_eq!(cause, Some(RunCause::Overflow));
    for said in [
        "90000 tokens",
        "its window was assumed to have 100000 tokens",
    ] {
        assert!(reason.contains(said), "{reason}");
    }
    assert!(
        !reason.contains(RunCause::Overflow.code()),
        "the cause is told beside it"
    );
}
