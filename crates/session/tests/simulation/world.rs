//! The shell around a machine: a journal, workers, a clock and clients, all of them fakes driven
//! by one generator.

mod effects;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use unisono_context::message::{NewMessage, Role};
use unisono_context::{Digest, MessageId, Ordinal, RunId, Timestamp, Tokens, TurnId};
use unisono_session::assignment::ToolJob;
use unisono_session::budget::{Ask, Verdict};
use unisono_session::event::{Event, HookReply, PinnedBy, RequestKey};
use unisono_session::machine::{AttemptEnd, NewTurn, Preceding, Reaction};
use unisono_session::run::calls::{Calling, Decision, Output, Status};
use unisono_session::run::{Cause, Delegation, ToolResult};
use unisono_session::{Effect, Input, Machine, Outbox, Refusal, State};

use crate::agents::{Agent, Kind, Move};
use crate::fakes;
use crate::journal::Journal;
use crate::ledger::{self, Ledger};
use crate::rng::Rng;
use crate::scenario::{Call, Scenario};

/// Schedules end long before.
const STEPS_MAX: usize = 20_000;

/// When a session goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    Never,
    /// As soon as that many events are written, with exactly those.
    AtEvent(usize),
    /// At that step of the schedule, somewhere in what is not synced.
    AtStep(usize),
}

/// Who is to go next, where more than one can.
#[derive(Clone, Debug)]
pub enum Order {
    Random,
    /// Everything at once, delegates answer in this order.
    Delegates(Vec<usize>),
}

/// Something under way; gone after a crash.
#[derive(Clone)]
enum Task {
    /// An answer that is on its way.
    Answer(Input),
    Agent(Agent),
    /// Waits for what came of a round; once all of it has ended, for that to be on disk.
    Waiting {
        agent: Agent,
        run: RunId,
        round: u32,
        kind: Kind,
        ended: Option<usize>,
    },
    /// A call that is on its way to its tool.
    Tool(ToolJob),
    /// Would ask its model: reserved with so many events; none: not yet.
    Asking {
        agent: Agent,
        ask: Ask,
        granted: Option<usize>,
    },
    /// Never answers by itself.
    Hung(Agent),
    Wake(Timestamp),
}

/// A clone goes on as the original would.
#[derive(Clone)]
pub struct World {
    rng: Rng,
    order: Order,
    clock: Timestamp,
    trouble: usize,
    machine: Machine,
    outbox: Outbox,
    pub journal: Journal,
    /// The fold of the journal, event by event.
    folded: State,
    ledger: Ledger,
    tasks: Vec<Task>,
    calls: VecDeque<Call>,
    /// Taken, to be acknowledged when the journal is on disk up to there.
    unacknowledged: VecDeque<(usize, Call)>,
    crash: Crash,
    pub steps: usize,
}

/// A journal's length after each step.
pub type Lengths = Vec<usize>;

impl World {
    pub fn new(scenario: Scenario, rng: Rng, order: Order) -> World {
        World {
            rng,
            order,
            clock: Timestamp(1_000_000),
            trouble: scenario.trouble,
            machine: Machine::new(),
            outbox: Outbox::new(0),
            journal: Journal::default(),
            folded: State::default(),
            ledger: Ledger::default(),
            tasks: Vec::new(),
            calls: scenario.calls.into(),
            unacknowledged: VecDeque::new(),
            crash: Crash::Never,
            steps: 0,
        }
    }

    /// Goes on until nothing is left to do.
    pub fn run(&mut self) -> Lengths {
        let mut lengths = Vec::new();
        while self.go_on() {
            lengths.push(self.journal.len());
        }
        assert!(self.calls.is_empty() && self.tasks.is_empty());
        ledger::complete(self.journal.events(), self.machine.state());
        ledger::same(self.machine.state(), &self.folded);
        lengths
    }

    /// The same with a crash that is still to come.
    pub fn crashed(&self, crash: Crash) -> World {
        let mut world = self.clone();
        world.crash = crash;
        world
    }

    /// Takes a step, and goes down where that is the time for it; false if nothing is left to do.
    pub fn go_on(&mut self) -> bool {
        if !self.step() {
            return false;
        }
        self.steps += 1;
        assert!(
            self.steps < STEPS_MAX,
            "no end: {:?}",
            ledger::phase(self.machine.state())
        );
        match self.crash {
            Crash::AtEvent(kept) if kept <= self.journal.len() => self.go_down(kept),
            Crash::AtStep(step) if step <= self.steps => {
                let unsynced = self.journal.len() - self.journal.durable();
                let kept = self.journal.durable() + self.rng.below(unsynced + 1);
                self.go_down(kept);
            }
            _ => {}
        }
        true
    }

    fn step(&mut self) -> bool {
        self.time_passes();
        let unsynced = self.journal.durable() < self.journal.len();
        self.notice_endings();
        if let Order::Delegates(_) = self.order {
            return self.step_in_order(unsynced);
        }
        let durable = self.journal.durable();
        let active = |task: &Task| is_active(task, durable) && !self.waits(task);
        let tasks: Vec<usize> = (0..self.tasks.len())
            .filter(|at| active(&self.tasks[*at]))
            .collect();
        let asked = self.machine.state().waiting_calls().next().is_some();
        let calls = !self.calls.is_empty();
        let choices =
            tasks.len() + usize::from(unsynced) * 2 + usize::from(calls) + usize::from(asked);
        if choices == 0 {
            return self.give_up_on_one();
        }
        let choice = self.rng.below(choices);
        if let Some(task) = tasks.get(choice) {
            let task = self.tasks.swap_remove(*task);
            self.work(task);
        } else if unsynced && choice < tasks.len() + 2 {
            let unsynced = self.journal.len() - self.journal.durable();
            let events = 1 + self.rng.below(unsynced);
            self.sync(events);
        } else if calls && choice < choices - usize::from(asked) {
            self.call();
        } else {
            self.decide();
        }
        true
    }

    /// A person decides about one of the calls that wait for them.
    fn decide(&mut self) {
        let waiting: Vec<_> = self.machine.state().waiting_calls().collect();
        let waiting = &waiting[self.rng.below(waiting.len())];
        let decision = match (&waiting.call.status, self.rng.below(3)) {
            (Status::Held, 0) => Decision::Denied { reason: None },
            (Status::Held, _) => Decision::Approved,
            (_, 0) => Decision::Done {
                text: "done".into(),
            },
            (_, 1) => Decision::Failed {
                text: "failed".into(),
            },
            _ => Decision::Repeat,
        };
        let call = waiting.id;
        let input = Input::Decide {
            call,
            decision,
            by: None,
        };
        self.feed(input.clone());
        let again = self.try_feed(input);
        assert!(again.is_err(), "one decision a question");
    }

    fn step_in_order(&mut self, unsynced: bool) -> bool {
        if unsynced {
            self.sync(usize::MAX);
            return true;
        }
        let Order::Delegates(order) = &self.order else {
            return false;
        };
        let rank = |task: &Task| match task {
            Task::Agent(agent) => 1 + agent.delegate().map_or(0, |d| order[d as usize]),
            _ => 0,
        };
        let durable = self.journal.durable();
        let active = (0..self.tasks.len())
            .filter(|at| is_active(&self.tasks[*at], durable) && !self.waits(&self.tasks[*at]));
        match active.min_by_key(|at| rank(&self.tasks[*at])) {
            Some(task) => {
                let task = self.tasks.remove(task);
                self.work(task);
            }
            None if !self.calls.is_empty() => self.call(),
            None if self.machine.state().waiting_calls().next().is_some() => self.decide(),
            None => return false,
        }
        true
    }

    /// Rounds that have ended since, with how much of the journal must be on disk to say so.
    fn notice_endings(&mut self) {
        let (state, seq) = (self.machine.state(), self.journal.len());
        for task in &mut self.tasks {
            if let Task::Waiting {
                run,
                round,
                kind,
                ended,
                ..
            } = task
                && came_back(state, *run, *round, *kind).is_some()
            {
                ended.get_or_insert(seq);
            }
        }
    }

    /// Whether a call waits for others that are under way.
    fn waits(&self, task: &Task) -> bool {
        let Task::Asking {
            agent,
            ask,
            granted: None,
        } = task
        else {
            return false;
        };
        matches!(self.afford(agent, ask), Some(Verdict::Waits(_)))
    }

    fn afford(&self, agent: &Agent, ask: &Ask) -> Option<Verdict> {
        let waiting = self.tasks.iter().filter_map(|task| match task {
            Task::Asking {
                agent,
                granted: None,
                ..
            } => Some(agent.assignment.run),
            _ => None,
        });
        let waiting: BTreeSet<RunId> = waiting.collect();
        let waits = |run| waiting.contains(&run);
        let of = (agent.assignment.run, agent.assignment.attempt);
        self.machine.state().afford(of, ask, waits, self.clock)
    }

    fn asks(&mut self, mut agent: Agent, mut ask: Ask) {
        let (run, attempt) = (agent.assignment.run, agent.assignment.attempt);
        match self.afford(&agent, &ask) {
            Some(Verdict::Granted(reservation)) => {
                ask.short = reservation.wrap_up;
                let input = Input::Reserve {
                    run,
                    attempt,
                    ask: ask.clone(),
                };
                self.tasks.push(Task::Asking {
                    agent,
                    ask,
                    granted: None,
                });
                let at = self.tasks.len() - 1;
                self.feed(input);
                let written = self.journal.len();
                if let Some(Task::Asking { granted, .. }) = self.tasks.get_mut(at) {
                    *granted = Some(written);
                }
            }
            Some(Verdict::Waits(_)) => self.tasks.push(Task::Asking {
                agent,
                ask,
                granted: None,
            }),
            Some(Verdict::Refused(_)) => {
                agent.refused();
                self.tasks.push(Task::Agent(agent));
            }
            // Its attempt is not under way any more.
            None => {}
        }
    }

    fn time_passes(&mut self) {
        let ms = self.rng.below(40) as i64;
        self.clock = self.clock.plus_ms(ms);
        if self.trouble > 0 && self.rng.percent(2) {
            let back = self.rng.below(90_000) as i64;
            self.clock = self.clock.plus_ms(-back);
        }
    }

    /// Somebody loses patience with an agent that never answers: its deadline or its person.
    fn give_up_on_one(&mut self) -> bool {
        if self.tasks.is_empty() {
            return false;
        }
        let hung = |task: &Task| matches!(task, Task::Hung(_));
        let hung: Vec<usize> = (0..self.tasks.len())
            .filter(|at| hung(&self.tasks[*at]))
            .collect();
        assert!(!hung.is_empty(), "somebody waits for nothing");
        let at = hung[self.rng.below(hung.len())];
        if let Task::Hung(agent) = self.tasks.swap_remove(at) {
            if self.rng.percent(50) {
                let (run, attempt) = (agent.assignment.run, agent.assignment.attempt);
                let end = AttemptEnd::failed(Cause::Timeout, "took too long");
                self.feed(Input::RunEnded { run, attempt, end });
            } else {
                let turn = agent.assignment.turn;
                self.tasks.push(Task::Hung(agent));
                self.calls.push_back(Call::Cancel(turn));
            }
        }
        true
    }

    fn sync(&mut self, events: usize) {
        let before = self.journal.durable();
        self.journal.sync(before.saturating_add(events));
        let durable = self.journal.durable();
        self.ledger
            .committed(&self.journal.events()[before..durable]);
        while let Some((seq, call)) = self.unacknowledged.pop_front() {
            if seq > durable {
                self.unacknowledged.push_front((seq, call));
                break;
            }
            if let Call::Accept(turn) = call {
                self.ledger.acknowledged.insert(turn.id);
            }
        }
        for effect in self.outbox.committed(durable as u64) {
            self.carry_out(effect);
        }
    }

    fn call(&mut self) {
        let Some(call) = self.calls.pop_front() else {
            return;
        };
        let input = match call.clone() {
            Call::Import(import) => Input::Import(*import),
            // Some are asked for under a key.
            Call::Accept(turn) if turn.id.as_u128() % 2 == 0 => Input::AcceptKeyed {
                key: RequestKey {
                    name: turn.id.to_string().into(),
                    request: Digest::of_bytes(turn.branch.as_bytes()),
                },
                turn,
            },
            // Others behind what was said elsewhere, where the branch is at rest.
            Call::Accept(turn) if turn.id.as_u128() % 3 == 0 && self.rests(&turn.branch) => {
                Input::AcceptAfter {
                    preceding: self.preceding(&turn),
                    key: None,
                    turn,
                }
            }
            Call::Accept(turn) => Input::Accept(turn),
            Call::Cancel(turn) => Input::Cancel { turn },
            Call::Fork { branch, at } => Input::Fork { branch, at },
            Call::Pin {
                branch,
                message,
                pinned,
            } => Input::Pin {
                branch,
                messages: vec![message],
                pinned,
            },
            Call::Seal(branch) => Input::Seal { branch },
            Call::Append(new) => Input::Append(*new),
            Call::Set(key, value) => Input::Set {
                changes: [(key, value)].into(),
            },
        };
        let before = self.journal.len();
        match self.try_feed(input) {
            // Nothing was decided: refused, or known since before.
            Ok(()) if before == self.journal.len() => {}
            // The answer is given when all is on disk; a crash takes it back.
            Ok(()) => {
                let seq = self.journal.len();
                self.unacknowledged.push_back((seq, call));
            }
            Err(
                Refusal::BranchBusy(_)
                | Refusal::UnknownTurn(_)
                | Refusal::UnknownBranch(_)
                | Refusal::NotOnBranch { .. }
                | Refusal::NotActive(_)
                | Refusal::NothingToSeal { .. },
            ) => {}
            Err(refusal) => panic!("refused: {refusal}"),
        }
    }

    fn rests(&self, branch: &str) -> bool {
        let mut open = self.machine.state().open_turns();
        !open.any(|turn| &*turn.accepted.branch == branch)
    }

    fn preceding(&self, turn: &NewTurn) -> Preceding {
        // Who asks again after a crash compares again, and makes new ids.
        let asked = (self.journal.len() as u128) << 16;
        let id = MessageId::from_u128(turn.id.as_u128() ^ 0xfeed_0000_0000 ^ asked);
        let text = "what was said elsewhere";
        Preceding {
            head: self.machine.state().tree().head(&turn.branch),
            messages: vec![NewMessage::text(id, Role::User, text, Timestamp(0))],
        }
    }

    fn feed(&mut self, input: Input) {
        self.try_feed(input).expect("answers are never refused");
    }

    fn try_feed(&mut self, input: Input) -> Result<(), Refusal> {
        let reaction = self.machine.handle(input, self.clock)?;
        self.absorb(reaction);
        Ok(())
    }

    fn absorb(&mut self, reaction: Reaction) {
        for event in reaction.events {
            self.folded.apply(&event).expect("a decided event folds");
            self.ledger
                .decided(self.journal.len(), &event, &self.folded);
            let bytes = 20 + self.rng.below(200);
            self.journal.push(event, bytes);
        }
        ledger::same_work(self.machine.state(), &self.folded);
        ledger::no_orphans(self.machine.state());
        self.ledger.within_budgets(self.machine.state());
        if matches!(self.crash, Crash::AtEvent(kept) if kept <= self.journal.len()) {
            // What was taken but not answered is asked for again, this call included.
            return;
        }
        let seq = self.journal.len() as u64;
        for effect in self.outbox.put(seq, reaction.effects) {
            self.carry_out(effect);
        }
    }

    fn work(&mut self, task: Task) {
        match task {
            Task::Answer(input) => self.feed(input),
            Task::Hung(_) => {}
            Task::Wake(at) => {
                if self.rng.percent(80) {
                    self.clock = self.clock.max(at);
                }
                self.feed(Input::Tick);
            }
            Task::Agent(agent) => self.goes_on(agent),
            // Made now; the answer may be lost on its way.
            Task::Tool(job) => {
                self.ledger.made(&job);
                let output = Output {
                    content: format!("what {} says", job.tool).into(),
                    is_error: self.rng.percent(self.trouble),
                };
                let call = job.place;
                let answer = Input::ToolEnded { call, output };
                self.tasks.push(Task::Answer(answer));
            }
            Task::Asking {
                agent,
                ask,
                granted: None,
            } => self.asks(agent, ask),
            Task::Asking { mut agent, ask, .. } => {
                let tree = self.machine.state().budget();
                let reserved = tree.reserved(agent.assignment.run, ask.call);
                agent.may_ask(reserved.is_some_and(|of| of.wrap_up.is_some()));
                self.tasks.push(Task::Agent(agent));
            }
            Task::Waiting {
                mut agent,
                run,
                round,
                kind,
                ..
            } => {
                let results = came_back(self.machine.state(), run, round, kind);
                // A run that ended waits for nothing.
                let Some(results) = results else { return };
                let durable = self.journal.durable();
                match kind {
                    Kind::Tasks => self.ledger.told(run, round, &results, durable),
                    Kind::Calls => self.ledger.answered(run, round, &results, durable),
                }
                let input = agent.told(results);
                self.tasks.push(Task::Agent(agent));
                self.feed(input);
            }
        }
    }

    fn goes_on(&mut self, mut agent: Agent) {
        match agent.next() {
            Move::Tell(input) => {
                self.tasks.push(Task::Agent(agent));
                self.feed(input);
            }
            // A late worker of a run that has ended is told nothing.
            Move::Await(run, round, kind) => {
                let state = self.machine.state();
                let known = match kind {
                    Kind::Tasks => state.delegation(run, round) != Delegation::Unknown,
                    Kind::Calls => state.calling(run, round) != Calling::Unknown,
                };
                let open = state.run(run).is_some_and(|run| run.is_open());
                if known && open {
                    self.tasks.push(Task::Waiting {
                        agent,
                        run,
                        round,
                        kind,
                        ended: None,
                    });
                }
            }
            Move::Ask(ask) => self.asks(agent, ask),
            Move::Done => {}
        }
    }

    /// Goes down with the first `kept` events and a piece of the next one on disk, comes back
    /// and goes on. Sometimes it goes down again.
    fn go_down(&mut self, kept: usize) {
        let (start, next) = self.journal.record_at(kept.max(self.journal.durable()));
        let torn = if next == 0 { 0 } else { self.rng.below(next) };
        let synced = self.journal.durable();
        let lost: Vec<Event> = self.journal.cut(start + torn);
        let kept = self.journal.len();
        self.ledger.committed(&self.journal.events()[synced..]);
        self.ledger.crashed(self.journal.events(), &lost);
        self.tasks.clear();
        while let Some((_, call)) = self.unacknowledged.pop_back() {
            self.calls.push_front(call);
        }
        self.crash = if self.rng.percent(25) {
            Crash::AtStep(self.steps + self.rng.below(40))
        } else {
            Crash::Never
        };
        self.folded = State::from_events(self.journal.events()).expect("the journal folds");
        self.outbox = Outbox::new(kept as u64);
        let (machine, reaction) =
            Machine::recover(self.journal.events(), self.clock).expect("the journal folds");
        self.machine = machine;
        self.ledger.recovered(self.machine.state());
        self.absorb(reaction);
        ledger::same(self.machine.state(), &self.folded);
    }
}

fn is_active(task: &Task, durable: usize) -> bool {
    match task {
        Task::Hung(_) => false,
        Task::Waiting { ended, .. } => ended.is_some_and(|seq| seq <= durable),
        Task::Asking { granted, .. } => granted.is_none_or(|seq| seq <= durable),
        Task::Answer(_) | Task::Agent(_) | Task::Tool(_) | Task::Wake(_) => true,
    }
}

/// What a round came back with, once all of it has.
fn came_back(state: &State, run: RunId, round: u32, kind: Kind) -> Option<Vec<ToolResult>> {
    match kind {
        Kind::Tasks => match state.delegation(run, round) {
            Delegation::Ended(results) => Some(results),
            Delegation::Unknown | Delegation::UnderWay => None,
        },
        Kind::Calls => match state.calling(run, round) {
            Calling::Ended(results) => Some(results),
            Calling::Unknown | Calling::UnderWay { .. } => None,
        },
    }
}

/// Shows how far a failing schedule came.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("UNISONO_SIM_SEED").is_some() {
            for (index, event) in self.journal.events().iter().enumerate() {
                eprintln!("{index} {} {}", event.at.0, event.fact);
            }
            let (durable, phase) = (self.journal.durable(), ledger::phase(self.machine.state()));
            eprintln!("{durable} events on disk; {phase:?}");
        }
    }
}
