//! A provider counted a context, or could not be asked.

use std::sync::Arc;

use unisono_context::{Tokens, TurnId};

use crate::event::Fact;
use crate::turn::Phase;
use crate::{fold, measure};

use super::Recorder;

/// Records it once for each model of a turn whose context is not frozen: the ratio it gives holds
/// for whatever the context has become since, also where another branch's turn let this one go on
/// without it. Once the context is frozen it is too late: an attempt after a crash must ask what
/// the one before it asked, so what runs are told of their models changes no more. Nothing is
/// lost by that: the model has learnt from its provider's count, and the next turn begins with it.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    turn: TurnId,
    model: &Arc<str>,
    estimated: Tokens,
    reported: Option<Tokens>,
) -> Result<(), fold::Error> {
    let Some(open) = recorder.state.turns.get(&turn) else {
        return Ok(());
    };
    let mut known = open.accepted.calibrations.iter();
    let known = known.find(|known| known.model == *model);
    let decides = matches!(open.phase, Phase::Preparing | Phase::Compacting(_));
    let first = !open.measured.contains(model);
    match known.filter(|_| decides && first) {
        Some(before) => {
            let calibration = measure::updated_calibration(before, estimated, reported);
            recorder.record(Fact::Measured { turn, calibration })
        }
        None => Ok(()),
    }
}
