//! Several daemons on one database: turns a second of one, two and three of them, what an idle group asks
//! the database, how late events are that another daemon passes on, and how fast open turns of one that is
//! killed go on: the parts `turns`, `idle`, `events`, `takeover`. The daemons are the program, built in the same profile beside this one (`cargo build`
//! before); provider, clients and database are on the same cores.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

#[path = "cluster/database.rs"]
mod database;
#[path = "cluster/events.rs"]
mod events;
#[path = "cluster/nodes.rs"]
mod nodes;
#[path = "cluster/takeover.rs"]
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use unisono_benches::parts::is_asked;
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Samples, Table, time};

use database::{Database, Spent};
use nodes::Group;

/// Sessions, each with a client that asks again as soon as it is answered.
const SESSIONS: usize = 64;
/// How long each group works before it is the next one's turn.
const SLICE: Duration = Duration::from_secs(5);
const SLICES: u32 = 4;
/// How long a group is left alone after its start.
const SETTLED: Duration = Duration::from_secs(5);
/// How long nobody asks anything.
const IDLE: Duration = Duration::from_secs(20);

fn main() {
    if stub::serve_if_asked() || takeover::serve_if_asked() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let database = Database::start().await;
    let table = Table::new(
        "cluster",
        &format!(
            "Groups of one, two and three daemons with a schema each in one database; {SESSIONS} sessions, \
             each asked by a client of its own at the daemon that owns it, one agent, a provider that \
             answers at once: {SLICES} slices of {} in turns. Daemons, clients, provider and PostgreSQL \
             share the cores.",
            time(SLICE)
        ),
    );
    if ["idle", "events", "turns"].into_iter().any(is_asked) {
        with_groups(&table, &database).await;
    }
    if is_asked("takeover") {
        takeover::measure(&table, &database).await;
    }
}

/// The parts for which groups of the program are started.
async fn with_groups(table: &Table, database: &Database) {
    let provider = Stub::start(Duration::ZERO);
    let three = Group::start(database, "three", 3, provider.url()).await;
    if is_asked("idle") {
        idle(table, database, &three).await;
    }
    if is_asked("events") {
        events::measure(table, &three).await;
    }
    if is_asked("turns") {
        let groups = [
            Group::start(database, "one", 1, provider.url()).await,
            Group::start(database, "two", 2, provider.url()).await,
            three,
        ];
        turns(table, database, &groups).await;
    }
}

/// What a group of three asks the database while nobody asks it.
async fn idle(table: &Table, database: &Database, three: &Group) {
    let pids = three.pids();
    // What they do at their start is done.
    tokio::time::sleep(SETTLED).await;
    let before = database.spent(&pids).await;
    tokio::time::sleep(IDLE).await;
    let spent = database.spent(&pids).await.since(&before);
    let each = spent.statements as f64 / IDLE.as_secs_f64();
    let of_core = |spent: Duration| 100.0 * spent.as_secs_f64() / IDLE.as_secs_f64();
    table.row(
        "idle group of three: statements a second",
        "≤ 5",
        &format!(
            "{each:.1}; {:.1} % of a core for the daemons, {:.1} % for the database",
            of_core(spent.daemons),
            of_core(spent.database)
        ),
        None,
        each <= 5.0,
    );
}

/// What a group did in its slices.
#[derive(Default)]
struct Work {
    turns: Samples,
    took: Duration,
    spent: Spent,
}

impl Work {
    fn rate(&self) -> f64 {
        self.turns.len() as f64 / self.took.as_secs_f64()
    }

    fn shown(&self) -> String {
        let turns = self.turns.len() as f64;
        format!(
            "{:.0} a second, p50 {}, p99 {}; a turn: {:.1} statements, {:.2} ms of the daemons' \
             processors, {:.2} ms of the database's",
            self.rate(),
            time(self.turns.median()),
            time(self.turns.at(0.99)),
            self.spent.statements as f64 / turns,
            self.spent.daemons.as_secs_f64() * 1e3 / turns,
            self.spent.database.as_secs_f64() * 1e3 / turns,
        )
    }
}

async fn turns(table: &Table, database: &Database, groups: &[Group; 3]) {
    let mut works = [(); 3].map(|()| Work::default());
    let mut sessions = Vec::new();
    for group in groups {
        sessions.push(group.sessions(SESSIONS).await);
    }
    // Connections, plans and caches are there before.
    for (group, sessions) in groups.iter().zip(&sessions) {
        slice(group, sessions, 0, Duration::from_secs(1)).await;
    }
    for _ in 0..SLICES {
        for ((group, sessions), work) in groups.iter().zip(&sessions).zip(&mut works) {
            let pids = group.pids();
            let (before, start) = (database.spent(&pids).await, Instant::now());
            work.turns.extend(slice(group, sessions, 0, SLICE).await);
            work.took += start.elapsed();
            work.spent.add(&database.spent(&pids).await.since(&before));
        }
    }
    let [one, two, three] = &works;
    table.note("turns, one daemon", &one.shown(), None);
    for (name, work) in [("two", two), ("three", three)] {
        let ratio = work.rate() / one.rate();
        let what = format!("turns, {name} daemons, against one");
        table.row(&what, "≥ 1 ×", &work.shown(), Some(ratio), ratio >= 1.0);
    }
    let most = works
        .iter()
        .map(|work| work.spent.statements as f64 / work.turns.len() as f64);
    let most = most.fold(0.0, f64::max);
    table.row(
        "statements a turn, at most",
        "≤ 12",
        &format!("{most:.1}"),
        None,
        most <= 12.0,
    );
    // Asked at another daemon than the owner, all requests are passed on.
    let pids = groups[2].pids();
    let (before, start) = (database.spent(&pids).await, Instant::now());
    let mut passed = Work::default();
    passed
        .turns
        .extend(slice(&groups[2], &sessions[2], 1, SLICE).await);
    passed.took = start.elapsed();
    passed.spent = database.spent(&pids).await.since(&before);
    let ratio = passed.rate() / three.rate();
    let what = "turns, three daemons, each asked at one that does not own the session";
    table.note(what, &passed.shown(), Some(ratio));
}

/// Every session is asked at the daemon so many places after its owner; how long each turn took.
async fn slice(
    group: &Group,
    sessions: &Arc<Vec<String>>,
    shift: usize,
    length: Duration,
) -> Vec<Duration> {
    let until = Instant::now() + length;
    let mut working = JoinSet::new();
    for which in 0..sessions.len() {
        let (node, sessions) = (group.node(which + shift), sessions.clone());
        working.spawn(async move {
            let mut took = Vec::new();
            let path = format!("/v1/sessions/{}/turns", sessions[which]);
            let task = json!({"task": "Does anything speak against it?", "agents": []});
            while Instant::now() < until {
                let start = Instant::now();
                let turn = node.post(&path, &task).await;
                assert_eq!(turn["state"], "answered", "{turn}");
                took.push(start.elapsed());
            }
            took
        });
    }
    working.join_all().await.into_iter().flatten().collect()
}
