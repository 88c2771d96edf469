//! Opening a store of 100,000 events in 1,000 sessions, and what an idle runtime holds of them.
//! Each figure is taken in a process of its own.
//!
//! What a session costs is the heap's growth on a store in memory, where nothing else changes: on
//! disk, the store's cache alone (64 MiB, always full) moves by more. How much of a process on disk
//! is resident is told beside it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement ends where it cannot go on, and tells its parent"
)]

use std::alloc::System;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use unisono_benches::{Conversation, Samples, Table, bytes, memory, team, time};
use unisono_context::SessionId;
use unisono_model::language::Models;
use unisono_runtime::{Options, Runtime};
use unisono_store::{Disk, Engine, Journal, Memory};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSIONS: u128 = 1_000;
const MESSAGES: u32 = 98;
/// The session is created, each message appended, the branch set.
const EVENTS: u32 = MESSAGES + 2;
/// So short that few sessions are live at one time: what they needed then is not what is asked.
const PASSIVE_AFTER: Duration = Duration::from_millis(1);
/// So long that all are live at one time.
const LIVE_FOR: Duration = Duration::from_secs(3_600);
const OPENINGS: usize = 5;
/// How often all sessions are open, one after the other, while resident memory is watched.
const ROUNDS: usize = 8;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match args[..] {
        ["fill", dir] => runtime.block_on(fill(Path::new(dir))),
        ["open", dir] => open(Path::new(dir)),
        ["sessions"] => runtime.block_on(sessions()),
        ["resident", dir] => runtime.block_on(resident(Path::new(dir))),
        _ => parent(),
    }
}

fn parent() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on = |task| child(&[task, dir.path().to_str().unwrap()]);
    on("fill");
    let after_kill = on("open");
    let opened: Vec<Vec<f64>> = (0..OPENINGS).map(|_| on("open")).collect();
    let mut times = Samples::default();
    times.extend(
        opened
            .iter()
            .map(|figures| Duration::from_secs_f64(figures[0])),
    );
    let peak = opened.iter().map(|figures| figures[2]).fold(0.0, f64::max);
    let resident = on("resident");
    let held = child(&["sessions"]);

    let table = Table::new(
        "open",
        &format!(
            "{SESSIONS} sessions of {EVENTS} events, messages of 800 characters; the file cache is warm."
        ),
    );
    let last = times.median();
    table.row(
        "open, after an orderly end",
        "≤ 1 s",
        &time(last),
        None,
        last.as_secs() < 1,
    );
    let first = Duration::from_secs_f64(after_kill[0]);
    table.row(
        "open, after a kill",
        "≤ 1 s",
        &time(first),
        None,
        first.as_secs() < 1,
    );
    let peak = peak.max(after_kill[2]);
    let limit = f64::from(150 << 20);
    table.row(
        "resident at most, opened",
        "≤ 150 MiB",
        &bytes(peak),
        None,
        peak <= limit,
    );
    report_idle(&table, &held, &resident);
}

/// `held`: what a session costs on the heap: passive, more when it was open again, live.
/// `resident`: of the whole process and of its heap, before all were open, after that, and after the
/// last round; before those, what was resident at the start.
fn report_idle(table: &Table, held: &[f64], resident: &[f64]) {
    let ([passive, again, live], [start, before, heap_before, once, _, last, heap_last]) =
        (held, resident)
    else {
        panic!("three and seven figures");
    };
    let limit = 10.0 * 1024.0;
    for (what, &each) in [
        ("held on the heap per passive session", passive),
        ("the same, more after all were open again", again),
    ] {
        table.row(what, "≤ 10 KiB", &bytes(each), None, each <= limit);
    }
    table.note("held on the heap per live session", &bytes(*live), None);
    let what = "resident for the journals read before, in all (the store's cache, the allocator)";
    table.note(what, &bytes(before - start), None);
    let each = |resident: f64| bytes((resident - before) / SESSIONS as f64);
    let what = "resident per session, more after all were open";
    table.note(&format!("{what} once"), &each(*once), None);
    table.note(&format!("{what} {ROUNDS} times"), &each(*last), None);
    let what = format!("held on the heap of that process, before and after {ROUNDS} times");
    let shown = format!("{}, {}", bytes(*heap_before), bytes(*heap_last));
    table.note(&what, &shown, None);
}

/// Runs this program on a task and reads the figures it prints.
fn child(task: &[&str]) -> Vec<f64> {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(task).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The one that fills ends as if it was killed.
    assert!(
        task[0] == "fill" || output.status.success(),
        "{task:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect()
}

async fn start(engine: Arc<dyn Engine>, passivate_after: Duration) -> Runtime {
    let options = Options {
        passivate_after,
        ..Options::default()
    };
    let journal = Journal::new(engine);
    let runtime = Runtime::start(journal, team::extensions(), Models::default(), options).await;
    runtime.unwrap()
}

async fn start_on(dir: &Path) -> Runtime {
    start(Arc::new(Disk::open(dir).unwrap().disk), PASSIVE_AFTER).await
}

async fn fill(dir: &Path) {
    create_all(&start_on(dir).await).await;
    std::process::abort();
}

async fn create_all(runtime: &Runtime) {
    let conversation = Conversation::new(0, MESSAGES);
    for n in 0..SESSIONS {
        let import = conversation.import(SessionId::from_u128(n));
        runtime.create(import).await.unwrap();
    }
}

fn open(dir: &Path) {
    let start = Instant::now();
    let opened = Disk::open(dir).unwrap();
    let took = start.elapsed();
    assert!(opened.salvage.is_none(), "the store was whole");
    let (now, peak) = memory::resident();
    println!("{} {now} {peak}", took.as_secs_f64());
}

/// Opens every session and lets them leave memory again.
async fn open_all(runtime: &Runtime) {
    for n in 0..SESSIONS {
        runtime.open(SessionId::from_u128(n)).await.unwrap();
    }
    tokio::time::sleep(PASSIVE_AFTER * 500).await;
}

/// What a session costs on the heap, passive and live: the journals are there before and after.
async fn sessions() {
    let engine: Arc<dyn Engine> = Arc::new(Memory::new());
    let runtime = start(Arc::clone(&engine), PASSIVE_AFTER).await;
    create_all(&runtime).await;
    runtime.shutdown().await;
    let each = |difference: f64| println!("{}", difference / SESSIONS as f64);
    let runtime = start(Arc::clone(&engine), PASSIVE_AFTER).await;
    let mut before = held();
    for _ in 0..2 {
        open_all(&runtime).await;
        let after = held();
        each(after - before);
        before = after;
    }
    runtime.shutdown().await;
    let runtime = start(engine, LIVE_FOR).await;
    let before = held();
    open_all(&runtime).await;
    each(held() - before);
}

/// How much is resident, and held on the heap, with a store on disk.
async fn resident(dir: &Path) {
    let runtime = start_on(dir).await;
    println!("{}", memory::resident().0);
    // What reading leaves in the store's cache is no session's.
    for n in 0..SESSIONS {
        let session = SessionId::from_u128(n);
        let read = runtime.journal().read(session, 1, 1_000).await.unwrap();
        assert_eq!(read.len() as u32, EVENTS, "all is there");
    }
    println!("{} {}", memory::resident().0, held());
    for round in 1..=ROUNDS {
        open_all(&runtime).await;
        if round == 1 || round == ROUNDS {
            println!("{} {}", memory::resident().0, held());
        }
    }
}

/// Bytes on the heap.
fn held() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}
