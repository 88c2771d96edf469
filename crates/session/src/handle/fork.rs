//! A branch is started at a message, or set there.

use std::sync::Arc;

use unisono_context::{MessageId, tree};

use crate::event::Fact;
use crate::machine::Refusal;

use super::Tx;

/// Refused while a turn works on the branch: its messages would land elsewhere.
pub(super) fn handle(tx: &mut Tx<'_>, branch: Arc<str>, at: MessageId) -> Result<(), Refusal> {
    if tx.state.tree.get(at).is_none() {
        return Err(tree::Error::UnknownMessage(at).into());
    }
    if tx.state.active_turn(&branch).is_some() {
        return Err(Refusal::BranchBusy(branch));
    }
    Ok(tx.record(Fact::BranchSet { branch, head: at })?)
}
