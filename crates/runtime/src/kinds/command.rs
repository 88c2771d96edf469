//! An agent that is a program: the prompt as JSON on standard input, its answer on standard
//! output, either as a JSON object `{"text": "…", "partial": "…"}` or as plain text.

use std::io;

use rustix::io::Errno;
use serde_json::Value;
use unisono_model::client::SurrogateJoiner;
use unisono_session::agent::Command;
use unisono_session::run::RunCause;

use crate::agent::{Agent, Answer, Ctx, Failure, Task, request};
use crate::process::{self, Error, Job, ProcessOutput};

/// The maximum size of a program's standard output and of any answer, in bytes.
pub(crate) const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// The number of characters of an invalid output that are shown.
const PREVIEW_CHARS: usize = 120;

/// Carries out definitions of kind `command`.
#[derive(Clone, Debug)]
pub(crate) struct CommandAgent {
    command: Command,
}

impl CommandAgent {
    pub(crate) fn new(command: Command) -> CommandAgent {
        CommandAgent { command }
    }
}

impl Agent for CommandAgent {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        ctx.check_prefix()?;
        let job = Job {
            command: &self.command,
            input: request::document(ctx.assignment(), ctx.prefix()),
            max_output: MAX_OUTPUT_BYTES,
        };
        ctx.progress(format!("running {}", self.command.program));
        let finished = process::run(job).await.map_err(failure)?;
        read(&self.command.program, finished)
    }
}

pub(super) fn failure(error: Error) -> Failure {
    let cause = match &error {
        Error::Spawn { source, .. } if is_temporary(source) => RunCause::Busy,
        Error::Spawn { .. } => RunCause::Spawn,
        Error::Flooded { .. } => RunCause::BadOutput,
        Error::Lost { .. } => RunCause::Exit,
    };
    Failure::new(cause, error.to_string())
}

/// Whether a program may be started later: the machine has no room for one now, or its file is being
/// written.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::TXTBSY)
    )
}

fn read(program: &str, finished: ProcessOutput) -> Result<Answer, Failure> {
    let ProcessOutput {
        status,
        stdout,
        stderr,
    } = finished;
    let stderr_note = match &*stderr {
        "" => String::new(),
        stderr => format!("; its standard error ends: {stderr}"),
    };
    if !status.success() {
        // `ExitStatus` prints "exit status: 3" or "signal: 9 (SIGKILL)".
        let reason = format!("`{program}` ended with {status}{stderr_note}");
        return Err(Failure::new(RunCause::Exit, reason));
    }
    parse(stdout).map_err(|wrong| {
        let reason = format!("`{program}` gave no answer: {wrong}{stderr_note}");
        Failure::new(RunCause::BadOutput, reason)
    })
}

/// Parses an answer; the error says what is wrong with the output.
pub(super) fn parse(stdout: Vec<u8>) -> Result<Answer, String> {
    let text = String::from_utf8(stdout).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let shown = preview(&String::from_utf8_lossy(error.as_bytes()));
        format!("its output is not UTF-8 from byte {at} on: {shown}")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim();
    if text.is_empty() {
        return Err("its output is empty".to_owned());
    }
    if text.contains('\0') {
        return Err(format!("its output is binary: {}", preview(text)));
    }
    if begins_object(text) {
        return parse_object(text);
    }
    Ok(Answer::text(text))
}

/// Plain text may begin with a brace, but not with a brace and a quoted key.
fn begins_object(text: &str) -> bool {
    text.strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
}

fn parse_object(text: &str) -> Result<Answer, String> {
    // A program may cut a text in the middle of a character.
    let whole = SurrogateJoiner::default().join_halves(text);
    let value: Value = serde_json::from_str(&whole)
        .map_err(|error| format!("its output is not valid JSON ({error}): {}", preview(text)))?;
    let member = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!(
            "`{key}` of its JSON output is not a string: {}",
            preview(text)
        )),
    };
    let Some(answer) = member("text")? else {
        return Err(format!("its JSON output has no `text`: {}", preview(text)));
    };
    Ok(Answer {
        partial: member("partial")?.map(Into::into),
        ..Answer::text(answer)
    })
}

/// The beginning of an output, safe to show.
fn preview(text: &str) -> String {
    let mut shown: String = text.chars().take(PREVIEW_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests;
