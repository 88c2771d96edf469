//! Whole turns on real actors and a real store.

use std::collections::BTreeSet;

use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{Role, Tokens};
use unisono_session::event::{Fact, Outcome};
use unisono_tests::agents::{Echo, Tally};
use unisono_tests::scenario::{definition, facts_until_end, new_session, new_turn, wait};
use unisono_tests::{Scenario, scenario};

fn three_delegates(tally: &Tally) -> Scenario {
    scenario()
        .lead(definition("lead"), Echo(tally.clone()))
        .delegate(definition("a"), Echo(tally.clone()))
        .delegate(definition("b"), Echo(tally.clone()))
        .delegate(definition("c"), Echo(tally.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_agent_of_a_turn_sees_one_snapshot_and_the_lead_gets_all_results() {
    let tally = Tally::default();
    let plan = three_delegates(&tally);
    let (_directory, world, handle, turn) = plan.ask("What is due when?").await;
    let mut events = handle.events(0).await.expect("events");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);

    let facts = facts_until_end(&mut events, turn).await;
    let opened = facts.iter().filter_map(|fact| match fact {
        Fact::RunOpened { run } => Some((run.snapshot, run.prefix)),
        _ => None,
    });
    let seen: Vec<_> = opened.collect();
    assert_eq!(seen.len(), 4);
    assert_eq!(
        seen.iter().collect::<BTreeSet<_>>().len(),
        1,
        "one snapshot, one prompt"
    );
    let snapshot = seen[0].0.expect("a snapshot").to_string();

    let answer = handle.inspect(move |state| {
        let head = state.tree().head("main").expect("main");
        let node = state.tree().get(head).expect("head");
        (node.message.role, node.message.countable_text())
    });
    let (role, text) = answer.await.expect("inspected");
    assert_eq!(role, Role::Assistant);
    for agent in ["a", "b", "c"] {
        assert!(text.contains(&format!("{agent} saw {snapshot}")), "{text}");
        assert_eq!(tally.of(agent), 1);
    }
    drop((handle, events));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_turn_continues_from_the_checkpoint_and_counts_nothing_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = Policy {
        trigger: Some(Trigger::Tokens(Tokens(3_000))),
        ..Policy::from_preset(Preset::Checkpoint)
    };
    let plan = three_delegates(&Tally::default())
        .policy(policy)
        .messages(120);
    let session = new_session();
    let mut all = Vec::new();
    for round in 0..2 {
        let world = plan.start(directory.path()).await;
        let handle = match round {
            0 => world
                .runtime
                .create(plan.import(session))
                .await
                .expect("created"),
            _ => world.runtime.open(session).await.expect("opened"),
        };
        let turn = new_turn();
        let mut events = handle.events(all.len() as u64).await.expect("events");
        handle
            .accept(plan.turn(turn, "What is due when?"))
            .await
            .expect("accepted");
        assert_eq!(wait(&handle, turn).await.outcome, Outcome::Answered);
        all.extend(facts_until_end(&mut events, turn).await);
        drop((handle, events));
        world.stop().await;
    }
    let mut counted = BTreeSet::new();
    for fact in &all {
        let Fact::Counted { counts, .. } = fact else {
            continue;
        };
        for (message, _) in counts {
            assert!(
                counted.insert(message.as_u128()),
                "{message} was counted twice"
            );
        }
    }
    let checkpoints = all
        .iter()
        .filter(|fact| matches!(fact, Fact::Compacted { .. }))
        .count();
    assert_eq!(
        checkpoints, 1,
        "the second turn uses the first one's checkpoint"
    );
}
