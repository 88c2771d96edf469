//! Handles a compaction step that was carried out, or failed.

use std::sync::Arc;

use unisono_context::TurnId;
use unisono_context::alteration::{Alteration, altered_parts};
use unisono_context::checkpoint::{Body, Checkpoint, Kind, Writer, block_text};
use unisono_context::compaction::{Cover, NewSummary, Plan, Step};
use unisono_context::message::Part;
use unisono_context::tokens::{Count, Counts};

use crate::assignment::{AHEAD, STEP_FAILURES_MAX};
use crate::event::{Fact, Work, WrittenSummary};
use crate::fold;
use crate::ids;
use crate::input::StepResult;
use crate::state::State;

use super::{Recorder, complete_counts, prepared, replaced, with_estimates};

/// Commits a step that shrinks the context; anything else counts as a failure.
pub(super) fn done(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    step: u32,
    result: StepResult,
) -> Result<(), fold::Error> {
    if step == AHEAD {
        return prepared::written(recorder, turn, result);
    }
    let Some(plan) = under_way(recorder, turn, step) else {
        return Ok(());
    };
    match carried_out(recorder.state, turn, &plan, result) {
        Ok(StepResult::Altered(alterations)) => recorder.record(Fact::Altered {
            turn: Some(turn),
            alterations,
        }),
        Ok(StepResult::Written(written)) => commit(recorder, turn, &plan, written),
        Err(reason) => failed(recorder, turn, step, reason.into(), true),
    }
}

/// Records a failure. The step is retried if that may help. After the last failure, an automatic
/// compaction continues without a model, and a requested one ends without a change.
pub(super) fn failed(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    step: u32,
    reason: Arc<str>,
    again: bool,
) -> Result<(), fold::Error> {
    if step == AHEAD {
        return prepared::failed(recorder, turn, reason, again);
    }
    let Some(plan) = under_way(recorder, turn, step) else {
        return Ok(());
    };
    let text = reason.to_string();
    recorder.record(Fact::CompactionFailed { turn, reason })?;
    let Some(open) = recorder.state.turns.get(&turn) else {
        return Ok(());
    };
    let is_regeneration = matches!(plan.step, Step::Regenerate { .. });
    if !is_regeneration && again && open.step_failures < STEP_FAILURES_MAX {
        return Ok(());
    }
    if !matches!(open.accepted.work, Work::Answer { .. }) {
        return recorder.fail_turn(turn, "compaction_failed", text);
    }
    if is_regeneration {
        return Ok(());
    }
    match plan.step.cover() {
        Some(cover) => commit(recorder, turn, &plan, dropped_note(cover)),
        None => {
            let mut alterations = shortened_by_bytes(recorder.state, &plan.step);
            alterations.retain(|alteration| shrinks(recorder.state, &plan, alteration));
            recorder.record(Fact::Altered {
                turn: Some(turn),
                alterations,
            })
        }
    }
}

fn under_way(recorder: &Recorder<'_>, turn: TurnId, step: u32) -> Option<Plan> {
    let current = recorder.state.turns.get(&turn)?.steps_planned == step;
    recorder
        .state
        .step_under_way(turn)
        .filter(|_| current)
        .cloned()
}

/// The fact to record for a result, with all counts; or the reason why the result is refused.
fn carried_out(
    state: &State,
    turn: TurnId,
    plan: &Plan,
    result: StepResult,
) -> Result<StepResult, String> {
    let unfit = || "the result does not fit the step".to_owned();
    match (&plan.step, result) {
        (
            Step::Mask(_) | Step::Cut { .. } | Step::Truncate { .. },
            StepResult::Altered(mut alterations),
        ) => {
            let made = alterations.iter().map(|a| (a.message, a.ordinal, a.form));
            if !made.eq(plan.step.forms()) {
                return Err(unfit());
            }
            for alteration in &mut alterations {
                alteration.counts = counted(state, alteration);
            }
            alterations.retain(|alteration| shrinks(state, plan, alteration));
            let stands = |(message, ordinal, form)| {
                let standing = state.alterations.get(ordinal, message);
                standing.is_some_and(|standing| standing.form == form)
            };
            if alterations.is_empty() && !plan.step.forms().into_iter().all(stands) {
                return Err("no message got smaller".to_owned());
            }
            Ok(StepResult::Altered(alterations))
        }
        (Step::Summarise { cover, cap, .. }, StepResult::Written(written)) => {
            let written = complete(cover, written);
            if matches!(&written.body, Body::Summary(text) if text.trim().is_empty()) {
                return Err("the summary is empty".to_owned());
            }
            let count = written.counts.get(plan.budget.encoding);
            let tokens = count.unwrap_or_default().at_most;
            if tokens > *cap || tokens >= cover.original {
                return Err(format!(
                    "summary of {tokens} tokens is over its cap of {cap}"
                ));
            }
            Ok(StepResult::Written(written))
        }
        (Step::Regenerate { cover, .. }, StepResult::Written(written)) => {
            let written = complete(cover, written);
            replaced::check(state, turn, plan, &written)?;
            Ok(StepResult::Written(written))
        }
        (Step::Drop { cover }, StepResult::Written(written)) if written.body == Body::Tombstone => {
            Ok(StepResult::Written(complete(cover, written)))
        }
        (_, _) => Err(unfit()),
    }
}

pub(super) fn complete(cover: &Cover, mut written: WrittenSummary) -> WrittenSummary {
    written.counts = complete_counts(written.counts, || {
        block_text(&cover.spans, &written.body, &written.key_facts).len()
    });
    written
}

/// The counts of a shortened message, in all encodings. The same form of the same message always
/// has the same counts, because a frozen context is counted by forms.
pub(super) fn counted(state: &State, alteration: &Alteration) -> Counts {
    let mut ever = state
        .alterations
        .ever(alteration.ordinal, alteration.message);
    if let Some(known) = ever.find(|known| known.form == alteration.form) {
        return known.counts;
    }
    with_estimates(alteration.counts, || {
        let node = state.tree.get(alteration.message);
        let parts = node.map(|node| altered_parts(&node.message, alteration.form));
        let parts = parts.unwrap_or_default();
        let texts = parts.iter().map(|part| part.countable_text().len() + 1);
        let bytes: usize = texts.sum();
        let beside: Count = parts.iter().map(Part::tokens_beside_text).sum();
        Count::approximate(bytes as u64) + beside
    })
}

/// Whether the message costs less than its current form. Another branch's turn may have shortened
/// it since the plan was made; if it already has the planned form, it is not counted again, because
/// frozen contexts may contain it.
fn shrinks(state: &State, plan: &Plan, alteration: &Alteration) -> bool {
    let encoding = plan.budget.encoding;
    let standing = state
        .alterations
        .get(alteration.ordinal, alteration.message);
    if standing.is_some_and(|standing| standing.form == alteration.form) {
        return false;
    }
    let standing = standing
        .map(|standing| standing.counts)
        .or_else(|| Some(state.tree.get(alteration.message)?.counts));
    let before = standing.and_then(|counts| counts.get(encoding));
    match (alteration.counts.get(encoding), before) {
        (Some(after), Some(before)) => after.tokens < before.tokens,
        _ => false,
    }
}

/// The shortened messages of a step, with counts estimated from their bytes.
fn shortened_by_bytes(state: &State, step: &Step) -> Vec<Alteration> {
    let forms = step.forms().into_iter();
    let alterations = forms.map(|(message, ordinal, form)| {
        let counts = Counts::default();
        let mut alteration = Alteration {
            message,
            ordinal,
            form,
            counts,
        };
        alteration.counts = counted(state, &alteration);
        alteration
    });
    alterations.collect()
}

/// The note for a range that could not be summarised, with counts estimated from its bytes.
fn dropped_note(cover: &Cover) -> WrittenSummary {
    let written = WrittenSummary {
        body: Body::Tombstone,
        key_facts: Vec::new(),
        counts: Counts::default(),
        writer: Writer::Deterministic,
        model: "none".into(),
        cost_micros: Some(0),
        duration_ms: 0,
        degraded: true,
        coverage: None,
    };
    complete(cover, written)
}

fn commit(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    plan: &Plan,
    written: WrittenSummary,
) -> Result<(), fold::Error> {
    match checkpoint(recorder, turn, plan, written) {
        Some(checkpoint) => recorder.record(Fact::Compacted {
            turn: Some(turn),
            checkpoint: Arc::new(checkpoint),
        }),
        None => {
            let reason = "the step is not on its branch".to_owned();
            recorder.fail_turn(turn, "compaction_failed", reason)
        }
    }
}

fn checkpoint(
    recorder: &Recorder<'_>,
    turn: TurnId,
    plan: &Plan,
    written: WrittenSummary,
) -> Option<Checkpoint> {
    let state = &*recorder.state;
    let open = state.turns.get(&turn)?;
    let (kind, pending) = match open.accepted.work {
        Work::Answer { .. } => (Kind::Auto, true),
        _ => (Kind::Manual, false),
    };
    let made = NewSummary {
        id: ids::checkpoint(turn, open.steps_planned),
        writer: written.writer,
        model: written.model,
        body: written.body,
        key_facts: written.key_facts,
        counts: written.counts,
        cost_micros: written.cost_micros,
        duration_ms: written.duration_ms,
        degraded: written.degraded,
        at: recorder.now,
        coverage: written.coverage,
    };
    let view = state.view(state.tree.head(&open.accepted.branch)?, pending)?;
    let preset = open.accepted.policy.preset;
    let mut made = Checkpoint::from_step(&plan.step, &view, kind, preset, made)?;
    let replaced = open.accepted.work.checkpoint();
    if let Some(old) = replaced.and_then(|old| state.checkpoints.get(old)) {
        made.tier = old.tier;
    }
    Some(made)
}
