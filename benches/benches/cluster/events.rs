//! Events of one daemon's sessions at listeners of another daemon.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use unisono_benches::daemon::{TOKEN, listen, wait_for_event};
use unisono_benches::{Samples, Table, time};

use crate::nodes::Group;

/// Listeners, each on a session of its own.
const LISTENERS: usize = 64;
/// Events of each session, one after the other.
const EVENTS: usize = 30;
/// How long after a change the next one is made, of all sessions.
const EACH: Duration = Duration::from_millis(10);
const TARGET: Duration = Duration::from_millis(150);

pub(crate) async fn measure(table: &Table, group: &Group) {
    let sessions = group.sessions(LISTENERS).await;
    let own = heard_by_all(group, &sessions, 0).await;
    let other = heard_by_all(group, &sessions, 1).await;
    let shown = |samples: &Samples| {
        format!(
            "p50 {}, p95 {}",
            time(samples.median()),
            time(samples.at(0.95))
        )
    };
    table.note(
        &format!(
            "100 changes a second in {LISTENERS} sessions: until its event is heard at its own daemon"
        ),
        &shown(&own),
        None,
    );
    let late = other.at(0.95);
    table.row(
        "until it is heard at another daemon, p95",
        "≤ 150 ms",
        &shown(&other),
        Some(late.as_secs_f64() / own.at(0.95).as_secs_f64()),
        late <= TARGET,
    );
}

/// From when the owner is asked for a change, which it puts on disk, until its event is heard: by listeners
/// at the daemon so many places after the owner.
async fn heard_by_all(group: &Group, sessions: &[String], shift: usize) -> Samples {
    let mut listening = JoinSet::new();
    // All of them listen by then.
    let start = Instant::now() + Duration::from_secs(1);
    for (which, session) in sessions.iter().enumerate() {
        let (owner, at) = (group.node(which), group.node(which + shift));
        let session = session.clone();
        listening.spawn(async move {
            let mut stream = listen(&at.address, TOKEN, &session).await;
            let (mut buffer, mut took) = (Vec::new(), Vec::new());
            for n in 0..EVENTS {
                tokio::time::sleep_until(start + EACH * (n * LISTENERS + which) as u32).await;
                let branch = json!({"name": format!("b{shift}-{n}"), "at": "#1"});
                let path = format!("/v1/sessions/{session}/branches");
                let asked = Instant::now();
                let (_, heard) = tokio::join!(
                    owner.post(&path, &branch),
                    wait_for_event(&mut stream, b"event: branch_set", &mut buffer)
                );
                took.push(heard - asked);
            }
            took
        });
    }
    let mut samples = Samples::default();
    samples.extend(listening.join_all().await.into_iter().flatten());
    samples
}
