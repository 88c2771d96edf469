//! The state of a remote task.

use a2a::{Artifact, Part, PartContent, Role, Task, TaskState};
use unisono_session::run::RunCause;

use crate::agent::Failure;

/// The name of the artifact that is the answer if there are several. This program uses it for its
/// own tasks.
const ANSWER: &str = "answer";
/// Maximum characters of a file's name, and of its address, in a note.
const MAX_NAME_CHARS: usize = 200;
const MAX_URL_CHARS: usize = 2_000;
/// The metadata key of an artifact with the reason why it is partial. This program uses it for its
/// own tasks.
const PARTIAL: &str = "partial";

/// The state of a remote task.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It has an answer, which may be partial.
    Answered {
        text: String,
        partial: Option<String>,
    },
    /// It failed, was declined or was cancelled.
    Ended(Failure),
    /// It waits for input of a person.
    Asks(String),
    Working,
}

pub(super) fn read(task: &Task) -> Outcome {
    let message = task
        .status
        .message
        .as_ref()
        .map(|message| text_of(&message.parts));
    let why = || {
        message
            .clone()
            .unwrap_or_else(|| "it does not say why".to_owned())
    };
    let ended = |cause, what: &str| {
        Outcome::Ended(Failure::new(
            cause,
            format!("the remote agent {what}: {}", why()),
        ))
    };
    match task.status.state {
        TaskState::Completed => answer(task, message),
        TaskState::Failed => ended(RunCause::Exit, "failed"),
        TaskState::Rejected => ended(RunCause::Refused, "declined the task"),
        TaskState::Canceled => ended(RunCause::Rejected, "cancelled the task"),
        TaskState::InputRequired | TaskState::AuthRequired => Outcome::Asks(why()),
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => Outcome::Working,
    }
}

/// Whether a task in this state does not continue by itself.
pub(super) fn is_settled(state: &TaskState) -> bool {
    let is_asking = matches!(state, TaskState::InputRequired | TaskState::AuthRequired);
    state.is_terminal() || is_asking
}

/// The artifacts, or the last message of the agent if there are none.
fn answer(task: &Task, message_text: Option<String>) -> Outcome {
    let artifacts = task.artifacts.as_deref().unwrap_or_default();
    let named = artifacts.iter().find(|one| one.artifact_id == ANSWER);
    let chosen: Vec<&Artifact> = match named {
        Some(answer) => vec![answer],
        None => artifacts.iter().collect(),
    };
    let partial = chosen.iter().find_map(|one| {
        let lacks = one.metadata.as_ref()?.get(PARTIAL)?.as_str()?;
        Some(lacks.to_owned())
    });
    let history = task.history.iter().flatten().rev();
    let last = || {
        let mut own = history.filter(|message| message.role == Role::Agent);
        own.next().map(|message| text_of(&message.parts))
    };
    let is_not_blank = |text: &String| !text.trim().is_empty();
    let parts = || chosen.iter().flat_map(|one| &one.parts);
    let text = if parts().filter_map(words).any(|text| is_not_blank(&text)) {
        joined(parts().filter_map(|part| words(part).or(note(part))))
    } else {
        let message = message_text.filter(is_not_blank).or_else(last);
        let message = message.filter(is_not_blank);
        joined(message.into_iter().chain(parts().filter_map(note)))
    };
    if is_not_blank(&text) {
        return Outcome::Answered { text, partial };
    }
    let reason = "the remote agent completed the task without a text";
    Outcome::Ended(Failure::new(RunCause::BadOutput, reason))
}

/// Texts, data as JSON, and a note for each file, whose content is not kept.
pub(super) fn text_of(parts: &[Part]) -> String {
    joined(parts.iter().filter_map(|part| words(part).or(note(part))))
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n\n")
}

/// A text, or data as JSON.
fn words(part: &Part) -> Option<String> {
    match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        PartContent::Data(data) => Some(data.to_string()),
        PartContent::Raw(_) | PartContent::Url(_) => None,
    }
}

fn note(part: &Part) -> Option<String> {
    match &part.content {
        PartContent::Raw(bytes) => {
            let bytes = bytes.len();
            Some(format!("[{}, {bytes} bytes: not kept]", file(part)))
        }
        PartContent::Url(url) => {
            let url = one_line(url, MAX_URL_CHARS);
            Some(format!("[{}: {url}]", file(part)))
        }
        PartContent::Text(_) | PartContent::Data(_) => None,
    }
}

/// `file plan.pdf, application/pdf`.
fn file(part: &Part) -> String {
    let mut text = "file".to_owned();
    if let Some(name) = &part.filename {
        text.push(' ');
        text.push_str(&one_line(name, MAX_NAME_CHARS));
    }
    if let Some(mime) = &part.media_type {
        text.push_str(", ");
        text.push_str(&one_line(mime, MAX_NAME_CHARS));
    }
    text
}

/// The first characters of a text, without control characters.
fn one_line(text: &str, chars: usize) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(chars)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn outcome(state: &str, more: Value) -> String {
        let mut task = json!({"id": "t", "contextId": "c",
            "status": {"state": format!("TASK_STATE_{state}")}});
        if let Some(said) = more.get("said") {
            task["status"]["message"] =
                json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]});
        }
        task["artifacts"] = more["artifacts"].clone();
        match read(&serde_json::from_value(task).unwrap()) {
            Outcome::Answered { text, partial } => match partial {
                Some(partial) => format!("{text} but {partial}"),
                None => text,
            },
            Outcome::Ended(failure) => format!("{}: {}", failure.cause.code(), failure.reason),
            Outcome::Asks(question) => format!("asks {question}"),
            Outcome::Working => "works".to_owned(),
        }
    }

    fn artifact(id: &str, parts: Value) -> Value {
        json!({"artifactId": id, "parts": parts})
    }

    #[test]
    fn the_artifacts_are_the_answer() {
        let two = [
            artifact(
                "a",
                json!([{"text": "One."}, {"url": "https://example.com"}]),
            ),
            artifact(
                "b",
                json!([
                    {"data": {"n": 2}},
                    {"raw": "AAEC", "filename": "a\nb.pdf", "mediaType": "application/pdf"},
                ]),
            ),
        ];
        let completed = |artifacts: Value| outcome("COMPLETED", json!({"artifacts": artifacts}));
        let texts = [
            "One.",
            "[file: https://example.com]",
            "{\"n\":2}",
            "[file ab.pdf, application/pdf, 3 bytes: not kept]",
        ];
        assert_eq!(completed(json!(two)), texts.join("\n\n"));
        let own = artifact("answer", json!([{"text": "So."}]));
        assert_eq!(completed(json!([two[0], own])), "So.");
        let mut partial = own.clone();
        partial["metadata"] = json!({"partial": "no map"});
        assert_eq!(completed(json!([partial])), "So. but no map");
        let said = json!({"said": "Done.", "artifacts": []});
        assert_eq!(outcome("COMPLETED", said), "Done.");
        let file = artifact("a", json!([{"raw": "AAEC"}]));
        let said = json!({"said": "Details attached.", "artifacts": [file]});
        let text = "Details attached.\n\n[file, 3 bytes: not kept]";
        assert_eq!(outcome("COMPLETED", said), text);
        assert_eq!(completed(json!([file])), "[file, 3 bytes: not kept]");
        let nothing = completed(json!([artifact("a", json!([{"text": " "}]))]));
        assert!(nothing.starts_with("bad_output: "), "{nothing}");
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let said = json!({"said": "no map", "artifacts": null});
        for (state, expected) in rows! {
            ("FAILED", "exit_failure: the remote agent failed: no map"),
            ("REJECTED", "refused: the remote agent declined the task: no map"),
            ("CANCELED", "provider_rejected: the remote agent cancelled the task: no map"),
            ("INPUT_REQUIRED", "asks no map"),
            ("AUTH_REQUIRED", "asks no map"),
            ("WORKING", "works"),
            ("SUBMITTED", "works"),
        } {
            assert_eq!(outcome(state, said.clone()), expected);
        }
    }
}
