//! Cancels a turn with all its runs, or one run.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use crate::event::{Fact, Outcome, RunRole};
use crate::refusal::Refusal;
use crate::run::{Ending, Run};

use super::{Recorder, children};

/// Refused if the turn is not open.
pub(super) fn handle(recorder: &mut Recorder<'_>, turn: TurnId) -> Result<(), Refusal> {
    if !recorder.state.turns.contains_key(&turn) {
        return Err(Refusal::UnknownTurn(turn));
    }
    Ok(recorder.end_turn(turn, Outcome::Cancelled)?)
}

/// Cancels a run and the runs that it delegated to; cancelling the lead's run cancels the turn.
/// Refused if the run is not open.
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
