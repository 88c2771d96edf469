//! The crash harness: the program is killed at every commit of a turn's journal and at random
//! instants, and started again until the turn has ended. What was on disk stays, what was finished
//! is not done again, what was open is sent again with the same bytes, and a client is told of
//! everything once. `docs/reliability.md` says what is promised and how to run this.
//!
//! `UNISONO_SOAK_ROUNDS` sets the number of rounds, `UNISONO_KILL_SEED` the one a failed round
//! named; without them there are few, and one in five commits is gone through.

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
mod office;
mod people;
mod plan;
mod scene;
#[path = "../it/support.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use client::{Daemon, ReceivedEvent};
use ledger::{Bodies, Counts, Ledger};
use life::Death;
use people::{Question, answer_all, asked_once, until_it_waits};
use plan::{LIVES, Plan, Plans, Way};
use scene::{CHILD, Scene, Shape, TASK, kinds};
use support::{Place, is_alive};
use unisono_fake_provider::tools::serve_if_asked;

/// Rounds where nobody says otherwise, and which of the commits they go through: one in so many. Where
/// somebody does, each commit is gone through in any case.
const ROUNDS: u64 = 45;
const EVERY: u64 = 5;
/// Rounds at one time: most of one is waiting.
const THREADS: usize = 3;
/// How long a process that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    serve_if_asked();
    // The program under test starts this executable again, without its variables.
    if let Some(ended) = unisono_runtime::reaper::main() {
        return ended;
    }
    if std::env::var_os(CHILD).is_some() {
        return unisono_cli::main(kinds());
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
    let asked = number("UNISONO_SOAK_ROUNDS").map(|rounds| (rounds, 1));
    let (rounds, every) = asked.unwrap_or((ROUNDS, EVERY));
    let seed = number("UNISONO_KILL_SEED");
    let template = Scene::new(Shape::Fan, None);
    let unharmed = |shape| round(&template.place, Plan::unharmed(shape), None);
    let (fan, line) = (unharmed(Shape::Fan)?.1, unharmed(Shape::Line)?.1);
    let plans = Mutex::new(Plans::new(rounds, every, seed));
    let counts = Mutex::new(Counts::default());
    let work = || -> Result<(), String> {
        loop {
            let Some(plan) = plans.lock().unwrap().next() else {
                return Ok(());
            };
            let reply = |wrong| format!("round {plan:?}: {wrong}");
            let reference = match plan.shape {
                Shape::Fan => &fan,
                Shape::Line => &line,
            };
            let (done, _) = round(&template.place, plan, Some(reference)).map_err(reply)?;
            if done.deaths == done.waited && plan.sweeps() {
                plans.lock().unwrap().is_through(plan.way, plan.shape);
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
    tell(&counts, commits, started.elapsed());
    if seed.is_none() && counts.deaths < counts.rounds / 2 {
        return Err("too few processes died: the harness does not do what it says".to_owned());
    }
    Ok(())
}

/// The last lines are the row of `docs/reliability.md`.
fn tell(counts: &Counts, commits: u64, took: Duration) {
    let (tools, seconds) = (counts.tools, took.as_secs());
    println!(
        "kill: {} rounds, {} deaths ({} of them of commands that waited for a person), at commits of \
         a daemon, which makes {commits}, and of commands, and at random, {seconds} s",
        counts.rounds, counts.deaths, counts.waited,
    );
    println!(
        "| run | rounds | kills | commits | events | lost | requests | unfinished, sent again with \
         the same bytes | finished, repeated | effects | unfinished, repeated | finished, repeated \
         | sent twice or left out |"
    );
    println!(
        "| as of now | {} | {} | {commits} | {} | 0 | {} | {} | 0 | {} | {} | 0 | 0 |",
        counts.rounds,
        counts.deaths,
        counts.events,
        counts.requests,
        counts.again,
        counts.effects,
        counts.effects_again,
    );
    println!(
        "| run | tool calls | unfinished, made again under the same key | finished, repeated | in \
         doubt, settled | at most once, doubled | decisions | not acknowledged before a kill | \
         acknowledged, then lost or asked again |"
    );
    println!(
        "| as of now | {} | {} | 0 | {} | 0 | {} | {} | 0 |",
        tools.calls, tools.again, tools.doubts, tools.decisions, counts.unheard,
    );
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Makes a round; gives its counts, and its requests.
fn round(
    template: &Place,
    plan: Plan,
    reference: Option<&Bodies>,
) -> Result<(Counts, Bodies), String> {
    let scene = Scene::new(plan.shape, Some(template));
    let mut ledger = Ledger::begin(&scene)?;
    match plan.way {
        Way::Commands => by_commands(&scene, &plan, &mut ledger)?,
        Way::Daemon => by_a_daemon(&scene, &plan, &mut ledger)?,
    }
    ledger.close(&scene, reference)
}

/// A person stands by who is asked after each death what waits.
fn by_commands(scene: &Scene, plan: &Plan, ledger: &mut Ledger) -> Result<(), String> {
    let agents = scene.shape.agents().join(",");
    let lead = scene.shape.lead();
    let run = ["run", "--session", "latest", "--lead", lead, "--task", TASK];
    let with = ["--agents", &agents];
    let with = if agents.is_empty() { &[][..] } else { &with };
    let run = [&run[..], with].concat();
    let mut deciding = plan.deciding;
    // One more than there are deaths: the life that ends because a call waits.
    for life in 0..=LIVES + 2 {
        let death = plan.deaths.get(life).copied().unwrap_or(Death::None);
        let has_turn = ledger.journal.has_turn();
        if has_turn && !answer_all(scene, &mut deciding, &mut ledger.acknowledged)? {
            ledger.counts.unheard += 1;
            ledger.after_life(scene, true)?;
            continue;
        }
        let args = match has_turn {
            true => &["resume"][..],
            false => &run[..],
        };
        let ended = until_it_waits(scene, args, death)?;
        ledger.counts.waited += u64::from(ended.is_none());
        ledger.after_life(scene, ended != Some(true))?;
        if ledger.journal.outcome().is_some() {
            return Ok(());
        }
        if ended == Some(true) {
            return Err("it ended well, and the turn has not ended".to_owned());
        }
    }
    Err("it died where it was left alone".to_owned())
}

fn by_a_daemon(scene: &Scene, plan: &Plan, ledger: &mut Ledger) -> Result<(), String> {
    let mut received: Vec<ReceivedEvent> = Vec::new();
    let mut acknowledged = false;
    for life in 0..=LIVES {
        let death = plan.deaths.get(life).copied().unwrap_or(Death::None);
        let ended = match Daemon::start(scene, death)? {
            Some(daemon) => {
                let pid = daemon.child.id();
                life::watch(scene, death, pid, || {
                    let client = Client {
                        scene,
                        plan,
                        daemon: &daemon,
                        ledger,
                    };
                    client.follow(&mut acknowledged, &mut received)
                })?
            }
            None => false,
        };
        ledger.after_life(scene, !ended)?;
        if acknowledged && !ledger.journal.has_turn() {
            return Err("a turn was acknowledged, and is lost".to_owned());
        }
        if ended {
            return received_once(&received, ledger);
        }
        if death == Death::None {
            return Err("the daemon was left alone, and the turn has not ended".to_owned());
        }
    }
    Err("it died where it was left alone".to_owned())
}

/// Who follows a turn in one life of the daemon, and decides about its calls.
struct Client<'r> {
    scene: &'r Scene,
    plan: &'r Plan,
    daemon: &'r Daemon,
    ledger: &'r mut Ledger,
}

impl Client<'_> {
    /// It does not know whether it was heard before the last death, and asks again. Whether it was
    /// told of the turn's end.
    fn follow(
        mut self,
        acknowledged: &mut bool,
        received: &mut Vec<ReceivedEvent>,
    ) -> Result<bool, String> {
        let daemon = self.daemon;
        let Ok(session) = daemon.session() else {
            return Ok(false);
        };
        match daemon.ask(&session, self.scene.shape) {
            Ok(true) => *acknowledged = true,
            Ok(false) => return Err("the turn was refused".to_owned()),
            Err(_) => return Ok(false),
        }
        if !self.answer()? {
            return Ok(false);
        }
        let mut wrong = Ok(());
        let answer = || match self.answer() {
            Ok(lives) => lives,
            Err(error) => {
                wrong = Err(error);
                false
            }
        };
        // A connection that breaks is the daemon's death.
        let ended = daemon.follow(&session, received, answer).unwrap_or(false);
        wrong.map(|()| ended)
    }

    /// Answers all that waits; whether the daemon lives.
    fn answer(&mut self) -> Result<bool, String> {
        let Ok(listed) = self.daemon.waiting() else {
            return Ok(false);
        };
        for question in Question::all(&listed, self.scene)? {
            asked_once(&question, &self.ledger.acknowledged)?;
            self.scene.decisions.fetch_add(1, Ordering::SeqCst);
            let (taken, why) = match self.plan.by_command {
                true => question.answer(self.scene, Death::None)?,
                false => match self.daemon.answer(&question) {
                    Ok(code) => (code == 200, format!("status {code}")),
                    Err(error) => (false, error.to_string()),
                },
            };
            if !taken {
                self.ledger.counts.unheard += 1;
                return match self.is_dead() {
                    true => Ok(false),
                    false => Err(format!("{question:?} is not taken: {why}")),
                };
            }
            let word = question.word();
            self.ledger.acknowledged.insert(question.call, word);
        }
        Ok(true)
    }

    /// Whether the daemon dies: it may take a moment to be gone.
    fn is_dead(&self) -> bool {
        let process = self.daemon.child.id().to_string();
        let deadline = Instant::now() + DYING;
        while is_alive(&process) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        !is_alive(&process)
    }
}

/// The client knows the journal: each event, in order, once.
fn received_once(received: &[ReceivedEvent], ledger: &Ledger) -> Result<(), String> {
    let journal = ledger.journal.events.iter();
    let expected = journal.zip(1..).map(|(event, seq)| ReceivedEvent {
        seq,
        kind: event.fact.name().to_owned(),
        text: event.fact.to_string(),
    });
    // What comes after the end of the turn, it did not wait for.
    let expected: Vec<ReceivedEvent> = expected.take(received.len()).collect();
    match received == expected
        && received
            .last()
            .is_some_and(|received| received.kind == "turn_ended")
    {
        true => Ok(()),
        false => Err(format!(
            "the client received {} events that differ from those of the journal",
            received.len()
        )),
    }
}
