//! A turn is to stop, with all its runs, or one of them.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use crate::event::{Fact, Outcome, RunRole};
use crate::machine::Refusal;
use crate::run::{Ending, Run};

use super::{Recorder, children};

/// Refused for a turn that is not open: there is nothing to stop.
pub(super) fn handle(recorder: &mut Recorder<'_>, turn: TurnId) -> Result<(), Refusal> {
    if !recorder.state.turns.contains_key(&turn) {
        return Err(Refusal::UnknownTurn(turn));
    }
    Ok(recorder.end_turn(turn, Outcome::Cancelled)?)
}

/// Stops one run and what it gave to others; nobody is left to answer where it is the lead's.
/// Refused for one that is not open.
pub(super) fn run(recorder: &mut Recorder<'_>, id: RunId) -> Result<(), Refusal> {
    let run = recorder.state.runs.get(&id).filter(|run| run.is_open());
    let Some(&Run { turn, role, .. }) = run else {
        return Err(Refusal::UnknownRun(id));
    };
    if role == RunRole::Lead {
        return Ok(recorder.end_turn(turn, Outcome::Cancelled)?);
    }
    let ending = Arc::new(Ending::Cancelled);
    recorder.record(Fact::RunEnded { run: id, ending })?;
    Ok(children::cancel(recorder, id)?)
}
