//! Runs of delegated tasks: opened on request, cancelled with their parents.

use std::sync::Arc;

use unisono_context::{RunId, TurnId};

use crate::event::{Fact, RunRole};
use crate::fold;
use crate::run::{Ending, Run};
use crate::state::State;
use crate::turn::Turn;

use super::{Recorder, work};

/// Opens the requested runs that are not open yet. Costs nothing if there are none.
pub(super) fn open(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    let turn = recorder.state.turns.get(&id);
    let Some(turn) = turn.filter(|turn| turn.unopened > 0 && turn.prefixes.0.is_some()) else {
        return Ok(());
    };
    let parents = recorder.state.runs_of(turn).filter(|run| run.is_open());
    let unopened: Vec<_> = parents
        .flat_map(|parent| openings(recorder.state, turn, parent))
        .collect();
    work::record_openings(recorder, id, unopened)
}

fn openings(state: &State, turn: &Turn, parent: &Run) -> Vec<work::Opening> {
    let mut openings = Vec::new();
    for round in parent.rounds.iter().filter(|round| round.unopened > 0) {
        for (index, call) in round.calls.iter().enumerate() {
            let id = parent.child(round, index);
            if call.refused.is_some() || state.runs.contains_key(&id) {
                continue;
            }
            let role = RunRole::Child {
                parent: parent.id,
                round: round.number,
                index: index as u32,
            };
            // Only calls of available agents are admitted.
            let Some((agent, definition)) = turn.available(&call.agent) else {
                continue;
            };
            openings.push(work::opening(turn, id, role, agent, definition));
        }
    }
    openings
}

pub(super) fn cancel(recorder: &mut Recorder<'_>, parent: RunId) -> Result<(), fold::Error> {
    let children: Vec<RunId> = match recorder.state.runs.get(&parent) {
        Some(parent) => parent.children().collect(),
        None => return Ok(()),
    };
    for run in children {
        if recorder.state.runs.get(&run).is_some_and(Run::is_open) {
            let ending = Arc::new(Ending::Cancelled);
            recorder.record(Fact::RunEnded { run, ending })?;
            cancel(recorder, run)?;
        }
    }
    Ok(())
}

/// Cancels runs whose parents have ended, after a crash between the two events.
pub(crate) fn cancel_orphans(recorder: &mut Recorder<'_>) -> Result<(), fold::Error> {
    let ended = recorder.state.runs.values().filter(|run| !run.is_open());
    let parents = ended.filter(|run| !run.rounds.is_empty());
    for parent in parents.map(|run| run.id).collect::<Vec<_>>() {
        cancel(recorder, parent)?;
    }
    Ok(())
}
