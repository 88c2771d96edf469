//! A person's options for a requested summary: the summariser, and the action if no model writes
//! it.

use super::*;

fn broken() -> Scripted {
    Scripted::by(|_| replied("no summary", Stop::Complete))
}

fn good() -> Scripted {
    Scripted::by(|_| replied(GOOD, Stop::Complete))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_who_was_chosen_writes_and_nobody_else() {
    let (first, second) = (good(), good());
    let stage = Stage::with(&[&first, &second], 60).await;
    let outcome = stage
        .compact_by(Some("test/b"), SummaryFallback::Leave)
        .await;
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    assert_eq!((first.requests().len(), second.requests().len()), (0, 1));
    assert_eq!(&*stage.checkpoints().await[0].model, "test/b");
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_that_were_chosen_ask_nobody_and_are_as_they_should_be() {
    let model = good();
    let stage = Stage::with(&[&model], 60).await;
    stage
        .compact_by(Some("extractive"), SummaryFallback::Leave)
        .await;
    assert!(model.requests().is_empty());
    let made = stage.checkpoints().await.remove(0);
    assert_eq!((&*made.model, made.degraded), ("extractive", false));
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_are_taken_where_that_was_wished_and_a_model_writes_them_anew_later() {
    let model = broken();
    let stage = Stage::with(&[&model], 60).await;
    let outcome = stage.compact_by(None, SummaryFallback::Extractive).await;
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    let made = stage.checkpoints().await.remove(0);
    let how = (made.kind, &*made.model, made.degraded);
    assert_eq!(how, (Kind::Manual, "extractive", true));
    assert_eq!(model.requests().len(), 3, "one call and two retries");
    assert_eq!(stage.failures().await, 0);
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_asked_again_three_times_in_all_and_then_it_is_left() {
    let model = broken();
    let stage = Stage::with(&[&model], 60).await;
    let outcome = stage.compact_by(None, SummaryFallback::Retry).await;
    assert!(outcome.is_unwritten(), "{outcome}");
    assert_eq!(model.requests().len(), 9);
    assert_eq!(stage.failures().await, 3);
    assert!(stage.checkpoints().await.is_empty());
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asked_again_it_may_be_written() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let model = Scripted::by(move |_| {
        let before = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        replied(if before < 3 { "no summary" } else { GOOD }, Stop::Complete)
    });
    let stage = Stage::with(&[&model], 60).await;
    let outcome = stage.compact_by(None, SummaryFallback::Retry).await;
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    let made = stage.checkpoints().await.remove(0);
    assert_eq!((text_of(&made), made.degraded), (GOOD, false));
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_waits_until_its_provider_may_be_asked_again() {
    let closed_until = tokio::time::Instant::now() + Duration::from_millis(900);
    let model = Scripted::by(move |_| {
        let left = closed_until.saturating_duration_since(tokio::time::Instant::now());
        match u64::try_from(left.as_millis()).unwrap() {
            0 => replied(GOOD, Stop::Complete),
            retry_after_ms => Act::FailAs(Class::CircuitOpen { retry_after_ms }),
        }
    });
    let stage = Stage::with(&[&model], 60).await;
    let outcome = stage.compact_by(None, SummaryFallback::Retry).await;
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    // The milliseconds are rounded down: the second try may come a moment early.
    assert!(model.requests().len() <= 3, "{}", model.requests().len());
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_for_longer_than_there_is_time_is_asked_once() {
    let retry_after_ms = 3_600_000;
    let model = Scripted::by(move |_| Act::FailAs(Class::CircuitOpen { retry_after_ms }));
    let stage = Stage::with(&[&model], 60).await;
    let outcome = stage.compact_by(None, SummaryFallback::Retry).await;
    assert!(outcome.is_unwritten(), "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("not asked again"), "{text}");
    assert_eq!((model.requests().len(), stage.failures().await), (1, 1));
    stage.runtime.shutdown().await;
}
