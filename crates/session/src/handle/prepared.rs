//! Plans a summary ahead after a turn, records it, and decides whether a turn uses it.

use std::sync::Arc;

use unisono_context::TurnId;
use unisono_context::checkpoint::{Body, Checkpoint, Kind, Tier, Writer};
use unisono_context::compaction::{Mode, Plan, Step};

use crate::event::{DropReason, Fact, Preparation, PreparationStatus, Work};
use crate::fold;
use crate::input::StepResult;
use crate::prepared;
use crate::state::State;
use crate::turn::Turn;

use super::{Recorder, step_done};

/// The use of a prepared summary by a turn.
pub(super) enum Decision {
    /// There is none.
    None,
    /// The turn waits until it is written.
    Waits,
    /// The turn commits it with this step.
    Uses(Box<Plan>),
    Drops(Box<Fact>),
}

/// After the answer of a turn: drops a prepared summary that is outdated, or plans the next one.
pub(super) fn after_turn(recorder: &mut Recorder<'_>, turn: &Turn) -> Result<(), fold::Error> {
    let (state, branch) = (&*recorder.state, &turn.accepted.branch);
    if let Some(of) = state.preparation(branch) {
        let outdated = state.drop_reason(of, turn).filter(|_| of.is_open());
        let dropped = outdated.map(|reason| dropped(of, None, reason));
        return dropped.map_or(Ok(()), |fact| recorder.record(fact));
    }
    // The next turn compacts by itself.
    if state.queues.contains_key(branch) {
        return Ok(());
    }
    let planned = state.foreseen(turn, recorder.now);
    planned.map_or(Ok(()), |preparation| {
        let preparation = Box::new(preparation);
        recorder.record(Fact::PreparationPlanned { preparation })
    })
}

/// Whether a turn uses the prepared summary of its branch instead of carrying out `plan`.
pub(super) fn decide(state: &State, turn: &Turn, mode: Mode, plan: &Plan) -> Decision {
    let Some(of) = state.preparation(&turn.accepted.branch) else {
        return Decision::None;
    };
    if !of.is_open() || plan.step.cover().is_none() {
        return Decision::None;
    }
    let drops = |reason| Decision::Drops(Box::new(dropped(of, Some(turn.accepted.id), reason)));
    let is_automatic = matches!(mode, Mode::Check | Mode::Continue)
        && matches!(turn.accepted.work, Work::Answer { .. });
    let summarises = matches!(
        plan.step,
        Step::Summarise {
            tier: Tier::Conversation,
            ..
        }
    );
    if !is_automatic || !summarises {
        return drops(DropReason::Replaced);
    }
    if let Some(reason) = state.drop_reason(of, turn) {
        return drops(reason);
    }
    let PreparationStatus::Ready(written) = &of.status else {
        return Decision::Waits;
    };
    match state.with_prepared(of, written, turn, plan) {
        Some(plan) => Decision::Uses(Box::new(plan)),
        None => drops(DropReason::Room),
    }
}

/// Commits the prepared summary that the step of a turn uses, if it does.
pub(super) fn commit(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    let state = &*recorder.state;
    let (Some((of, written)), Some(plan), Some(turn)) = (
        state.prepared_step(id),
        state.step_under_way(id),
        state.turns.get(&id),
    ) else {
        return Ok(());
    };
    let head = state.tree.head(&turn.accepted.branch);
    let view = head.and_then(|head| state.view(head, true));
    let made = prepared::new_summary(of, written, recorder.now);
    let preset = turn.accepted.policy.preset;
    let checkpoint =
        view.and_then(|view| Checkpoint::from_step(&plan.step, &view, Kind::Auto, preset, made));
    match checkpoint {
        Some(checkpoint) => recorder.record(Fact::Compacted {
            turn: Some(id),
            checkpoint: Arc::new(checkpoint),
        }),
        None => {
            let fact = dropped(of, Some(id), DropReason::Range);
            recorder.record(fact)
        }
    }
}

/// Records a summary that was written ahead, if it is acceptable.
pub(super) fn written(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    result: StepResult,
) -> Result<(), fold::Error> {
    let Some(of) = recorder.state.preparation_in_progress(turn) else {
        return Ok(());
    };
    let summary = accepted(of, result);
    let fact = match summary {
        Ok(summary) => Fact::SummaryPrepared {
            turn,
            summary: Box::new(summary),
        },
        Err(reason) => dropped(of, None, DropReason::Failed(reason.into())),
    };
    recorder.record(fact)
}

/// Records that no summary was written ahead. `busy`: only the capacity for it was missing.
pub(super) fn failed(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    reason: Arc<str>,
    busy: bool,
) -> Result<(), fold::Error> {
    let Some(of) = recorder.state.preparation_in_progress(turn) else {
        return Ok(());
    };
    let reason = match busy {
        true => DropReason::Busy,
        false => DropReason::Failed(reason),
    };
    let fact = dropped(of, None, reason);
    recorder.record(fact)
}

/// Drops the summaries that were being written when the program ended: each may have been paid for,
/// so it is not requested a second time ahead.
pub(crate) fn drop_interrupted(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    let interrupted = recorder.state.preparations_in_progress();
    let facts: Vec<Fact> = interrupted
        .map(|of| dropped(of, None, DropReason::Interrupted))
        .collect();
    facts.into_iter().try_for_each(|fact| recorder.record(fact))
}

fn accepted(of: &Preparation, result: StepResult) -> Result<crate::event::WrittenSummary, String> {
    let (StepResult::Written(written), Some(cover)) = (result, of.cover()) else {
        return Err("the result does not fit the step".to_owned());
    };
    let written = step_done::complete(cover, written);
    if written.writer != Writer::Model || written.degraded {
        return Err("no model wrote it".to_owned());
    }
    if !matches!(&written.body, Body::Summary(text) if !text.trim().is_empty()) {
        return Err("the summary is empty".to_owned());
    }
    let count = written.counts.get(of.planned.plan.budget.encoding);
    let (tokens, cap) = (count.unwrap_or_default().at_most, prepared::cap(of));
    match tokens > cap {
        true => Err(format!(
            "summary of {tokens} tokens is over its cap of {cap}"
        )),
        false => Ok(written),
    }
}

fn dropped(of: &Preparation, by: Option<TurnId>, reason: DropReason) -> Fact {
    Fact::PreparationDropped {
        turn: of.planned.turn,
        by,
        reason,
    }
}
