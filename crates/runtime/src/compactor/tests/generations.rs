//! Summaries of quotes that replace each other.

use unisono_context::policy::Method;

use super::*;

/// A session without summarisers that is compacted on request alone, by summaries of this size.
async fn stage(cap: u64) -> Stage {
    let mut stage = Stage::with(&[], 40).await;
    stage.policy.trigger = None;
    stage.policy.method = Method::Summarise { cap: Tokens(cap) };
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_summaries_of_quotes_keep_what_one_keeps() {
    let (often, once) = (stage(200).await, stage(200).await);
    for n in 0..10 {
        let input = format!("Order W-{n}042 of Marta costs {n}95 EUR and is due on {n} March.");
        for stage in [&often, &once] {
            stage.answer(&input).await;
            stage.answer("Please tell the carrier of it, too.").await;
        }
        assert!(matches!(often.compact().await, Outcome::Compacted { .. }));
    }
    assert!(matches!(once.compact().await, Outcome::Compacted { .. }));
    let (rolled, single) = (often.checkpoints().await, once.checkpoints().await);
    assert_eq!((rolled.len(), single.len()), (10, 1));
    let (rolled, single) = (rolled.last().unwrap(), &single[0]);
    assert_eq!(rolled.covers, single.covers);
    assert_eq!(body_of(rolled), body_of(single));
    assert_eq!(rolled.key_facts, single.key_facts);
    often.runtime.shutdown().await;
    once.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_row_do_not_shorten_the_summary() {
    let stage = stage(300).await;
    for _ in 0..10 {
        stage.compact().await;
        stage.answer("Thanks, that is fine with me.").await;
    }
    let made = stage.checkpoints().await;
    let tokens = |checkpoint: &Checkpoint| {
        let count = checkpoint.counts.get(Encoding::O200kBase);
        count.unwrap().at_most.0
    };
    let sizes: Vec<u64> = made.iter().map(|made| tokens(made)).collect();
    assert!(sizes.len() > 2, "{sizes:?}");
    let smallest = sizes.iter().min().unwrap();
    assert!(smallest * 10 >= sizes[0] * 9, "{sizes:?}");
    stage.runtime.shutdown().await;
}
