//! The effect of reverting a checkpoint, without carrying it out.

use unisono_api::compaction::RevertEffect;
use unisono_context::view::View;
use unisono_context::{CheckpointId, MessageId};
use unisono_model::calibration::Calibrations;
use unisono_session::State;

use super::super::measure;
use super::Error;
use crate::ask::Ask;
use unisono_config::setup::Setup;

/// The branch that ends in `head` with a checkpoint and without it. Missing counts are made in
/// `state`; nothing is written.
///
/// # Errors
/// An agent is unknown, or something cannot be counted.
pub(crate) fn revert(
    (setup, learnt): (&Setup, &Calibrations),
    ask: &Ask,
    state: &mut State,
    head: MessageId,
    checkpoint: CheckpointId,
) -> Result<RevertEffect, Error> {
    let by = ask.context_inputs(setup, learnt)?;
    let budget = measure(state, Some(head), &by)?.budget;
    let next_turn = Ask::new("").branch(ask.on_branch());
    // A revert needs no delegates: it is possible if one of them is unknown.
    let usable = match next_turn.context_inputs(setup, learnt) {
        Ok(by) => measure(state, Some(head), &by)?.budget.usable,
        Err(_) => budget.usable,
    };
    let effective = |view: &View<'_>| view.effective(&budget).unwrap_or_default();
    let (all, altered) = state.without_checkpoint(head, checkpoint);
    let without = View::new(state.tree(), &all, &altered, state.pinned(), head, false);
    let with = state.view(head, false);
    let (checkpoints, messages) = match (&with, &without) {
        (Some(with), Some(without)) => returning(with, without),
        _ => (Vec::new(), 0),
    };
    let before = with.as_ref().map(effective).unwrap_or_default();
    let after = without.as_ref().map(effective).unwrap_or_default();
    Ok(RevertEffect {
        tokens_before: before.tokens.0,
        tokens_after: after.tokens.0,
        usable_tokens: usable.0,
        // A revert reserves no tokens for results of delegates.
        fits: after.at_most <= budget.usable,
        checkpoints,
        messages,
    })
}

/// The numbers of the checkpoints that are active only afterwards, and how many more messages are
/// then verbatim or shortened.
fn returning(before: &View<'_>, after: &View<'_>) -> (Vec<u32>, u32) {
    let was_active = |id: CheckpointId| before.active().iter().any(|known| known.id == id);
    let active = after.active().iter();
    let new = active.filter(|checkpoint| !was_active(checkpoint.id));
    let shown = |view: &View<'_>| -> u32 { view.uncovered().iter().map(|span| span.len()).sum() };
    (
        new.map(|checkpoint| checkpoint.number).collect(),
        shown(after).saturating_sub(shown(before)),
    )
}
