//! A turn halted at each of its events, on a real store directory, and taken up again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{SessionId, Tokens, TurnId};
use unisono_runtime::Options;
use unisono_session::event::{Fact, OpenedRun};
use unisono_tests::agents::{Echo, Stepping, Tally};
use unisono_tests::scenario::{PATIENCE, definition, new_session, new_turn};
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
) -> ((SessionId, TurnId), bool) {
    let halted = Arc::new(Notify::new());
    let (session, turn) = (new_session(), new_turn());
    let before = plan.import(session).messages.len() as i64 + 2;
    let world = plan
        .start_halting(directory, before + events, halted.clone())
        .await;
    let accepted = world.ask_until_halt(plan, (session, turn), &halted).await;
    world.stop().await;
    ((session, turn), accepted)
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
    let (ids, _) = run_until_halt(&reference, whole.path(), i64::MAX / 2).await;
    let facts = reference.finish(whole.path(), ids).await;
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
        let (ids, accepted) = halt.expect("it halts or ends in time");
        let facts = plan.finish(&store, ids).await;
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
