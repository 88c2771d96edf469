//! Which decisions go to the disk together.

use super::*;
use crate::load::Observer;

const DELEGATES: usize = 8;

/// What was committed, group by group.
type Groups = mpsc::UnboundedReceiver<Vec<Fact>>;

/// A runtime whose commits are told.
async fn watched(agent: &Gated) -> (Runtime, Groups) {
    let (tell, groups) = mpsc::unbounded_channel();
    let observer = Observer::new(move |_, events| {
        let facts = events.iter().map(|event| event.fact.clone());
        // The test may have seen enough.
        let _ = tell.send(facts.collect());
    });
    let options = Options {
        observer,
        ..Options::default()
    };
    (start(agent, options).await, groups)
}

/// A turn whose agents are all at work.
async fn at_work(runtime: &Runtime, agent: &Gated) -> (Handle, TurnId) {
    let handle = runtime.create(conversation(4)).await.unwrap();
    let turn = turn(&gated(), DELEGATES);
    let id = turn.id;
    handle.accept(turn).await.unwrap();
    for _ in 0..DELEGATES {
        agent.is_started().await;
    }
    (handle, id)
}

fn ends(facts: &[Fact]) -> usize {
    let ends = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::RunEnded { .. }));
    ends.count()
}

/// The next group in which a run ended.
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
async fn delegates_that_end_together_are_one_commit_with_what_follows() {
    let agent = Gated::new();
    let (runtime, mut groups) = watched(&agent).await;
    let (handle, id) = at_work(&runtime, &agent).await;
    agent.let_go();
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
async fn one_that_ends_is_on_disk_soon_though_the_others_work_on() {
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
    agent.let_go();
    assert_eq!(ended(&handle, id).await, Outcome::Answered);
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_has_just_ended_is_on_disk_when_the_tree_has_stopped() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    let (handle, _) = at_work(&runtime, &agent).await;
    let decided = handle.inspect(SessionState::events).await.unwrap();
    agent.concurrency.add_permits(1);
    // No time passes while there is something to do, so its end is held back still.
    let mut looks = 0;
    while handle.inspect(SessionState::events).await.unwrap() == decided {
        looks += 1;
        assert!(looks < 100_000, "it ends");
    }
    let (id, journal) = (handle.id(), runtime.journal().clone());
    runtime.shutdown().await;
    let events = journal.read(id, decided + 1, 10).await.unwrap();
    let facts: Vec<Fact> = events.into_iter().map(|(_, event)| event.fact).collect();
    assert_eq!((facts.len(), ends(&facts)), (1, 1), "{facts:?}");
}
