//! A tree that is stopped during a turn.

use unisono_context::AgentId;

use super::*;

const SESSIONS: usize = 24;
const DELEGATES: usize = 16;

/// Whether the fact can only follow from the end of a run.
fn is_end_of_run(fact: &Fact) -> bool {
    matches!(fact, Fact::RunEnded { .. } | Fact::RunRetried { .. })
}

/// Sessions, pools and workers are stopped one after the other: the ends of a stopped pool's
/// attempts must not reach a session that is still live.
#[tokio::test(flavor = "multi_thread")]
async fn no_run_fails_because_the_tree_is_stopped() {
    let agent = Gated::new();
    let runtime = start(&agent, Options::default()).await;
    // One pool per session.
    let lasting = |n: usize| {
        Arc::new(Definition {
            id: AgentId::new(format!("gated-{n}")),
            retries: 0,
            max_concurrent: 1_000,
            ..(*gated()).clone()
        })
    };
    let mut whole = turn(&lasting(0), DELEGATES);
    for (n, delegate) in whole.team.delegates.iter_mut().enumerate() {
        delegate.agent = lasting(1 + n);
    }
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let handle = runtime.create(conversation(4)).await.unwrap();
        let id = TurnId::from_u128(clock::new_id());
        handle
            .accept(NewTurn {
                id,
                ..whole.clone()
            })
            .await
            .unwrap();
        sessions.push(handle.id());
    }
    for _ in 0..SESSIONS * DELEGATES {
        agent.is_started().await;
    }
    let journal = runtime.journal().clone();
    runtime.shutdown().await;
    for id in sessions {
        let events = journal.read(id, 1, 1_000).await.unwrap();
        let mut facts = events.into_iter().map(|(_, event)| event.fact);
        let end = facts.find(is_end_of_run);
        assert!(end.is_none(), "{end:?}");
    }
}
