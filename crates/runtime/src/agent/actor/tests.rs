//! Agents that are actors.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;
use unisono_session::agent::AgentKind;

use super::*;
use crate::Extensions;
use crate::address::ActorResult;
use crate::agent::fixture::Attempt;

/// Numbers its tasks since its start, and reports its end.
struct Counter {
    gone: mpsc::UnboundedSender<u32>,
}

impl Actor for Counter {
    type Msg = Msg;
    type State = u32;
    type Arguments = u32;

    async fn pre_start(&self, _: ActorRef<Msg>, life: u32) -> ActorResult<u32> {
        match life {
            9 => Err("no licence".into()),
            _ => Ok(life * 100),
        }
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        Msg::Work(job): Msg,
        tasks: &mut u32,
    ) -> ActorResult {
        *tasks += 1;
        match &*job.task().text {
            "panic" => panic!("told to panic"),
            "drop" => drop(job),
            "fail" => job.end(Err(Failure::new(RunCause::BadInput, "told to fail"))),
            "stop" => {
                myself.stop(None);
                job.end(Ok(Answer::text("stopping")));
            }
            _ => {
                let answer = format!("{} of {}", *tasks, job.ctx().definition().id);
                job.end(Ok(Answer::text(answer)));
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Msg>, tasks: &mut u32) -> ActorResult {
        let _ = self.gone.send(*tasks);
        Ok(())
    }
}

fn task(text: &str) -> Task {
    Task {
        text: text.into(),
        results: Vec::new(),
    }
}

/// The kind of this actor; `lives` numbers the started actors.
fn kinds(gone: mpsc::UnboundedSender<u32>, lives: u32) -> Extensions {
    let lives = AtomicU32::new(lives);
    Extensions::default().actor("counts", move || {
        let life = lives.fetch_add(1, Ordering::SeqCst);
        (Counter { gone: gone.clone() }, life)
    })
}

async fn ask(kinds: &Extensions, text: &str) -> Result<String, Failure> {
    let attempt = Attempt::new(AgentKind::Custom("counts".into()), &["hello"]);
    let agent = kinds.kind("counts").unwrap();
    let answer = agent.run_boxed(task(text), attempt.ctx()).await;
    answer.map(|answer| answer.text.to_string())
}

#[tokio::test]
async fn one_actor_gets_all_tasks_of_its_kind_and_is_restarted_when_lost() {
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let kinds = kinds(gone, 1);
    assert_eq!(kinds.kinds().collect::<Vec<_>>(), ["counts"]);
    assert_eq!(ask(&kinds, "a").await.unwrap(), "101 of risks");
    assert_eq!(ask(&kinds, "b").await.unwrap(), "102 of risks");
    assert_eq!(
        ask(&kinds, "fail").await.unwrap_err().reason,
        "told to fail".into()
    );
    let dropped = ask(&kinds, "drop").await.unwrap_err();
    assert_eq!(dropped.cause, RunCause::Panic);
    assert!(dropped.reason.contains("kind `counts`"), "{dropped}");
    assert_eq!(ask(&kinds, "c").await.unwrap(), "105 of risks");

    assert_eq!(
        ask(&kinds, "panic").await.unwrap_err().cause,
        RunCause::Panic
    );
    assert_eq!(ask(&kinds, "d").await.unwrap(), "201 of risks");
    assert_eq!(ask(&kinds, "stop").await.unwrap(), "stopping");
    assert_eq!(is_gone.recv().await, Some(202));
    assert_eq!(ask(&kinds, "e").await.unwrap(), "301 of risks");
    kinds.stop().await;
    assert_eq!(is_gone.recv().await, Some(301));
}

#[tokio::test]
async fn an_actor_that_cannot_be_started_reports_why_and_the_next_task_retries() {
    let (gone, _) = mpsc::unbounded_channel();
    let kinds = kinds(gone, 9);
    let failure = ask(&kinds, "a").await.unwrap_err();
    assert!(failure.cause.is_retryable(), "{failure}");
    for words in ["kind `counts` cannot be started", "no licence"] {
        assert!(failure.reason.contains(words), "{words}: {failure}");
    }
    assert_eq!(ask(&kinds, "a").await.unwrap(), "1001 of risks");
    kinds.stop().await;
}

#[tokio::test]
async fn a_runtime_that_stops_leaves_the_actors_of_others_alone() {
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let kinds = kinds(gone, 1);
    let [first, second] = [kinds.clone(), kinds].map(Extensions::with_own_actors);
    assert_eq!(ask(&first, "a").await.unwrap(), "101 of risks");
    assert_eq!(ask(&second, "b").await.unwrap(), "201 of risks");
    first.stop().await;
    assert_eq!(is_gone.recv().await, Some(101));
    assert_eq!(ask(&second, "c").await.unwrap(), "202 of risks");
    second.stop().await;
}
