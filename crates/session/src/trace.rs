//! What a journal tells of turns and their runs, those that have ended included: folded from its
//! events, for people who look back. A live session keeps only what is open.

mod answered;
mod happened;
mod timeline;

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::compaction::{Plan, Step as Planned};
use unisono_context::{Digest, RunId, SnapshotId, Timestamp, Tokens, TurnId};

use crate::agent::Definition;
use crate::event::{AcceptedTurn, DelegatedCall, Event, Fact, Late, OpenedRun, Outcome, RunRole};
use crate::run::{Ending, Step, Usage};

pub use answered::AnsweredCalls;
pub use happened::Happened;
pub use timeline::{RunTimes, Stretch, StretchKind, run_times};

/// When something was recorded, and as which event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of the event in its session, from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
}

/// A turn from its acceptance to its end.
#[derive(Clone, Debug)]
pub struct TurnTrace {
    /// What was accepted.
    pub accepted: (Moment, AcceptedTurn),
    /// When its input was appended.
    pub started: Option<Moment>,
    /// The compaction steps that were decided.
    pub plans: Vec<(Moment, Plan)>,
    /// The checkpoints that came of them, by number.
    pub checkpoints: Vec<u32>,
    /// What they made of the context; none where nothing was planned.
    pub compacted: Option<Compacted>,
    /// The frozen context.
    pub frozen: Option<(Moment, SnapshotId)>,
    /// Its runs in the order in which they were opened.
    pub runs: Vec<RunId>,
    /// How it ended.
    pub ended: Option<(Moment, Outcome)>,
}

/// What the compaction of a turn made of its context, in tokens of the budget that it was planned
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Before the first step.
    pub before: Tokens,
    /// After the newest one; none while that is not known.
    pub after: Option<Tokens>,
    /// Whether a step kept less than the preset, or a person, asks for.
    pub tightened: bool,
}

impl TurnTrace {
    fn planned(&mut self, now: Moment, plan: &Plan) {
        let so_far = self.compacted.get_or_insert(Compacted {
            before: plan.before,
            after: None,
            tightened: false,
        });
        so_far.after = None;
        so_far.tightened |= plan.tightened;
        self.plans.push((now, plan.clone()));
    }

    /// The newest step took the place of so many tokens and puts so many there.
    fn carried_out(&mut self, tokens: impl FnOnce(&Plan) -> Option<(Tokens, Tokens)>) {
        let (Some(so_far), Some((_, plan))) = (&mut self.compacted, self.plans.last()) else {
            return;
        };
        let changed = tokens(plan);
        so_far.after = changed.map(|(left, came)| plan.before.minus(left) + came);
    }

    fn covered(&mut self, checkpoint: &Checkpoint) {
        self.checkpoints.push(checkpoint.number);
        self.carried_out(|plan| {
            let counted = checkpoint.counts.get(plan.budget.encoding)?;
            let came = counted.tokens + plan.budget.per_message;
            Some((checkpoint.original, came))
        });
    }

    fn altered(&mut self, alterations: &[Alteration]) {
        self.carried_out(|plan| {
            // What a message had that was cut is not in the plan.
            let Planned::Mask(targets) = &plan.step else {
                return None;
            };
            let mut sums = (Tokens::ZERO, Tokens::ZERO);
            for made in alterations {
                let target = targets
                    .iter()
                    .find(|target| target.message == made.message)?;
                sums.0 += target.tokens;
                sums.1 += made.counts.get(plan.budget.encoding)?.tokens;
            }
            Some(sums)
        });
    }

    fn ended(&mut self, now: Moment, outcome: &Outcome) {
        if let Outcome::Compacted { before, after } | Outcome::Restored { before, after } = outcome
        {
            let tightened = self.compacted.is_some_and(|so_far| so_far.tightened);
            self.compacted = Some(Compacted {
                before: *before,
                after: Some(*after),
                tightened,
            });
        }
        self.ended = Some((now, outcome.clone()));
    }
}

/// A run from its opening to its end.
#[derive(Clone, Debug)]
pub struct RunTrace {
    /// What its agent was given.
    pub opened: (Moment, OpenedRun),
    /// Its definition.
    pub definition: Option<Arc<Definition>>,
    /// Its stage, from 1, where it works in a pipeline.
    pub stage: Option<u32>,
    /// Its finished steps.
    pub steps: Vec<(Moment, Arc<Step>)>,
    /// Its later attempts: which, and why the one before failed.
    pub retries: Vec<(Moment, u32, Arc<str>)>,
    /// What happened beside its steps, oldest first.
    pub happened: Vec<(Moment, Happened)>,
    /// How it ended.
    pub ended: Option<(Moment, Arc<Ending>)>,
    /// What came of it after it was cancelled.
    pub late: Vec<(Moment, Late)>,
    /// Runs that it gave tasks to and that have not ended.
    waits_for: u32,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It is worked on, or will be as soon as the session is.
    Running,
    /// For those it gave tasks to.
    Waiting,
    /// It has an answer.
    Done,
    /// It has a part of one.
    Partial,
    /// It has none.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 6] = [
        Status::Running,
        Status::Waiting,
        Status::Done,
        Status::Partial,
        Status::Failed,
        Status::Cancelled,
    ];

    /// The stable word.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Done => "done",
            Status::Partial => "partial",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn named(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether such a run has not ended.
    pub const fn is_open(self) -> bool {
        matches!(self, Status::Running | Status::Waiting)
    }
}

impl RunTrace {
    /// How far it has come.
    pub fn status(&self) -> Status {
        match self.ended.as_ref().map(|(_, ending)| &**ending) {
            None if self.waits_for > 0 => Status::Waiting,
            None => Status::Running,
            Some(Ending::Finished { partial: None, .. }) => Status::Done,
            Some(Ending::Finished { .. }) => Status::Partial,
            Some(Ending::Failed { .. }) => Status::Failed,
            Some(Ending::Cancelled) => Status::Cancelled,
        }
    }

    /// What it used: as its answer says, late or not, else what its recorded replies say.
    pub fn usage(&self) -> Usage {
        if let Some((_, ending)) = &self.ended
            && let Ending::Finished { usage, .. } = **ending
        {
            return usage;
        }
        let answered = self.late.iter().find_map(|(_, late)| match late {
            Late::Answer { usage, .. } => Some(*usage),
            Late::Reply(_) | Late::Spent(_) => None,
        });
        let steps = self.steps.iter().map(|(_, step)| step.usage());
        let late = self.late.iter().filter_map(|(_, late)| match late {
            Late::Reply(reply) => Some(reply.usage),
            Late::Spent(spent) => Some(spent.usage),
            Late::Answer { .. } => None,
        });
        let replied = steps.chain(late);
        answered.unwrap_or_else(|| replied.fold(Usage::NONE, |sum, usage| sum + usage))
    }

    /// The attempt that is, or was the last, from 1.
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
    /// Tasks that agents gave to others, by run and round.
    rounds: BTreeMap<(RunId, u32), Vec<DelegatedCall>>,
    answered: AnsweredCalls,
}

impl Trace {
    /// A trace that begins behind the event of that number, with the definitions that the session
    /// had by then.
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
        for (run, what) in Happened::all(&event.fact) {
            if let Some(run) = self.runs.get_mut(&run) {
                run.happened.push((now, what));
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

    fn of_turn(&mut self, fact: &Fact, now: Moment) {
        if let Fact::TurnAccepted { turn } = fact {
            let accepted = TurnTrace {
                accepted: (now, (**turn).clone()),
                started: None,
                plans: Vec::new(),
                checkpoints: Vec::new(),
                compacted: None,
                frozen: None,
                runs: Vec::new(),
                ended: None,
            };
            self.turns.insert(turn.id, accepted);
            return;
        }
        let (Fact::TurnStarted { turn }
        | Fact::CompactionPlanned { turn, .. }
        | Fact::Compacted {
            turn: Some(turn), ..
        }
        | Fact::Altered {
            turn: Some(turn), ..
        }
        | Fact::CompactionFailed { turn, .. }
        | Fact::Frozen { turn, .. }
        | Fact::TurnEnded { turn, .. }) = fact
        else {
            return;
        };
        let Some(turn) = self.turns.get_mut(turn) else {
            return;
        };
        match fact {
            Fact::TurnStarted { .. } => turn.started = Some(now),
            Fact::CompactionPlanned { plan, .. } => turn.planned(now, plan),
            Fact::Compacted { checkpoint, .. } => turn.covered(checkpoint),
            Fact::Altered { alterations, .. } => turn.altered(alterations),
            Fact::CompactionFailed { .. } => {
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
                    happened: Vec::new(),
                    ended: None,
                    late: Vec::new(),
                    waits_for: 0,
                };
                self.runs.insert(run.id, opened);
                if let Some(parent) = self.parent_of(run.id) {
                    parent.waits_for += 1;
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
                ..
            } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.retries.push((now, *attempt, reason.clone()));
                }
            }
            Fact::RunEnded { run, ending } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.ended = Some((now, ending.clone()));
                }
                if let Some(parent) = self.parent_of(*run) {
                    parent.waits_for = parent.waits_for.saturating_sub(1);
                }
            }
            Fact::CameLate { run, late, .. } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.late.push((now, late.clone()));
                }
            }
            _ => {}
        }
    }

    /// The run that gave that one its task.
    fn parent_of(&mut self, run: RunId) -> Option<&mut RunTrace> {
        match self.runs.get(&run)?.opened.1.role {
            RunRole::Child { parent, .. } => self.runs.get_mut(&parent),
            RunRole::Lead | RunRole::Delegate { .. } => None,
        }
    }

    /// The stage of a run of the pipeline of its turn's lead.
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

    /// A run.
    pub fn run(&self, id: RunId) -> Option<&RunTrace> {
        self.runs.get(&id)
    }

    /// The runs of all turns, by turn and in the order in which they were opened.
    pub fn runs(&self) -> impl Iterator<Item = (RunId, &RunTrace)> {
        let ids = self.turns.values().flat_map(|turn| &turn.runs);
        ids.filter_map(|id| Some((*id, self.runs.get(id)?)))
    }

    /// What a run's agent was to do.
    pub fn task(&self, run: RunId) -> Option<Arc<str>> {
        let (_, opened) = &self.runs.get(&run)?.opened;
        let (_, turn) = &self.turns.get(&opened.turn)?.accepted;
        self.own_task(run).or_else(|| turn.work.input_text())
    }

    /// The task that a run was given for itself; none where it works on the turn's.
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
