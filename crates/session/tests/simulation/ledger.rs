//! Invariants over all incarnations of a session, whatever was lost in between.

mod contexts;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::budget::Budget;
use unisono_context::checkpoint::{Checkpoint, Span};
use unisono_context::compaction::{Cover, Step as PlanStep};
use unisono_context::{
    CallId, CheckpointId, Digest, Ordinal, RunId, Snapshot, SnapshotId, Tokens, Tree, TurnId,
};
use unisono_session::agent::ContextMode;
use unisono_session::assignment::{CompactionJob, DelegateResult, RunAssignment, ToolJob};
use unisono_session::budget::{Amount, EXCEEDED};
use unisono_session::event::{DelegatedCall, HookPoint, LateOutput, OpenedRun, RunRole, Work};
use unisono_session::run::calls::{CallDecision, CallPlace, PlannedCall};
use unisono_session::run::{Ending, RunCause, Step, ToolResult};
use unisono_session::tool::Contract;
use unisono_session::turn::Phase;
use unisono_session::{Event, Fact, State};

use crate::branch;

use contexts::*;
pub use whole::*;

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Derived ids by their meaning; they stay valid even if the event is lost.
    run_ids: BTreeMap<(TurnId, RunRole), RunId>,
    checkpoint_ids: BTreeMap<(TurnId, u32), CheckpointId>,
    /// The required snapshot of a turn: recorded, or lost while everything before it was kept.
    snapshots: BTreeMap<TurnId, SnapshotId>,
    /// The headroom that the frozen context leaves to each agent, by definition; none: the agent is
    /// too small for it.
    rooms: BTreeMap<(TurnId, Digest), Option<Tokens>>,
    /// The position in the journal of the newest intent for each run.
    intents: BTreeMap<RunId, usize>,
    plans: BTreeMap<TurnId, Vec<usize>>,
    /// The plans of summaries that are written ahead.
    prepared: BTreeMap<TurnId, usize>,
    /// The positions in the journal of the rounds, and their calls.
    rounds: BTreeMap<(RunId, u32), (usize, Vec<DelegatedCall>)>,
    children: BTreeMap<(RunId, u32, u32), RunId>,
    /// The positions in the journal of tool calls: recorded, started, ended.
    asked: BTreeMap<(RunId, u32), Vec<PlannedCall>>,
    started: BTreeMap<CallPlace, usize>,
    over: BTreeMap<CallPlace, usize>,
    approved: BTreeSet<CallPlace>,
    /// The number of hooks that have permitted each call.
    let_through: BTreeMap<CallPlace, usize>,
    /// The number of times that a person requested a repetition of each call.
    repeats: BTreeMap<CallPlace, u32>,
    /// The number of times that each call was really made, over all incarnations.
    made: BTreeMap<CallId, u32>,
    /// Runs whose end is on disk.
    finished: BTreeSet<RunId>,
    /// Of this incarnation.
    dispatched: BTreeSet<(RunId, u32)>,
    cancelled: BTreeSet<RunId>,
    shared: BTreeMap<TurnId, Arc<Snapshot>>,
    /// The results that each run got from others.
    handed: BTreeMap<RunId, Vec<DelegateResult>>,
    pub acknowledged: BTreeSet<TurnId>,
    /// Turns for which summaries were requested from a model.
    summarised: BTreeSet<TurnId>,
}

impl Ledger {
    /// An event was decided as number `index` of the journal; `after` is the state with it.
    pub fn decided(&mut self, index: usize, event: &Event, after: &State) {
        self.intends(index, event);
        match &event.fact {
            Fact::TurnStarted { turn } => {
                let branch = &after.turn(*turn).unwrap().accepted.branch;
                let active = after.active_turn(branch).unwrap();
                assert_eq!(
                    active.accepted.id, *turn,
                    "one open turn a branch, in order"
                );
            }
            Fact::SummariserUsed { turn, .. } => drop(self.summarised.insert(*turn)),
            Fact::CompactionPlanned { turn, plan } => {
                no_run_is_open(after, *turn);
                if let PlanStep::Regenerate { cover, prior, .. } = &plan.step {
                    self.repairs(after, event, *turn, cover, prior);
                }
            }
            Fact::CompactionFailed { turn, .. }
            | Fact::Altered {
                turn: Some(turn), ..
            } => no_run_is_open(after, *turn),
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } => {
                no_run_is_open(after, *turn);
                let step = after.turn(*turn).unwrap().steps_planned;
                let id = self.checkpoint_ids.entry((*turn, step));
                assert_eq!(*id.or_insert(checkpoint.id), checkpoint.id);
                // A repair is the first step of its turn; a compaction may follow.
                let under_way = after.turn(*turn).unwrap();
                if under_way.repaired && under_way.steps_planned == 1 {
                    repaired(after, *turn, checkpoint);
                }
            }
            Fact::Reverted {
                turn: Some(turn),
                checkpoint,
                ..
            } => {
                no_run_is_open(after, *turn);
                assert!(after.checkpoints().is_retired(*checkpoint));
                reverted_fits(after, *turn);
            }
            Fact::Frozen { turn, snapshot, .. } => {
                let expected = *self.snapshots.entry(*turn).or_insert(*snapshot);
                assert_eq!(expected, *snapshot, "the same content, the same id");
                fits(after, *turn);
                shows_pins(after, *turn);
                self.leaves_room(after, *turn);
            }
            Fact::RunOpened { run } => {
                let known = *self.run_ids.entry((run.turn, run.role)).or_insert(run.id);
                assert_eq!(known, run.id, "the same run under the same id");
                let turn = after.turn(run.turn).unwrap();
                match run.role {
                    RunRole::Child { parent, .. } => may_be_given_to(after, run, parent),
                    RunRole::Delegate { .. } if turn.is_pipeline() => {
                        assert_eq!(turn.open_fan_out, 1, "one stage at a time");
                    }
                    RunRole::Delegate { .. } | RunRole::Lead => {}
                }
                let agent = after.definition(run.definition).unwrap();
                let fits = self.rooms[&(run.turn, run.definition)].is_some();
                let given = agent.context == ContextMode::Snapshot && fits;
                assert_eq!(run.snapshot.is_some(), given, "the context, where it fits");
            }
            _ => {}
        }
    }

    /// No turn exceeds its budgets, and nothing is reserved for ended work.
    pub fn within_budgets(&self, state: &State) {
        let tree = state.budget();
        for turn in state.open_turns() {
            let id = turn.accepted.id;
            let (account, caps) = (tree.turn(id).unwrap(), tree.turn_caps(id).unwrap().turn);
            let in_use = account.in_use();
            let fits = caps.tokens.is_none_or(|cap| in_use.tokens <= cap)
                && caps.cost.is_none_or(|cap| in_use.cost <= cap);
            assert!(fits || self.summarised.contains(&id), "{account:?}");
        }
        if state.open_turns().next().is_none() {
            let reserved = tree.session().open + tree.session().kept;
            assert_eq!(reserved, Amount::ZERO, "nothing is left over");
        }
    }

    fn leaves_room(&mut self, state: &State, id: TurnId) {
        let turn = state.turn(id).unwrap();
        let head = state.tree().head(&turn.accepted.branch).unwrap();
        let view = state.view(head, true).unwrap();
        let preamble = state.preamble_counts(&turn.preamble);
        for agent in turn.team.definitions() {
            let of = |fixed| {
                let whole = Budget::new(agent.limits, turn.accepted.safety, Tokens::ZERO);
                let mut known = turn.accepted.calibrations.iter();
                let known = known.find(|known| known.model == agent.model);
                let usable = known.map_or(whole.usable, |known| known.estimated(whole.usable));
                Budget {
                    usable: usable.minus(fixed),
                    ..whole
                }
            };
            let room = match agent.context {
                ContextMode::TaskOnly => Some(of(Tokens::ZERO).usable),
                ContextMode::Snapshot => {
                    let budget = of(preamble.get(agent.limits.encoding).unwrap().at_most);
                    let context = view.effective(&budget).unwrap().at_most;
                    let left = budget.usable.minus(context);
                    let needed = state.assignment_tokens(turn.needs(), agent.digest());
                    let needed = needed.unwrap() + turn.needs().results_note(agent.digest());
                    (context <= budget.usable && needed <= left).then_some(left)
                }
            };
            self.rooms.insert((id, agent.digest()), room);
        }
    }

    /// A summary must be regenerated: an active degraded one whose pause is over, of everything
    /// that no earlier summary replaces.
    fn repairs(
        &mut self,
        state: &State,
        event: &Event,
        turn: TurnId,
        cover: &Cover,
        prior: &[CheckpointId],
    ) {
        let checkpoints = state.checkpoints();
        let old = checkpoints.get(cover.supersedes[0]).unwrap();
        let failed = checkpoints.failed_repairs(old.id);
        assert!(old.degraded && !failed.is_some_and(|failed| failed.waits(event.at)));
        let turn = state.turn(turn).unwrap();
        assert_eq!(turn.steps_planned, 1, "only where nothing was to compact");
        let head = state.tree().head(&turn.accepted.branch).unwrap();
        let view = state.view(head, true).unwrap();
        assert!(view.active().iter().any(|active| active.id == old.id));
        let prior = prior.iter().map(|id| checkpoints.get(*id).unwrap());
        let mut read: Vec<Span> = cover.fresh.clone();
        read.extend(prior.flat_map(|made| made.covers.clone()));
        assert_eq!(ordinals(&read), ordinals(&old.covers), "each once");
    }

    pub fn committed(&mut self, events: &[Event]) {
        for event in events {
            if let Fact::RunEnded { run, .. } = &event.fact {
                assert!(self.finished.insert(*run), "a run ends once");
            }
        }
    }

    fn intends(&mut self, index: usize, event: &Event) {
        match &event.fact {
            Fact::CompactionPlanned { turn, .. } => {
                self.plans.entry(*turn).or_default().push(index);
            }
            Fact::RunOpened { run } => {
                self.intents.insert(run.id, index);
                if let RunRole::Child {
                    parent,
                    round,
                    index,
                } = run.role
                {
                    self.children.insert((parent, round, index), run.id);
                }
            }
            Fact::PreparationPlanned { preparation } => {
                let known = self.prepared.insert(preparation.turn, index);
                assert_eq!(known, None, "one after a turn");
            }
            Fact::Delegated { run, round, calls } => {
                let known = self.rounds.insert((*run, *round), (index, calls.clone()));
                assert_eq!(known, None, "a round is recorded once");
            }
            Fact::RunRetried { run, .. } => {
                self.intents.insert(*run, index);
            }
            _ => self.intends_call(index, &event.fact),
        }
    }

    fn intends_call(&mut self, index: usize, fact: &Fact) {
        match fact {
            Fact::ToolsCalled { run, round, calls } => {
                let known = self.asked.insert((*run, *round), calls.clone());
                assert_eq!(known, None, "a round is recorded once");
            }
            Fact::ToolStarted { call } => drop(self.started.insert(*call, index)),
            Fact::ToolEnded { call, .. } => self.is_over(*call, index),
            Fact::HookAnswered { place, answer, .. } => {
                if let HookPoint::Call(call) = place.point {
                    match answer.denied {
                        Some(_) => self.is_over(call, index),
                        None => *self.let_through.entry(call).or_default() += 1,
                    }
                }
            }
            Fact::ToolDecided { call, decision, .. } => match decision {
                CallDecision::Approved => assert!(self.approved.insert(*call)),
                CallDecision::Repeat => *self.repeats.entry(*call).or_default() += 1,
                _ => self.is_over(*call, index),
            },
            _ => {}
        }
    }

    fn is_over(&mut self, call: CallPlace, index: usize) {
        assert_eq!(self.over.insert(call, index), None, "a call ends once");
    }

    /// The session crashed and recovered with the kept events.
    pub fn crashed(&mut self, kept: &[Event], lost: &[Event]) {
        let shapes_context = |event: &&Event| {
            matches!(
                event.fact,
                Fact::TurnStarted { .. }
                    | Fact::CompactionPlanned { .. }
                    | Fact::CompactionFailed { .. }
                    // A question that is repeated may be answered with other pins.
                    | Fact::HookAnswered { .. }
                    | Fact::PreparationPlanned { .. }
                    | Fact::SummaryPrepared { .. }
                    | Fact::PreparationDropped { .. }
                    | Fact::Altered { .. }
                    | Fact::Compacted { .. }
                    | Fact::BranchSet { .. }
                    | Fact::Posted { .. }
                    | Fact::TopicsDecided { .. }
                    | Fact::TopicSealed { .. }
                    | Fact::Measured { .. }
                    | Fact::Counted { .. }
                    | Fact::Pinned { .. }
                    | Fact::Unpinned { .. }
                    | Fact::Reverted { .. }
            )
        };
        if lost.iter().any(|event| shapes_context(&event)) {
            let frozen = lost.iter().filter_map(|event| match &event.fact {
                Fact::Frozen { turn, .. } => Some(turn),
                _ => None,
            });
            frozen.for_each(|turn| {
                self.snapshots.remove(turn);
            });
        }
        self.intents.clear();
        self.rounds.clear();
        self.children.clear();
        self.plans.clear();
        self.prepared.clear();
        self.asked.clear();
        self.started.clear();
        self.over.clear();
        self.approved.clear();
        self.let_through.clear();
        self.repeats.clear();
        for (index, event) in kept.iter().enumerate() {
            self.intends(index, event);
        }
        self.dispatched.clear();
        self.cancelled.clear();
        self.shared.clear();
    }

    /// A recovered state contains every acknowledged turn.
    pub fn recovered(&self, state: &State) {
        for turn in &self.acknowledged {
            assert!(state.turn(*turn).is_some() || state.ended_turn(*turn).is_some());
        }
    }

    pub fn compacts(&self, job: &CompactionJob, durable: usize) {
        let plan = match job.is_ahead() {
            true => self.prepared[&job.turn],
            false => self.plans[&job.turn][job.step as usize - 1],
        };
        assert!(plan < durable, "intent before effect");
    }

    /// A worker is started.
    pub fn run_dispatched(&mut self, assignment: &RunAssignment, durable: usize, state: &State) {
        let run = state
            .run(assignment.run)
            .expect("only open runs are worked on");
        assert!(run.is_open());
        assert!(
            !self.finished.contains(&run.id),
            "a finished run is not repeated"
        );
        assert!(
            !self.cancelled.contains(&run.id),
            "a cancelled run is not started"
        );
        assert!(
            self.dispatched.insert((run.id, assignment.attempt)),
            "once an attempt"
        );
        assert!(self.intents[&run.id] < durable, "intent before effect");
        assert_eq!(assignment.steps, run.steps, "recorded steps are given back");
        let turn = state.turn(assignment.turn).unwrap();
        let room = self.rooms[&(assignment.turn, run.definition)];
        assert_eq!(Some(assignment.headroom), room, "none who is too small");
        if let Some(snapshot) = &assignment.snapshot {
            self.sees_only(snapshot, turn.accepted.id);
            let Work::Answer { input, .. } = &turn.accepted.work else {
                panic!("a compaction has no runs");
            };
            let last = snapshot.entries().last().unwrap().message();
            assert_eq!(
                last.id, input.id,
                "nothing of the delegation is in the snapshot"
            );
        }
        let first = match run.role {
            RunRole::Lead => turn.team.delegates.len(),
            RunRole::Delegate { index } if turn.is_pipeline() => index as usize,
            RunRole::Delegate { .. } | RunRole::Child { .. } => 0,
        };
        let order = assignment.results.iter().map(|result| &result.agent);
        let fan_out = turn.team.delegates.iter().map(|d| &d.agent.id);
        assert!(order.eq(fan_out.take(first)), "results in order");
        let handed = self.handed.entry(run.id);
        let handed = handed.or_insert_with(|| assignment.results.clone());
        assert_eq!(
            *handed, assignment.results,
            "the same whenever it is started"
        );
    }

    fn sees_only(&mut self, snapshot: &Arc<Snapshot>, turn: TurnId) {
        let first = self.shared.entry(turn).or_insert_with(|| snapshot.clone());
        assert!(Arc::ptr_eq(first, snapshot), "one snapshot for all");
        assert_eq!(
            self.snapshots[&turn],
            snapshot.id(),
            "the same after recovery"
        );
    }

    /// A worker gets the results of a round.
    pub fn round_delivered(
        &self,
        parent: RunId,
        round: u32,
        results: &[ToolResult],
        durable: usize,
    ) {
        let (at, calls) = &self.rounds[&(parent, round)];
        assert!(*at < durable, "what a worker is told is on disk");
        assert_eq!(calls.len(), results.len());
        for (index, (call, result)) in calls.iter().zip(results).enumerate() {
            assert_eq!(call.call_id, result.call_id, "in the order of the calls");
            let index = index as u32;
            let child = self.children.get(&(parent, round, index));
            let ended = child.is_some_and(|child| self.finished.contains(child));
            assert!(
                ended != call.refused.is_some(),
                "refused, or ended for certain"
            );
        }
    }

    /// A call is sent to its tool.
    pub fn call_dispatched(&self, job: &ToolJob, durable: usize, state: &State) {
        assert!(self.started[&job.place] < durable, "intent before effect");
        assert!(state.run(job.place.run).is_some_and(|run| run.is_open()));
        let calls = &self.asked[&(job.place.run, job.place.round)];
        let (before, rest) = calls.split_at(job.place.index as usize);
        let own = &rest[0];
        assert_eq!((&own.tool, own.contract), (&job.tool, job.contract));
        let allowed = own.approval.is_none() || self.approved.contains(&job.place);
        assert!(allowed, "a person agreed");
        let let_through = self.let_through.get(&job.place).copied();
        let let_through = let_through.unwrap_or_default();
        assert_eq!(let_through, own.hooks.len(), "all of its hooks agreed");
        if own.contract != Contract::Pure {
            for (index, call) in (0..).zip(before) {
                let place = CallPlace { index, ..job.place };
                let over = call.contract == Contract::Pure || self.over.contains_key(&place);
                assert!(over, "effects in the order of the calls");
            }
        }
    }

    /// A tool carried out a call.
    pub fn call_made(&mut self, job: &ToolJob) {
        let repeats = self.repeats.get(&job.place).copied().unwrap_or_default();
        let made = self.made.entry(job.id).or_default();
        if job.contract == Contract::AtMostOnce {
            assert!(*made <= repeats, "never repeated unless a person said so");
        }
        *made += 1;
    }

    /// A worker gets the results of its calls.
    pub fn calls_delivered(&self, run: RunId, round: u32, results: &[ToolResult], durable: usize) {
        let calls = &self.asked[&(run, round)];
        assert_eq!(calls.len(), results.len());
        for (index, (call, result)) in (0..).zip(calls.iter().zip(results)) {
            assert_eq!(call.call_id, result.call_id, "in the order of the calls");
            let place = CallPlace { run, round, index };
            assert!(
                self.over[&place] < durable,
                "what a worker is told is on disk"
            );
        }
    }

    pub fn cancels(&mut self, run: RunId) {
        assert!(self.dispatched.iter().any(|(known, _)| *known == run));
        self.cancelled.insert(run);
    }
}
