//! Tool calls that wait for a person while a client waits for an answer.

use unisono::approvals;
use unisono_api::fmt::shown_arguments;
use unisono_context::{SessionId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::run::calls::{CallStatus, WaitingCall};

/// The calls of a turn that wait for a person. If the turn is queued: those of the turn that it waits
/// for.
pub(crate) async fn waiting(session: &Handle, turn: TurnId) -> Result<Vec<WaitingCall>, String> {
    let waiting = approvals::waiting(session, turn).await;
    waiting.map_err(|error| error.to_string())
}

/// Why a new turn of a branch is refused: the branch's active turn waits for a person. None: it does
/// not. A queued turn would be begun again by each repetition of its request.
pub(crate) async fn refusal(
    session: &Handle,
    branch: &str,
) -> Result<Option<String>, RuntimeError> {
    let waiting = approvals::waiting_on(session, branch).await?;
    let Some(first) = waiting.first() else {
        return Ok(None);
    };
    let text = describe_calls(session.id(), first.turn, &waiting);
    Ok(Some(format!(
        "{text}No other turn was begun on the branch {branch}. Once that is decided, repeat the request."
    )))
}

pub(crate) fn describe_calls(session: SessionId, turn: TurnId, waiting: &[WaitingCall]) -> String {
    let ahead = waiting.first().map(|first| first.turn);
    let mut text = match ahead.filter(|ahead| *ahead != turn) {
        Some(ahead) => format!(
            "turn {turn} of session {session} waits for turn {ahead}, which waits for a person:\n"
        ),
        None => format!("turn {turn} of session {session} waits for a person:\n"),
    };
    for one in waiting {
        let (call, agent) = (one.id, &one.agent);
        let planned = &one.call.planned;
        // Clients give this text to their models, and a file may be among the arguments.
        let (tool, arguments) = (&planned.tool, shown_arguments(&planned.arguments));
        text += &match one.call.status {
            CallStatus::InDoubt => format!(
                "- nobody knows whether call {call} was made: {agent} called {tool} {arguments}. \
                 `unisono approvals settle {call}` with --done, --failed or --repeat says what became of it\n"
            ),
            _ => format!(
                "- {agent} wants to call {tool} {arguments}. `unisono approvals approve {call}` \
                 or `unisono approvals deny {call}` decides, as does the page of `unisono serve`\n"
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use unisono_context::{CallId, RunId, Timestamp};
    use unisono_session::run::calls::{CallPlace, PlannedCall, TrackedCall};
    use unisono_session::tool::Contract;

    use super::*;

    #[test]
    fn a_description_of_a_call_has_the_beginning_of_long_arguments() {
        let turn = TurnId::from_u128(3);
        let waiting = WaitingCall {
            id: CallId::from_u128(1),
            place: CallPlace {
                run: RunId::from_u128(2),
                round: 1,
                index: 0,
            },
            turn,
            agent: "clerk".into(),
            call: TrackedCall {
                planned: PlannedCall {
                    call_id: "c".into(),
                    tool: "files__write".into(),
                    arguments: format!("{{\"text\":\"{}\"}}", "x".repeat(500_000)).into(),
                    contract: Contract::AtMostOnce,
                    approval: None,
                    hooks: Vec::new(),
                    permitted: None,
                },
                asked_at: Timestamp(0),
                status: CallStatus::AwaitingApproval,
                task: None,
            },
        };
        let text = describe_calls(SessionId::from_u128(4), turn, &[waiting]);
        assert!(text.contains("clerk wants to call files__write {\"text\":\"xx"));
        assert!(text.contains("characters are not shown") && text.len() < 4_000);
        assert!(text.contains("unisono approvals approve 0"), "{text}");
    }
}
