//! A turn is accepted: it waits until its branch is free, then its input is appended.

use std::sync::Arc;

use unisono_context::TurnId;
use unisono_context::message::Part;

use crate::agent::Definition;
use crate::event::{AcceptedTurn, Fact, Work};
use crate::machine::{NewTurn, Refusal};
use crate::state::MAIN;

use super::Tx;

/// Idempotent: a turn that is known already changes nothing.
pub(super) fn handle(tx: &mut Tx<'_>, new: NewTurn) -> Result<(), Refusal> {
    if is_known(tx, new.id) {
        return Ok(());
    }
    check(tx, &new)?;
    let lead = define(tx, &new.team.lead)?;
    let mut delegates = Vec::with_capacity(new.team.delegates.len());
    for delegate in &new.team.delegates {
        delegates.push((define(tx, &delegate.agent)?, delegate.task.clone()));
    }
    tx.record(Fact::TurnAccepted {
        turn: AcceptedTurn {
            id: new.id,
            branch: new.branch,
            work: new.work,
            policy: new.policy,
            safety: new.safety,
            lead,
            delegates,
            tools: new.tools,
        },
    })
}

fn is_known(tx: &Tx<'_>, turn: TurnId) -> bool {
    tx.state.turns.contains_key(&turn) || tx.state.ended.contains_key(&turn)
}

fn check(tx: &Tx<'_>, new: &NewTurn) -> Result<(), Refusal> {
    let exists = tx.state.tree.head(&new.branch).is_some();
    let first_of_session = tx.state.tree.is_empty() && &*new.branch == MAIN;
    match &new.work {
        Work::Answer { input } => {
            let blank = |part: &Part| part.countable_text().trim().is_empty();
            if input.parts.iter().all(blank) {
                return Err(Refusal::EmptyTask);
            }
            if tx.state.tree.get(input.id).is_some() {
                return Err(unisono_context::tree::Error::DuplicateId(input.id).into());
            }
            if exists || first_of_session {
                return Ok(());
            }
        }
        Work::Compact { .. } if exists => return Ok(()),
        Work::Compact { .. } => {}
    }
    Err(Refusal::UnknownBranch(new.branch.clone()))
}

fn define(
    tx: &mut Tx<'_>,
    definition: &Arc<Definition>,
) -> Result<unisono_context::Digest, Refusal> {
    let digest = definition.digest();
    if !tx.state.definitions.contains_key(&digest) {
        tx.record(Fact::Defined {
            definition: definition.clone(),
        })?;
    }
    Ok(digest)
}
