//! Takes open turns as far as they can go: T0 to T7, until somebody has to be asked.

use std::sync::Arc;

use unisono_context::compaction;
use unisono_context::{MessageId, Snapshot, SnapshotId, Tokens, TurnId};

use crate::agent::ContextMode;
use crate::due;
use crate::event::{Fact, OpenedRun, Outcome, RunRole, Work};
use crate::ids;
use crate::machine::Refusal;
use crate::run::Ending;
use crate::turn::{Phase, Turn};

use super::Tx;

/// A compaction of more steps than this is given up; each step shrinks the context, so only a
/// defect reaches it.
const STEPS_MAX: u32 = 64;

/// Advances every turn until nothing more follows.
pub(crate) fn advance(tx: &mut Tx<'_>) -> Result<(), Refusal> {
    loop {
        let before = tx.events.len();
        for turn in tx.state.turns.keys().copied().collect::<Vec<_>>() {
            step(tx, turn)?;
        }
        if tx.events.len() == before {
            return Ok(());
        }
    }
}

fn step(tx: &mut Tx<'_>, id: TurnId) -> Result<(), Refusal> {
    let Some(turn) = tx.state.turns.get(&id) else {
        return Ok(());
    };
    match &turn.phase {
        Phase::Queued => {
            let queue = tx.state.queues.get(&turn.accepted.branch);
            let first = queue.and_then(|queue| queue.front()) == Some(&id);
            if first {
                tx.record(Fact::TurnStarted { turn: id })
            } else {
                Ok(())
            }
        }
        Phase::Preparing => prepare(tx, id),
        Phase::Compacting(_) => Ok(()),
        Phase::Frozen { snapshot, .. } => {
            let snapshot = *snapshot;
            work(tx, id, snapshot)
        }
    }
}

/// T1–T3: when all is counted, plan the next compaction step, or freeze.
fn prepare(tx: &mut Tx<'_>, id: TurnId) -> Result<(), Refusal> {
    let state = &*tx.state;
    let Some(turn) = state.turns.get(&id) else {
        return Ok(());
    };
    if !turn
        .encodings()
        .into_iter()
        .all(|encoding| due::counted(state, turn, encoding))
    {
        return Ok(());
    }
    let Some(budgets) = turn.budgets(state.preamble_counts(&turn.preamble)) else {
        return Ok(());
    };
    let answer = matches!(turn.accepted.work, Work::Answer { .. });
    let head = head_of(tx, turn)?;
    let unknown = || Refusal::UnknownBranch(turn.accepted.branch.clone());
    let view = state.view(head, answer).ok_or_else(unknown)?;
    let policy = &turn.accepted.policy;
    if turn.covered && !answer {
        return finish_compaction(tx, id, head);
    }
    match compaction::plan(&view, &budgets, policy, turn.mode(), tx.now) {
        Ok(Some(plan)) if turn.steps_planned < STEPS_MAX => {
            tx.record(Fact::CompactionPlanned { turn: id, plan })
        }
        Ok(_) if !answer => finish_compaction(tx, id, head),
        Ok(_) => {
            let snapshot = Snapshot::freeze(&view, turn.preamble.clone());
            freeze(tx, id, snapshot)
        }
        Err(error @ compaction::Error::Overflow { .. }) => {
            tx.fail_turn(id, "context_overflow", error.to_string())
        }
        Err(compaction::Error::Uncounted) => Ok(()),
    }
}

fn head_of(tx: &Tx<'_>, turn: &Turn) -> Result<MessageId, Refusal> {
    let branch = &turn.accepted.branch;
    tx.state
        .tree
        .head(branch)
        .ok_or_else(|| Refusal::UnknownBranch(branch.clone()))
}

fn freeze(tx: &mut Tx<'_>, id: TurnId, snapshot: Snapshot) -> Result<(), Refusal> {
    tx.record(Fact::Frozen {
        turn: id,
        snapshot: snapshot.id(),
        manifest: snapshot.manifest().clone(),
    })?;
    if let Some(turn) = tx.state.turns.get_mut(&id) {
        turn.snapshot.0 = Some(Arc::new(snapshot));
    }
    Ok(())
}

/// A compaction on request ends as soon as its step is committed, or when there is none.
fn finish_compaction(tx: &mut Tx<'_>, id: TurnId, head: MessageId) -> Result<(), Refusal> {
    let state = &*tx.state;
    let Some(turn) = state.turns.get(&id) else {
        return Ok(());
    };
    let budgets = turn.budgets(state.preamble_counts(&turn.preamble));
    let after =
        budgets.and_then(|budgets| state.view(head, false)?.effective(budgets.iter().next()?));
    let after = after.map_or(Tokens::ZERO, |count| count.tokens);
    let before = turn.tokens_before.unwrap_or(after);
    tx.record(Fact::TurnEnded {
        turn: id,
        outcome: Outcome::Compacted { before, after },
    })
}

/// T4–T7: open the fan-out, then the lead's run, then end the turn.
fn work(tx: &mut Tx<'_>, id: TurnId, snapshot: SnapshotId) -> Result<(), Refusal> {
    let Some(turn) = tx.state.turns.get(&id) else {
        return Ok(());
    };
    let lead = tx.state.runs_of(turn).find(|run| run.role == RunRole::Lead);
    if let Some(run) = lead {
        return match run.ending.clone().as_deref() {
            None => Ok(()),
            Some(Ending::Finished { .. }) => tx.record(Fact::TurnEnded {
                turn: id,
                outcome: Outcome::Answered,
            }),
            Some(Ending::Failed { reason, .. }) => {
                let reason = format!("agent {} failed: {reason}", run.agent);
                tx.fail_turn(id, "lead_failed", reason)
            }
            Some(Ending::Cancelled) => tx.end_turn(id, Outcome::Cancelled),
        };
    }
    if turn.prefixes.0.is_none() {
        return Ok(());
    }
    let delegates = turn.team.delegates.len();
    let opened = turn.runs.len();
    if opened < delegates {
        for index in opened..delegates {
            open_run(
                tx,
                id,
                RunRole::Delegate {
                    index: index as u32,
                },
                snapshot,
            )?;
        }
        return Ok(());
    }
    let open = tx.state.runs_of(turn).any(|run| run.is_open());
    if open {
        Ok(())
    } else {
        open_run(tx, id, RunRole::Lead, snapshot)
    }
}

fn open_run(
    tx: &mut Tx<'_>,
    id: TurnId,
    role: RunRole,
    snapshot: SnapshotId,
) -> Result<(), Refusal> {
    let turn = tx.state.turns.get(&id).ok_or(Refusal::UnknownTurn(id))?;
    let digest = match role {
        RunRole::Lead => turn.accepted.lead,
        RunRole::Delegate { index } => turn.accepted.delegates[index as usize].0,
    };
    let definition = turn.definition(digest).cloned();
    let prefix = turn
        .prefixes
        .0
        .as_ref()
        .and_then(|prefixes| prefixes.get(&digest))
        .copied();
    let (Some(definition), Some(prefix)) = (definition, prefix) else {
        let reason = format!(
            "no prompt was rendered for agent definition {}",
            digest.short()
        );
        return tx.fail_turn(id, "render_failed", reason);
    };
    let shared = definition.context == ContextMode::Snapshot;
    tx.record(Fact::RunOpened {
        run: OpenedRun {
            id: ids::run(id, turn.runs.len() as u32),
            turn: id,
            role,
            agent: definition.id.clone(),
            definition: digest,
            snapshot: shared.then_some(snapshot),
            prefix,
        },
    })
}
