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
use tokio::time::Instant;
use unisono_session::run::calls::CallOutput;

use super::connection::Connection;
use super::{Handle, NO_ANSWER, Server, output, within};

/// The pause between polls if the server suggests none, and the bounds of its suggestion.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of polls in succession that fail.
const FAILURES: u32 = 8;
/// The number of invalid answers in succession that end the call.
const INVALID: u32 = 3;
/// The time after which failures in succession end the call.
const PATIENCE: Duration = Duration::from_secs(300);
/// The pause after the first failed poll; it doubles.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerTask {
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

enum Polled {
    Working(Duration),
    Ended(CallOutput),
    /// The server does not know it.
    Forgotten,
    /// The answer is no state of the task.
    Invalid(String),
}

/// The polls in succession that failed.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    invalid: u32,
    since: Option<Instant>,
}

impl Failures {
    /// Counts a poll without an answer; returns the pause before the next one.
    ///
    /// # Errors
    /// The reason, if there were too many.
    fn no_answer(&mut self, reason: String) -> Result<Duration, String> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.count == FAILURES || since.elapsed() >= PATIENCE {
            return Err(reason);
        }
        let pause = AFTER_FAILURE * 2_u32.saturating_pow(self.count);
        self.count += 1;
        Ok(pause)
    }

    /// Counts a poll with an invalid answer; returns the pause before the next one.
    ///
    /// # Errors
    /// The reason, if there were too many.
    fn invalid_answer(&mut self, server: &Server, reason: &str) -> Result<Duration, String> {
        self.invalid += 1;
        if self.invalid < INVALID {
            return self.no_answer(server.fault(reason).to_string());
        }
        let reason = format!("{reason}, {INVALID} times in succession");
        Err(server.fault(reason).to_string())
    }
}

pub(super) enum TaskEnd {
    /// With the result of the call.
    Output(CallOutput),
    /// The server does not know the task.
    Forgotten,
}

/// Polls a task until it has ended. Files of its result have at most `max_file_bytes` bytes each.
///
/// # Errors
/// The server did not answer, or its answer was invalid, several times in succession.
pub(super) async fn follow(
    handle: &Handle,
    task: &ServerTask,
    max_file_bytes: u64,
) -> Result<TaskEnd, String> {
    let (mut failures, mut pause) = (Failures::default(), task.pause);
    loop {
        tokio::time::sleep(pause).await;
        pause = match poll(handle, &task.id, max_file_bytes).await {
            Ok(Polled::Working(next)) => {
                failures = Failures::default();
                next
            }
            Ok(Polled::Ended(output)) => return Ok(TaskEnd::Output(output)),
            Ok(Polled::Forgotten) => return Ok(TaskEnd::Forgotten),
            Ok(Polled::Invalid(reason)) => failures.invalid_answer(&handle.server, &reason)?,
            Err(reason) => failures.no_answer(reason)?,
        };
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
        Err(ServiceError::UnexpectedResponse) => {
            let reason = format!("answered with something that is no state of task {task:?}");
            return Ok(Polled::Invalid(reason));
        }
        Err(error) => return Err(connection.describe_failure("did not answer", &error)),
    };
    if got.task.task_id != task {
        let reason = format!("answered with the state of another task than {task:?}");
        return Ok(Polled::Invalid(reason));
    }
    let failed =
        |reason: &str| Polled::Ended(CallOutput::text(format!("[failed: {reason}]"), true));
    Ok(match got.payload {
        TaskPayload::Working => Polled::Working(pause(got.task.poll_interval_ms)),
        TaskPayload::Completed { result } => match completed(result, max_file_bytes) {
            Ok(output) => Polled::Ended(output),
            Err(reason) => Polled::Invalid(reason),
        },
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
