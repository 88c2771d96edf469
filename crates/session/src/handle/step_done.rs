//! A compaction step was carried out, or failed.

use std::sync::Arc;

use unisono_context::TurnId;
use unisono_context::checkpoint::{Body, Checkpoint, Kind, Writer, block_text};
use unisono_context::compaction::{Cover, Made, Plan, Step};
use unisono_context::tokens::{Count, Counts};

use crate::event::{Fact, Work};
use crate::ids;
use crate::machine::{Refusal, StepResult, Written};

use super::Tx;

/// A step that fails this often gives way to a note in place of what it would have summarised.
const FAILURES_MAX: u32 = 3;

/// Commits a step that makes the context smaller; anything else counts as a failure.
pub(super) fn done(
    tx: &mut Tx<'_>,
    turn: TurnId,
    step: u32,
    result: StepResult,
) -> Result<(), Refusal> {
    let Some(plan) = under_way(tx, turn, step) else {
        return Ok(());
    };
    match (&plan.step, result) {
        (Step::Mask(_) | Step::Cut { .. }, StepResult::Altered(alterations)) => {
            tx.record(Fact::Altered { turn, alterations })
        }
        (Step::Summarise { cover, cap, .. }, StepResult::Written(written)) => {
            let tokens = written
                .counts
                .get(plan.budget.encoding)
                .unwrap_or_default()
                .at_most;
            if tokens > *cap || tokens >= cover.original {
                let reason = format!("summary of {tokens} tokens is over its cap of {cap}");
                return failed(tx, turn, step, reason.into());
            }
            commit(tx, turn, cover, written)
        }
        (Step::Drop { cover }, StepResult::Written(written)) => commit(tx, turn, cover, written),
        (_, _) => failed(tx, turn, step, "the result does not fit the step".into()),
    }
}

/// Records a failure. The step is asked for again; after the last failure an automatic
/// compaction drops the range, leaving a note that needs nobody's help, and a manual one ends
/// without having changed anything.
pub(super) fn failed(
    tx: &mut Tx<'_>,
    turn: TurnId,
    step: u32,
    reason: Arc<str>,
) -> Result<(), Refusal> {
    let Some(plan) = under_way(tx, turn, step) else {
        return Ok(());
    };
    tx.record(Fact::CompactionFailed {
        turn,
        reason: reason.clone(),
    })?;
    let Some(state) = tx.state.turns.get(&turn) else {
        return Ok(());
    };
    if state.step_failures < FAILURES_MAX {
        return Ok(());
    }
    match (&plan.step, &state.accepted.work) {
        (Step::Summarise { cover, .. } | Step::Drop { cover }, Work::Answer { .. }) => {
            let note = note(cover, &state.encodings());
            commit(tx, turn, cover, note)
        }
        _ => tx.fail_turn(turn, "compaction_failed", reason.to_string()),
    }
}

fn under_way(tx: &Tx<'_>, turn: TurnId, step: u32) -> Option<Plan> {
    let current = tx.state.turns.get(&turn)?.steps_planned == step;
    tx.state.step_under_way(turn).filter(|_| current).cloned()
}

/// The note that stands for a dropped range, counted by its bytes.
fn note(cover: &Cover, encodings: &[unisono_context::Encoding]) -> Written {
    let text = block_text(&cover.spans, &Body::Tombstone, &[]);
    let count = Count::approximate(text.len() as u64);
    let counts: Counts = encodings
        .iter()
        .map(|encoding| (*encoding, count))
        .collect();
    Written {
        body: Body::Tombstone,
        key_facts: Vec::new(),
        counts,
        writer: Writer::Deterministic,
        model: "none".into(),
        cost_micros: Some(0),
        duration_ms: 0,
        degraded: true,
    }
}

fn commit(tx: &mut Tx<'_>, turn: TurnId, cover: &Cover, written: Written) -> Result<(), Refusal> {
    let state = &*tx.state;
    let open = state.turns.get(&turn).ok_or(Refusal::UnknownTurn(turn))?;
    let branch = &open.accepted.branch;
    let (kind, pending) = match open.accepted.work {
        Work::Answer { .. } => (Kind::Auto, true),
        Work::Compact { .. } => (Kind::Manual, false),
    };
    let made = Made {
        id: ids::checkpoint(turn, open.steps_planned),
        writer: written.writer,
        model: written.model,
        body: written.body,
        key_facts: written.key_facts,
        counts: written.counts,
        cost_micros: written.cost_micros,
        duration_ms: written.duration_ms,
        degraded: written.degraded,
        at: tx.now,
    };
    let view = state
        .tree
        .head(branch)
        .and_then(|head| state.view(head, pending));
    let preset = open.accepted.policy.preset;
    let checkpoint = view.and_then(|view| Checkpoint::from_cover(cover, &view, kind, preset, made));
    let checkpoint = checkpoint.ok_or_else(|| Refusal::UnknownBranch(branch.clone()))?;
    tx.record(Fact::Compacted {
        turn: Some(turn),
        checkpoint: Arc::new(checkpoint),
    })
}
