//! A model regenerates a summary of quotes in a later turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn quotes_in_place_of_a_summary_are_written_anew_on_a_later_turn() {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let model = Scripted::by(move |_| match is_down.load(Ordering::SeqCst) {
        true => Act::Fail("it broke".into()),
        false => replied(GOOD, Stop::Complete),
    });
    let mut stage = Stage::with(&[&model], 60).await;
    stage.answer("what is due?").await;
    down.store(false, Ordering::SeqCst);
    // Headroom for a text longer than the quotes.
    stage.policy.trigger = Some(Trigger::Tokens(Tokens(4_000)));
    stage.answer("and now?").await;
    let made = stage.checkpoints().await;
    assert_eq!(made.len(), 2);
    assert_eq!(
        (made[0].writer, made[0].degraded),
        (Writer::Deterministic, true)
    );
    assert_eq!((made[1].writer, made[1].degraded), (Writer::Model, false));
    assert_eq!((text_of(&made[1]), made[1].kind), (GOOD, Kind::Auto));
    assert_eq!(made[1].supersedes, [made[0].id]);
    assert_eq!(made[1].covers, made[0].covers);
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    // It reads the input of the first summary, not the quotes.
    let same = conversation_in(&requests[0]) == conversation_in(&requests[1]);
    assert!(same && !requests[1].task.contains("<earlier_summary>\n<#"));
    stage.answer("and then?").await;
    assert_eq!(model.requests().len(), 2, "all is as it should be");
    let used = stage.used().await;
    assert_eq!(used, [("test/a".to_owned(), 1, Some(Cost(2_500_000)))]);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_that_fails_leaves_the_quotes_and_is_not_tried_at_once() {
    let broken = Scripted::by(|_| replied("no summary", Stop::Complete));
    let mut stage = Stage::with(&[&broken], 60).await;
    stage.answer("what is due?").await;
    stage.policy.trigger = Some(Trigger::Tokens(Tokens(4_000)));
    assert_eq!(broken.requests().len(), 3, "one call and two retries");
    stage.answer("and now?").await;
    assert_eq!(broken.requests().len(), 6);
    stage.answer("and then?").await;
    assert_eq!(broken.requests().len(), 6, "the pause is not over");
    assert_eq!(stage.checkpoints().await.len(), 1);
    assert_eq!(stage.failures().await, 1);
    let used = stage.used().await;
    let (model, jobs, cost) = &used[0];
    assert_eq!((&**model, *jobs), ("test/a", 0), "none was taken");
    assert_eq!(*cost, Some(Cost(6 * 2_500_000)), "and all cost");
    stage.runtime.shutdown().await;
}
