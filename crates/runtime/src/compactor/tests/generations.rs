//! Summaries that replace each other, by persons, by models and of quotes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unisono_context::checkpoint::kept_text;
use unisono_context::compaction::EXTRACTIVE;
use unisono_context::policy::Method;
use unisono_context::tokens::Counts;

use super::*;

const FILLER: &str = "Something else is said here about the matter at hand. ";
/// The text of a person.
const CORRECTED: &str = "## Context\nThe gate of hall 7 stays shut, whatever the plan says.";

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

/// A session that is compacted on request alone, its summariser, which keeps nothing, and the switch
/// that makes it fail.
async fn forgetful_stage(cap: u64) -> (Stage, Scripted, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = is_down.clone();
    let model = Scripted::by(move |_| match down.load(Ordering::SeqCst) {
        true => Act::Fail("it broke".into()),
        false => replied(GOOD, Stop::Complete),
    });
    let mut stage = Stage::with(&[&model], 40).await;
    stage.policy.trigger = None;
    stage.policy.method = Method::Summarise { cap: Tokens(cap) };
    // Quotes in place of a summary stay.
    stage.policy.quota = Some(ModelQuota::NONE);
    (stage, model, is_down)
}

impl Stage {
    async fn newest(&self) -> Arc<Checkpoint> {
        self.checkpoints().await.pop().expect("a summary")
    }

    /// A person replaces the text of the newest summary.
    async fn edit(&self, text: &str) -> Arc<Checkpoint> {
        let work = TurnWork::Edit {
            checkpoint: self.newest().await.id,
            text: text.into(),
            counts: Counts::default(),
        };
        let outcome = self.run(work).await;
        assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
        self.newest().await
    }

    /// The summary by a model, or of quotes if it fails.
    async fn summarise(&self) -> Arc<Checkpoint> {
        let outcome = self.compact_by(None, SummaryFallback::Extractive).await;
        assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
        self.newest().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_text_is_the_head_of_the_next_ten_summaries() {
    let (stage, model, is_down) = forgetful_stage(1_000).await;
    stage.summarise().await;
    let edited = stage.edit(CORRECTED).await;
    let head = kept_text(edited.range(), CORRECTED, true);
    let long = FILLER.repeat(20);
    for n in 0..10 {
        let by_model = n % 3 == 0;
        is_down.store(!by_model, Ordering::SeqCst);
        let input = format!("Order W-{n}042 of Marta is due on {n} March. {long}");
        stage.answer(&input).await;
        stage.answer("Please tell the carrier of it, too.").await;
        let made = stage.summarise().await;
        assert_eq!(&*made.model == EXTRACTIVE, !by_model);
        let below = body_of(&made).strip_prefix(&*head);
        let below = below.unwrap_or_else(|| panic!("{n}: {}", body_of(&made)));
        assert!(
            below.starts_with("\n\n") && below.contains("\n## "),
            "{below}"
        );
        assert!(!below.contains("hall 7"), "once is enough: {below}");
    }
    let requests = model.requests();
    let kept = format!("<kept_text>\n{head}\n</kept_text>");
    let asked = requests
        .iter()
        .filter(|request| request.task.contains(&kept));
    assert_eq!(asked.count(), requests.len() - 1, "all after the edit");

    let again = stage.edit("## Context\nThe gate is open.").await;
    stage.answer(&long).await;
    stage.answer("And now?").await;
    let made = stage.summarise().await;
    let head = kept_text(again.range(), "## Context\nThe gate is open.", true);
    assert!(body_of(&made).starts_with(&head), "{}", body_of(&made));
    assert!(!body_of(&made).contains("hall 7"));
    stage.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_summaries_after_a_persons_text_keep_what_one_keeps() {
    let (often, once) = (stage(300).await, stage(300).await);
    let long = FILLER.repeat(10);
    for stage in [&often, &once] {
        assert!(matches!(stage.compact().await, Outcome::Compacted { .. }));
        stage.edit(CORRECTED).await;
    }
    for n in 0..10 {
        let input = format!("Order W-{n}042 of Marta costs {n}95 EUR and is due on {n} March.");
        for stage in [&often, &once] {
            stage.answer(&input).await;
            stage.answer(&long).await;
        }
        assert!(matches!(often.compact().await, Outcome::Compacted { .. }));
    }
    assert!(matches!(once.compact().await, Outcome::Compacted { .. }));
    let (rolled, single) = (often.newest().await, once.newest().await);
    assert_eq!(rolled.covers, single.covers);
    assert_eq!(body_of(&rolled), body_of(&single));
    assert_eq!(rolled.key_facts, single.key_facts);
    assert!(body_of(&single).contains("W-"), "{}", body_of(&single));
    often.runtime.shutdown().await;
    once.runtime.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_model_drops_stay_below_all_later_summaries() {
    const PEOPLE: [&str; 6] = ["Marta", "Ilja", "Bojan", "Wiebke", "Tadeo", "Yusra"];
    let long = FILLER.repeat(10);
    // A model writes (m), or quotes take its place (q).
    for writers in ["mmmmmm", "mqmqmq", "mqqqqq", "mmmqqm"] {
        let (stage, _, is_down) = forgetful_stage(1_000).await;
        let mut names: Vec<String> = Vec::new();
        for (n, writer) in writers.chars().enumerate() {
            let (id, person) = (format!("W-{n}042"), PEOPLE[n]);
            stage
                .answer(&format!("Order {id} of {person} waits. {long}"))
                .await;
            stage
                .answer(&format!("We ask {person} about it. {long}"))
                .await;
            stage.answer("Thanks.").await;
            is_down.store(writer == 'q', Ordering::SeqCst);
            let made = stage.summarise().await;
            assert_eq!(&*made.model == EXTRACTIVE, writer == 'q');
            names.push(id);
            // A name that is only quoted has no place in the list yet.
            let listed = body_of(&made).lines().last().unwrap();
            let is_listed = listed.starts_with("Also named: ") && listed.contains(person);
            names.extend(is_listed.then(|| person.to_owned()));
            assert!(is_listed || writer == 'q', "{writers} {n}: {listed}");
            let block = made.context_text();
            for name in &names {
                assert!(block.contains(&**name), "{writers} {n}: {name}: {block}");
            }
        }
        stage.runtime.shutdown().await;
    }
}
