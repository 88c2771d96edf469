//! Decisions that are written to the disk together.

use super::*;
use crate::load::Observer;

const DELEGATES: usize = 8;

type Groups = mpsc::UnboundedReceiver<Vec<Fact>>;

/// A runtime whose commits are observed.
async fn watched(agent: &Gated) -> (Runtime, Groups) {
    let (sender, groups) = mpsc::unbounded_channel();
    let observer = Observer::new(move |_, events| {
        let facts = events.iter().map(|event| event.fact.clone());
        // The test may have ended.
        let _ = sender.send(facts.collect());
    });
    let options = Options {
        observer,
        ..Options::default()
    };
    (start(agent, options).await, groups)
}

/// A turn whose agents are all active.
async fn at_work(runtime: &Runtime, agent: &Gated) -> (Handle, TurnId) {
    let session = begun(runtime, turn(&gated(), DELEGATES)).await;
    for _ in 0..DELEGATES {
        agent.is_started().await;
    }
    session
}

fn ends(facts: &[Fact]) -> usize {
    let ends = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::RunEnded { .. }));
    ends.count()
}

async fn next_ends(groups: &mut Groups) -> Vec<Fact> {
    loop {
        let group = tokio::time::timeout(PATIENCE, groups.recv()).await;
        let group = group.expect("it is committed in time").unwrap();
        if ends(&group) > 0 {
            return group;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn delegates_that_end_together_are_one_commit_with_the_consequences() {
    let agent = Gated::new();
    let (runtime, mut groups) = watched(&agent).await;
    let (handle, id) = at_work(&runtime, &agent).await;
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    let group = next_ends(&mut groups).await;
    assert_eq!(ends(&group), DELEGATES);
    assert!(
        matches!(group.last(), Some(Fact::RunOpened { .. })),
        "the lead's: {group:?}"
    );
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_is_on_disk_soon_while_others_continue() {
    let agent = Gated::new();
    let (runtime, mut groups) = watched(&agent).await;
    let (handle, id) = at_work(&runtime, &agent).await;
    for _ in 0..2 {
        let before = tokio::time::Instant::now();
        agent.concurrency.add_permits(1);
        assert_eq!(ends(&next_ends(&mut groups).await), 1);
        let soon = Duration::from_millis(10);
        assert!(before.elapsed() <= soon, "{:?}", before.elapsed());
    }
    agent.release();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

/// Releases one agent. No time passes while there is work, so its end is decided then, and still
/// held back.
async fn ends_one(agent: &Gated) {
    agent.concurrency.add_permits(1);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// The journal after this event.
async fn after(journal: &Journal, id: SessionId, seq: u64) -> Vec<Fact> {
    let events = journal.read(id, seq + 1, 10).await.unwrap();
    let facts = events.into_iter().map(|(_, event)| event.fact);
    facts.collect()
}

#[tokio::test(start_paused = true)]
async fn an_end_is_on_disk_after_the_tree_has_stopped() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    let (handle, _) = at_work(&runtime, &agent).await;
    let decided = handle.inspect(SessionState::events).await.unwrap();
    ends_one(&agent).await;
    let (id, journal) = (handle.id(), runtime.journal().clone());
    assert_eq!(after(&journal, id, decided).await, []);
    runtime.shutdown().await;
    let facts = after(&journal, id, decided).await;
    assert_eq!((facts.len(), ends(&facts)), (1, 1), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_inspected_state_is_on_disk() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    let (handle, _) = at_work(&runtime, &agent).await;
    let decided = handle.inspect(SessionState::events).await.unwrap();
    ends_one(&agent).await;
    let seen = handle.inspect(SessionState::events).await.unwrap();
    assert_eq!(seen, decided + 1);
    let facts = after(runtime.journal(), handle.id(), decided).await;
    assert_eq!((facts.len(), ends(&facts)), (1, 1), "{facts:?}");
    agent.release();
    runtime.shutdown().await;
}
