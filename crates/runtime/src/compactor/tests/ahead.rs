//! Summaries that are written ahead: with idle capacity alone, and paid for once.

use unisono_session::event::DropReason;
use unisono_session::ids;

use super::*;

/// Near its trigger after one turn with a long input, above it after two.
async fn stage(model: &Scripted, permits: usize) -> Stage {
    let clients = Models::default().with(NAMES[0], model.clone());
    let options = Options {
        compactions: permits,
        ..Options::default()
    };
    let mut stage = Stage::of_options(clients, 1, 60, 16_000, options).await;
    stage.policy.trigger = Some(Trigger::Tokens(Tokens(2_000)));
    stage
}

fn long(text: &str) -> String {
    let filler = "Something else is said here about the matter at hand. ";
    format!("{text} {}", filler.repeat(50))
}

impl Stage {
    async fn answer_ahead(&self, input: &str) -> TurnId {
        let turn = NewTurn {
            prepare: Some(unisono_context::Digest([1; 32])),
            ..self.turn(answering(input))
        };
        let id = turn.id;
        assert_eq!(self.take(turn).await, Outcome::Answered);
        id
    }

    async fn fact(&self, name: &str) -> Fact {
        let mut events = self.handle.events(0).await.unwrap();
        let find = async {
            loop {
                let (_, event) = events.next().await.unwrap().unwrap();
                if event.fact.name() == name {
                    return event.fact.clone();
                }
            }
        };
        tokio::time::timeout(PATIENCE, find).await.expect(name)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_written_after_a_turn_and_used_by_the_next_one() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let stage = stage(&model, 4).await;
    let first = stage.answer_ahead(&long("Which parts are due?")).await;
    let Fact::SummaryPrepared { summary, .. } = stage.fact("summary_prepared").await else {
        panic!("it is written");
    };
    assert_eq!(&*summary.model, NAMES[0]);
    let patience = model.requests()[0].patience;
    assert_eq!(
        patience,
        Some(Duration::ZERO),
        "it does not wait behind others"
    );
    assert!(stage.checkpoints().await.is_empty());

    stage.answer_ahead(&long("And which are not?")).await;
    let made = stage.checkpoints().await;
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].id, ids::prepared(first));
    assert_eq!(model.requests().len(), 1, "no second request");
    let cost = Some(Cost(2_500_000));
    assert_eq!(stage.used().await, [(NAMES[0].to_owned(), 1, cost)], "once");
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_turn_takes_the_permit_of_a_summary_that_is_written_ahead() {
    let hangs = std::sync::atomic::AtomicBool::new(true);
    let model =
        Scripted::by(
            move |_| match hangs.swap(false, std::sync::atomic::Ordering::SeqCst) {
                true => Act::Hang,
                false => replied(GOOD, Stop::Complete),
            },
        );
    let mut stage = stage(&model, 1).await;
    stage.answer_ahead(&long("Which parts are due?")).await;
    stage.fact("preparation_planned").await;
    // The only permit is in use once the model is asked.
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let other = stage.runtime.create(conversation(60)).await.unwrap();
    let first = std::mem::replace(&mut stage.handle, other);
    stage.policy.trigger = Some(Trigger::Tokens(Tokens(1_000)));
    stage.answer("What is due?").await;
    let made = stage.checkpoints().await;
    assert!(made.len() == 1 && !made[0].degraded, "a model wrote it");
    stage.handle = first;
    let Fact::PreparationDropped { reason, .. } = stage.fact("preparation_dropped").await else {
        panic!("it is dropped");
    };
    assert_eq!(reason, DropReason::Busy);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_ahead_while_the_provider_takes_no_request_at_once() {
    let refuses = Scripted::by(|request| match request.patience {
        Some(Duration::ZERO) => Act::FailAs(Class::Busy),
        _ => replied(GOOD, Stop::Complete),
    });
    let stage = stage(&refuses, 4).await;
    stage.answer_ahead(&long("Which parts are due?")).await;
    let Fact::PreparationDropped { reason, .. } = stage.fact("preparation_dropped").await else {
        panic!("it is dropped");
    };
    assert_eq!(reason, DropReason::Busy);
    stage.answer_ahead(&long("And which are not?")).await;
    let made = stage.checkpoints().await;
    assert!(
        made.len() == 1 && !made[0].degraded,
        "the turn asks by itself"
    );
    assert_eq!(refuses.requests().len(), 2);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_stops_the_summary_that_is_written_ahead() {
    let model = Scripted::by(|_| Act::Hang);
    let mut stage = stage(&model, 1).await;
    stage.answer_ahead(&long("Which parts are due?")).await;
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    stage.runtime.delete(stage.handle.id()).await.unwrap();
    // Its permit is free again.
    stage.handle = stage.runtime.create(conversation(60)).await.unwrap();
    assert!(matches!(
        stage
            .compact_by(Some("extractive"), SummaryFallback::Extractive)
            .await,
        Outcome::Compacted { .. }
    ));
    stage.runtime.shutdown().await;
}
