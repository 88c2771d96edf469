//! Listeners that never read: what each takes, and how much slower a turn is that they follow.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use unisono_benches::memory::resident;
use unisono_benches::{Samples, Table, bytes};

use super::{CLIENTS, Served, client, listener, percentiles};

/// Listeners that never read what they are sent.
const SILENT: usize = 1_024;
/// Turns that are measured beside them, one after the other.
const TURNS: usize = 100;
/// How long nothing is asked after each of them.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns of a session that nobody follows, then that many follow who never read.
pub(super) async fn measure(table: &Table, served: &Served) {
    let session = &served.sessions[CLIENTS];
    let alone = turns(served, session).await;
    let (before, _) = resident();
    let mut streams = Vec::with_capacity(SILENT);
    for _ in 0..SILENT {
        streams.push(listener(served, session).await);
    }
    let followed = turns(served, session).await;
    let (after, _) = resident();
    drop(streams);
    let each = (after - before).max(0.0) / SILENT as f64;
    let what = format!("a listener that never reads, of {SILENT}, its client included");
    table.row(
        &what,
        "≤ 64 KiB",
        &bytes(each),
        None,
        each <= 64.0 * 1_024.0,
    );
    let ratio = followed.ratio(&alone);
    let result = format!("{ratio:.1} times: {}", percentiles(&followed));
    table.row(
        "a turn that all of them follow",
        "≤ 4 times",
        &result,
        None,
        ratio <= 4.0,
    );
    table.note(
        "the same turn, followed by none",
        &percentiles(&alone),
        None,
    );
}

/// Turns of one session, with a pause after each in which what is told of it is told.
async fn turns(served: &Served, session: &str) -> Samples {
    let (client, mut samples) = (client(), Samples::default());
    let path = format!("/v1/sessions/{session}/turns");
    let task = json!({"task": "Does anything speak against it?", "agents": []});
    for _ in 0..TURNS {
        let start = Instant::now();
        let turn = served.post(&client, &path, &task).await;
        samples.push(start.elapsed());
        assert_eq!(turn["state"], "answered", "{turn}");
        tokio::time::sleep(PAUSE).await;
    }
    samples
}
