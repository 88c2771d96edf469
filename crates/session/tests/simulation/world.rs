//! The shell around a machine: a journal, workers, a clock and clients, all of them fakes driven by
//! one generator.

mod effects;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use unisono_context::message::{NewMessage, Role};
use unisono_context::{Digest, MessageId, Ordinal, RunId, Timestamp, Tokens, TurnId};
use unisono_session::assignment::ToolJob;
use unisono_session::budget::{ReservationRequest, Verdict};
use unisono_session::event::{Event, HookReply, MessageReference, RequestKey};
use unisono_session::machine::{AttemptEnd, NewTurn, PrecedingMessages, Reaction};
use unisono_session::run::calls::{CallDecision, CallOutput, CallRoundStatus, CallStatus};
use unisono_session::run::{DelegationStatus, RunCause, ToolResult};
use unisono_session::{Effect, Input, Machine, Outbox, Refusal, State};

use crate::agents::{Agent, AgentMove, RoundKind};
use crate::fakes;
use crate::journal::Journal;
use crate::ledger::{self, Ledger};
use crate::rng::Rng;
use crate::scenario::{Call, Scenario};

/// Schedules end long before this.
const STEPS_MAX: usize = 20_000;

/// The point at which a session crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    Never,
    /// As soon as this number of events is written, with exactly these events.
    AtEvent(usize),
    /// At this step of the schedule, somewhere in the unsynced part.
    AtStep(usize),
}

/// The next actor, if there are several.
#[derive(Clone, Debug)]
pub enum Order {
    Random,
    /// All at once; delegates answer in this order.
    Delegates(Vec<usize>),
}

/// Work in progress, lost in a crash.
#[derive(Clone)]
enum Task {
    Answer(Input),
    Agent(Agent),
    /// Waits for the results of a round; after its end, until that is on disk.
    Waiting {
        agent: Agent,
        run: RunId,
        round: u32,
        kind: RoundKind,
        ended: Option<usize>,
    },
    /// A call in transit to its tool.
    Tool(ToolJob),
    /// Waits for a reservation; the number of events with it, or none.
    Asking {
        agent: Agent,
        ask: ReservationRequest,
        granted: Option<usize>,
    },
    /// Never answers by itself.
    Hung(Agent),
    Wake(Timestamp),
}

/// A clone continues like the original.
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
    /// Accepted requests, to be acknowledged when the journal is on disk up to this number.
    unacknowledged: VecDeque<(usize, Call)>,
    crash: Crash,
    pub steps: usize,
}

/// The length of the journal after each step.
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

    /// Runs until no work is left.
    pub fn run(&mut self) -> Lengths {
        let mut lengths = Vec::new();
        while self.advance() {
            lengths.push(self.journal.len());
        }
        assert!(self.calls.is_empty() && self.tasks.is_empty());
        ledger::complete(self.journal.events(), self.machine.state());
        ledger::same(self.machine.state(), &self.folded);
        lengths
    }

    /// The same with a later crash.
    pub fn crashed(&self, crash: Crash) -> World {
        let mut world = self.clone();
        world.crash = crash;
        world
    }

    /// Takes a step, and crashes if it is time; false if no work is left.
    pub fn advance(&mut self) -> bool {
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

    /// A person decides one of the waiting calls.
    fn decide(&mut self) {
        let waiting: Vec<_> = self.machine.state().waiting_calls().collect();
        let waiting = &waiting[self.rng.below(waiting.len())];
        let decision = match (&waiting.call.status, self.rng.below(3)) {
            (CallStatus::AwaitingApproval, 0) => CallDecision::Denied { reason: None },
            (CallStatus::AwaitingApproval, _) => CallDecision::Approved,
            (_, 0) => CallDecision::Done {
                text: "done".into(),
            },
            (_, 1) => CallDecision::Failed {
                text: "failed".into(),
            },
            _ => CallDecision::Repeat,
        };
        let (place, call) = (waiting.place, waiting.id);
        let attempt = self.machine.state().run(place.run).unwrap().attempt;
        self.feed(Input::WithdrawPermissions {
            run: place.run,
            attempt,
            round: place.round,
        });
        // Another turn may have used up its time meanwhile.
        let still = self
            .machine
            .state()
            .waiting_calls()
            .any(|one| one.id == call);
        assert!(still, "no agent asked for permission");
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

    /// Rounds that have ended since, with the length of the journal that must be on disk before the
    /// results are given.
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
                && round_results(state, *run, *round, *kind).is_some()
            {
                ended.get_or_insert(seq);
            }
        }
    }

    /// Whether a call waits for other calls in progress.
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

    fn afford(&self, agent: &Agent, ask: &ReservationRequest) -> Option<Verdict> {
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

    fn asks(&mut self, mut agent: Agent, mut ask: ReservationRequest) {
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
            // Its attempt is no longer in progress.
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

    /// Ends an agent that never answers: by its deadline or a person.
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
                let end = AttemptEnd::failed(RunCause::Timeout, "took too long");
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
            // Some requests have a key.
            Call::Accept(turn) if turn.id.as_u128() % 2 == 0 => Input::AcceptKeyed {
                key: RequestKey::new(
                    turn.id.to_string(),
                    Digest::of_bytes(turn.branch.as_bytes()),
                ),
                turn,
            },
            // Others come with preceding messages, if no turn is open on the branch.
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
            // Nothing was decided: refused, or already known.
            Ok(()) if before == self.journal.len() => {}
            // The answer is given when all is on disk; a crash revokes it.
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

    fn preceding(&self, turn: &NewTurn) -> PrecedingMessages {
        // A client that repeats the request after a crash compares again, and creates new ids.
        let asked = (self.journal.len() as u128) << 16;
        let id = MessageId::from_u128(turn.id.as_u128() ^ 0xfeed_0000_0000 ^ asked);
        let text = "what was said elsewhere";
        PrecedingMessages {
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
        ledger::same_open_work(self.machine.state(), &self.folded);
        ledger::no_orphans(self.machine.state());
        self.ledger.within_budgets(self.machine.state());
        if matches!(self.crash, Crash::AtEvent(kept) if kept <= self.journal.len()) {
            // Unanswered requests are repeated, this call included.
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
            // Made now; the answer may be lost in transit.
            // The server answers with a task, which is polled later, also after a crash.
            Task::Tool(mut job) if job.task.is_none() && self.rng.percent(25) => {
                self.ledger.call_made(&job);
                let task: Arc<str> = format!("task of {}", job.id).into();
                let call = job.place;
                let told = task.clone();
                self.tasks
                    .push(Task::Answer(Input::ToolTask { call, task: told }));
                job.task = Some(task);
                self.tasks.push(Task::Tool(job));
            }
            Task::Tool(job)
                if job.task.is_some()
                    && !job.contract.is_repeatable()
                    && self.rng.percent(self.trouble) =>
            {
                let call = job.place;
                self.tasks.push(Task::Answer(Input::ToolTaskLost { call }));
            }
            Task::Tool(job) => {
                if job.task.is_none() {
                    self.ledger.call_made(&job);
                }
                let output = CallOutput::text(
                    format!("what {} says", job.tool),
                    self.rng.percent(self.trouble),
                );
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
                let results = round_results(self.machine.state(), run, round, kind);
                // An ended run waits for nothing.
                let Some(results) = results else { return };
                let durable = self.journal.durable();
                match kind {
                    RoundKind::Tasks => self.ledger.round_delivered(run, round, &results, durable),
                    RoundKind::Calls => self.ledger.calls_delivered(run, round, &results, durable),
                }
                let input = agent.take_results(results);
                self.tasks.push(Task::Agent(agent));
                self.feed(input);
            }
        }
    }

    fn goes_on(&mut self, mut agent: Agent) {
        match agent.next_move() {
            AgentMove::Send(input) => {
                self.tasks.push(Task::Agent(agent));
                self.feed(input);
            }
            // A late worker of an ended run gets nothing.
            AgentMove::Await(run, round, kind) => {
                let state = self.machine.state();
                let known = match kind {
                    RoundKind::Tasks => {
                        state.delegation_status(run, round) != DelegationStatus::Unknown
                    }
                    RoundKind::Calls => {
                        state.call_round_status(run, round) != CallRoundStatus::Unknown
                    }
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
            AgentMove::Ask(ask) => self.asks(agent, ask),
            AgentMove::Done => {}
        }
    }

    /// Crashes with the first `kept` events and a part of the next one on disk, recovers and
    /// continues. Sometimes it crashes again.
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

/// The results of a round, once it has ended.
fn round_results(
    state: &State,
    run: RunId,
    round: u32,
    kind: RoundKind,
) -> Option<Vec<ToolResult>> {
    match kind {
        RoundKind::Tasks => match state.delegation_status(run, round) {
            DelegationStatus::Ended(results) => Some(results),
            DelegationStatus::Unknown | DelegationStatus::InProgress => None,
        },
        RoundKind::Calls => match state.call_round_status(run, round) {
            CallRoundStatus::Ended(results) => Some(results),
            CallRoundStatus::Unknown | CallRoundStatus::InProgress { .. } => None,
        },
    }
}

/// Prints the progress of a failing schedule.
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
