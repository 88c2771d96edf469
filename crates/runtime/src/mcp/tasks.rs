//! Calls that a server works on as tasks: polled until they have ended, cancelled with their calls.
//!
//! The id of a task is journaled as soon as the server gives it. A call that a restart interrupted
//! is then not made again: its task is polled.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    CallToolResult, CancelTaskParams, CreateTaskResult, ErrorCode, GetTaskParams, JsonObject,
    TaskPayload,
};
use serde_json::Value;
use unisono_session::run::calls::CallOutput;

use super::connection::Connection;
use super::{Handle, NO_ANSWER, output, within};

/// The pause between polls if the server suggests none, and the bounds of its suggestion.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of polls in succession that fail.
const FAILURES: u32 = 8;
/// The pause after the first failed poll; it doubles.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// A task that a server has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerTask {
    /// The server's id.
    pub(crate) id: Arc<str>,
    /// The pause before the first poll.
    pub(super) pause: Duration,
}

impl From<CreateTaskResult> for ServerTask {
    fn from(made: CreateTaskResult) -> ServerTask {
        ServerTask {
            id: made.task.task_id.as_str().into(),
            pause: pause(made.task.poll_interval_ms),
        }
    }
}

impl ServerTask {
    /// A task of a journaled call.
    pub(super) fn known(id: Arc<str>) -> ServerTask {
        let pause = Duration::ZERO;
        ServerTask { id, pause }
    }
}

/// The state of a task.
enum Polled {
    Working(Duration),
    Ended(CallOutput),
    /// The server does not know it.
    Forgotten,
}

/// How the polling of a task ended.
pub(super) enum TaskEnd {
    /// With the result of the call.
    Output(CallOutput),
    /// The server does not know the task.
    Forgotten,
}

/// Polls a task until it has ended. Files of its result have at most `max_file_bytes` bytes each.
///
/// # Errors
/// The server did not answer, several times in succession.
pub(super) async fn follow(
    handle: &Handle,
    task: &ServerTask,
    max_file_bytes: u64,
) -> Result<TaskEnd, String> {
    let (mut failures, mut pause) = (0, task.pause);
    loop {
        tokio::time::sleep(pause).await;
        match poll(handle, &task.id, max_file_bytes).await {
            Ok(Polled::Working(next)) => (failures, pause) = (0, next),
            Ok(Polled::Ended(output)) => return Ok(TaskEnd::Output(output)),
            Ok(Polled::Forgotten) => return Ok(TaskEnd::Forgotten),
            Err(reason) if failures == FAILURES => return Err(reason),
            Err(_) => {
                pause = AFTER_FAILURE * 2_u32.saturating_pow(failures);
                failures += 1;
            }
        }
    }
}

/// Asks a server to cancel a task. An error changes nothing: the task ends by itself.
pub(super) async fn cancel(handle: &Handle, task: &str) {
    let cancelling = async {
        let connection = handle.connect().await.map_err(|fault| fault.to_string())?;
        let params = CancelTaskParams::new(task);
        let cancelled = connection.peer.cancel_task(params).await;
        cancelled.map_err(|error| error.to_string())
    };
    let cancelled = tokio::time::timeout(handle.server.timeout, cancelling).await;
    if !matches!(cancelled, Ok(Ok(()))) {
        let server = &handle.server.name;
        tracing::debug!(%server, task, ?cancelled, "a task of a tool server was not cancelled");
    }
}

async fn poll(handle: &Handle, task: &str, max_file_bytes: u64) -> Result<Polled, String> {
    let connection = handle.connect().await.map_err(|fault| fault.to_string())?;
    let asking = ask(&connection, task, max_file_bytes);
    let polled = within(handle.server.timeout, NO_ANSWER, asking).await;
    polled.map_err(|reason| handle.server.fault(reason).to_string())
}

async fn ask(connection: &Connection, task: &str, max_file_bytes: u64) -> Result<Polled, String> {
    let got = match connection.peer.get_task(GetTaskParams::new(task)).await {
        Ok(got) => got.task,
        Err(ServiceError::McpError(error))
            if [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND].contains(&error.code) =>
        {
            return Ok(Polled::Forgotten);
        }
        Err(error) => return Err(connection.describe_failure("did not answer", &error)),
    };
    let failed =
        |reason: &str| Polled::Ended(CallOutput::text(format!("[failed: {reason}]"), true));
    Ok(match got.payload {
        TaskPayload::Working => Polled::Working(pause(got.task.poll_interval_ms)),
        TaskPayload::Completed { result } => Polled::Ended(completed(result, max_file_bytes)?),
        TaskPayload::Failed { error } => failed(message(&error)),
        TaskPayload::Cancelled => failed("the server cancelled it"),
        TaskPayload::InputRequired { .. } => {
            let params = CancelTaskParams::new(task);
            // Nobody waits for it any more.
            let _ = connection.peer.cancel_task(params).await;
            failed("it asks for input, which is not supported here")
        }
        _ => failed("its state is not known"),
    })
}

fn completed(result: JsonObject, max_file_bytes: u64) -> Result<CallOutput, String> {
    let result: Result<CallToolResult, _> = serde_json::from_value(Value::Object(result));
    let wrong = |error| format!("sent a result that is not one of a tool: {error}");
    Ok(output::from_result(result.map_err(wrong)?, max_file_bytes))
}

fn message(error: &JsonObject) -> &str {
    let message = error.get("message").and_then(Value::as_str);
    message.unwrap_or("the server does not say why")
}

/// The pause before the next poll.
fn pause(suggested_ms: Option<u64>) -> Duration {
    let suggested = suggested_ms.map_or(PAUSE, Duration::from_millis);
    suggested.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}
