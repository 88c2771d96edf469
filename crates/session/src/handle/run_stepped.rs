//! Handles a finished step of a run.

use std::sync::Arc;

use unisono_context::RunId;

use crate::event::Fact;
use crate::fold;
use crate::run::{Run, Step};

use super::Recorder;

/// Records a step of the current attempt. A step of another attempt is late and changes nothing;
/// neither does a named step that is already recorded.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    run: RunId,
    attempt: u32,
    step: Arc<Step>,
) -> Result<(), fold::Error> {
    match recorder.attempt(run, attempt) {
        Some(known) if !is_recorded(known, &step) => {
            let fact = match answered_round(known, &step) {
                Some(round) => Fact::ToolsAnswered { run, round },
                None => Fact::RunStepped { run, step },
            };
            recorder.record(fact)
        }
        _ => Ok(()),
    }
}

/// The round whose recorded results are this step: they are not stored a second time.
fn answered_round(run: &Run, step: &Step) -> Option<u32> {
    let Step::Tools(results) = step else {
        return None;
    };
    let round = run.calls.last()?;
    (round.results()? == *results).then_some(round.number)
}

fn is_recorded(run: &Run, step: &Step) -> bool {
    let Step::Named { name, .. } = step else {
        return false;
    };
    let mut steps = run.steps.iter();
    steps.any(|known| matches!(&**known, Step::Named { name: other, .. } if other == name))
}
