//! What a turn of one agent takes longer than the request in it, at 500 a second.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mimalloc::MiMalloc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use unisono_benches::bare::Bare;
use unisono_benches::counting::Counting;
use unisono_benches::remote::{self, Session};
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Conversation, Samples, Table, time};
use unisono_runtime::Runtime;
use unisono_store::Disk;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Turns or requests a second.
const RATE: u32 = 500;
/// How long each side works before it is the other's turn.
const SLICE: Duration = Duration::from_secs(2);
const SLICES: usize = 6;
const SESSIONS: usize = 100;
/// Messages of about 200 tokens in the context.
const MESSAGES: u32 = 10;
/// What may be added, beyond one group commit.
const ADDED: Duration = Duration::from_millis(5);

/// Sessions in which turns are answered.
struct Ours {
    sessions: Vec<Session>,
    engine: Arc<Counting>,
    /// Latencies of turns, and of the group commits while they were under way.
    turns: Samples,
    commits: Samples,
    _runtime: Runtime,
}

impl Ours {
    async fn new(dir: &std::path::Path, url: &str, conversation: &Conversation) -> Ours {
        let disk = Disk::open(dir.join("store")).unwrap().disk;
        let engine = Arc::new(Counting::new(Arc::new(disk)));
        let runtime = remote::runtime(engine.clone(), url).await;
        let mut sessions = Vec::new();
        for id in 1..=SESSIONS as u128 {
            sessions.push(Session::create(&runtime, id, conversation).await);
        }
        Ours {
            sessions,
            engine,
            turns: Samples::default(),
            commits: Samples::default(),
            _runtime: runtime,
        }
    }

    /// A slice of turns. Their branches are there before it begins.
    async fn slice(&mut self, slice: usize) {
        let branch = |n: usize| format!("branch-{slice}-{}", n / SESSIONS);
        let mut forking = JoinSet::new();
        for n in 0..arrivals() {
            let (session, branch) = (self.sessions[n % SESSIONS].clone(), branch(n));
            forking.spawn(async move { session.fork(&branch).await });
        }
        forking.join_all().await;
        self.engine.take();
        let turns = at_rate(|n| {
            let (session, branch) = (self.sessions[n % SESSIONS].clone(), branch(n));
            async move {
                session.answer(&branch, remote::team(0)).await;
            }
        });
        self.turns.extend(turns.await);
        let appended = self.engine.take();
        self.commits
            .extend(appended.iter().map(|append| append.took));
    }
}

/// How many there are in a slice.
fn arrivals() -> usize {
    (SLICE.as_secs_f64() * f64::from(RATE)) as usize
}

/// Starts one after the other at the rate, and says how long each took from when it was due:
/// one that begins late has waited.
async fn at_rate<W>(work: impl Fn(usize) -> W) -> Vec<Duration>
where
    W: Future<Output = ()> + Send + 'static,
{
    let start = Instant::now();
    let mut working = JoinSet::new();
    for n in 0..arrivals() {
        let due = start + Duration::from_secs(1) * n as u32 / RATE;
        sleep_until(due).await;
        let one = work(n);
        working.spawn(async move {
            one.await;
            due.elapsed()
        });
    }
    working.join_all().await
}

fn main() {
    if stub::serve_if_asked() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut stub = Stub::start(Duration::ZERO);
    let conversation = Conversation::new(0, MESSAGES);
    let body: Bytes = remote::bodies(&conversation, 0).await.remove(0);
    let mut ours = Ours::new(dir.path(), stub.url(), &conversation).await;
    let bare = Bare::new(stub.url());
    let bare_slice = || {
        at_rate(|_| {
            let (bare, body) = (bare.clone(), body.clone());
            async move { bare.send(body).await }
        })
    };
    // Not counted: the first slice of each starts connections, threads and the pool.
    bare_slice().await;
    ours.slice(0).await;
    (ours.turns, ours.commits) = (Samples::default(), Samples::default());
    let mut requests = Samples::default();
    for slice in 1..=SLICES {
        requests.extend(bare_slice().await);
        ours.slice(slice).await;
    }
    assert_eq!(
        stub.requests(),
        2 * (SLICES + 1) * arrivals(),
        "both sides sent every request once"
    );
    report(&requests, &ours);
}

fn report(requests: &Samples, ours: &Ours) {
    let table = Table::new(
        "latency",
        &format!(
            "{RATE} turns a second in {SESSIONS} sessions, one agent each, on a context of 2k tokens; \
             against the bare client at the same rate. From when each was due until its answer is \
             there, ours on disk; {SLICES} slices of {} for each side, in turns.",
            time(SLICE)
        ),
    );
    let shown = |samples: &Samples| {
        let (middle, late) = (time(samples.median()), time(samples.at(0.99)));
        format!("p50 {middle}, p99 {late}")
    };
    table.note("bare client", &shown(requests), None);
    table.note("ours", &shown(&ours.turns), None);
    let each = ours.commits.len() as f64 / ours.turns.len() as f64;
    table.note(
        "a group commit while they are under way",
        &format!("{}, {each:.1} for each turn", shown(&ours.commits)),
        None,
    );
    let added = |part: f64| ours.turns.at(part).saturating_sub(requests.at(part));
    table.note("added, p50", &time(added(0.5)), None);
    for (which, part) in [("the median", 0.5), ("p99", 0.99)] {
        table.row(
            &format!("added, p99, against {which} of group commits"),
            "≤ 5 ms + one group commit",
            &time(added(0.99)),
            None,
            added(0.99) <= ADDED + ours.commits.at(part),
        );
    }
}
