//! The duration of a turn's compaction, and the next user of a released permit.

use std::sync::atomic::{AtomicU32, Ordering};

use unisono_context::policy::Tiers;
use unisono_model::language::Fallback;
use unisono_session::State;
use unisono_session::budget::Caps;
use unisono_session::budget::broker::DaemonBudget;

use super::*;

const DEADLINE: Duration = Duration::from_secs(2);

/// Every tenth message of the conversation begins a topic.
pub(super) fn tiered(stage: &Stage) -> NewTurn {
    NewTurn {
        policy: Policy {
            trigger: Some(Trigger::Tokens(Tokens(1_000))),
            keep: Keep::Tiers(Tiers::DEFAULT),
            masking: None,
            ..Policy::from_preset(Preset::Tiered)
        },
        phrases: ["0 must be delivered".into()].into(),
        ..stage.turn(answering("what is due?"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_of_a_turn_share_its_deadline() {
    let hangs = Scripted::by(|_| Act::Hang);
    let stage = Stage::within(&[&hangs], 60, 16_000, DEADLINE).await;
    let (_, mut progress) = stage.handle.follow(0).await.unwrap();
    assert_eq!(stage.take(tiered(&stage)).await, Outcome::Answered);

    let checkpoints = stage.checkpoints().await;
    assert!(checkpoints.len() > 2, "{}", checkpoints.len());
    assert!(checkpoints.iter().all(|made| made.degraded), "to be redone");
    assert_eq!(stage.failures().await, 0);
    let requests = hangs.requests();
    let used_up = "the first has used the time of all, with others and by itself";
    assert_eq!(requests.len(), 2, "{used_up}");
    let patience = requests[0].patience.unwrap();
    assert!(patience <= DEADLINE / 2, "{patience:?}");
    let mut skipped = 0;
    while let Ok(Progress::Compaction { text, .. }) = progress.try_recv().map(|said| said.progress)
    {
        skipped += usize::from(
            text.contains("test/a was not called: the time limit of one compaction, 2.0 s"),
        );
    }
    assert_eq!(skipped, checkpoints.len() - 1);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_has_a_deadline_of_its_own() {
    let hangs = Scripted::by(|_| Act::Hang);
    let stage = Stage::within(&[&hangs], 60, 16_000, DEADLINE).await;
    let long = "Something else is said here about the matter at hand. ".repeat(90);
    for asked in [1, 2] {
        stage.answer(&long).await;
        assert_eq!(hangs.requests().len(), asked);
    }
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_wants_it_tried_again_is_told_when_the_time_is_over() {
    let hangs = Scripted::by(|_| Act::Hang);
    let stage = Stage::within(&[&hangs], 60, 16_000, DEADLINE).await;
    let outcome = stage.compact_by(None, SummaryFallback::Retry).await;
    let Outcome::Failed { reason, .. } = outcome else {
        panic!("it did not fail");
    };
    let said = "model test/a: no summary in time; nothing was changed";
    assert_eq!(&*reason, said);
    assert_eq!((hangs.requests().len(), stage.failures().await), (1, 1));
    stage.runtime.shutdown().await;
}

/// On one thread a cancelled step is over before the next one comes.
#[tokio::test]
async fn a_cancelled_step_keeps_no_place_in_the_queue() {
    let asked = AtomicU32::new(0);
    let model = Scripted::by(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Hang,
        _ => replied(GOOD, Stop::Complete),
    });
    let options = Options {
        compactions: 1,
        compaction_queue: 1,
        ..Options::default()
    };
    let load = options.load.clone();
    let clients = Models::default().with("test/a", model.clone());
    let stage = Stage::of_options(clients, 1, 60, 16_000, options).await;
    let mut before = Vec::new();
    for steps in 1..=2 {
        let handle = stage.runtime.create(conversation(60)).await.unwrap();
        let turn = stage.turn(answering("what is due?"));
        handle.accept(turn.clone()).await.unwrap();
        let are_there = || load.compactions.working() + load.compactions.waiting() == steps;
        fixture::until("its step is there", are_there).await;
        before.push((handle, turn.id));
    }
    fixture::until("the first asks", || !model.requests().is_empty()).await;
    before[1].0.cancel(before[1].1).await.unwrap();
    let turn = stage.turn(answering("what is due?"));
    let id = turn.id;
    stage.handle.accept(turn).await.unwrap();
    let is_planned =
        move |state: &State| state.step_under_way(id).is_some() || state.turn(id).is_none();
    while !stage.handle.inspect(is_planned).await.unwrap() {
        tokio::task::yield_now().await;
    }
    before[0].0.cancel(before[0].1).await.unwrap();
    stage.handle.wait(id).await.unwrap();
    assert_eq!(stage.failures().await, 0);
    assert!(stage.checkpoints().await.iter().all(|made| !made.degraded));
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_a_place_in_the_queue_has_quotes_and_no_note() {
    let model = Scripted::by(|_| Act::Hang);
    let options = Options {
        compactions: 1,
        compaction_queue: 0,
        ..Options::default()
    };
    let clients = Models::default().with("test/a", model.clone());
    let stage = Stage::of_options(clients, 1, 60, 16_000, options).await;
    let other = stage.runtime.create(conversation(60)).await.unwrap();
    let turn = stage.turn(answering("what is due?"));
    let id = turn.id;
    other.accept(turn).await.unwrap();
    fixture::until("the other asks", || !model.requests().is_empty()).await;
    stage.answer("what is due?").await;
    assert_eq!((model.requests().len(), stage.failures().await), (1, 0));
    let made = stage.checkpoints().await;
    assert!(!made.is_empty() && made.iter().all(|made| made.degraded));
    assert!(made.iter().all(|made| !body_of(made).is_empty()));
    other.cancel(id).await.unwrap();
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_stands_in_for_a_summariser_and_one_that_fails_rests() {
    let away = Class::Unavailable {
        retry_after_ms: None,
    };
    let fails = Scripted::by(move |_| Act::FailAs(away));
    let works = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let shared = |model: &Scripted| -> std::sync::Arc<dyn unisono_model::language::LanguageModel> {
        std::sync::Arc::new(model.clone())
    };
    let chain = Fallback::new("test/a", shared(&fails)).or("test/b", shared(&works));
    let clients = Models::default().with("test/a", chain);
    let stage = Stage::of_options(clients, 1, 60, 16_000, Options::default()).await;
    let long = "Something else is said here about the matter at hand. ".repeat(90);
    for asked in [1, 2, 3, 3] {
        stage.answer(&long).await;
        assert_eq!(fails.requests().len(), asked);
    }
    assert_eq!(works.requests().len(), 0, "it is no summariser");
    assert!(stage.checkpoints().await.iter().all(|made| made.degraded));
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summariser_that_a_budget_does_not_allow_does_not_rest() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let stage = Stage::with(&[&model], 60).await;
    let long = "Something else is said here about the matter at hand. ".repeat(90);
    for _ in 0..3 {
        let mut turn = stage.turn(answering(&long));
        turn.caps.session.tokens = Some(Tokens(1));
        assert_eq!(stage.take(turn).await, Outcome::Answered);
    }
    assert!(model.requests().is_empty());
    assert!(stage.checkpoints().await.iter().all(|made| made.degraded));
    stage.answer(&long).await;
    assert!(!model.requests().is_empty(), "it never failed");
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summariser_that_could_not_be_asked_does_not_rest() {
    let open = Class::CircuitOpen {
        retry_after_ms: 9_000,
    };
    for class in [Class::Busy, open] {
        let model = Scripted::by(move |_| Act::FailAs(class));
        let stage = Stage::with(&[&model], 60).await;
        let long = "Something else is said here about the matter at hand. ".repeat(90);
        for _ in 0..4 {
            stage.answer(&long).await;
        }
        assert!(model.requests().len() > 3, "{class:?}");
        stage.runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summariser_without_a_price_is_not_called_if_the_daemon_caps_the_cost() {
    let model = Scripted::by(|_| replied(GOOD, Stop::Complete));
    let caps = Caps {
        cost: Some(Cost::from_micro_dollars(5_000_000)),
        ..Caps::NONE
    };
    let budget = DaemonBudget {
        caps,
        period_hours: None,
    };
    let options = Options {
        budget: Some(budget),
        ..Options::default()
    };
    let clients = Models::default().with("test/a", model.clone());
    let stage = Stage::of_options(clients, 1, 60, 16_000, options).await;
    stage.answer("what is due?").await;
    assert!(model.requests().is_empty());
    let made = stage.checkpoints().await;
    assert!(made.iter().all(|made| made.degraded) && !made.is_empty());
    stage.runtime.shutdown().await;
}
