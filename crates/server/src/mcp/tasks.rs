//! Long calls as tasks (extension `io.modelcontextprotocol/tasks`, SEP-2663): the client gets a
//! task in place of an answer, polls it, and finds it again after a restart.
//!
//! A task is a turn; its id names session, turn and the tool whose result it has. Tasks are not stored
//! outside the journal.

use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, InputResponses, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, model::CallToolResult};
use serde_json::Value;
use unisono::{Error, Local, turn_view};
use unisono_api::Code;
use unisono_api::token::Scope;
use unisono_api::turn::Turn;
use unisono_context::{SessionId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::Refusal;
use unisono_session::run::calls::WaitingCall;

use super::answer::TurnProgress;
use super::tools::{ASK, COMPACT, DELEGATE, WAIT};
use super::turns::{decide, read, turn_id};
use super::{Answer, waiting};
use crate::audit::Note;

/// The recommended polling interval.
const LOOK_EVERY_MS: u64 = 2_000;
/// The tools whose calls become tasks.
const TOOLS: [&str; 4] = [ASK, DELEGATE, COMPACT, WAIT];

/// Whether the client of a request knows tasks. The extension belongs to the current revision, in which
/// each request declares it; a handshake of an earlier revision does not count.
pub(super) fn are_known(context: &RequestContext<RoleServer>) -> bool {
    let able = context.meta.client_capabilities();
    able.is_some_and(|able| able.supports_tasks())
}

/// A task in place of the answer of a tool about a turn.
pub(super) fn created(turn: &Turn, tool: &str) -> CreateTaskResult {
    let tool = known_tool(tool).unwrap_or(WAIT);
    let id = format!("{}.{}.{tool}", turn.session, turn.turn);
    CreateTaskResult::new(task(id, turn, TaskStatus::Working))
}

fn known_tool(name: &str) -> Option<&'static str> {
    TOOLS.into_iter().find(|known| *known == name)
}

pub(super) async fn get(
    local: &Local,
    id: &str,
    can_ask: bool,
) -> Result<GetTaskResult, ErrorData> {
    let (session, turn, tool) = find_turn(local, id).await?;
    let can_ask = can_ask && local.caller().allows(Scope::Approve);
    let now = read(local, &session, turn).await.map_err(failed)?;
    let waits = waiting::waiting(&session, turn).await.map_err(failed)?;
    let (payload, message) = payload(&session, now.clone(), tool, waits, can_ask)?;
    let mut task = task(id.to_owned(), &now, payload.status());
    task.status_message = message;
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

fn payload(
    session: &Handle,
    turn: Turn,
    tool: &str,
    waits: Vec<WaitingCall>,
    can_ask: bool,
) -> Result<(TaskPayload, Option<String>), ErrorData> {
    if turn.state == "cancelled" {
        return Ok((TaskPayload::Cancelled, None));
    }
    if turn.ended_at.is_some() {
        let answer = TurnProgress::Ended(turn)
            .into_answer(tool)
            .map_err(failed)?;
        let Answer::Complete(outcome) = answer else {
            return Err(failed("a turn that has ended asks nothing".to_owned()));
        };
        let result = object(&CallToolResult::from(outcome))?;
        return Ok((TaskPayload::Completed { result }, None));
    }
    let questions = waiting::questions(&waits);
    if can_ask && !questions.is_empty() {
        let input_requests = questions;
        return Ok((TaskPayload::InputRequired { input_requests }, None));
    }
    let message = match waits.is_empty() {
        false => waiting::describe(session.id(), turn_id(&turn.turn).map_err(failed)?, &waits),
        true => progress(&turn),
    };
    Ok((TaskPayload::Working, Some(message)))
}

/// Applies the client's decisions about calls that a task waits for. Answers to other questions are
/// ignored, as the extension says: the call may have been decided elsewhere meanwhile.
pub(super) async fn update(
    local: &Local,
    note: &Note,
    id: &str,
    responses: InputResponses,
) -> Result<(), ErrorData> {
    allowed(local, note, Scope::Approve)?;
    let (session, turn, _) = find_turn(local, id).await?;
    let waits = waiting::waiting(&session, turn).await.map_err(failed)?;
    for (key, answer) in responses {
        let decided = waiting::decided(&waits, &key, answer)
            .map_err(|reason| ErrorData::invalid_params(reason, None))?;
        let Some((call, decision)) = decided else {
            continue;
        };
        let decided = decide(local, &session, call, decision).await;
        decided.map_err(failed)?;
    }
    Ok(())
}

pub(super) async fn cancel(local: &Local, note: &Note, id: &str) -> Result<(), ErrorData> {
    allowed(local, note, Scope::Ask)?;
    let (session, turn, _) = find_turn(local, id).await?;
    match session.cancel(turn).await {
        Ok(()) | Err(RuntimeError::Refused(Refusal::UnknownTurn(_))) => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Finds the turn of a task. A client takes the error of an unknown task for its end, so a session that
/// cannot be read now is another error.
async fn find_turn(local: &Local, id: &str) -> Result<(Handle, TurnId, &'static str), ErrorData> {
    let (session, turn, tool) = parse(id).ok_or_else(|| unknown(id))?;
    let opened = local.open(session).await;
    let session = opened.map_err(|error| unread(id, &error))?;
    let known = turn_view::turn(local.journal(), &session, turn).await;
    let known = known.map_err(|error| unread(id, &error.into()))?;
    known.ok_or_else(|| unknown(id))?;
    Ok((session, turn, tool))
}

/// The session, the turn and the tool that an id names.
fn parse(id: &str) -> Option<(SessionId, TurnId, &'static str)> {
    let (session, rest) = id.split_once('.')?;
    let (turn, tool) = rest.split_once('.')?;
    let session = session.parse().ok()?;
    Some((session, turn_id(turn).ok()?, known_tool(tool)?))
}

fn task(id: String, turn: &Turn, status: TaskStatus) -> Task {
    let ended = turn
        .runs
        .iter()
        .filter_map(|run| run.ended_at.as_ref())
        .max();
    let updated = turn
        .ended_at
        .as_ref()
        .or(ended)
        .unwrap_or(&turn.accepted_at);
    Task::new(id, status, &turn.accepted_at, updated).with_poll_interval_ms(LOOK_EVERY_MS)
}

fn progress(turn: &Turn) -> String {
    let ended = turn
        .runs
        .iter()
        .filter(|run| run.ended_at.is_some())
        .count();
    match turn.runs.len() {
        0 => turn.state.clone(),
        all => format!("{}: {ended} of {all} runs have ended", turn.state),
    }
}

fn object(result: &CallToolResult) -> Result<JsonObject, ErrorData> {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(failed("the result cannot be written".to_owned())),
    }
}

/// Rejects a request that the caller's scope does not permit.
fn allowed(local: &Local, note: &Note, needed: Scope) -> Result<(), ErrorData> {
    local.check_scope(needed).map_err(|error| {
        note.refused();
        ErrorData::invalid_request(error.to_string(), None)
    })
}

fn unknown(id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no task {id:?}"), None)
}

/// The error for a task whose session or turn cannot be read.
fn unread(id: &str, error: &Error) -> ErrorData {
    match error.code() {
        Code::NotFound => unknown(id),
        _ => failed(format!("task {id:?} cannot be read now: {error}")),
    }
}

fn failed(reason: String) -> ErrorData {
    ErrorData::internal_error(reason, None)
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn a_task_that_cannot_be_read_now_is_not_unknown() {
        let refused = |error: Error| unread("s.t.ask", &error);
        let missing = refused(Error::not_found("session", "s"));
        assert_eq!(missing, unknown("s.t.ask"));
        assert_eq!(missing.code, ErrorCode::INVALID_PARAMS);
        for code in [Code::Unavailable, Code::Failed, Code::Busy] {
            let error = refused(Error::new(code, "another daemon has it"));
            assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
            assert!(error.message.contains("another daemon has it"));
        }
    }
}
