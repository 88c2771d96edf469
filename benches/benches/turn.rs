//! A whole turn: 16 agents that answer at once and a lead, on 80,000 tokens, durable.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unisono_benches::counting::{Appended, Counting};
use unisono_benches::{Conversation, Samples, Table, bytes, team, time};
use unisono_context::policy::{Policy, Preset};
use unisono_context::{MessageId, SessionId};
use unisono_model::language::Models;
use unisono_runtime::{Handle, Options, Runtime};
use unisono_session::agent::Team;
use unisono_session::event::Outcome;
use unisono_store::{Append, Disk, Engine, Journal, Memory, SessionId as StoreId};

const DELEGATES: usize = 16;
const ACTIVE: u32 = 400;
const ROUNDS: usize = 40;
const HISTORIES: [(u32, &str); 3] = [(1_000, "1,000"), (10_000, "10,000"), (100_000, "100,000")];

/// A session on an engine of its own, and what its turns took.
struct World {
    name: String,
    engine: Arc<Counting>,
    handle: Handle,
    head: MessageId,
    team: Team,
    turns: Samples,
    commits: Samples,
    /// What each turn wrote.
    written: Vec<Appended>,
    /// What each turn took beyond as many commits as it had, in seconds.
    excess: Vec<f64>,
    /// The right to append beside the session: epoch and last event of a second one.
    beside: (u64, u64),
    _runtime: Runtime,
}

const BESIDE: StoreId = StoreId::from_u128(2);

impl World {
    async fn new(name: String, engine: Arc<dyn Engine>, history: u32) -> World {
        let engine = Arc::new(Counting::new(engine));
        let journal = Journal::new(engine.clone());
        let (kinds, models) = (team::kinds(), Models::default());
        let runtime = Runtime::start(journal, kinds, models, Options::default()).await;
        let runtime = runtime.unwrap();
        let conversation = Conversation::new(history - ACTIVE, ACTIVE);
        let import = conversation.import(SessionId::from_u128(1));
        let handle = runtime.create(import).await.unwrap();
        let epoch = engine.claim(BESIDE).await.unwrap().epoch;
        let mut world = World {
            name,
            engine,
            handle,
            head: conversation.head,
            team: team::team(DELEGATES),
            turns: Samples::default(),
            commits: Samples::default(),
            written: Vec::new(),
            excess: Vec::new(),
            beside: (epoch, 0),
            _runtime: runtime,
        };
        // The first turn counts the conversation and starts the pools; it is not measured.
        world.turn("warm-up").await;
        world
    }

    /// A turn and, right after it, a commit to compare it with.
    async fn measure(&mut self, branch: &str) {
        let (turn, written) = self.turn(branch).await;
        let commit = self.commit(written).await;
        let commits = commit.as_secs_f64() * written.appends as f64;
        self.excess.push(turn.as_secs_f64() - commits);
        self.turns.push(turn);
        self.commits.push(commit);
        self.written.push(written);
    }

    /// One turn on a branch of its own that starts where the conversation ends, so that each has
    /// the same context.
    async fn turn(&mut self, branch: &str) -> (Duration, Appended) {
        self.handle.fork(branch, self.head).await.unwrap();
        let policy = Policy::of(Preset::Off);
        let turn = team::turn(branch, self.team.clone(), team::question(), policy);
        let (id, before) = (turn.id, self.engine.appended());
        let start = Instant::now();
        self.handle.accept(turn).await.unwrap();
        let ended = self.handle.wait(id).await.unwrap();
        let took = start.elapsed();
        assert_eq!(ended.outcome, Outcome::Answered, "{}", self.name);
        (took, self.engine.appended().since(before))
    }

    /// One group commit of as much as a turn's are on average.
    async fn commit(&mut self, turn: Appended) -> Duration {
        let events = (turn.events / turn.appends).max(1) as usize;
        let bytes = (turn.bytes / turn.events) as usize;
        let (epoch, last) = self.beside;
        let append = Append {
            session: BESIDE,
            epoch,
            expected_seq: last,
            payloads: vec![vec![7; bytes]; events],
        };
        let start = Instant::now();
        self.beside.1 = self.engine.append(append).await.unwrap();
        start.elapsed()
    }

    /// The middle of what turns took beyond their group commits, in seconds.
    fn excess(&self) -> f64 {
        middle(self.excess.iter().copied(), f64::total_cmp)
    }
}

fn middle<T: Copy>(values: impl Iterator<Item = T>, order: impl Fn(&T, &T) -> Ordering) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(order);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut worlds = Vec::new();
    for (history, shown) in HISTORIES {
        let disk = Disk::open(dir.path().join(history.to_string()))
            .unwrap()
            .disk;
        worlds.push(World::new(format!("{shown} messages"), Arc::new(disk), history).await);
    }
    for (history, shown) in HISTORIES {
        let memory = Arc::new(Memory::default());
        worlds.push(World::new(format!("{shown} messages, no disk"), memory, history).await);
    }
    for round in 0..ROUNDS {
        for world in &mut worlds {
            world.measure(&format!("branch-{round}")).await;
        }
    }
    report(&worlds);
}

fn report(worlds: &[World]) {
    let table = Table::new(
        "turn",
        &format!(
            "A lead and {DELEGATES} delegates that answer at once; {ACTIVE} messages of 800 characters \
             are active. Medians of {ROUNDS} turns, the sessions in turns."
        ),
    );
    let (durable, volatile) = worlds.split_at(HISTORIES.len());
    for world in durable {
        let of = |figure: fn(&Appended) -> u64| middle(world.written.iter().map(figure), u64::cmp);
        let shown = format!(
            "{}, p99 {}; k = {}: {} events, {}",
            time(world.turns.median()),
            time(world.turns.at(0.99)),
            of(|written| written.appends),
            of(|written| written.events),
            bytes(of(|written| written.bytes) as f64)
        );
        table.note(&format!("turn, {}", world.name), &shown, None);
        let commit = time(world.commits.median());
        table.note(&format!("one group commit, {}", world.name), &commit, None);
        let excess = world.excess();
        let shown = format!("{:.2} ms", excess * 1e3);
        let what = format!("turn less k group commits, {}", world.name);
        table.row(&what, "≤ 1 ms", &shown, None, excess <= 1e-3);
    }
    for world in volatile {
        table.note(
            &format!("turn, {}", world.name),
            &time(world.turns.median()),
            None,
        );
    }
    for same in [durable, volatile] {
        for longer in &same[1..] {
            let ratio = longer.turns.ratio(&same[0].turns);
            let what = format!("{} against {}", longer.name, same[0].name);
            table.row(
                &what,
                "does not grow (≤ 1.2 ×)",
                "",
                Some(ratio),
                ratio <= 1.2,
            );
        }
    }
}
