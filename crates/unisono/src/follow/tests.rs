//! A follower begins with the current state of its session if nothing more is needed.

use std::sync::Arc;

use tokio::sync::Notify;
use unisono_runtime::{Agent, Answer, Ctx, Failure, Task};
use unisono_session::machine::Import;

use super::*;
use crate::fixture::sources;

/// Says that it has begun, and answers when it may.
struct Waits {
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Agent for Waits {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        self.begun.notify_one();
        self.go.notified().await;
        Ok(Answer::text("done"))
    }
}

/// The updates of a turn after event `after`, up to its end.
async fn updates(mut follower: Follower, after: u64) -> Vec<TurnUpdate> {
    let mut found = Vec::new();
    while let Some(update) = follower.next().await.unwrap() {
        if update.seq.is_some_and(|seq| seq > after) {
            found.push(update);
        }
    }
    found
}

#[tokio::test]
async fn the_events_before_a_turn_that_waits_are_not_folded_again() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = Waits {
        begun: begun.clone(),
        go: go.clone(),
    };
    let settings = [
        ("models.default", "extractive"),
        ("agents.clerk.description", "waits"),
        ("agents.clerk.kind", "waits"),
    ];
    let local = Local::builder()
        .sources(sources(settings))
        .agent("waits", waits)
        .in_memory();
    let local = local.start().await.unwrap();
    let session = local.import(Import::default()).await.unwrap();
    let ask = Ask::new("Wait.").agents([""; 0]).lead("clerk");
    let turn = local.begin(&session, &ask).await.unwrap();
    begun.notified().await;
    let state: State = session.inspect(Clone::clone).await.unwrap();
    let now = state.events();
    for (after, first) in rows! {
        (None, now),
        (Some(now), now),
        (Some(now - 1), 0),
        (Some(0), 0),
    } {
        let begins = beginning(state.clone(), turn, after).events();
        assert_eq!(begins, first, "{after:?}");
    }

    // The same updates follow.
    let early = local.follower(session.clone(), turn, Some(0)).await;
    let late = local.follower(session.clone(), turn, Some(now)).await;
    go.notify_one();
    let early = updates(early.unwrap(), now).await;
    assert_eq!(updates(late.unwrap(), now).await, early);
    let last = early.last().map(|update| update.event.name());
    assert_eq!(last, Some("ended"), "{early:?}");

    let state: State = session.inspect(Clone::clone).await.unwrap();
    assert_eq!(beginning(state, turn, None).events(), 0, "it has ended");
    local.shutdown().await;
}
