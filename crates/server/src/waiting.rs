//! Tool calls that wait for a person while a client waits for an answer.

use unisono::approvals;
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
        let (tool, arguments) = (&one.call.planned.tool, &one.call.planned.arguments);
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
