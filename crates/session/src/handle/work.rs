//! What follows once the context is frozen: T4 to T7.

use unisono_context::{Digest, TurnId};

use crate::agent::ContextMode;
use crate::event::{Fact, OpenedRun, Outcome, RunRole};
use crate::fold;
use crate::ids;
use crate::run::Ending;
use crate::turn::{Phase, Turn};

use super::Tx;

/// Opens the fan-out, then the lead's run, then ends the turn as that did.
pub(super) fn advance(tx: &mut Tx<'_>, id: TurnId) -> Result<(), fold::Error> {
    let Some(turn) = tx.state.turns.get(&id) else {
        return Ok(());
    };
    if turn.run(RunRole::Lead).is_some() {
        return match outcome(tx, turn) {
            Some(outcome) => tx.end_turn(id, outcome),
            None => Ok(()),
        };
    }
    let rendered = turn.prefixes.0.is_some();
    let fan_out = turn.team.delegates.len();
    let opened = turn.runs.len();
    let next = if opened < fan_out {
        opened..fan_out
    } else if turn.open_runs == 0 {
        opened..opened + 1
    } else {
        return Ok(());
    };
    if !rendered {
        return Ok(());
    }
    let roles = turn.roles().enumerate();
    let openings = roles.skip(next.start).take(next.len());
    let openings: Result<Vec<OpenedRun>, Digest> = openings
        .map(|(index, role)| opening(turn, index as u32, role))
        .collect();
    match openings {
        Ok(runs) => runs
            .into_iter()
            .try_for_each(|run| tx.record(Fact::RunOpened { run })),
        Err(digest) => {
            let digest = digest.short();
            let reason = format!("no prompt was rendered for agent definition {digest}");
            tx.fail_turn(id, "render_failed", reason)
        }
    }
}

/// How the turn ends, once its lead has.
fn outcome(tx: &Tx<'_>, turn: &Turn) -> Option<Outcome> {
    let run = tx.state.runs.get(&turn.run(RunRole::Lead)?)?;
    Some(match run.ending.as_deref()? {
        Ending::Finished { .. } => Outcome::Answered,
        Ending::Failed { reason, .. } => Outcome::Failed {
            code: "lead_failed".into(),
            reason: format!("agent {} failed: {reason}", run.agent).into(),
        },
        Ending::Cancelled => Outcome::Cancelled,
    })
}

/// The run in that place; the digest of its definition where no prompt was rendered for it.
fn opening(turn: &Turn, index: u32, role: RunRole) -> Result<OpenedRun, Digest> {
    let (Some((agent, definition)), Phase::Frozen { snapshot, .. }) =
        (turn.agent(role), &turn.phase)
    else {
        return Err(turn.accepted.lead);
    };
    let prefixes = turn.prefixes.0.as_ref();
    let prefix = prefixes.and_then(|prefixes| prefixes.get(&definition));
    let shared = agent.context == ContextMode::Snapshot;
    Ok(OpenedRun {
        id: ids::run(turn.accepted.id, index),
        turn: turn.accepted.id,
        role,
        agent: agent.id.clone(),
        definition,
        snapshot: shared.then_some(*snapshot),
        prefix: *prefix.ok_or(definition)?,
    })
}
