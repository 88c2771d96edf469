//! Topics that are due in one turn are requested together, and separately if that fails.

use unisono_context::checkpoint::Tier;

use super::bounds::tiered;
use super::*;

const ONE: &str = "Parts are delivered day by day.";

fn topics(request: &Request) -> usize {
    request.task.matches("\n## Topic ").count().max(1)
}

/// Summaries below their headings; a single one without a heading.
fn paragraphs(request: &Request, text: impl Fn(usize) -> String) -> Act {
    let all = topics(request);
    if all == 1 {
        return replied(ONE, Stop::Complete);
    }
    let parts: Vec<_> = (1..=all).map(text).collect();
    replied(&parts.join("\n\n"), Stop::Complete)
}

fn headed(number: usize) -> String {
    format!("## Topic {number}\nParts of topic {number} are delivered.")
}

/// A turn with several due topics: the number of topics of each request, and the checkpoints.
async fn made(model: &Scripted, window: u64) -> (Vec<usize>, Vec<std::sync::Arc<Checkpoint>>) {
    let stage = Stage::within(&[model], 60, window, PATIENCE).await;
    assert_eq!(stage.take(tiered(&stage)).await, Outcome::Answered);
    let made = stage.checkpoints().await;
    let by_model = made.iter().all(|made| made.writer == Writer::Model);
    assert!(by_model && made.iter().all(|made| made.tier == Tier::Topic));
    let used = stage.used().await;
    let requests: Vec<usize> = model.requests().iter().map(topics).collect();
    let cost = Cost(2_500_000 * requests.len() as u128);
    assert_eq!(used[0].2, Some(cost), "each request is recorded once");
    stage.runtime.shutdown().await;
    (requests, made)
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_are_due_are_asked_for_together() {
    let model = Scripted::by(|request| paragraphs(request, headed));
    let (requests, made) = made(&model, 16_000).await;
    let all = made.len();
    assert!(all >= 3, "{all}");
    assert_eq!(requests, [all], "one request");
    for (at, made) in made.iter().enumerate() {
        let text = format!("Parts of topic {} are delivered.", at + 1);
        assert_eq!(text_of(made), text);
        let cost = if at == 0 { 3 } else { 0 };
        assert_eq!(made.cost_micros, Some(cost), "of the step that asked");
    }
    let asked = model.requests()[0].task.clone();
    for (at, made) in made.iter().enumerate() {
        let begins = format!("<topic {}>\n<{} user", at + 1, made.first());
        assert!(asked.contains(&begins), "{begins}: {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_a_draft_that_can_be_taken_is_asked_for_by_itself() {
    let long = format!("## Topic 2\n{}", "It is said again and again. ".repeat(400));
    for bad in ["", "## Topic 2", "## Topic 2\nI cannot do that.", &long] {
        let bad = bad.to_owned();
        let model = Scripted::by(move |request| {
            paragraphs(request, |number| match number {
                2 => bad.clone(),
                _ => headed(number),
            })
        });
        let (requests, made) = made(&model, 16_000).await;
        assert_eq!(requests, [made.len(), 1]);
        assert_eq!(text_of(&made[1]), ONE);
        assert_eq!(text_of(&made[2]), "Parts of topic 3 are delivered.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_answer_can_be_read_each_is_asked_for_once_by_itself() {
    let answers: [fn(usize) -> Act; 2] = [
        |_| replied("All is delivered.", Stop::Complete),
        |_| Act::Fail("it broke".into()),
    ];
    for answer in answers {
        let model = Scripted::by(move |request| match topics(request) {
            1 => replied(ONE, Stop::Complete),
            all => answer(all),
        });
        let stage = Stage::with(&[&model], 60).await;
        assert_eq!(stage.take(tiered(&stage)).await, Outcome::Answered);
        let made = stage.checkpoints().await;
        let requests: Vec<usize> = model.requests().iter().map(topics).collect();
        let mut expected = vec![1; made.len() + 1];
        expected[0] = made.len();
        assert_eq!(requests, expected);
        assert!(made.iter().all(|made| text_of(made) == ONE));
        stage.runtime.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_too_small_for_two_has_each_by_itself() {
    let model = Scripted::by(|request| paragraphs(request, headed));
    let (requests, made) = made(&model, 1_300).await;
    assert!(made.len() >= 3, "{}", made.len());
    assert_eq!(requests, vec![1; made.len()]);
}
