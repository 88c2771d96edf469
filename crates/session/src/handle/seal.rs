//! Ends the current topic of a branch at a person's request.

use std::sync::Arc;

use crate::event::Fact;
use crate::refusal::Refusal;

use super::Recorder;

/// The minimum number of messages of a topic.
const MESSAGES_LEAST: u32 = 2;

/// Refused while a turn is open on the branch, because its messages belong to the topic, and if
/// there is no topic to end.
pub(super) fn handle(recorder: &mut Recorder<'_>, branch: Arc<str>) -> Result<(), Refusal> {
    let tree = &recorder.state.tree;
    let Some(last) = tree.head(&branch) else {
        return Err(Refusal::UnknownBranch(branch));
    };
    if recorder.state.active_turn(&branch).is_some() {
        return Err(Refusal::BranchBusy(branch));
    }
    let next = tree.get(last).map_or(0, |node| node.ordinal().0 + 1);
    let messages = next - recorder.state.topics.current(tree, last).0.min(next);
    if messages < MESSAGES_LEAST {
        return Err(Refusal::NothingToSeal { branch, messages });
    }
    Ok(recorder.record(Fact::TopicSealed { branch, last })?)
}
