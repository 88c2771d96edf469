//! A turn is to stop, with all its runs, or one of them.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use crate::event::{Fact, Outcome, RunRole};
use crate::machine::Refusal;
use crate::run::{Ending, Run};

use super::{Tx, children};

/// Refused for a turn that is not open: there is nothing to stop.
pub(super) fn handle(tx: &mut Tx<'_>, turn: TurnId) -> Result<(), Refusal> {
    if !tx.state.turns.contains_key(&turn) {
        return Err(Refusal::UnknownTurn(turn));
    }
    Ok(tx.end_turn(turn, Outcome::Cancelled)?)
}

/// Stops one run and what it gave to others; nobody is left to answer where it is the lead's.
/// Refused for one that is not open.
pub(super) fn run(tx: &mut Tx<'_>, id: RunId) -> Result<(), Refusal> {
    let run = tx.state.runs.get(&id).filter(|run| run.is_open());
    let Some(&Run { turn, role, .. }) = run else {
        return Err(Refusal::UnknownRun(id));
    };
    if role == RunRole::Lead {
        return Ok(tx.end_turn(turn, Outcome::Cancelled)?);
    }
    let ending = Arc::new(Ending::Cancelled);
    tx.record(Fact::RunEnded { run: id, ending })?;
    Ok(children::cancel(tx, id)?)
}
