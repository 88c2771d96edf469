//! One round of delegation over HTTP: agents that ask a provider on loopback, then their lead,
//! durable, against a bare client that sends the same bytes.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mimalloc::MiMalloc;
use unisono_benches::bare::Bare;
use unisono_benches::counting::{Appended, Beside, Counting};
use unisono_benches::remote::{self, Session};
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Conversation, Samples, Table, bytes, time, usage};
use unisono_runtime::Runtime;
use unisono_session::agent::Team;
use unisono_store::Disk;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const DELEGATES: [usize; 4] = [1, 4, 16, 64];
/// Messages of about 200 tokens that are in the context, and what they come to.
const CONTEXTS: [(u32, &str); 2] = [(10, "2k"), (400, "80k")];
/// Rounds that are not counted: connections, threads and pools are started in them.
const WARM_UP: usize = 3;
const ROUNDS: usize = 30;
/// Work that goes on after an answer is counted with it.
const AFTER: Duration = Duration::from_millis(5);
/// Bytes on disk that a run may take.
const DISK: f64 = 8.0 * 1024.0;

/// A session with its delegates, and what a bare client sends in their place.
struct World {
    delegates: usize,
    context: &'static str,
    session: Session,
    team: Team,
    bodies: Vec<Bytes>,
    bare: Bare,
    engine: Arc<Counting>,
    beside: Beside,
    rounds: Vec<Round>,
    _runtime: Runtime,
}

/// What one side took for one round.
#[derive(Clone, Copy)]
struct Spent {
    took: Duration,
    processor: Duration,
    written: u64,
}

impl Spent {
    /// Does a round and says what it took.
    async fn by(round: impl Future<Output = ()>) -> Spent {
        let (processor, written) = (usage::processor(), usage::written());
        let start = Instant::now();
        round.await;
        let took = start.elapsed();
        tokio::time::sleep(AFTER).await;
        Spent {
            took,
            processor: usage::processor() - processor,
            written: usage::written() - written,
        }
    }
}

/// One round of both sides.
struct Round {
    ours: Spent,
    bare: Spent,
    /// The group commits of ours.
    appended: Vec<Appended>,
    /// The same commits made by themselves.
    beside: Spent,
}

impl World {
    async fn new(dir: &Path, stub: &Stub, delegates: usize, context: (u32, &'static str)) -> World {
        let (messages, context) = context;
        let conversation = Conversation::new(0, messages);
        let bodies = remote::bodies(&conversation, delegates).await;
        let disk = Disk::open(dir.join(format!("{delegates}-{context}"))).unwrap();
        let engine = Arc::new(Counting::new(Arc::new(disk.disk)));
        let runtime = remote::runtime(engine.clone(), stub.url()).await;
        World {
            delegates,
            context,
            session: Session::create(&runtime, 1, &conversation).await,
            team: remote::team(delegates),
            bodies,
            bare: Bare::new(stub.url()),
            beside: Beside::new(engine.clone()).await,
            engine,
            rounds: Vec::new(),
            _runtime: runtime,
        }
    }

    /// A round of ours, its commits by themselves, and one of the bare client.
    async fn round(&mut self, branch: &str) -> Round {
        self.session.fork(branch).await;
        self.engine.take();
        let (session, team) = (&self.session, self.team.clone());
        let answered = async {
            session.answer(branch, team).await;
        };
        let ours = Spent::by(answered).await;
        let appended = self.engine.take();
        let repeated = async {
            self.beside.repeat(&appended).await;
        };
        let beside = Spent::by(repeated).await;
        let bare = Spent::by(self.bare.round(&self.bodies)).await;
        Round {
            ours,
            bare,
            appended,
            beside,
        }
    }

    fn times(&self, of: impl Fn(&Round) -> Duration) -> Samples {
        let mut samples = Samples::default();
        samples.extend(self.rounds.iter().map(of));
        samples
    }

    /// The mean of a figure of its rounds.
    fn mean(&self, of: impl Fn(&Round) -> f64) -> f64 {
        self.rounds.iter().map(of).sum::<f64>() / self.rounds.len() as f64
    }
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
    let mut worlds = Vec::new();
    // Naming one world (`64-2k`) is for a profile of it.
    let only = std::env::var("UNISONO_BENCH_WORLD").ok();
    for context in CONTEXTS {
        for delegates in DELEGATES {
            let name = format!("{delegates}-{}", context.1);
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            worlds.push(World::new(dir.path(), &stub, delegates, context).await);
        }
    }
    for round in 0..WARM_UP + ROUNDS {
        for world in &mut worlds {
            let measured = world.round(&format!("branch-{round}")).await;
            if round >= WARM_UP {
                world.rounds.push(measured);
            }
        }
    }
    let sent: usize = worlds.iter().map(|world| world.bodies.len()).sum();
    assert_eq!(
        stub.requests(),
        2 * (WARM_UP + ROUNDS) * sent,
        "both sides sent every request once"
    );
    report(&worlds);
}

fn report(worlds: &[World]) {
    let table = Table::new(
        "delegate_http",
        &format!(
            "N agents on a context of H tokens ask a provider on loopback, a process of its own \
             that answers at once; then their lead does. Against a bare client that sends the \
             same bytes over as many connections. Medians of {ROUNDS} rounds, in turns."
        ),
    );
    for world in worlds {
        wall(&table, world);
    }
    for world in worlds {
        processor(&table, world);
    }
    for world in worlds {
        written(&table, world);
    }
}

fn named(world: &World) -> String {
    format!("N = {}, H = {}", world.delegates, world.context)
}

fn wall(table: &Table, world: &World) {
    let (ours, bare) = (
        world.times(|round| round.ours.took),
        world.times(|round| round.bare.took),
    );
    let commits = world.times(|round| round.beside.took);
    let k = world.mean(|round| round.appended.len() as f64);
    let name = named(world);
    table.note(&format!("{name}: bare client"), &time(bare.median()), None);
    table.note(
        &format!("{name}: our group commits by themselves"),
        &format!("{}, k = {k:.0}", time(commits.median())),
        None,
    );
    let beyond = ours.median().saturating_sub(commits.median());
    let ratio = beyond.as_secs_f64() / bare.median().as_secs_f64();
    let (what, result) = (format!("{name}: ours"), time(ours.median()));
    if world.delegates < 16 {
        table.note(&what, &result, Some(ratio));
    } else {
        let target = "≤ 1.3 × bare + commits";
        table.row(&what, target, &result, Some(ratio), ratio <= 1.3);
    }
}

fn processor(table: &Table, world: &World) {
    let (ours, bare) = (
        world.times(|round| round.ours.processor),
        world.times(|round| round.bare.processor),
    );
    let commits = world.times(|round| round.beside.processor);
    let ratio = ours.ratio(&bare);
    let (shown, beside) = (time(ours.median()), time(commits.median()));
    table.row(
        &format!("{}: processor time, ours against bare", named(world)),
        "≤ 1.5 ×",
        &format!(
            "{shown}, of which commits {beside} / {}",
            time(bare.median())
        ),
        Some(ratio),
        ratio <= 1.5,
    );
}

fn written(table: &Table, world: &World) {
    let runs = world.bodies.len() as f64;
    let written = world.mean(|round| round.ours.written as f64) / runs;
    let events = world.mean(|round| {
        let payloads = round.appended.iter().flat_map(|append| &append.payloads);
        payloads.sum::<usize>() as f64
    });
    table.row(
        &format!("{}: written to disk per run", named(world)),
        "≤ 8 KiB",
        &format!(
            "{}, of which events {}",
            bytes(written),
            bytes(events / runs)
        ),
        None,
        written <= DISK,
    );
}
