//! From a start after a kill until every run of every open turn is dispatched again.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use unisono_benches::{Conversation, Samples, Table, team, time};
use unisono_context::SessionId;
use unisono_context::policy::{Policy, Preset};
use unisono_model::language::Models;
use unisono_runtime::{Agent, Answer, Ctx, Extensions, Failure, Options, Runtime, Task};
use unisono_store::{Disk, Journal};

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const DELEGATES: usize = 16;
const MESSAGES: u32 = 40;
const ROUNDS: usize = 7;
const TARGET: Duration = Duration::from_secs(2);

/// Never answers; says when as many have begun as were waited for.
#[derive(Clone, Default)]
struct Begun {
    runs: Arc<AtomicUsize>,
    reached: Arc<Notify>,
    wanted: usize,
}

impl Agent for Begun {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        if self.runs.fetch_add(1, Ordering::SeqCst) + 1 == self.wanted {
            self.reached.notify_one();
        }
        std::future::pending().await
    }
}

async fn start(store: &Path, begun: &Begun) -> Runtime {
    let path = store.to_owned();
    let opened = tokio::task::spawn_blocking(move || Disk::open(path));
    let journal = Journal::new(Arc::new(opened.await.unwrap().unwrap().disk));
    let kinds = Extensions::default().agent("begun", begun.clone());
    let options = Options {
        pool_queue: 1_000_000,
        ..Options::default()
    };
    Runtime::start(journal, kinds, Models::default(), options)
        .await
        .unwrap()
}

/// Stops it without a word to anybody: its turns stay open.
async fn kill(runtime: Runtime) {
    let journal = runtime.journal().clone();
    runtime.shutdown().await;
    journal.close().await.unwrap();
}

/// Leaves so many turns open, each on a session of its own, with all their runs dispatched.
async fn leave_open(store: &Path, turns: usize) {
    let begun = Begun {
        wanted: turns * DELEGATES,
        ..Begun::default()
    };
    let runtime = start(store, &begun).await;
    for n in 0..turns {
        let conversation = Conversation::new(0, MESSAGES);
        let import = conversation.import(SessionId::from_u128(1 + n as u128));
        let handle = runtime.create(import).await.unwrap();
        let team = team::team_of(DELEGATES, team::unanswered);
        let turn = team::turn(
            "main",
            team,
            team::question(),
            Policy::from_preset(Preset::Off),
        );
        handle.accept(turn).await.unwrap();
    }
    begun.reached.notified().await;
    kill(runtime).await;
}

/// Opens the store and takes the turns up again; the time until the last run is dispatched.
async fn recover(store: &Path, turns: usize) -> Duration {
    let begun = Begun {
        wanted: turns * DELEGATES,
        ..Begun::default()
    };
    let started = Instant::now();
    let runtime = Arc::new(start(store, &begun).await);
    let mut opening = JoinSet::new();
    for session in runtime.journal().unfinished().await.unwrap() {
        let runtime = runtime.clone();
        opening.spawn(async move { runtime.open(session).await.unwrap() });
    }
    begun.reached.notified().await;
    let took = started.elapsed();
    while opening.join_next().await.is_some() {}
    kill(Arc::into_inner(runtime).unwrap()).await;
    took
}

#[tokio::main]
async fn main() {
    // A smaller number shows that it works; only the whole one is a figure.
    let asked = std::env::var("UNISONO_BENCH_TURNS");
    let turns = asked.map_or(1_000, |turns| turns.parse().unwrap());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = dir.path().join("store");
    leave_open(&store, turns).await;
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        samples.extend([recover(&store, turns).await]);
    }
    let table = Table::new(
        "recovery",
        &format!(
            "Opening the store, finding what is open, folding it and dispatching every run again: \
             {turns} turns of {DELEGATES} runs, a session each with {MESSAGES} messages; {ROUNDS} \
             starts."
        ),
    );
    let (median, worst) = (samples.median(), samples.at(1.0));
    let what = "from the start to the last dispatch, median";
    table.row(what, "≤ 2 s", &time(median), None, median <= TARGET);
    table.note("the slowest", &time(worst), None);
}
