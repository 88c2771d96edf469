//! Setting aside and settling on the budget tree of a session, by two threads at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement ends where it cannot go on"
)]

use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use unisono_benches::{Samples, Table, time};
use unisono_context::call::Usage;
use unisono_context::cost::Cost;
use unisono_context::{Digest, RunId, Tokens, TurnId};
use unisono_session::budget::{Caps, ReservationRequest, Tree, TurnCaps, Verdict};

const TURN: TurnId = TurnId::from_u128(1);
const THREADS: u128 = 2;
const RUNS: u128 = 1_000;
const CALLS: usize = 200_000;
/// Calls between two looks at the clock.
const BATCH: usize = 100;

fn tree() -> Tree {
    let caps = Caps {
        tokens: Some(Tokens(u64::MAX / 2)),
        cost: Some(Cost(u128::MAX / 2)),
        time_ms: None,
    };
    let mut tree = Tree::default();
    tree.accept(
        TURN,
        TurnCaps {
            session: caps,
            turn: caps,
            run: caps,
            agents: Vec::new(),
            limit_ms: None,
        },
    );
    for run in 0..RUNS {
        tree.open(TURN, RunId::from_u128(run), Digest::of_bytes(b"agent"));
    }
    tree
}

/// One call of a run: what it may take is reserved, then what it used is charged.
fn call(tree: &Mutex<Tree>, run: RunId, ask: &ReservationRequest, used: &Usage) {
    {
        let mut tree = tree.lock().unwrap();
        let Verdict::Granted(reservation) = tree.afford(run, ask) else {
            panic!("there is enough");
        };
        tree.reserve(run, &reservation);
    }
    tree.lock().unwrap().charge_reply(run, used);
}

/// The time of one call, as each batch had it.
fn work(tree: &Mutex<Tree>, worker: u128) -> Vec<Duration> {
    let ask = ReservationRequest {
        call: 1,
        model: "provider/model".into(),
        tokens: Tokens(12_000),
        cost: Some(Cost::from_micro_dollars(40_000)),
        last: Some((Tokens(20_000), Some(Cost::from_micro_dollars(60_000)))),
        short: None,
    };
    let used = Usage::free(Tokens(9_000), Tokens(300));
    let batch = |batch: usize| {
        let start = Instant::now();
        for n in 0..BATCH {
            let run = (batch * BATCH + n) as u128 * THREADS + worker;
            call(tree, RunId::from_u128(run % RUNS), &ask, &used);
        }
        start.elapsed() / BATCH as u32
    };
    (0..CALLS / BATCH).map(batch).collect()
}

fn main() {
    let (tree, together) = (Arc::new(Mutex::new(tree())), Arc::new(Barrier::new(2)));
    let workers: Vec<_> = (0..THREADS)
        .map(|worker| {
            let (tree, together) = (tree.clone(), together.clone());
            thread::spawn(move || {
                together.wait();
                work(&tree, worker)
            })
        })
        .collect();
    let mut samples = Samples::default();
    for worker in workers {
        samples.extend(worker.join().unwrap());
    }
    let table = Table::new(
        "budget",
        &format!(
            "Reserve and settle one call at run, turn and session; {RUNS} runs, {CALLS} calls by \
             each of {THREADS} threads on one lock; means of {BATCH}."
        ),
    );
    let (median, late) = (samples.median(), samples.at(0.99));
    let within = median <= Duration::from_micros(5);
    table.row(
        "reserve and settle, median",
        "≤ 5 µs",
        &time(median),
        None,
        within,
    );
    table.note("reserve and settle, p99", &time(late), None);
}
