//! A provider counted a context, or could not be asked.

use std::sync::Arc;

use unisono_context::{Tokens, TurnId};

use crate::event::Fact;
use crate::turn::Phase;
use crate::{fold, measure};

use super::Tx;

/// Records it once for each model of a turn that waits for it: what others did meanwhile may have
/// let it go on.
pub(super) fn handle(
    tx: &mut Tx<'_>,
    turn: TurnId,
    model: &Arc<str>,
    estimated: Tokens,
    reported: Option<Tokens>,
) -> Result<(), fold::Error> {
    let Some(open) = tx.state.turns.get(&turn) else {
        return Ok(());
    };
    let mut known = open.accepted.calibrations.iter();
    let known = known.find(|known| known.model == *model);
    let waits = matches!(open.phase, Phase::Preparing) && !open.measured.contains(model);
    match known.filter(|_| waits) {
        Some(before) => {
            let calibration = measure::measured(before, estimated, reported);
            tx.record(Fact::Measured { turn, calibration })
        }
        None => Ok(()),
    }
}
