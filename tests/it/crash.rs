//! A turn halted at each of its events, on a real store directory, and taken up again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{SessionId, Tokens, TurnId};
use unisono_runtime::Options;
use unisono_session::event::{Fact, OpenedRun, Outcome};
use unisono_tests::agents::{Echo, Stepping, Tally};
use unisono_tests::scenario::{PATIENCE, definition, facts_until_end, new_session, new_turn, wait};
use unisono_tests::{Scenario, scenario};

fn plan(tally: &Tally) -> Scenario {
    let policy = Policy {
        trigger: Some(Trigger::Tokens(Tokens(2_000))),
        ..Policy::from_preset(Preset::Checkpoint)
    };
    scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(definition("echo"), Echo(tally.clone()))
        .delegate(definition("steps"), Stepping(tally.clone()))
        .policy(policy)
        .messages(80)
        .options(Options {
            passivate_after: Duration::from_secs(3_600),
            ..Options::default()
        })
}

/// Imports and runs a turn on a store that halts after `events` further events; gives the
/// session and turn, and whether the turn's acceptance was acknowledged.
async fn run_until_halt(
    plan: &Scenario,
    directory: &Path,
    events: i64,
) -> (SessionId, TurnId, bool) {
    let halted = Arc::new(Notify::new());
    let (session, turn) = (new_session(), new_turn());
    let imported = plan.import(session);
    let before = imported.messages.len() as i64 + 2;
    let world = plan
        .start_halting(directory, before + events, halted.clone())
        .await;
    let handle = world.runtime.create(imported).await.expect("created");
    let accepted = tokio::select! {
        () = halted.notified() => false,
        accepted = handle.accept(plan.turn(turn, "What is due when?")) => {
            accepted.expect("accepted");
            tokio::select! {
                () = halted.notified() => {}
                ended = handle.wait(turn) => drop(ended.expect("ended")),
            }
            true
        }
    };
    drop(handle);
    world.stop().await;
    (session, turn, accepted)
}

async fn all_facts(
    plan: &Scenario,
    directory: &Path,
    session: SessionId,
    turn: TurnId,
) -> Vec<Fact> {
    let world = plan.start(directory).await;
    let handle = world.runtime.open(session).await.expect("opened");
    let opened = handle.inspect(move |s| s.turn(turn).is_some() || s.ended_turn(turn).is_some());
    if !opened.await.expect("inspected") {
        drop(handle);
        world.stop().await;
        return Vec::new();
    }
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);
    let mut events = handle.events(0).await.expect("events");
    let facts = facts_until_end(&mut events, turn).await;
    drop((handle, events));
    world.stop().await;
    facts
}

fn opened(facts: &[Fact]) -> Vec<OpenedRun> {
    let runs = facts.iter().filter_map(|fact| match fact {
        Fact::RunOpened { run } => Some(run.clone()),
        _ => None,
    });
    runs.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_halted_at_any_event_is_finished_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = tempfile::tempdir().expect("a directory");
    let reference = plan(&Tally::default());
    let (session, turn, _) = run_until_halt(&reference, whole.path(), i64::MAX / 2).await;
    let facts = all_facts(&reference, whole.path(), session, turn).await;
    let of_turn = facts
        .iter()
        .skip_while(|f| !matches!(f, Fact::Defined { .. }))
        .count() as i64;
    assert!(
        of_turn > 15,
        "the scenario has compaction, three runs and steps: {of_turn}"
    );
    let snapshot = opened(&facts)[0].snapshot;

    for events in 0..=of_turn {
        let tally = Tally::default();
        let plan = plan(&tally);
        let store = directory.path().join(events.to_string());
        let halt = run_until_halt(&plan, &store, events);
        let halt = tokio::time::timeout(PATIENCE, halt).await;
        let (session, turn, accepted) = halt.expect("it halts or ends in time");
        let facts = all_facts(&plan, &store, session, turn).await;
        assert!(
            !accepted || !facts.is_empty(),
            "halt {events}: an accepted turn is lost"
        );
        if facts.is_empty() {
            continue;
        }
        let runs = opened(&facts);
        assert_eq!(runs.len(), 3, "halt {events}");
        assert!(
            runs.iter().all(|run| run.snapshot == snapshot),
            "halt {events}: other snapshot"
        );
        for name in ["lead", "echo", "one", "two", "three"] {
            // A result that was not on disk when the store halted is made once more; no other is.
            assert!(
                (1..=2).contains(&tally.of(name)),
                "halt {events}: {name} {}",
                tally.of(name)
            );
        }
    }
}
