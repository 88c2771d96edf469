//! A turn is to stop, with all its runs.

use unisono_context::TurnId;

use crate::event::Outcome;
use crate::machine::Refusal;

use super::Tx;

/// Refused for a turn that is not open: there is nothing to stop.
pub(super) fn handle(tx: &mut Tx<'_>, turn: TurnId) -> Result<(), Refusal> {
    if !tx.state.turns.contains_key(&turn) {
        return Err(Refusal::UnknownTurn(turn));
    }
    Ok(tx.end_turn(turn, Outcome::Cancelled)?)
}
