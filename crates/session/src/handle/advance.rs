//! Advances open turns as far as possible, from T0 to T3. [`work`](super::work) continues after the
//! context is frozen.

use std::sync::Arc;

use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::{self, Error, Mode, Plan};
use unisono_context::policy::Policy;
use unisono_context::topic::TopicEnd;
use unisono_context::view::View;
use unisono_context::{MessageId, Snapshot, Timestamp, Tokens, TurnId};

use crate::event::{Fact, Outcome, Work};
use crate::fold;
use crate::headroom::ResultsShare;
use crate::ids;
use crate::measure;
use crate::state::State;
use crate::turn::{COMPACTION_STEPS_MAX, Phase, Turn};

use super::prepared::{self, Decision};
use super::replace_checkpoint::{self, ReplacementDecision};
use super::revert;
use super::{Recorder, overdue, work};

/// Advances every turn until nothing more follows.
pub(crate) fn advance(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    loop {
        let before = recorder.events.len();
        let at_work = recorder.state.active_turns().map(|turn| turn.accepted.id);
        for turn in at_work.collect::<Vec<_>>() {
            step(recorder, turn)?;
        }
        if recorder.events.len() == before {
            return Ok(());
        }
    }
}

fn step(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    let Some(turn) = recorder.state.turns.get(&id) else {
        return Ok(());
    };
    if turn.phase != Phase::Queued && overdue::end(recorder, id)? {
        return Ok(());
    }
    let Some(turn) = recorder.state.turns.get(&id) else {
        return Ok(());
    };
    match &turn.phase {
        Phase::Queued => recorder.record(Fact::TurnStarted { turn: id }),
        Phase::Preparing => match prepare(recorder, turn) {
            PreFreezeStep::Waits => Ok(()),
            PreFreezeStep::Topics(through, ends) => recorder.record(Fact::TopicsDecided {
                turn: id,
                through,
                ends,
            }),
            PreFreezeStep::Plan(plan) => recorder.record(Fact::CompactionPlanned {
                turn: id,
                plan: *plan,
            }),
            PreFreezeStep::Frozen(snapshot) => freeze(recorder, id, *snapshot),
            PreFreezeStep::Recorded(fact) => recorder.record(*fact),
            PreFreezeStep::Done(outcome) => recorder.end_turn(id, outcome),
        },
        Phase::Compacting(_) => prepared::commit(recorder, id),
        Phase::Frozen { .. } => work::advance(recorder, id),
    }
}

/// The next step of a turn whose context is not frozen.
enum PreFreezeStep {
    /// None yet: its branch is not counted, or a hook must answer.
    Waits,
    /// Topic ends in the newest messages.
    Topics(MessageId, Vec<TopicEnd>),
    Plan(Box<Plan>),
    /// Freeze: nothing is left to compact.
    Frozen(Box<Snapshot>),
    /// A checkpoint is reverted or replaced, or a prepared summary is dropped.
    Recorded(Box<Fact>),
    Done(Outcome),
}

/// T1–T3: once everything is counted, decides topic ends, plans the next compaction step, or
/// freezes.
fn prepare(recorder: &Recorder<'_>, turn: &Turn) -> PreFreezeStep {
    let state = &*recorder.state;
    if !turn.hooks_due.is_empty() {
        return PreFreezeStep::Waits;
    }
    let encodings = turn.encodings();
    let uncounted = |encoding| !measure::is_counted(state, turn, encoding);
    if encodings.into_iter().any(uncounted) || measure::agent_to_measure(state, turn).is_some() {
        return PreFreezeStep::Waits;
    }
    let answers = matches!(turn.accepted.work, Work::Answer { .. });
    let Some(view) = view(state, turn, answers) else {
        return failed("uncounted", "the branch has no messages");
    };
    let Some(budgets) = state.required_budgets(turn, &view) else {
        return PreFreezeStep::Waits;
    };
    if let Work::Revert { checkpoint } = turn.accepted.work {
        return match revert::decide(state, turn, &view, &budgets, checkpoint) {
            revert::Decision::Reverted(fact) => PreFreezeStep::Recorded(fact),
            revert::Decision::Ends(outcome) => PreFreezeStep::Done(outcome),
        };
    }
    let tells_topics = answers || matches!(turn.accepted.work, Work::CompactPart { .. });
    if let Some(ends) = topics(state, turn, &view, &budgets).filter(|_| tells_topics) {
        return PreFreezeStep::Topics(view.head(), ends);
    }
    if let Some(checkpoint) = turn.accepted.work.checkpoint().filter(|_| !turn.covered) {
        let sizes = (&view, &budgets);
        return match replace_checkpoint::decide(state, turn, checkpoint, sizes, recorder.now) {
            Ok(ReplacementDecision::Plan(plan)) => PreFreezeStep::Plan(Box::new(plan)),
            Ok(ReplacementDecision::Record(fact)) => PreFreezeStep::Recorded(Box::new(fact)),
            Err((code, reason)) => failed(code, reason),
        };
    }
    if turn.covered && !answers {
        return compacted(state, turn, &view, &budgets);
    }
    compact_or_freeze(recorder, turn, (&view, &budgets))
}

/// The next compaction step or repair; if there is none, the freeze.
fn compact_or_freeze(
    recorder: &Recorder<'_>,
    turn: &Turn,
    (view, budgets): (&View<'_>, &Budgets),
) -> PreFreezeStep {
    let state = &*recorder.state;
    let answers = matches!(turn.accepted.work, Work::Answer { .. });
    let mode = mode(state, turn, view);
    match planned(recorder, turn, (view, budgets), mode) {
        Ok(Some(plan)) if turn.steps_planned < COMPACTION_STEPS_MAX => {
            match masked(turn, mode, (view, budgets)) {
                Some(masks) => PreFreezeStep::Plan(Box::new(masks)),
                None => next_step(state, turn, mode, plan),
            }
        }
        Ok(_) if !answers => compacted(state, turn, view, budgets),
        Ok(_) => match state
            .least_budget(turn)
            .and_then(|lead| misfit(view, &lead))
        {
            Some(overflow) => overflowed(turn, &overflow, budgets),
            None => match tidied(turn, mode, (view, budgets), recorder.now) {
                Some(plan) => PreFreezeStep::Plan(Box::new(plan)),
                None => {
                    let snapshot = Snapshot::freeze(view, turn.preamble.clone());
                    PreFreezeStep::Frozen(Box::new(snapshot))
                }
            },
        },
        Err(error @ Error::Overflow { .. }) => overflowed(turn, &error, budgets),
        // All messages are counted, so a block lacks a count, and it will never get one.
        Err(error @ Error::Uncounted) => failed("uncounted", error),
    }
}

/// The planned step, or the use of a prepared summary instead.
fn next_step(state: &State, turn: &Turn, mode: Mode, plan: Plan) -> PreFreezeStep {
    match prepared::decide(state, turn, mode, &plan) {
        Decision::None => PreFreezeStep::Plan(Box::new(plan)),
        Decision::Waits => PreFreezeStep::Waits,
        Decision::Uses(plan) => PreFreezeStep::Plan(plan),
        Decision::Drops(fact) => PreFreezeStep::Recorded(fact),
    }
}

/// The mode of the next step: the turn's own, unless a person reverted a summary on the branch or
/// its lead requested a compaction. A step that only masks does not fulfil a request.
fn mode(state: &State, turn: &Turn, view: &View<'_>) -> Mode {
    let requested = || state.requested_compactions.contains(&turn.accepted.branch);
    match turn.mode() {
        Mode::Check if state.checkpoints.rests(&state.tree, view.head()) => Mode::Rest,
        Mode::Check | Mode::Continue if requested() => Mode::Requested,
        mode => mode,
    }
}

/// The next step. If no step makes the context fit, the planner tries without the share for
/// results, then for the lead alone; the other agents are then refused by name after the freeze.
fn planned(
    recorder: &Recorder<'_>,
    turn: &Turn,
    (view, budgets): (&View<'_>, &Budgets),
    mode: Mode,
) -> Result<Option<Plan>, Error> {
    let policy = policy(turn);
    let plan = |budgets: &Budgets| compaction::plan(view, budgets, &policy, mode, recorder.now);
    let overflows = |planned: &_| matches!(planned, Err(Error::Overflow { .. }));
    let mut planned = plan(budgets);
    if overflows(&planned)
        && let Some(all) = recorder
            .state
            .budgets_for(turn, view, ResultsShare::Remainder)
    {
        planned = plan(&all);
    }
    if overflows(&planned)
        && let Some(lead) = recorder.state.least_budget(turn)
    {
        planned = plan(&lead);
    }
    planned
}

/// Masks of delegates' results, if they make a compaction unnecessary.
fn masked(turn: &Turn, mode: Mode, (view, budgets): (&View<'_>, &Budgets)) -> Option<Plan> {
    let is_first = turn.steps_planned == 0 && matches!(mode, Mode::Check);
    is_first
        .then(|| compaction::mask_delegated(view, budgets, &turn.accepted.policy))
        .flatten()
}

/// Repairs in a turn without a compaction, unless a person reverted a summary on the branch:
/// regenerates a degraded summary, masks results of delegates.
fn tidied(
    turn: &Turn,
    mode: Mode,
    (view, budgets): (&View<'_>, &Budgets),
    now: Timestamp,
) -> Option<Plan> {
    if turn.steps_planned > 0 || matches!(mode, Mode::Rest) {
        return None;
    }
    let policy = &turn.accepted.policy;
    let repair = compaction::repair(view, budgets, policy, now);
    repair.or_else(|| compaction::mask_delegated(view, budgets, policy))
}

/// The topic ends; none if they are decided, or the policy does not use topics.
fn topics(state: &State, turn: &Turn, view: &View<'_>, budgets: &Budgets) -> Option<Vec<TopicEnd>> {
    state.undecided_topics(view, &turn.accepted.policy, budgets, &turn.phrases)
}

fn view<'s>(state: &'s State, turn: &Turn, pending: bool) -> Option<View<'s>> {
    let head = state.tree.head(&turn.accepted.branch)?;
    state.view(head, pending)
}

fn failed(code: &str, reason: impl ToString) -> PreFreezeStep {
    PreFreezeStep::Done(Outcome::Failed {
        code: code.into(),
        reason: reason.to_string().into(),
    })
}

/// The lead's own input does not fit its window, not even without the room that is kept for its
/// delegates: `budgets` are the usable tokens with it.
fn overflowed(turn: &Turn, overflow: &Error, budgets: &Budgets) -> PreFreezeStep {
    let lead = &turn.team.lead;
    let (id, model) = (&lead.id, &lead.model);
    let usable = budgets.iter().next().map(|budget| budget.usable);
    let kept = match (overflow, usable) {
        (Error::Overflow { usable: left, .. }, Some(usable)) if usable < *left => {
            let kept = left.minus(usable);
            format!(" ({usable} usable tokens, and {kept} that are otherwise kept for delegates)")
        }
        _ => String::new(),
    };
    failed(
        "context_overflow",
        format!("agent {id}, model {model}: {overflow}{kept}"),
    )
}

/// The turn's policy. A requested compaction takes one step that makes a checkpoint, so that its
/// failure commits nothing: it masks nothing before.
fn policy(turn: &Turn) -> Policy {
    let mut policy = turn.accepted.policy;
    if matches!(
        turn.accepted.work,
        Work::Compact { .. } | Work::CompactPart { .. }
    ) {
        policy.masking = None;
    }
    policy
}

/// The first budget that is too small for the context.
fn misfit(view: &View<'_>, budgets: &Budgets) -> Option<Error> {
    budgets.iter().find_map(|budget| {
        let needed = view.effective(budget)?.at_most;
        (needed > budget.usable).then_some(Error::Overflow {
            needed,
            usable: budget.usable,
            window: budget.window,
        })
    })
}

fn freeze(recorder: &mut Recorder<'_>, id: TurnId, snapshot: Snapshot) -> Result<(), fold::Error> {
    recorder.record(Fact::Frozen {
        turn: id,
        snapshot: snapshot.id(),
        manifest: snapshot.manifest().clone(),
    })?;
    if let Some(turn) = recorder.state.turns.get_mut(&id) {
        turn.snapshot.0 = Some(Arc::new(snapshot));
    }
    Ok(())
}

/// A requested compaction ends as soon as its step is committed, or if there is no step.
fn compacted(state: &State, turn: &Turn, view: &View<'_>, budgets: &Budgets) -> PreFreezeStep {
    let budget = turn.measured_by.or_else(|| budgets.iter().next().copied());
    let after = budget.and_then(|budget| view.effective(&budget));
    let after = after.map_or(Tokens::ZERO, |count| count.tokens);
    let before = turn.tokens_before.unwrap_or(after);
    let before = edited_from(state, turn, budget, after).unwrap_or(before);
    PreFreezeStep::Done(Outcome::Compacted { before, after })
}

/// The size of the context before a person's text replaced a summary.
fn edited_from(
    state: &State,
    turn: &Turn,
    budget: Option<Budget>,
    after: Tokens,
) -> Option<Tokens> {
    let Work::Edit { checkpoint, .. } = turn.accepted.work else {
        return None;
    };
    let made = ids::checkpoint(turn.accepted.id, 0);
    let tokens = |id| {
        let counts = state.checkpoints.get(id)?.counts;
        Some(counts.get(budget?.encoding)?.tokens)
    };
    Some(after.minus(tokens(made)?) + tokens(checkpoint)?)
}
