//! Reverting a checkpoint: restores the context before it, with all later messages.

use std::sync::Arc;

use crate::alteration::{Alteration, Alterations};
use crate::ids::{CheckpointId, MessageId, Ordinal};
use crate::tree::Tree;

use super::{Checkpoint, Checkpoints};

/// Why a checkpoint is not in the context of a branch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevertError {
    /// There is no checkpoint with that id.
    #[error("the session has no such checkpoint")]
    Unknown,
    /// A person has reverted it.
    #[error("checkpoint {number} has already been reverted")]
    Retired {
        /// Its number.
        number: u32,
    },
    /// Another checkpoint has superseded it.
    #[error("checkpoint {number} was superseded by checkpoint {by}: revert {by} first")]
    Superseded {
        /// Its number.
        number: u32,
        /// The checkpoint that is active now.
        by: u32,
    },
    /// The branch has other messages at its cutoff.
    #[error(
        "checkpoint {number} summarises messages up to {cutoff} of another branch: name that branch"
    )]
    Elsewhere {
        /// Its number.
        number: u32,
        /// Its last message.
        cutoff: Ordinal,
    },
    /// An overlapping checkpoint has precedence.
    #[error(
        "checkpoint {to} summarises some of the messages of checkpoint {number}: revert {to} first"
    )]
    GivesWay {
        /// Its number.
        number: u32,
        /// The active checkpoint.
        to: u32,
    },
}

impl Checkpoints {
    /// The checkpoint, if it is in the context of the branch that ends in `head`.
    pub fn status(
        &self,
        tree: &Tree,
        head: MessageId,
        id: CheckpointId,
    ) -> Result<&Arc<Checkpoint>, RevertError> {
        let found = self.get(id).ok_or(RevertError::Unknown)?;
        let number = found.number;
        if self.is_retired(id) {
            return Err(RevertError::Retired { number });
        }
        if !found.applies_to(tree, head) {
            let cutoff = found.cutoff;
            return Err(RevertError::Elsewhere { number, cutoff });
        }
        let active = self.active(tree, head);
        if active.iter().any(|checkpoint| checkpoint.id == id) {
            return Ok(found);
        }
        if let Some(by) = active.iter().find(|c| self.took_over(c, id)) {
            let by = by.number;
            return Err(RevertError::Superseded { number, by });
        }
        let overlapping = active.iter().find(|c| c.overlaps(found));
        let to = overlapping.map_or(number, |c| c.number);
        Err(RevertError::GivesWay { number, to })
    }

    /// Whether a checkpoint supersedes another one, directly or through others.
    fn took_over(&self, checkpoint: &Checkpoint, id: CheckpointId) -> bool {
        let mut open = checkpoint.supersedes.clone();
        while let Some(older) = open.pop() {
            if older == id {
                return true;
            }
            open.extend(self.get(older).iter().flat_map(|c| &c.supersedes));
        }
        false
    }

    /// Whether the newest change of the branch is a reverted checkpoint: the branch then rests
    /// until it is nearly full.
    pub fn rests(&self, tree: &Tree, head: MessageId) -> bool {
        if !self.any_retired() {
            return false;
        }
        let newest = self.iter().rev().find(|c| c.applies_to(tree, head));
        newest.is_some_and(|checkpoint| self.is_retired(checkpoint.id))
    }
}

/// The active checkpoints of the branch that ends in `head` after a checkpoint is reverted. If it
/// was the newest one of the branch, messages that were masked or cut later are complete again: the
/// context is the earlier one, with all later messages.
pub fn reverted(
    tree: &Tree,
    checkpoints: &Checkpoints,
    alterations: &Alterations,
    head: MessageId,
    id: CheckpointId,
) -> (Checkpoints, Alterations) {
    let (mut checkpoints, mut alterations) = (checkpoints.clone(), alterations.clone());
    let Some(number) = checkpoints.get(id).map(|checkpoint| checkpoint.number) else {
        return (checkpoints, alterations);
    };
    let applies = |c: &&Arc<Checkpoint>| !checkpoints.is_retired(c.id) && c.applies_to(tree, head);
    let newest = checkpoints.iter().rev().find(applies).map(|c| c.id);
    checkpoints.retire(id);
    if newest == Some(id) {
        let on_branch = |alteration: &Alteration| {
            let there = tree.node_at(head, alteration.ordinal);
            there.is_some_and(|node| node.message.id == alteration.message)
        };
        alterations.undo_since(number, on_branch);
    }
    (checkpoints, alterations)
}
