//! Durable steps, and requests to the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unisono_model::language::{Completion, LanguageModel, Models, Reply, Request};
use unisono_session::agent::AgentKind;
use unisono_session::machine::CallEnd;
use unisono_session::run::{RunCause, Step};

use super::fixture::Attempt;
use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    pages: Vec<u32>,
}

fn attempt() -> Attempt {
    Attempt::new(AgentKind::Custom("scout".into()), &["hello", "hi"])
}

async fn found(counter: &AtomicU32) -> Result<Found, Failure> {
    counter.fetch_add(1, Ordering::SeqCst);
    Ok(Found { pages: vec![1, 2] })
}

#[tokio::test]
async fn a_step_is_journaled_before_its_result_is_returned() {
    let (attempt, ran) = (attempt(), AtomicU32::new(0));
    let ctx = attempt.ctx();
    let value = ctx.step("scan", found(&ran)).await.unwrap();
    assert_eq!(value, Found { pages: vec![1, 2] });
    let step = Step::named("scan", r#"{"pages":[1,2]}"#);
    assert_eq!(attempt.session.steps(), [Arc::new(step)]);
    assert_eq!(ran.into_inner(), 1);
}

#[tokio::test]
async fn a_recorded_step_is_returned_and_not_repeated() {
    let (mut attempt, ran) = (attempt(), AtomicU32::new(0));
    attempt.ctx().step("scan", found(&ran)).await.unwrap();
    attempt.steps = attempt.session.steps();
    let again = attempt.ctx();
    assert_eq!(
        again.step("scan", found(&ran)).await.unwrap(),
        Found { pages: vec![1, 2] }
    );
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(
        attempt.session.steps().len(),
        1,
        "nothing is journaled twice"
    );
    again.step("other", found(&ran)).await.unwrap();
    assert_eq!(ran.into_inner(), 2, "a step of another name runs");
}

#[tokio::test]
async fn a_failed_step_is_not_recorded() {
    let attempt = attempt();
    let failing = async { Err::<u32, _>(Failure::new(RunCause::Model, "no luck")) };
    let failure = attempt.ctx().step("scan", failing).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Model);
    assert!(attempt.session.steps().is_empty());
}

#[tokio::test]
async fn a_step_that_cannot_be_journaled_fails() {
    let (attempt, ran) = (attempt(), AtomicU32::new(0));
    attempt
        .session
        .refuse(Failure::new(RunCause::Panic, "the session is gone"));
    let failure = attempt.ctx().step("scan", found(&ran)).await.unwrap_err();
    assert_eq!(&*failure.reason, "the session is gone");
}

#[tokio::test]
async fn a_result_that_no_journal_can_hold_fails_its_step() {
    let attempt = attempt();
    let large = async { Ok("x".repeat(16 << 20)) };
    let failure = attempt.ctx().step("scan", large).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput);
    assert!(failure.reason.contains("at most 16777216"), "{failure}");
    assert!(attempt.session.steps().is_empty());
}

#[tokio::test]
async fn a_step_name_is_used_once() {
    let (attempt, ran) = (attempt(), AtomicU32::new(0));
    let ctx = attempt.ctx();
    ctx.step("scan", found(&ran)).await.unwrap();
    let failure = ctx.clone().step("scan", found(&ran)).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadInput);
    assert_eq!(ran.into_inner(), 1);
}

#[tokio::test]
async fn a_recorded_result_of_another_type_is_an_error() {
    let mut attempt = attempt();
    attempt.steps = vec![Arc::new(Step::named("scan", "7"))];
    let ran = AtomicU32::new(0);
    let failure = attempt.ctx().step("scan", found(&ran)).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput);
    let text = &failure.reason;
    assert!(text.contains("step \"scan\": recorded result"), "{failure}");
    assert_eq!(ran.into_inner(), 0);
}

/// Replies to the task `quick` at once, and to any other after a while.
struct Slow;

const WHILE: Duration = Duration::from_secs(60);

impl LanguageModel for Slow {
    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(async move {
            if &*request.task != "quick" {
                tokio::time::sleep(WHILE).await;
            }
            Ok(Reply::text("done"))
        })
    }
}

fn slow_attempt() -> Attempt {
    let mut attempt = attempt();
    let model = attempt.definition.model.clone();
    attempt.models = Models::default().with(model, Slow);
    attempt
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_an_unanswered_request_is_not_stuck() {
    let attempt = slow_attempt();
    let ctx = attempt.ctx();
    let asked = async { tokio::join!(ctx.ask_model("quick"), ctx.ask_model("slow")) };
    tokio::select! {
        (quick, slow) = asked => assert!(quick.is_ok() && slow.is_ok()),
        () = attempt.watchdog.expired(WHILE / 4) => panic!("its second request waits"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_gives_up_a_request_may_be_stuck() {
    let attempt = slow_attempt();
    let ctx = attempt.ctx();
    let asked = tokio::time::timeout(WHILE / 2, ctx.ask_model("slow")).await;
    assert!(asked.is_err());
    let stuck = attempt.watchdog.expired(WHILE / 4);
    assert!(tokio::time::timeout(WHILE, stuck).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_given_up_while_it_waits_is_released() {
    let mut attempt = slow_attempt();
    attempt.bounded = true;
    attempt.session.hold_budget();
    let ctx = attempt.ctx();
    let asked = tokio::time::timeout(WHILE, ctx.ask_model("slow")).await;
    assert!(asked.is_err());
    let (asked, settled) = attempt.session.calls();
    assert_eq!(settled, [(asked[0].call, CallEnd::Unsent)]);
}
