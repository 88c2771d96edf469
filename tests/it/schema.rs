//! A model that answers in prose where an answer is to have a shape: another attempt is made, and
//! what is delivered has it.

use unisono_fake_provider::{Act, Answer, FakeProvider, Script};
use unisono_session::agent::Definition;
use unisono_session::event::{Fact, Outcome};
use unisono_session::run::{Ending, RunCause};
use unisono_tests::scenario;
use unisono_tests::scenario::wait;
use unisono_tests::wire::{CLAUDE, asking_claude, claude};

const SCHEMA: &str = r#"{"type":"object","properties":{"late":{"type":"array","items":{"type":"string"}}},"required":["late"]}"#;

/// How a turn ended whose lead is answered so, how its run did, and why it was tried again.
async fn asked(retries: u32, script: Script) -> (Outcome, Ending, Vec<String>) {
    let provider = FakeProvider::play(script).await;
    let lead = Definition {
        output_schema: Some(SCHEMA.into()),
        retries,
        ..asking_claude("lead")
    };
    let plan = scenario()
        .messages(4)
        .model(CLAUDE, claude(&provider.url()))
        .led_by(lead);
    let (_directory, world, handle, turn) = plan.ask("What is late?").await;
    let outcome = wait(&handle, turn).await.outcome;
    let events = world.events_of(handle.id()).await;
    drop(handle);
    world.stop().await;
    let retried = events.iter().filter_map(|event| match &event.fact {
        Fact::RunRetried { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let ended = events.iter().find_map(|event| match &event.fact {
        Fact::RunEnded { ending, .. } => Some((**ending).clone()),
        _ => None,
    });
    (outcome, ended.expect("it has ended"), retried.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn prose_is_tried_again_and_the_answer_is_json() {
    let script = Script::sequence([
        Act::answer(Answer::text("Part 3 is late.")),
        Act::answer(Answer::text("```json\n{\"late\":[\"p3\"]}\n```")),
    ]);
    let (outcome, ended, retried) = asked(1, script).await;
    assert_eq!(outcome, Outcome::Answered);
    let Ending::Finished { text, .. } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(&*text, "{\"late\":[\"p3\"]}");
    assert_eq!(retried.len(), 1);
    let says = "does not fit its schema: it is not JSON";
    assert!(retried[0].contains(says), "{}", retried[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_fits_is_a_failure_that_says_what_is_wrong() {
    let script = Script::always(Act::answer(Answer::text("{\"late\":3}")));
    let (outcome, ended, retried) = asked(1, script).await;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome}");
    assert_eq!(retried.len(), 1);
    let Ending::Failed { cause, reason, .. } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(cause, RunCause::BadOutput);
    let says = "does not fit its schema: /late: 3 is not of type \"array\"";
    assert!(reason.contains(says), "{reason}");
}
