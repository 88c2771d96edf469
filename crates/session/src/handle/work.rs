//! The phases after the freeze: T4 to T7. Delegates work in parallel. The stages of a pipeline work
//! one after the other; each is opened when the one before it has ended.

use std::sync::Arc;

use unisono_context::{Digest, RunId, TurnId};

use crate::agent::{ContextMode, Definition};
use crate::event::{Fact, OpenedRun, Outcome, RunRole};
use crate::fold;
use crate::ids;
use crate::run::{Ending, Run, RunCause};
use crate::turn::{Phase, Turn};

use super::{Recorder, children, run_ended};

/// A run that can be opened, or the digest of the definition without a rendered prompt.
pub(super) type Opening = Result<OpenedRun, Digest>;

/// Opens the fan-out, or the pipeline stage by stage, then the lead's run; then ends the turn with
/// the lead's outcome. Runs of delegated tasks are opened whenever they are requested.
pub(super) fn advance(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    open_team(recorder, id)?;
    children::open(recorder, id)
}

fn open_team(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    let Some(turn) = recorder.state.turns.get(&id) else {
        return Ok(());
    };
    if turn.run(RunRole::Lead).is_some() {
        return match outcome(recorder, turn) {
            Some(outcome) => recorder.end_turn(id, outcome),
            None => Ok(()),
        };
    }
    let rendered = turn.prefixes.0.is_some();
    let fan_out = turn.team.delegates.len();
    let opened = turn.fan_out.len();
    let next = if opened < fan_out && !turn.is_pipeline() {
        opened..fan_out
    } else if turn.open_fan_out == 0 {
        opened..opened + 1
    } else {
        return Ok(());
    };
    if !rendered {
        return Ok(());
    }
    let roles = turn.roles().enumerate();
    let openings = roles.skip(next.start).take(next.len());
    let openings = openings.map(|(index, role)| {
        let (agent, definition) = turn.agent(role).ok_or(turn.accepted.lead)?;
        opening(turn, ids::run(id, index as u32), role, agent, definition)
    });
    let openings = openings.collect();
    record_openings(recorder, id, openings)
}

/// Records the runs as opened; if one of them cannot be opened, the turn fails instead.
pub(super) fn record_openings(
    recorder: &mut Recorder<'_>,
    id: TurnId,
    openings: Vec<Opening>,
) -> Result<(), fold::Error> {
    match openings
        .into_iter()
        .collect::<Result<Vec<OpenedRun>, Digest>>()
    {
        Ok(runs) => runs
            .into_iter()
            .try_for_each(|run| record_opening(recorder, run)),
        Err(digest) => {
            let digest = digest.short();
            let reason = format!("no prompt was rendered for agent definition {digest}");
            recorder.fail_turn(id, "render_failed", reason)
        }
    }
}

/// Opens a run. If its agent is too small for the frozen context, the run ends at once, with the
/// numbers. That may end its turn; then no more runs are opened.
fn record_opening(recorder: &mut Recorder<'_>, run: OpenedRun) -> Result<(), fold::Error> {
    let Some(turn) = recorder.state.turns.get(&run.turn) else {
        return Ok(());
    };
    let (id, too_small) = (run.id, turn.too_small_reason(run.definition));
    recorder.record(Fact::RunOpened { run })?;
    match too_small {
        Some(reason) => run_ended::failed(recorder, id, (RunCause::Overflow, reason), None),
        None => Ok(()),
    }
}

/// Ends open runs whose agents are too small, after a crash between their opening and their end.
pub(super) fn refuse_too_small(recorder: &mut Recorder<'_>, id: TurnId) -> Result<(), fold::Error> {
    let Some(turn) = recorder.state.turns.get(&id) else {
        return Ok(());
    };
    let open = recorder.state.runs_of(turn).filter(|run| run.is_open());
    let too_small = open.filter_map(|run| Some((run.id, turn.too_small_reason(run.definition)?)));
    for (run, reason) in too_small.collect::<Vec<_>>() {
        if recorder.state.runs.get(&run).is_some_and(Run::is_open) {
            run_ended::failed(recorder, run, (RunCause::Overflow, reason), None)?;
        }
    }
    Ok(())
}

/// The outcome of the turn, once its lead has ended.
fn outcome(recorder: &Recorder<'_>, turn: &Turn) -> Option<Outcome> {
    let run = recorder.state.runs.get(&turn.run(RunRole::Lead)?)?;
    Some(match run.ending.as_deref()? {
        Ending::Finished { .. } => Outcome::Answered,
        Ending::Failed { cause, reason, .. } => Outcome::Failed {
            code: "lead_failed".into(),
            reason: format!("agent {} failed: {}", run.agent, cause.describe(reason)).into(),
        },
        Ending::Cancelled => Outcome::Cancelled,
    })
}

pub(super) fn opening(
    turn: &Turn,
    id: RunId,
    role: RunRole,
    agent: &Arc<Definition>,
    definition: Digest,
) -> Opening {
    let Phase::Frozen { snapshot, .. } = &turn.phase else {
        return Err(definition);
    };
    let prefixes = turn.prefixes.0.as_ref();
    let prefix = prefixes.and_then(|prefixes| prefixes.get(&definition));
    let too_small = turn.too_small_reason(definition).is_some();
    let shared = agent.context == ContextMode::Snapshot && !too_small;
    Ok(OpenedRun {
        id,
        turn: turn.accepted.id,
        role,
        agent: agent.id.clone(),
        definition,
        snapshot: shared.then_some(*snapshot),
        prefix: *prefix.ok_or(definition)?,
    })
}
