//! Regenerates a checkpoint at a person's request, by a summariser, or replaces it by the person's
//! text.

use std::sync::Arc;

use unisono_context::budget::Budgets;
use unisono_context::checkpoint::{Body, block_text};
use unisono_context::compaction::{self, Edit, Plan};
use unisono_context::view::View;
use unisono_context::{CheckpointId, Timestamp};

use crate::event::{Fact, Work};
use crate::ids;
use crate::state::State;
use crate::turn::Turn;

use super::complete_counts;

/// The next step of a turn that replaces a checkpoint.
pub(super) enum ReplacementDecision {
    Plan(Plan),
    Record(Fact),
}

/// Returns the code and the reason of a failure if it is not possible.
pub(super) fn decide(
    state: &State,
    turn: &Turn,
    checkpoint: CheckpointId,
    (view, budgets): (&View<'_>, &Budgets),
    now: Timestamp,
) -> Result<ReplacementDecision, (&'static str, String)> {
    let accepted = &turn.accepted;
    let status = state
        .checkpoints
        .status(&state.tree, view.head(), checkpoint);
    let old = status.map_err(|why| ("not_active", why.to_string()))?;
    let Work::Edit { text, counts, .. } = &accepted.work else {
        let plan = compaction::regenerate(view, budgets, &accepted.policy, old);
        return plan
            .map(ReplacementDecision::Plan)
            .map_err(|why| ("compaction_failed", why.to_string()));
    };
    let body = Body::Summary(text.clone());
    let edit = Edit {
        id: ids::checkpoint(accepted.id, 0),
        text,
        counts: complete_counts(*counts, || {
            block_text(&old.covers, &body, &old.key_facts).len()
        }),
        at: now,
    };
    let made = compaction::edited(view, budgets, &accepted.policy, old, edit);
    let made = made.map_err(|why| ("edit_rejected", why.to_string()))?;
    Ok(ReplacementDecision::Record(Fact::Compacted {
        turn: Some(accepted.id),
        checkpoint: Arc::new(made),
    }))
}
