//! Whether a rebuilt request was sent, according to the journal.

use unisono_session::agent::{AgentKind, ContextMode};
use unisono_session::assignment::RunAssignment;
use unisono_session::run::{Ending, Run, RunCause};

use super::RebuiltRequest;
use crate::kinds::{a2a, acp};

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unisono_context::{AgentId, Digest, RunId, Timestamp, TurnId};
    use unisono_session::event::RunRole;
    use unisono_session::run::{AttemptTimes, Step, Usage};

    use super::*;

    fn run(ending: Option<Ending>) -> Run {
        Run {
            id: RunId::from_u128(1),
            turn: TurnId::from_u128(2),
            role: RunRole::Lead,
            agent: AgentId::from("lead"),
            definition: Digest::of_bytes(b"definition"),
            snapshot: None,
            prefix: Digest::of_bytes(b"prefix"),
            attempt: 1,
            not_before: Timestamp(0),
            opened_at: Timestamp(0),
            opened_as: 1,
            steps: Vec::new(),
            rounds: Vec::new(),
            calls: Vec::new(),
            ending: ending.map(Arc::new),
            wrapped_up: None,
            failures: None,
            requested: None,
        }
    }

    fn failed(cause: RunCause) -> Option<Ending> {
        Some(Ending::Failed {
            cause,
            reason: "no".into(),
            duration_ms: 1,
            text: None,
        })
    }

    #[test]
    fn the_end_of_a_run_shows_whether_its_last_request_was_sent() {
        let finished = Some(Ending::Finished {
            text: "done".into(),
            calls: Vec::new(),
            partial: None,
            usage: Usage::NONE,
            duration_ms: 1,
            attempt_times: AttemptTimes::default(),
        });
        for (ending, sent) in [
            (finished, true),
            (failed(RunCause::Unavailable), true),
            (failed(RunCause::Timeout), true),
            (failed(RunCause::Budget), false),
            (failed(RunCause::Spawn), false),
            (failed(RunCause::Busy), false),
            (Some(Ending::Cancelled), false),
            (None, false),
        ] {
            assert_eq!(ended_with_request(&run(ending.clone())), sent, "{ending:?}");
        }
    }

    #[test]
    fn a_message_to_a_remote_agent_counts_as_sent_once_it_has_begun() {
        let step = |name: &str| -> Arc<Step> { Arc::new(Step::named(name, "{}")) };
        assert!(!a2a::is_message_begun(&[]));
        assert!(a2a::is_message_begun(&[step("a2a.sending.1")]));
        assert!(!acp::is_prompt_begun(&[step("acp.place.1")]));
        assert!(acp::is_prompt_begun(&[
            step("acp.place.1"),
            step("acp.prompt.1")
        ]));
    }
}
