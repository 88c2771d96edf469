//! Creates a branch at a message, or moves it there.

use std::sync::Arc;

use unisono_context::{MessageId, tree};

use crate::event::Fact;
use crate::input::MAX_BRANCH;
use crate::refusal::Refusal;

use super::Recorder;

/// Refused while a turn is open on the branch: its messages would be appended elsewhere.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    branch: Arc<str>,
    at: MessageId,
) -> Result<(), Refusal> {
    check_name(&branch)?;
    if recorder.state.tree.get(at).is_none() {
        return Err(tree::Error::UnknownMessage(at).into());
    }
    if recorder.state.active_turn(&branch).is_some() {
        return Err(Refusal::BranchBusy(branch));
    }
    Ok(recorder.record(Fact::BranchSet { branch, head: at })?)
}

/// A name must be printable on one line, in tables and on terminals.
pub(super) fn check_name(branch: &Arc<str>) -> Result<(), Refusal> {
    let fits = branch.chars().take(MAX_BRANCH + 1).count() <= MAX_BRANCH;
    if branch.trim().is_empty() || branch.contains(char::is_control) || !fits {
        return Err(Refusal::BranchName(branch.clone()));
    }
    Ok(())
}
