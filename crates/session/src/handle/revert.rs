//! Reverts a checkpoint at a person's request.

use unisono_context::CheckpointId;
use unisono_context::budget::Budgets;
use unisono_context::checkpoint::RevertError;
use unisono_context::view::View;

use crate::event::{Fact, Outcome};
use crate::input::NewTurn;
use crate::refusal::Refusal;
use crate::state::State;
use crate::turn::Turn;

use super::Recorder;

/// Refuses a checkpoint that cannot be reverted, before the turn waits. An earlier turn of the
/// branch may still change the result of [`decide`].
pub(super) fn check(
    recorder: &Recorder<'_>,
    new: &NewTurn,
    checkpoint: CheckpointId,
) -> Result<(), Refusal> {
    let state = &*recorder.state;
    let Some(head) = state.tree.head(&new.branch) else {
        return Err(Refusal::UnknownBranch(new.branch.clone()));
    };
    let status = state.checkpoints.status(&state.tree, head, checkpoint);
    match status {
        Err(RevertError::Superseded { .. } | RevertError::GivesWay { .. })
            if state.queues.contains_key(&new.branch) =>
        {
            Ok(())
        }
        Err(why) => Err(why.into()),
        Ok(_) => Ok(()),
    }
}

/// The decision about a revert, after everything is counted.
pub(super) enum Decision {
    Reverted(Box<Fact>),
    Ends(Outcome),
}

/// Reverts the checkpoint if the messages that it replaced, and all later ones, fit.
pub(super) fn decide(
    state: &State,
    turn: &Turn,
    view: &View<'_>,
    budgets: &Budgets,
    checkpoint: CheckpointId,
) -> Decision {
    let first = budgets.iter().next();
    let tokens = |view: &View<'_>| {
        let count = first.and_then(|budget| view.effective(budget));
        count.unwrap_or_default().tokens
    };
    // The revert is recorded, but a crash interrupted the end of its turn.
    if let Some(before) = turn.tokens_before.filter(|_| turn.covered) {
        let after = tokens(view);
        return Decision::Ends(Outcome::Reverted { before, after });
    }
    let head = view.head();
    let found = match state.checkpoints.status(&state.tree, head, checkpoint) {
        Ok(found) => found,
        Err(why) => return failed("not_active", why.to_string()),
    };
    let (checkpoints, alterations) = state.without_checkpoint(head, checkpoint);
    let pinned = &state.pinned;
    let after = View::new(&state.tree, &checkpoints, &alterations, pinned, head, false);
    let overflow = budgets.iter().find_map(|budget| {
        let needed = after.as_ref()?.effective(budget)?.at_most;
        (needed > budget.usable).then(|| {
            format!(
                "without checkpoint {} the context has {needed} tokens, but only {} are usable \
                 of a window of {}",
                found.number, budget.usable, budget.window
            )
        })
    });
    match overflow {
        Some(overflow) => failed("revert_overflow", overflow),
        None => Decision::Reverted(Box::new(Fact::Reverted {
            turn: Some(turn.accepted.id),
            checkpoint,
            before: tokens(view),
        })),
    }
}

fn failed(code: &str, reason: String) -> Decision {
    Decision::Ends(Outcome::Failed {
        code: code.into(),
        reason: reason.into(),
    })
}
