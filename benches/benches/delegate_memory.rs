//! What one more agent that waits for its provider holds in memory, on a short and on a long
//! context.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement ends where it cannot go on, and tells its parent what it found"
)]

use std::alloc::System;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use unisono_benches::remote::{self, Session};
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Conversation, Table, bytes, memory};
use unisono_store::Disk;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Set for a process that is to measure one turn: delegates, messages, the provider's address.
const ASKED: &str = "UNISONO_BENCH_TURN";

const FEW: usize = 16;
const MANY: usize = 64;
/// Messages of about 200 tokens that are in the context.
const SHORT: u32 = 10;
const LONG: u32 = 400;
/// Processes for each figure, of which the middle one counts.
const TIMES: usize = 5;
/// So long the provider keeps all agents waiting, so that they are there at the same time.
const PAUSE: Duration = Duration::from_millis(400);
/// The part of the longer context that an agent may hold more on it than on the short one.
const PART: f64 = 0.05;

/// What a turn held at most, beyond what was held before it, in bytes.
#[derive(Clone, Copy)]
struct Held {
    resident: f64,
    heap: f64,
}

fn main() {
    if stub::serve_if_asked() {
        return;
    }
    if let Ok(asked) = std::env::var(ASKED) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = runtime.block_on(turn(&asked));
        println!("{} {}", held.resident, held.heap);
        return;
    }
    let stub = Stub::start(PAUSE);
    report(&stub);
}

/// Measures one turn in this process.
async fn turn(asked: &str) -> Held {
    let mut asked = asked.split(' ');
    let delegates = asked.next().unwrap().parse().unwrap();
    let messages = asked.next().unwrap().parse().unwrap();
    let url = asked.next().unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Arc::new(Disk::open(dir.path().join("store")).unwrap().disk);
    let runtime = remote::runtime(disk, url).await;
    let session = Session::create(&runtime, 1, &Conversation::new(0, messages)).await;
    for branch in ["warm-up", "measured"] {
        session.fork(branch).await;
    }
    session.answer("warm-up", remote::team(1)).await;
    let (resident, heap) = (memory::reset_highest(), live());
    let answering = session.answer("measured", remote::team(delegates));
    let highest = highest_until(answering).await;
    Held {
        resident: memory::resident().1 - resident,
        heap: highest - heap,
    }
}

/// Bytes on the heap now.
fn live() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

/// The most bytes on the heap until that has ended, looked at each millisecond.
async fn highest_until(work: impl Future) -> f64 {
    let mut highest = live();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    tokio::pin!(work);
    loop {
        tokio::select! {
            _ = &mut work => return highest,
            _ = ticks.tick() => highest = highest.max(live()),
        }
    }
}

/// The same in several processes of their own; the middle of each figure.
fn held(stub: &Stub, delegates: usize, messages: u32) -> Held {
    let asked = format!("{delegates} {messages} {}", stub.url());
    let once = || {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).env(ASKED, &asked).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let figures: Vec<f64> = said
            .split_whitespace()
            .map(|f| f.parse().unwrap())
            .collect();
        assert!(
            figures.len() == 2,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Held {
            resident: figures[0],
            heap: figures[1],
        }
    };
    let times: Vec<Held> = (0..TIMES).map(|_| once()).collect();
    let middle = |of: fn(&Held) -> f64| {
        let mut figures: Vec<f64> = times.iter().map(of).collect();
        figures.sort_by(f64::total_cmp);
        figures[TIMES / 2]
    };
    Held {
        resident: middle(|held| held.resident),
        heap: middle(|held| held.heap),
    }
}

/// What one more agent holds.
fn growth(stub: &Stub, messages: u32) -> Held {
    let (few, many) = (held(stub, FEW, messages), held(stub, MANY, messages));
    let agents = (MANY - FEW) as f64;
    Held {
        resident: (many.resident - few.resident) / agents,
        heap: (many.heap - few.heap) / agents,
    }
}

fn report(stub: &Stub) {
    let table = Table::new(
        "delegate_memory",
        &format!(
            "What an agent that waits for its provider holds: the most during a turn with {MANY} of \
             them less that with {FEW}, by agent. Each turn in a process of its own, the middle of \
             {TIMES}. Ratio: how much more it is on 80k tokens than on 2k, in parts of the text \
             between the two."
        ),
    );
    let (short, long) = (growth(stub, SHORT), growth(stub, LONG));
    let text = f64::from(LONG - SHORT) * unisono_benches::conversation::MESSAGE_CHARS as f64;
    let figures = [
        ("resident", short.resident, long.resident),
        ("on the heap", short.heap, long.heap),
    ];
    for (what, short, long) in figures {
        let part = (long - short) / text;
        table.row(
            &format!("{what}, per agent more"),
            "does not grow with H (≤ 0.05 ×)",
            &format!("{} at 2k, {} at 80k", bytes(short), bytes(long)),
            Some(part.max(0.0)),
            part <= PART,
        );
    }
}
