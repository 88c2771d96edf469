//! Tool calls that wait for a person while a client waits for an answer.

use std::future::pending;

use unisono_context::{SessionId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::run::calls::{CallStatus, WaitingCall};
use unisono_session::{Fact, State};

/// Whether a call may wait for a person after this fact.
pub(crate) fn can_wait(fact: &Fact) -> bool {
    matches!(fact, Fact::ToolsCalled { .. } | Fact::ToolInDoubt { .. })
}

/// The calls of a turn that wait for a person.
pub(crate) async fn waiting(session: &Handle, turn: TurnId) -> Result<Vec<WaitingCall>, String> {
    let look = session.inspect(move |state| waiting_in(state, turn));
    look.await.map_err(|error| error.to_string())
}

fn waiting_in(state: &State, turn: TurnId) -> Vec<WaitingCall> {
    let waiting = state.waiting_calls();
    waiting.filter(|call| call.turn == turn).collect()
}

/// Waits until calls of a turn wait for a person. It never returns if none does.
pub(crate) async fn until_waiting(session: &Handle, turn: TurnId) -> Vec<WaitingCall> {
    match next_waiting(session, turn).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::debug!(%error, "calls that wait cannot be followed");
            pending().await
        }
    }
}

async fn next_waiting(session: &Handle, turn: TurnId) -> Result<Vec<WaitingCall>, RuntimeError> {
    loop {
        let look = move |state: &State| (state.events(), waiting_in(state, turn));
        let (seen, waiting) = session.inspect(look).await?;
        if !waiting.is_empty() {
            return Ok(waiting);
        }
        let mut events = session.events(seen).await?;
        while let Some((_, event)) = events.next().await? {
            if can_wait(&event.fact) {
                break;
            }
        }
    }
}

/// The waiting calls, each with the commands that decide it.
pub(crate) fn describe_calls(session: SessionId, turn: TurnId, waiting: &[WaitingCall]) -> String {
    let mut text = format!("turn {turn} of session {session} waits for a person:\n");
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
