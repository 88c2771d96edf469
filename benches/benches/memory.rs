//! What the program holds in memory: at most at work, and once the work is over.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement ends where it cannot go on, and tells its parent what it found"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mimalloc::MiMalloc;
use serde_json::{Value, json};
use unisono_benches::conversation::{MESSAGE_CHARS, text};
use unisono_benches::daemon::Daemon;
use unisono_benches::remote::{self, Session};
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Conversation, Table, bytes, memory, team};
use unisono_context::SessionId;
use unisono_runtime::{Options, Runtime};
use unisono_store::{Disk, Journal};

/// As in the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Set for a process that is to measure one thing: its name and the provider's address.
const ASKED: &str = "UNISONO_BENCH_MEMORY";

/// Messages of about 200 tokens: a context of 80k.
const LONG: u32 = 400;
/// Sessions that come and go, and how many of them are over before memory is looked at: the store's
/// cache is full then.
const SESSIONS: u128 = 3_000;
const SETTLED: u128 = 1_000;
/// So long the provider keeps all agents waiting, so that they are there at the same time.
const PAUSE: Duration = Duration::from_millis(400);
/// How long a session without work stays in memory here.
const PASSIVATE: Duration = Duration::from_secs(1);
/// How long the process is left alone after a load.
const LEFT_ALONE: Duration = Duration::from_secs(15);
const MIB: f64 = 1_048_576.0;

fn main() {
    if stub::serve_if_asked() {
        return;
    }
    if let Ok(asked) = std::env::var(ASKED) {
        let (what, url) = asked.split_once(' ').unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for figure in runtime.block_on(measure(what, url)) {
            println!("{figure}");
        }
        return;
    }
    report(&Stub::start(PAUSE));
}

/// Measures one thing in this process.
async fn measure(what: &str, url: &str) -> Vec<f64> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Arc::new(Disk::open(dir.path().join("store")).unwrap().disk);
    let options = Options {
        passivate_after: PASSIVATE,
        search_index: Some(dir.path().join("search")),
        ..Options::default()
    };
    let journal = Journal::new(disk);
    let runtime = Runtime::start(journal, team::extensions(), remote::models(url), options);
    let runtime = runtime.await.unwrap();
    match what {
        "agents" => at_work(&runtime, 1, 64).await,
        "sessions" => at_work(&runtime, 8, 4).await,
        "deleted" => deleted(&runtime).await,
        "import" => import(&runtime).await,
        other => unreachable!("{other}"),
    }
}

/// The most while so many agents of so many sessions wait for their provider.
async fn at_work(runtime: &Runtime, sessions: u128, agents: usize) -> Vec<f64> {
    turns(runtime, sessions, agents, "first").await;
    vec![memory::resident().1]
}

/// A turn in each of so many sessions, all at the same time.
async fn turns(runtime: &Runtime, sessions: u128, agents: usize, branch: &'static str) {
    let mut all = Vec::new();
    for n in 0..sessions {
        let session = Session::create(runtime, n + 1, &Conversation::new(0, LONG)).await;
        session.fork(branch).await;
        all.push(tokio::spawn(async move {
            session.answer(branch, remote::team(agents)).await;
        }));
    }
    for turn in all {
        turn.await.unwrap();
    }
}

/// What sessions leave behind that are created and deleted, once the store's cache is full. Both
/// figures are of a process without work: between two commits, the index holds what comes with the next one.
async fn deleted(runtime: &Runtime) -> Vec<f64> {
    let mut before = 0.0;
    for n in 0..SESSIONS {
        let import = Conversation::new(0, 50).import(SessionId::from_u128(n + 1));
        let session = runtime.create(import).await.unwrap();
        runtime.delete(session.id()).await.unwrap();
        if n == SETTLED {
            tokio::time::sleep(LEFT_ALONE).await;
            before = memory::resident().0;
        }
    }
    tokio::time::sleep(LEFT_ALONE).await;
    vec![memory::resident().0 - before]
}

/// The settings of a daemon whose agents ask the provider at that address.
fn settings(provider: &str) -> String {
    let agents: String = (0..64)
        .map(|n| format!("[agents.delegate-{n}]\ndescription = \"answers\"\n"))
        .collect();
    format!(
        "[models]\ndefault = \"openai/gpt-4o-mini\"\n[providers.openai]\nbase_url = \"{provider}/v1\"\n\
         api_key_env = \"BENCH_KEY\"\n[compaction]\npreset = \"off\"\n\
         [runtime]\npassivate_after_seconds = {}\n[agents.lead]\ndescription = \"leads\"\n{agents}",
        PASSIVATE.as_secs()
    )
}

/// Makes a session of 80k tokens; its path.
async fn session(daemon: &Daemon) -> String {
    let role = |n: u32| {
        if n.is_multiple_of(2) {
            "user"
        } else {
            "assistant"
        }
    };
    let message = |n: u32| json!({"role": role(n), "content": text(n.into(), MESSAGE_CHARS)});
    let messages: Vec<Value> = (0..LONG).map(message).collect();
    let new = json!({"title": "load", "messages": messages});
    let made = daemon.client().post("/v1/sessions", &new).await;
    format!("/v1/sessions/{}", made["session"].as_str().unwrap())
}

/// A turn of so many agents, until its answer.
async fn turn(daemon: &Daemon, agents: usize) {
    let session = session(daemon).await;
    let names: Vec<String> = (0..agents).map(|n| format!("delegate-{n}")).collect();
    let task = json!({"task": "Does anything speak against it?", "lead": "lead", "agents": names});
    let turns = format!("{session}/turns");
    let answered = daemon.client().post(&turns, &task).await;
    assert_eq!(answered["state"], "answered", "{answered}");
}

/// What a daemon holds after one turn, at most at work, and after a load and a while without work.
async fn after_a_load(provider: &str) -> [f64; 3] {
    let daemon = Daemon::start(&settings(provider));
    turn(&daemon, 4).await;
    tokio::time::sleep(LEFT_ALONE).await;
    let idle = daemon.resident().0;
    for _ in 0..64 {
        session(&daemon).await;
    }
    for _ in 0..8 {
        turn(&daemon, 64).await;
    }
    let highest = daemon.resident().1;
    tokio::time::sleep(LEFT_ALONE).await;
    [idle, highest, daemon.resident().0]
}

/// The most while a conversation of some 25 MB becomes a session.
async fn import(runtime: &Runtime) -> Vec<f64> {
    let before = memory::resident().0;
    let import = Conversation::new(0, 31_000).import(SessionId::from_u128(1));
    runtime.create(import).await.unwrap();
    vec![memory::resident().1 - before]
}

/// The same in a process of its own.
fn figures(stub: &Stub, what: &str) -> Vec<f64> {
    let program = std::env::current_exe().unwrap();
    let asked = format!("{what} {}", stub.url());
    let output = Command::new(program).env(ASKED, asked).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!figures.is_empty(), "{what}: {errors}");
    figures
}

fn report(stub: &Stub) {
    let table = Table::new(
        "memory",
        "Resident memory of the whole process, its code included, with the program's allocator and \
         a store and an index on disk; each row in a process of its own, the last three in the daemon.",
    );
    let peak = |what: &str, name: &str, most: f64| {
        let highest = figures(stub, name)[0];
        let target = format!("≤ {}", bytes(most));
        table.row(what, &target, &bytes(highest), None, highest <= most);
    };
    peak("the most, 64 agents on 80k tokens", "agents", 100.0 * MIB);
    peak(
        "the most, 8 sessions × 4 agents on 80k tokens",
        "sessions",
        150.0 * MIB,
    );
    let what = format!(
        "more after {SESSIONS} sessions of 10k tokens were made and deleted than after {SETTLED}"
    );
    peak(&what, "deleted", 32.0 * MIB);
    peak(
        "more at most, a conversation of 25 MB becomes a session",
        "import",
        250.0 * MIB,
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [idle, highest, after] = runtime.block_on(after_a_load(stub.url()));
    table.note(
        "the daemon, idle after a turn of 4 agents on 80k tokens",
        &bytes(idle),
        None,
    );
    table.note(
        "the daemon at most, 64 more sessions and 8 turns of 64 agents, over HTTP",
        &bytes(highest),
        None,
    );
    let ratio = after / idle;
    table.row(
        "the daemon, idle after that",
        "≤ 1.5 × the idle figure",
        &bytes(after),
        Some(ratio),
        ratio <= 1.5,
    );
}
