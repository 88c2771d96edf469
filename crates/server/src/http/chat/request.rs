//! What a chat asks for, read from the messages that it shows.

use unisono::chat::CallAnswer;
use unisono_api::chat::{ChatRequest, Trigger, UiMessage, UiPart};
use unisono_context::Digest;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A task.
    Ask(Task),
    /// Answers to calls of a turn that wait.
    Answer {
        /// The turn.
        turn: String,
        /// The answers.
        calls: Vec<CallAnswer>,
    },
}

/// A task and the branch it continues.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The text of the last message.
    pub(super) text: String,
    /// The turn of the answer before it.
    pub(super) after: Option<String>,
    /// The same for the same task at the same place of the chat.
    pub(super) key: String,
    /// The new branch, if the chat does not continue the end of a branch.
    pub(super) fork: String,
}

/// Parses a request; an error names the field.
pub(super) fn read(request: &ChatRequest) -> Result<Action, String> {
    let Some((last, before)) = request.messages.split_last() else {
        return Err("messages: there is none".to_owned());
    };
    match last.role.as_str() {
        "user" => task(request, last, before).map(Action::Ask),
        "assistant" => answers(last),
        role => Err(format!(
            "messages: the last one is of role {role:?}; it must be the user's, or an answer with decided calls"
        )),
    }
}

fn task(request: &ChatRequest, last: &UiMessage, before: &[UiMessage]) -> Result<Task, String> {
    let text = text(last)?;
    let answered = before.iter().rfind(|message| message.role == "assistant");
    let after = answered.map(|message| message.id.clone());
    let anew = match request.trigger {
        Trigger::RegenerateMessage => request.message_id.as_deref().unwrap_or("again"),
        Trigger::SubmitMessage => "",
    };
    if after.is_none() && request.trigger == Trigger::RegenerateMessage {
        return Err(
            "messages: the answer to the first message of a chat cannot be given anew".to_owned(),
        );
    }
    let place = [&last.id, &text, after.as_deref().unwrap_or_default(), anew];
    let place = Digest::of_bytes(place.join("\0").as_bytes());
    Ok(Task {
        text,
        after,
        key: format!("chat-{place}"),
        fork: format!("chat-{}", place.short()),
    })
}

/// The text of a message, its parts one under the other.
fn text(message: &UiMessage) -> Result<String, String> {
    let mut texts = Vec::new();
    for (at, part) in message.parts.iter().enumerate() {
        match part.r#type.as_str() {
            "text" => texts.extend(part.text.as_deref()),
            kind if kind.starts_with("data-") => {}
            kind => {
                return Err(format!(
                    "messages: part {at} of the last one is a {kind:?}; only texts can be taken"
                ));
            }
        }
    }
    let text = texts.join("\n\n");
    match text.trim().is_empty() {
        true => Err("messages: the last one has no text".to_owned()),
        false => Ok(text),
    }
}

fn answers(last: &UiMessage) -> Result<Action, String> {
    let calls: Vec<CallAnswer> = last.parts.iter().filter_map(answer).collect();
    if calls.is_empty() {
        return Err(
            "messages: the last one is an answer, and decides about no call that waits".to_owned(),
        );
    }
    Ok(Action::Answer {
        turn: last.id.clone(),
        calls,
    })
}

fn answer(part: &UiPart) -> Option<CallAnswer> {
    let approval = part.approval.as_ref()?;
    let is_answered = part.state.as_deref() == Some("approval-responded");
    Some(CallAnswer {
        call: approval.id.clone(),
        is_approved: approval.approved.filter(|_| is_answered)?,
        reason: approval.reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn act(request: Value) -> Result<Action, String> {
        read(&serde_json::from_value(request).unwrap())
    }

    fn says(id: &str, role: &str, text: &str) -> Value {
        json!({"id": id, "role": role, "parts": [{"type": "text", "text": text}]})
    }

    #[test]
    fn a_task_goes_on_after_the_answer_before_it_under_a_key_of_its_place() {
        let first = |text| json!({"id": "chat", "messages": [says("m1", "user", text)]});
        let asked = |request| match act(request).unwrap() {
            Action::Ask(task) => task,
            other => panic!("{other:?}"),
        };
        let task = asked(first("What is open?"));
        assert_eq!((&*task.text, &task.after), ("What is open?", &None));
        assert_eq!(task, asked(first("What is open?")), "sent again");
        // An edited message keeps its id.
        assert_ne!(task.key, asked(first("Who?")).key);
        let later = |trigger, id| {
            let said = [
                says("m1", "user", "a"),
                says("t1", "assistant", "b"),
                says("m2", "user", "c"),
            ];
            asked(json!({"messages": said, "trigger": trigger, "messageId": id}))
        };
        let task = later("submit-message", Value::Null);
        assert_eq!(task.after.as_deref(), Some("t1"));
        let again = later("regenerate-message", json!("t2"));
        assert_ne!(task.key, again.key);
        assert_ne!(again.fork, later("regenerate-message", json!("t3")).fork);
    }

    #[test]
    fn decided_calls_are_read_from_the_answer_that_has_them() {
        let part = |state: &str, approved: Value| {
            json!({"type": "dynamic-tool", "toolName": "x", "state": state,
                   "approval": {"id": "c1", "approved": approved, "reason": "too dear"}})
        };
        let answer =
            |parts: Value| json!({"messages": [{"id": "t1", "role": "assistant", "parts": parts}]});
        let decided = act(answer(json!([
            {"type": "text", "text": "I ask."},
            part("approval-responded", json!(false))
        ])));
        let expected = Action::Answer {
            turn: "t1".into(),
            calls: vec![CallAnswer {
                call: "c1".into(),
                is_approved: false,
                reason: Some("too dear".into()),
            }],
        };
        assert_eq!(decided, Ok(expected));
        for (state, approved) in [
            ("approval-requested", Value::Null),
            ("output-available", json!(true)),
        ] {
            let refused = act(answer(json!([part(state, approved)]))).unwrap_err();
            assert!(refused.contains("decides about no call"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_task_is_refused_with_a_reason() {
        let rows = [
            (json!({"messages": []}), "there is none"),
            (
                json!({"messages": [says("m", "system", "x")]}),
                "of role \"system\"",
            ),
            (json!({"messages": [says("m", "user", " \n")]}), "no text"),
            (
                json!({"messages": [{"id": "m", "role": "user",
                    "parts": [{"type": "file", "url": "data:,", "mediaType": "image/png"}]}]}),
                "part 0 of the last one is a \"file\"",
            ),
            (
                json!({"messages": [says("m", "user", "x")], "trigger": "regenerate-message"}),
                "cannot be given anew",
            ),
        ];
        for (request, reason) in rows {
            let refused = act(request).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
