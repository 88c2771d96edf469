//! Pins or unpins messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::{MessageId, tree};

use crate::event::Fact;
use crate::refusal::Refusal;

use super::Recorder;

/// Extends the selection to complete units of the branch: a call without its result, or a result
/// without its call, cannot be shown. Messages already in the requested state are not recorded
/// again.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    branch: &Arc<str>,
    messages: &[MessageId],
    pinned: bool,
) -> Result<(), Refusal> {
    let tree = &recorder.state.tree;
    let head = tree.head(branch);
    let head = head.ok_or_else(|| Refusal::UnknownBranch(branch.clone()))?;
    let mut units: BTreeSet<MessageId> = BTreeSet::new();
    for id in messages {
        let node = tree.get(*id).ok_or(tree::Error::UnknownMessage(*id))?;
        let ordinal = node.ordinal();
        if tree.node_at(head, ordinal).map(|node| node.message.id) != Some(*id) {
            let (message, branch) = (*id, branch.clone());
            return Err(Refusal::NotOnBranch { message, branch });
        }
        units.extend(tree.unit(head, ordinal).iter().map(|node| node.message.id));
    }
    let changed = |id: &MessageId| recorder.state.pinned.contains(id) != pinned;
    let messages: Vec<MessageId> = units.into_iter().filter(changed).collect();
    if messages.is_empty() {
        return Ok(());
    }
    Ok(recorder.record(if pinned {
        Fact::Pinned { messages }
    } else {
        Fact::Unpinned { messages }
    })?)
}
