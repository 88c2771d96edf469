//! A whole turn: 16 agents that answer at once and a lead, on 80,000 tokens, durable.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use unisono_benches::counting::{Appended, Beside, Counting};
use unisono_benches::{Conversation, Table, team};
use unisono_context::policy::{Policy, Preset};
use unisono_context::{MessageId, SessionId};
use unisono_model::language::Models;
use unisono_runtime::{Handle, Options, Runtime};
use unisono_session::Input;
use unisono_session::agent::Team;
use unisono_session::event::Outcome;
use unisono_store::{Disk, Engine, Journal, Memory};

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
    turns: Vec<Turn>,
    beside: Beside,
    _runtime: Runtime,
}

struct Turn {
    took: Duration,
    /// Its group commits.
    appended: Vec<Appended>,
    /// The same commits made by themselves right after it.
    beside: Duration,
}

impl Turn {
    /// Time in which nothing of it was on its way to the disk.
    fn computing(&self) -> f64 {
        let appending: Duration = self.appended.iter().map(|append| append.took).sum();
        self.took.as_secs_f64() - appending.as_secs_f64()
    }

    /// What it took beyond the commits made by themselves, in seconds.
    fn excess(&self) -> f64 {
        self.took.as_secs_f64() - self.beside.as_secs_f64()
    }

    fn commits(&self) -> f64 {
        self.appended.len() as f64
    }
}

impl World {
    async fn new(name: String, engine: Arc<dyn Engine>, history: u32) -> World {
        let engine = Arc::new(Counting::new(engine));
        let journal = Journal::new(engine.clone());
        let (kinds, models) = (team::extensions(), Models::default());
        let runtime = Runtime::start(journal, kinds, models, Options::default()).await;
        let runtime = runtime.unwrap();
        let conversation = Conversation::new(history - ACTIVE, ACTIVE);
        let import = conversation.import(SessionId::from_u128(1));
        let handle = runtime.create(import).await.unwrap();
        let beside = Beside::new(engine.clone()).await;
        let mut world = World {
            name,
            engine,
            handle,
            head: conversation.head,
            team: team::team(DELEGATES),
            turns: Vec::new(),
            beside,
            _runtime: runtime,
        };
        // The first turn counts the conversation and starts the pools; it is not measured.
        world.turn("warm-up").await;
        world
    }

    /// A turn and, right after it, its group commits by themselves.
    async fn measure(&mut self, branch: &str) {
        let took = self.turn(branch).await;
        let appended = self.engine.take();
        let beside = self.beside.repeat(&appended).await;
        self.turns.push(Turn {
            took,
            appended,
            beside,
        });
    }

    /// One turn on a branch of its own that starts where the conversation ends, so that each has
    /// the same context.
    async fn turn(&mut self, branch: &str) -> Duration {
        let fork = Input::Fork {
            branch: branch.into(),
            at: self.head,
        };
        self.handle.request(fork).await.unwrap();
        self.engine.take();
        let policy = Policy::from_preset(Preset::Off);
        let turn = team::turn(branch, self.team.clone(), team::question(), policy);
        let id = turn.id;
        let start = Instant::now();
        self.handle.accept(turn).await.unwrap();
        let ended = self.handle.wait(id).await.unwrap();
        let took = start.elapsed();
        assert_eq!(ended.outcome, Outcome::Answered, "{}", self.name);
        took
    }

    /// The middle of a figure of its turns.
    fn middle(&self, figure: impl Fn(&Turn) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.turns.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    }

    fn median(&self) -> f64 {
        self.middle(|turn| turn.took.as_secs_f64())
    }
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
    let shown = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let (durable, volatile) = worlds.split_at(HISTORIES.len());
    for world in durable {
        let k = world.middle(Turn::commits);
        let beside = world.middle(|turn| turn.beside.as_secs_f64());
        let (turn, excess) = (shown(world.median()), world.middle(Turn::excess));
        let name = &world.name;
        table.note(&format!("turn, {name}"), &format!("{turn}, k = {k}"), None);
        let commits = format!("its k group commits by themselves, {name}");
        table.note(&commits, &shown(beside), None);
        let beyond = format!("turn beyond them, {name}");
        table.row(&beyond, "≤ 1 ms", &shown(excess), None, excess <= 1e-3);
        let computing = format!("turn with nothing on its way to the disk, {name}");
        table.note(&computing, &shown(world.middle(Turn::computing)), None);
    }
    for world in volatile {
        let turn = format!("turn, {}", world.name);
        table.note(&turn, &shown(world.median()), None);
    }
    for same in [durable, volatile] {
        for longer in &same[1..] {
            let ratio = longer.median() / same[0].median();
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
