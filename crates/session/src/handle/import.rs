//! A conversation becomes a session. May only be the first input.

use std::sync::Arc;

use unisono_context::checkpoint::Checkpoint;
use unisono_context::{MessageId, Tree};

use crate::event::Fact;
use crate::machine::{Import, Refusal};
use crate::state::MAIN;

use super::{Tx, completed};

/// Checks the whole conversation before anything of it is recorded.
pub(super) fn handle(tx: &mut Tx<'_>, import: Import) -> Result<(), Refusal> {
    let session = import.session.ok_or(Refusal::NoSessionId)?;
    let branches = heads(&import);
    check(&import, &branches)?;
    tx.record(Fact::Created {
        session,
        title: import.title,
        system: import.system,
        labels: import.labels,
    })?;
    for (parent, message) in import.messages {
        tx.record(Fact::Appended {
            branch: None,
            parent,
            message,
        })?;
    }
    for (branch, head) in branches {
        tx.record(Fact::BranchSet { branch, head })?;
    }
    for checkpoint in import.checkpoints {
        let checkpoint = counted(checkpoint);
        let turn = None;
        tx.record(Fact::Compacted { turn, checkpoint })?;
    }
    Ok(())
}

/// With a count in every encoding: one that lacks any could never be part of a context.
fn counted(mut checkpoint: Arc<Checkpoint>) -> Arc<Checkpoint> {
    let counts = completed(checkpoint.counts, || checkpoint.context_text().len());
    if counts != checkpoint.counts {
        Arc::make_mut(&mut checkpoint).counts = counts;
    }
    checkpoint
}

fn heads(import: &Import) -> Vec<(Arc<str>, MessageId)> {
    match import.messages.last() {
        Some((_, last)) if import.branches.is_empty() => vec![(MAIN.into(), last.id)],
        _ => import.branches.clone(),
    }
}

fn check(import: &Import, branches: &[(Arc<str>, MessageId)]) -> Result<(), Refusal> {
    let mut tree = Tree::default();
    for (parent, message) in &import.messages {
        tree.append(*parent, message.clone())?;
    }
    for (branch, head) in branches {
        tree.set_branch(branch, *head)?;
    }
    Ok(())
}
