//! Opening a store of 100,000 events in 1,000 sessions, and what an idle runtime holds of them.
//! Each figure is taken in a process of its own.
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
use unisono_store::{Disk, Journal};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSIONS: u128 = 1_000;
const MESSAGES: u32 = 98;
/// The session is created, each message appended, the branch set.
const EVENTS: u32 = MESSAGES + 2;
/// So short that few sessions are live at one time: what they needed then is not what is asked.
const PASSIVE_AFTER: Duration = Duration::from_millis(1);
const OPENINGS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match args[..] {
        ["fill", dir] => runtime.block_on(fill(Path::new(dir))),
        ["open", dir] => open(Path::new(dir)),
        ["idle", dir] => runtime.block_on(idle(Path::new(dir))),
        _ => parent(),
    }
}

fn parent() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    child("fill", dir.path());
    let after_kill = child("open", dir.path());
    let opened: Vec<Vec<f64>> = (0..OPENINGS).map(|_| child("open", dir.path())).collect();
    let mut times = Samples::default();
    times.extend(
        opened
            .iter()
            .map(|figures| Duration::from_secs_f64(figures[0])),
    );
    let peak = opened.iter().map(|figures| figures[2]).fold(0.0, f64::max);
    let idle = child("idle", dir.path());

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
    let [heap, first, second, journals] = idle[..] else {
        panic!("four figures");
    };
    for (what, each) in [
        ("held on the heap per passive session", heap),
        (
            "resident per passive session, after all were open once",
            first,
        ),
        (
            "resident per passive session, more after all were open again",
            second,
        ),
    ] {
        table.row(what, "≤ 10 KiB", &bytes(each), None, each <= 10.0 * 1024.0);
    }
    let what = "resident for the journals read before, in all (the store's cache, the allocator)";
    table.note(what, &bytes(journals), None);
}

/// Runs this program on a task and reads the figures it prints.
fn child(task: &str, dir: &Path) -> Vec<f64> {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg(task).arg(dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The one that fills ends as if it was killed.
    assert!(
        task == "fill" || output.status.success(),
        "{task}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect()
}

async fn start(dir: &Path) -> Runtime {
    let disk = Arc::new(Disk::open(dir).unwrap().disk);
    let options = Options {
        passivate_after: PASSIVE_AFTER,
        ..Options::default()
    };
    let journal = Journal::new(disk);
    let runtime = Runtime::start(journal, team::kinds(), Models::default(), options).await;
    runtime.unwrap()
}

async fn fill(dir: &Path) {
    let runtime = start(dir).await;
    let conversation = Conversation::new(0, MESSAGES);
    for n in 0..SESSIONS {
        let import = conversation.import(SessionId::from_u128(n));
        runtime.create(import).await.unwrap();
    }
    std::process::abort();
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
async fn idle(dir: &Path) {
    let runtime = start(dir).await;
    let (at_start, _) = memory::resident();
    // What reading leaves in the store's cache is no session's.
    for n in 0..SESSIONS {
        let session = SessionId::from_u128(n);
        let read = runtime.journal().read(session, 1, 1_000).await.unwrap();
        assert_eq!(read.len() as u32, EVENTS, "all is there");
    }
    let (before, _) = memory::resident();
    let heap_before = held();
    let mut after = Vec::new();
    for _ in 0..2 {
        for n in 0..SESSIONS {
            runtime.open(SessionId::from_u128(n)).await.unwrap();
        }
        tokio::time::sleep(PASSIVE_AFTER * 500).await;
        after.push(memory::resident().0);
    }
    let each = |difference: f64| difference / SESSIONS as f64;
    println!(
        "{} {} {} {}",
        each(held() - heap_before),
        each(after[0] - before),
        each(after[1] - after[0]),
        before - at_start
    );
}

/// Bytes on the heap.
fn held() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}
