//! The crash harness: the program is killed at every commit of a turn's journal and at random
//! instants, and started again until the turn has ended. What was on disk stays, what was finished
//! is not done again, what was open is sent again with the same bytes, and a client is told of
//! everything once. `docs/reliability.md` says what is promised and how to run this.
//!
//! `UNISONO_SOAK_ROUNDS` sets the number of rounds, `UNISONO_KILL_SEED` the one a failed round
//! named; without them there are as many as the checks of a change have time for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    reason = "tests; what is shared with others is not all used here"
)]

mod client;
mod ledger;
mod life;
mod scene;
#[path = "../it/support.rs"]
mod support;

use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use client::{Daemon, Told};
use ledger::{Bodies, Counts, Ledger};
use life::Death;
use scene::{AGENTS, CHILD, LEAD, Scene, TASK, kinds};
use support::Place;

/// Rounds where nobody says otherwise. Those at each commit are made in any case.
const ROUNDS: u64 = 64;
/// Rounds at one time: most of one is waiting.
const THREADS: usize = 3;
/// Deaths of one round; after them it is left alone.
const LIVES: usize = 3;

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return unisono::main(kinds());
    }
    // As other tests, it is left out where a filter names others.
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let named = filters.iter().filter(|argument| !argument.starts_with('-'));
    if named.clone().count() > 0 && !named.clone().any(|name| "kill".contains(name.as_str())) {
        return ExitCode::SUCCESS;
    }
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Result<(), String> {
    let started = Instant::now();
    let rounds = number("UNISONO_SOAK_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("UNISONO_KILL_SEED");
    let template = Scene::new(None);
    let whole = round(&template.place, Plan::unharmed(), None)?;
    let reference = whole.1;
    let plans = Mutex::new(Plans::new(rounds, seed));
    let counts = Mutex::new(Counts::default());
    let work = || -> Result<(), String> {
        loop {
            let Some(plan) = plans.lock().unwrap().next() else {
                return Ok(());
            };
            let told = |wrong| format!("round {plan:?}: {wrong}");
            let (done, _) = round(&template.place, plan, Some(&reference)).map_err(told)?;
            if done.deaths == 0 && plan.sweeps() {
                plans.lock().unwrap().swept = true;
            }
            counts.lock().unwrap().add(done);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect::<Result<Vec<()>, String>>()
    })?;
    let commits = plans.lock().unwrap().commits;
    let counts = counts.into_inner().unwrap();
    println!(
        "kill: {} rounds, {} deaths, at each of the first {commits} commits and at random, {} s\n\
         kill: {} events, 0 lost; {} requests, {} open ones sent again with the same bytes, 0 \
         finished ones repeated\n\
         kill: {} effects of durable steps and programs, {} open ones had again, 0 finished ones \
         repeated; 0 events told twice or left out",
        counts.rounds,
        counts.deaths,
        started.elapsed().as_secs(),
        counts.events,
        counts.requests,
        counts.again,
        counts.effects,
        counts.effects_again,
    );
    if seed.is_none() && counts.deaths < counts.rounds / 2 {
        return Err("too few processes died: the harness does not do what it says".to_owned());
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `unisono run`, then `unisono resume`.
    Commands,
    /// `unisono serve`, with a client that follows.
    Daemon,
}

/// A round.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    way: Way,
    deaths: [Death; LIVES],
}

impl Plan {
    fn unharmed() -> Plan {
        Plan {
            seed: 0,
            way: Way::Commands,
            deaths: [Death::None; LIVES],
        }
    }

    /// At random.
    fn random(seed: u64) -> Plan {
        let mut draw = Draw(seed);
        let way = match draw.below(3) {
            0 => Way::Daemon,
            _ => Way::Commands,
        };
        let deaths = std::array::from_fn(|life| match (life, draw.below(4)) {
            (1.., 0) => Death::None,
            (_, 1) => Death::Commit {
                number: 1 + draw.below(24),
                synced: draw.below(2) == 0,
            },
            (_, 2) => Death::Write {
                number: 1 + draw.below(40),
            },
            _ => Death::Moment {
                requests: draw.below(8) as usize,
                wait: Duration::from_micros(draw.below(40_000)),
            },
        });
        Plan { seed, way, deaths }
    }

    /// At that commit.
    fn sweep(number: u64, synced: bool, way: Way) -> Plan {
        let mut deaths = [Death::None; LIVES];
        deaths[0] = Death::Commit { number, synced };
        let seed = 0;
        Plan { seed, way, deaths }
    }

    fn sweeps(&self) -> bool {
        self.seed == 0
    }
}

/// The rounds that are still to be made: at each commit first, then at random.
struct Plans {
    rounds: u64,
    made: u64,
    commits: u64,
    /// There is no further commit.
    swept: bool,
    seed: u64,
}

impl Plans {
    fn new(rounds: u64, seed: Option<u64>) -> Plans {
        Plans {
            rounds: seed.map_or(rounds, |_| 1),
            made: 0,
            commits: 0,
            swept: seed.is_some(),
            seed: seed.unwrap_or(1),
        }
    }
}

impl Iterator for Plans {
    type Item = Plan;

    fn next(&mut self) -> Option<Plan> {
        self.made += 1;
        if !self.swept {
            self.commits += 1;
            let (number, synced) = (self.commits, self.commits.is_multiple_of(2));
            let way = match number % 3 {
                0 => Way::Daemon,
                _ => Way::Commands,
            };
            return Some(Plan::sweep(number, synced, way));
        }
        self.seed += 1;
        (self.made <= self.rounds).then(|| Plan::random(self.seed - 1))
    }
}

/// Makes a round; gives its counts, and its requests.
fn round(
    template: &Place,
    plan: Plan,
    reference: Option<&Bodies>,
) -> Result<(Counts, Bodies), String> {
    let scene = Scene::new(Some(template));
    let mut ledger = Ledger::begin(&scene)?;
    match plan.way {
        Way::Commands => by_commands(&scene, &plan, &mut ledger)?,
        Way::Daemon => by_a_daemon(&scene, &plan, &mut ledger)?,
    }
    ledger.close(reference)
}

fn by_commands(scene: &Scene, plan: &Plan, ledger: &mut Ledger) -> Result<(), String> {
    let agents = AGENTS.join(",");
    let run = [
        "run",
        "--session",
        "latest",
        "--lead",
        LEAD,
        "--agents",
        &agents,
    ];
    let run = [&run[..], &["--task", TASK]].concat();
    for life in 0..=LIVES {
        let death = plan.deaths.get(life).copied().unwrap_or(Death::None);
        let args = match ledger.journal.has_turn() {
            true => &["resume"][..],
            false => &run[..],
        };
        let mut command = scene.command(args);
        death.tell(&mut command);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let pid = child.id();
        let ended = life::watch(scene, death, pid, || life::wait(&mut child))?;
        ledger.after_life(scene, !ended)?;
        if ledger.journal.outcome().is_some() {
            return Ok(());
        }
        if ended {
            return Err("it ended well, and the turn has not ended".to_owned());
        }
    }
    Err("it died where it was left alone".to_owned())
}

fn by_a_daemon(scene: &Scene, plan: &Plan, ledger: &mut Ledger) -> Result<(), String> {
    let mut told: Vec<Told> = Vec::new();
    let mut acknowledged = false;
    for life in 0..=LIVES {
        let death = plan.deaths.get(life).copied().unwrap_or(Death::None);
        let ended = match Daemon::start(scene, death)? {
            Some(daemon) => {
                let pid = daemon.child.id();
                life::watch(scene, death, pid, || {
                    follow(&daemon, &mut acknowledged, &mut told)
                })?
            }
            None => false,
        };
        ledger.after_life(scene, !ended)?;
        if acknowledged && !ledger.journal.has_turn() {
            return Err("a turn was acknowledged, and is lost".to_owned());
        }
        if ended {
            return told_once(&told, ledger);
        }
        if death == Death::None {
            return Err("the daemon was left alone, and the turn has not ended".to_owned());
        }
    }
    Err("it died where it was left alone".to_owned())
}

/// What a client does in one life of the daemon: it does not know whether it was heard before the
/// last death, and asks again. Whether it was told of the turn's end.
fn follow(daemon: &Daemon, acknowledged: &mut bool, told: &mut Vec<Told>) -> Result<bool, String> {
    let Ok(session) = daemon.session() else {
        return Ok(false);
    };
    match daemon.ask(&session) {
        Ok(true) => *acknowledged = true,
        Ok(false) => return Err("the turn was refused".to_owned()),
        Err(_) => return Ok(false),
    }
    // A connection that breaks is the daemon's death.
    Ok(daemon.follow(&session, told).unwrap_or(false))
}

/// The client knows the journal: each event, in order, once.
fn told_once(told: &[Told], ledger: &Ledger) -> Result<(), String> {
    let journal = ledger.journal.events.iter();
    let expected = journal.zip(1..).map(|(event, seq)| Told {
        seq,
        kind: event.fact.name().to_owned(),
        text: event.fact.to_string(),
    });
    // What comes after the end of the turn, it did not wait for.
    let expected: Vec<Told> = expected.take(told.len()).collect();
    match told == expected && told.last().is_some_and(|told| told.kind == "turn_ended") {
        true => Ok(()),
        false => Err(format!(
            "the client was told {} events, and not those of the journal",
            told.len()
        )),
    }
}

/// A small deterministic generator (splitmix64): a failed round can be made again.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}
