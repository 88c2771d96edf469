//! Whether a rebuilt request was sent, according to the journal.

use unisono_session::agent::{AgentKind, ContextMode};
use unisono_session::assignment::RunAssignment;
use unisono_session::run::{Ending, Run, RunCause};

use super::RebuiltRequest;
use crate::agent::{a2a, acp};

/// Marks the requests to a model. Each request before the last one has a reply, or was rejected as
/// too large; the last one may be unsent.
pub(super) fn mark_model_requests(
    run: &Run,
    assignment: &RunAssignment,
    requests: &mut [RebuiltRequest],
) {
    let too_small =
        assignment.definition.context == ContextMode::Snapshot && run.snapshot.is_none();
    let last = requests.len().saturating_sub(1);
    for (at, request) in requests.iter_mut().enumerate() {
        let is_traced = run.requested == Some(request.known);
        // The calls of a run with budgets are in the journal before they are made.
        let is_over = !assignment.bounded && ended_with_request(run);
        let is_last_sent = request.reply.is_some() || is_traced || is_over;
        request.sent = !too_small && (at < last || is_last_sent);
    }
}

/// Marks the inputs of a program or a server.
pub(super) fn mark_documents(run: &Run, kind: &AgentKind, documents: &mut [RebuiltRequest]) {
    for document in documents {
        document.sent = match kind {
            AgentKind::A2a(_) => a2a::is_message_begun(&run.steps),
            AgentKind::Acp(_) => acp::is_prompt_begun(&run.steps),
            _ => document.attempt < Some(run.attempt) || ended_with_request(run),
        };
    }
}

/// Whether the end of the run shows that its last request was sent.
fn ended_with_request(run: &Run) -> bool {
    match run.ending.as_deref() {
        Some(Ending::Finished { .. }) => true,
        Some(Ending::Failed { cause, .. }) => !matches!(
            cause,
            RunCause::Spawn
                | RunCause::Busy
                | RunCause::BadInput
                | RunCause::SnapshotMismatch
                | RunCause::Budget
        ),
        Some(Ending::Cancelled) | None => false,
    }
}
