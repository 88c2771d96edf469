//! The history of turns and runs, ended ones included, folded from the events of a journal, for
//! display. A live session keeps only open turns.

mod answered;
mod charge;
mod compaction;
mod run_event;
mod timeline;

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::compaction::Plan;
use unisono_context::{Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use crate::agent::Definition;
use crate::event::{
    AcceptedTurn, DelegatedCall, Event, Fact, LateOutput, OpenedRun, Outcome, RunRole,
};
use crate::run::{Ending, Step, Usage};
use crate::summary_usage::SummaryUsage;

pub use answered::AnsweredCalls;
pub use charge::Charge;
pub use compaction::{CompactionEffect, CompactionTrace};
use run_event::LastHooks;
pub use run_event::{DecidedCall, RecordedDecision, RunEvent, decisions};
pub use timeline::{Activity, RunTimes, Span, run_times, waited_ms};

/// The time and the number of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of the event in its session, from 1.
    pub seq: u64,
    /// The time.
    pub at: Timestamp,
}

/// A turn from its acceptance to its end.
#[derive(Clone, Debug)]
pub struct TurnTrace {
    /// The accepted turn.
    pub accepted: (Moment, AcceptedTurn),
    /// The time at which its input was appended.
    pub started: Option<Moment>,
    /// The last time at which a call did not wait for a person any more: a call of the turn or,
    /// before the turn started, of any turn.
    pub resumed: Option<Moment>,
    /// The planned compaction steps.
    pub plans: Vec<(Moment, Plan)>,
    /// The numbers of the checkpoints that they made.
    pub checkpoints: Vec<u32>,
    /// The effect of its compaction; none if nothing was planned.
    pub compacted: Option<CompactionTrace>,
    /// The usage of its requests for summaries, also of one that was written ahead after it.
    pub summaries: SummaryUsage,
    /// Whether a summary is being written ahead after it.
    pub is_preparing: bool,
    /// The frozen context.
    pub frozen: Option<(Moment, SnapshotId)>,
    /// Its runs in the order in which they were opened.
    pub runs: Vec<RunId>,
    /// Its outcome.
    pub ended: Option<(Moment, Outcome)>,
}

/// A run from its opening to its end.
#[derive(Clone, Debug)]
pub struct RunTrace {
    /// Its input.
    pub opened: (Moment, OpenedRun),
    /// Its definition.
    pub definition: Option<Arc<Definition>>,
    /// Its stage in a pipeline, from 1.
    pub stage: Option<u32>,
    /// Its finished steps.
    pub steps: Vec<(Moment, Arc<Step>)>,
    /// Its later attempts: the number, and the reason of the previous failure.
    pub retries: Vec<(Moment, u32, Arc<str>)>,
    /// The earliest time of its newest attempt; none: it is the first one.
    pub not_before: Option<Timestamp>,
    /// Events other than its steps, oldest first.
    pub events: Vec<(Moment, RunEvent)>,
    /// Its ending.
    pub ended: Option<(Moment, Arc<Ending>)>,
    /// Its output after it was cancelled.
    pub late: Vec<(Moment, LateOutput)>,
    /// The amount that budgets count for it.
    pub charge: Charge,
    /// The number of open runs to which it delegated.
    open_children: u32,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunStatus {
    /// It is in progress, or will be as soon as the session is live.
    Running,
    /// It waits for its delegates, or for the decision of a person.
    Waiting,
    /// It has an answer.
    Done,
    /// It has a partial answer.
    Partial,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

unisono_context::names!(RunStatus {
    Running = "running",
    Waiting = "waiting",
    Done = "done",
    Partial = "partial",
    Failed = "failed",
    Cancelled = "cancelled",
});

impl RunStatus {
    /// Whether a run with this status is open.
    pub const fn is_open(self) -> bool {
        matches!(self, RunStatus::Running | RunStatus::Waiting)
    }
}

impl RunTrace {
    /// Its status.
    pub fn status(&self) -> RunStatus {
        match self.ended.as_ref().map(|(_, ending)| &**ending) {
            None if self.waits_for().is_some() => RunStatus::Waiting,
            None => RunStatus::Running,
            Some(Ending::Finished { partial: None, .. }) => RunStatus::Done,
            Some(Ending::Finished { .. }) => RunStatus::Partial,
            Some(Ending::Failed { .. }) => RunStatus::Failed,
            Some(Ending::Cancelled) => RunStatus::Cancelled,
        }
    }

    /// What an open run waits for: the decision of a person, otherwise its delegates.
    pub fn waits_for(&self) -> Option<Activity> {
        if self.ended.is_some() {
            return None;
        }
        match timeline::has_undecided(self) {
            true => Some(Activity::Person),
            false => (self.open_children > 0).then_some(Activity::Delegates),
        }
    }

    /// Its usage: that of its late answer, otherwise that of its answer or its recorded replies, and
    /// of its late replies.
    pub fn usage(&self) -> Usage {
        let answered = self.late.iter().find_map(|(_, late)| match late {
            LateOutput::Answer { usage, .. } => Some(*usage),
            _ => None,
        });
        if let Some(usage) = answered {
            return usage;
        }
        let recorded = match self.ended.as_ref().map(|(_, ending)| &**ending) {
            Some(Ending::Finished { usage, .. }) => *usage,
            _ => {
                let steps = self.steps.iter().map(|(_, step)| step.usage());
                steps.fold(Usage::NONE, |sum, usage| sum + usage)
            }
        };
        let late = self.late.iter().filter_map(|(_, late)| match late {
            LateOutput::Reply(reply) => Some(reply.usage),
            LateOutput::Spent(spent) => Some(spent.usage),
            _ => None,
        });
        late.fold(recorded, |sum, usage| sum + usage)
    }

    /// The current or last attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.retries.last().map_or(1, |(_, attempt, _)| *attempt)
    }
}

/// The turns and runs of a session.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    seq: u64,
    definitions: BTreeMap<Digest, Arc<Definition>>,
    turns: BTreeMap<TurnId, TurnTrace>,
    runs: BTreeMap<RunId, RunTrace>,
    /// Delegated tasks, by run and round.
    rounds: BTreeMap<(RunId, u32), Vec<DelegatedCall>>,
    answered: AnsweredCalls,
    last_hooks: LastHooks,
}

impl Trace {
    /// A trace that begins after the event with this number, with the definitions that the session
    /// had then.
    pub fn after(
        seq: u64,
        definitions: impl IntoIterator<Item = (Digest, Arc<Definition>)>,
    ) -> Trace {
        Trace {
            seq,
            definitions: definitions.into_iter().collect(),
            ..Trace::default()
        }
    }

    /// Takes the next event of the session.
    pub fn take(&mut self, event: &Event) {
        self.seq += 1;
        let now = Moment {
            seq: self.seq,
            at: event.at,
        };
        if let Some((run, results)) = self.answered.take(&event.fact)
            && let Some(run) = self.runs.get_mut(&run)
        {
            run.steps.push((now, Arc::new(Step::Tools(results))));
        }
        if let Some(run) = event.fact.run()
            && let Some(run) = self.runs.get_mut(&run)
        {
            run.charge.take(&event.fact);
        }
        if let Some(run) = self.resumed_run(&event.fact) {
            self.resume(run, now);
        }
        let asked = self.last_hooks.take(&event.fact);
        let asked = asked.map(|call| (call.run, RunEvent::AwaitsPerson(call)));
        for (run, run_event) in RunEvent::of_fact(&event.fact).into_iter().chain(asked) {
            if let Some(run) = self.runs.get_mut(&run) {
                run.events.push((now, run_event));
            }
        }
        match &event.fact {
            Fact::Defined { definition } => {
                let digest = definition.digest();
                self.definitions.insert(digest, definition.clone());
            }
            Fact::Delegated { run, round, calls } => {
                self.rounds.insert((*run, *round), calls.clone());
            }
            fact => {
                self.of_turn(fact, now);
                self.of_run(fact, now);
            }
        }
    }

    /// The run of a call that does not wait for a person after a fact.
    fn resumed_run(&self, fact: &Fact) -> Option<RunId> {
        match fact {
            Fact::ToolDecided { call, .. } => Some(call.run),
            Fact::ToolEnded { call, .. } => {
                let run = self.runs.get(&call.run)?;
                timeline::is_undecided(run, *call).then_some(call.run)
            }
            Fact::RunEnded { run, .. } => {
                timeline::has_undecided(self.runs.get(run)?).then_some(*run)
            }
            _ => None,
        }
    }

    fn resume(&mut self, run: RunId, now: Moment) {
        let own = self.runs.get(&run).map(|run| run.opened.1.turn);
        for (id, turn) in &mut self.turns {
            let waited = own == Some(*id) || turn.started.is_none();
            if waited && turn.ended.is_none() {
                turn.resumed = Some(now);
            }
        }
    }

    fn of_turn(&mut self, fact: &Fact, now: Moment) {
        if let Fact::TurnAccepted { turn } = fact {
            let accepted = TurnTrace {
                accepted: (now, (**turn).clone()),
                started: None,
                resumed: None,
                plans: Vec::new(),
                checkpoints: Vec::new(),
                compacted: None,
                summaries: SummaryUsage::default(),
                is_preparing: false,
                frozen: None,
                runs: Vec::new(),
                ended: None,
            };
            self.turns.insert(turn.id, accepted);
            return;
        }
        let Some(turn) = fact.turn().and_then(|turn| self.turns.get_mut(&turn)) else {
            return;
        };
        match fact {
            Fact::TurnStarted { .. } => turn.started = Some(now),
            Fact::CompactionPlanned { plan, .. } => turn.planned(now, plan),
            Fact::Compacted { checkpoint, .. } => turn.covered(checkpoint),
            Fact::Altered { alterations, .. } => turn.altered(alterations),
            Fact::SummariserUsed { model, usage, .. } => turn.summaries.replied(model, *usage),
            Fact::PreparationPlanned { .. } => turn.is_preparing = true,
            Fact::SummaryPrepared { summary, .. } => {
                turn.is_preparing = false;
                turn.summaries.written(summary.writer, &summary.model);
            }
            Fact::PreparationDropped { .. } => {
                turn.is_preparing = false;
                turn.summaries.failed();
            }
            Fact::CompactionFailed { .. } => {
                turn.summaries.failed();
                turn.carried_out(|_| Some((Tokens::ZERO, Tokens::ZERO)));
            }
            Fact::Frozen { snapshot, .. } => turn.frozen = Some((now, *snapshot)),
            Fact::TurnEnded { outcome, .. } => turn.ended(now, outcome),
            _ => {}
        }
    }

    fn of_run(&mut self, fact: &Fact, now: Moment) {
        match fact {
            Fact::RunOpened { run } => {
                if let Some(turn) = self.turns.get_mut(&run.turn) {
                    turn.runs.push(run.id);
                }
                let opened = RunTrace {
                    opened: (now, run.clone()),
                    definition: self.definitions.get(&run.definition).cloned(),
                    stage: self.stage(run),
                    steps: Vec::new(),
                    retries: Vec::new(),
                    not_before: None,
                    events: Vec::new(),
                    ended: None,
                    late: Vec::new(),
                    charge: Charge::default(),
                    open_children: 0,
                };
                self.runs.insert(run.id, opened);
                if let Some(parent) = self.parent_of(run.id) {
                    parent.open_children += 1;
                }
            }
            Fact::RunStepped { run, step } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.steps.push((now, step.clone()));
                }
            }
            Fact::RunRetried {
                run,
                attempt,
                reason,
                not_before,
            } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.not_before = Some(*not_before);
                    run.retries.push((now, *attempt, reason.clone()));
                }
            }
            Fact::RunEnded { run, ending } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.ended = Some((now, ending.clone()));
                }
                if let Some(parent) = self.parent_of(*run) {
                    parent.open_children = parent.open_children.saturating_sub(1);
                }
            }
            Fact::LateOutputReceived { run, late, .. } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.late.push((now, late.clone()));
                }
            }
            _ => {}
        }
    }

    /// The run that delegated the task of a run.
    fn parent_of(&mut self, run: RunId) -> Option<&mut RunTrace> {
        let parent = self.runs.get(&run)?.opened.1.role.parent()?;
        self.runs.get_mut(&parent)
    }

    /// The lead of a turn, also of one that ended before the run of its lead was opened.
    pub fn lead_of(&self, turn: &TurnTrace) -> Option<&Arc<Definition>> {
        self.definitions.get(&turn.accepted.1.lead)
    }

    /// The stage of a run in the pipeline of its turn's lead.
    fn stage(&self, run: &OpenedRun) -> Option<u32> {
        let RunRole::Delegate { index } = run.role else {
            return None;
        };
        let (_, turn) = &self.turns.get(&run.turn)?.accepted;
        let lead = self.definitions.get(&turn.lead)?;
        (!lead.pipeline.is_empty()).then_some(index + 1)
    }

    /// Its turns, oldest first.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = (TurnId, &TurnTrace)> {
        self.turns.iter().map(|(id, turn)| (*id, turn))
    }

    /// A turn.
    pub fn turn(&self, id: TurnId) -> Option<&TurnTrace> {
        self.turns.get(&id)
    }

    /// The usage of a turn: of its runs and of its requests for summaries.
    pub fn turn_usage(&self, turn: &TurnTrace) -> Usage {
        let runs = turn.runs.iter().filter_map(|run| self.runs.get(run));
        runs.fold(turn.summaries.total, |sum, run| sum + run.usage())
    }

    /// A run.
    pub fn run(&self, id: RunId) -> Option<&RunTrace> {
        self.runs.get(&id)
    }

    /// The runs of all turns, by turn and in the order in which they were opened.
    pub fn runs(&self) -> impl Iterator<Item = (RunId, &RunTrace)> {
        let ids = self.turns.values().flat_map(|turn| &turn.runs);
        ids.filter_map(|id| Some((*id, self.runs.get(id)?)))
    }

    /// The task of a run's agent.
    pub fn task(&self, run: RunId) -> Option<Arc<str>> {
        let (_, opened) = &self.runs.get(&run)?.opened;
        let (_, turn) = &self.turns.get(&opened.turn)?.accepted;
        self.own_task(run).or_else(|| turn.work.input_text())
    }

    /// The run's own task; none if it works on the turn's input.
    pub fn own_task(&self, run: RunId) -> Option<Arc<str>> {
        let (_, opened) = &self.runs.get(&run)?.opened;
        let (_, turn) = &self.turns.get(&opened.turn)?.accepted;
        match opened.role {
            RunRole::Lead => None,
            RunRole::Delegate { index } => turn.delegates.get(index as usize)?.1.clone(),
            RunRole::Child {
                parent,
                round,
                index,
            } => {
                let calls = self.rounds.get(&(parent, round))?;
                Some(calls.get(index as usize)?.task.clone())
            }
        }
    }
}
