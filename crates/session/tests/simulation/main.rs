//! Whole turns under every order of events, with crashes at every point.
//!
//! The simulator plays the shell around the machine and checks, schedule by schedule, the
//! invariants of a restart (D1, D2): see [`ledger`]. One generator determines everything, so a
//! failing schedule is repeated with `UNISONO_SIM_SEED=<seed>`; `UNISONO_SIM_SEEDS=<n>` runs more
//! of them, as `.ci/run` does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stderr, reason = "says which seed failed")]
#![allow(unreachable_pub, reason = "the modules of one test binary")]

mod agents;
mod branch;
mod fakes;
mod journal;
mod ledger;
mod replaying;
mod rng;
mod scenario;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use unisono_context::compaction::{Plan, Step};
use unisono_session::{Event, Fact};

use rng::Rng;
use scenario::Scenario;
use world::{Crash, Order, World};

/// Random scenarios in an ordinary test run, each run once completely and [`CUTS`] times with a
/// crash.
const SEEDS: u64 = 1_000;
/// One in this number of them has a crash at each of its events.
const CUT_EVERYWHERE: u64 = 16;
const CUTS: usize = 26;
const THREADS: u64 = 2;

/// Prints the schedule of a failure.
struct Report(u64, Crash);

impl Drop for Report {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: UNISONO_SIM_SEED={} ({:?})", self.0, self.1);
        }
    }
}

/// Schedules in which a summary was regenerated.
static REPAIRED: AtomicU64 = AtomicU64::new(0);

fn wrote_anew(event: &Event) -> bool {
    let planned = |plan: &Plan| matches!(plan.step, Step::Regenerate { .. });
    matches!(&event.fact, Fact::CompactionPlanned { plan, .. } if planned(plan))
}

/// Runs a world completely, and again with each of the crashes that are chosen by its numbers of
/// events and steps. Up to the crash all schedules are equal, so each continues from a clone of one
/// world. Returns the complete world and the number of schedules.
fn schedules_of(
    seed: u64,
    world: World,
    choose: impl FnOnce(usize, usize) -> Vec<Crash>,
) -> (World, u64) {
    let report = Report(seed, Crash::Never);
    let mut whole = world.clone();
    let lengths = whole.run();
    let repaired = whole.journal.events().iter().any(wrote_anew);
    REPAIRED.fetch_add(repaired.into(), Ordering::Relaxed);
    let before = |crash: &Crash| match *crash {
        Crash::Never => lengths.len(),
        Crash::AtEvent(kept) => lengths.partition_point(|length| *length < kept),
        Crash::AtStep(step) => step.saturating_sub(1),
    };
    let mut crashes = choose(whole.journal.len(), whole.steps);
    crashes.sort_by_key(before);
    let ran = 1 + crashes.len() as u64;
    let mut world = world;
    drop(report);
    for crash in crashes {
        let _report = Report(seed, crash);
        while world.steps < before(&crash) && world.advance() {}
        world.crashed(crash).run();
    }
    (whole, ran)
}

/// All schedules of a seed; returns their number.
fn schedules(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let scenario = Scenario::random(&mut rng);
    let world = World::new(scenario, rng, Order::Random);
    let mut rng = Rng::new(!seed);
    let choose = |events, steps| {
        let mut crashes = Vec::new();
        if seed.is_multiple_of(CUT_EVERYWHERE) {
            crashes.extend((0..=events).map(Crash::AtEvent));
        }
        crashes.extend((0..CUTS).map(|cut| match cut % 2 {
            0 => Crash::AtEvent(rng.below(events + 1)),
            _ => Crash::AtStep(rng.below(steps + 1)),
        }));
        crashes
    };
    schedules_of(seed, world, choose).1
}

/// Crashes at every event and every step.
fn everywhere(events: usize, steps: usize) -> Vec<Crash> {
    let events = (0..=events).map(Crash::AtEvent);
    events.chain((0..=steps).map(Crash::AtStep)).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn no_schedule_loses_or_repeats_anything() {
    if let Some(seed) = number("UNISONO_SIM_SEED") {
        schedules(seed);
        return;
    }
    let seeds = number("UNISONO_SIM_SEEDS").unwrap_or(SEEDS);
    let workers: Vec<_> = (0..THREADS)
        .map(|worker| {
            let own = (worker..seeds).step_by(THREADS as usize);
            thread::spawn(move || own.map(schedules).sum::<u64>())
        })
        .collect();
    let ran: u64 = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    let repaired = REPAIRED.load(Ordering::Relaxed);
    eprintln!("{ran} schedules, {repaired} with a summary that was written anew");
    assert!(ran >= 25 * seeds && repaired * 500 >= seeds);
}

/// Every order in which three delegates can end, with a crash at every event: when it is written,
/// and when it is on disk and has effects.
#[test]
fn every_order_of_three_delegates_cut_at_every_event() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for (first, compacts) in [(0, true), (0, false), (3, true), (10, true), (15, false)] {
        let scenario = Scenario::fan_out(3, first, compacts);
        for order in orders {
            let order = Order::Delegates(order.to_vec());
            let world = World::new(scenario.clone(), Rng::new(1), order);
            schedules_of(0, world, everywhere);
        }
    }
}

/// Agents that call tools with every contract, with and without approvals, with a crash at every
/// event and at every step, also between the effect of a tool and its result.
#[test]
fn calls_of_tools_cut_at_every_event() {
    let mut met = [("tool_in_doubt", 0), ("tool_decided", 0), ("tool_ended", 0)];
    for seed in 0..24 {
        let world = World::new(Scenario::calling(seed), Rng::new(seed), Order::Random);
        let mut whole = world.clone();
        whole.run();
        for crash in everywhere(whole.journal.len(), whole.steps) {
            let _report = Report(seed, crash);
            let mut world = world.crashed(crash);
            world.run();
            for (name, times) in &mut met {
                let facts = world.journal.events().iter().map(|event| event.fact.name());
                *times += facts.filter(|fact| fact == name).count();
            }
        }
    }
    assert!(met.iter().all(|(_, times)| *times > 100), "{met:?}");
}

/// Stages of a pipeline, some of which delegate, with a crash at every event and at every step: no
/// stage begins before the end of the one before it.
#[test]
fn stages_of_a_pipeline_cut_at_every_event() {
    for (first, seed) in (0..12).zip([0, 1, 2].into_iter().cycle()) {
        let scenario = Scenario::pipeline(3, first);
        let world = World::new(scenario, Rng::new(seed), Order::Random);
        schedules_of(seed, world, everywhere);
    }
}

/// A lead that delegates in two rounds, on one level and on two, with a crash at every event and at
/// every step.
#[test]
fn rounds_of_a_lead_cut_at_every_event() {
    for depth in [1, 2] {
        for seed in 0..4 {
            let world = World::new(Scenario::rounds(depth), Rng::new(seed), Order::Random);
            let (whole, _) = schedules_of(seed, world, everywhere);
            let facts = whole.journal.events().iter().map(|event| event.fact.name());
            let rounds = facts.filter(|name| *name == "delegated").count();
            assert!(rounds >= 2, "{rounds} rounds");
        }
    }
}
