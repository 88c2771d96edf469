//! A provider counted a context, or could not.

use std::sync::Arc;

use unisono_context::{Tokens, TurnId};

use crate::event::Fact;
use crate::turn::Phase;
use crate::{fold, measure};

use super::Recorder;

/// Records the count once per model of a turn whose context is not frozen. The ratio stays valid if
/// the context changes meanwhile, for example by a turn of another branch. After the freeze it is
/// too late: an attempt after a crash must send the same request as before, so the calibrations of
/// its models must not change. Nothing is lost: the model's calibration has learnt from the count,
/// and the next turn begins with it.
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
