//! Reads the action of a chat request from the messages of the chat.

use unisono::chat::CallAnswer;
use unisono_api::chat::{ChatRequest, Trigger, UiMessage, UiPart};
use unisono_api::turn::NewAttachment;
use unisono_context::{Digest, TurnId};

/// The beginning of the id of a question about a call whose outcome a crash left unknown. The rest is the
/// call's id. The question before the call had the call's id alone.
pub(super) const IN_DOUBT: &str = "in-doubt:";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Ask(Task),
    /// Answers to calls of a turn that wait.
    Answer {
        turn: String,
        calls: Vec<CallAnswer>,
    },
}

/// A task and the branch it continues.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The text of the last message.
    pub(super) text: String,
    /// Its images and documents.
    pub(super) files: Vec<NewAttachment>,
    /// The turn of the answer before it.
    pub(super) after: Option<String>,
    /// The same for the same task at the same place of the chat.
    pub(super) key: String,
    /// The new branch, if the chat does not continue the end of a branch.
    pub(super) fork: String,
    /// Whether the last answer is regenerated, and the request does not name it: each further request
    /// is the same.
    pub(super) is_unnamed: bool,
}

impl Task {
    /// The task at its next try, after `ended` ones.
    pub(super) fn after_tries(self, ended: usize) -> Task {
        Task {
            key: nth(&self.key, ended),
            fork: nth(&self.fork, ended),
            ..self
        }
    }
}

/// A name for the try with this number, from 0.
pub(super) fn nth(name: &str, number: usize) -> String {
    match number {
        0 => name.to_owned(),
        number => format!("{name}-{number}"),
    }
}

/// Parses a request; an error names the field.
pub(super) fn read(request: &ChatRequest) -> Result<Action, String> {
    let Some((last, before)) = request.messages.split_last() else {
        return Err("messages: the list is empty".to_owned());
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
    let files: Vec<NewAttachment> = last
        .parts
        .iter()
        .enumerate()
        .filter_map(file)
        .collect::<Result<_, _>>()?;
    let text = text(last, !files.is_empty())?;
    let answered = before.iter().rfind(|message| is_answer(message));
    let after = answered.map(|message| message.id.clone());
    let redo = match request.trigger {
        Trigger::RegenerateMessage => request.message_id.as_deref().unwrap_or("again"),
        Trigger::SubmitMessage => "",
    };
    if after.is_none() && request.trigger == Trigger::RegenerateMessage {
        return Err(
            "messages: the answer to the first message of a chat cannot be regenerated".to_owned(),
        );
    }
    let is_edited = request.message_id.as_deref() == Some(&*last.id);
    if after.is_none() && request.trigger == Trigger::SubmitMessage && is_edited {
        return Err(
            "messages: the first message of a chat cannot be edited: begin a new session"
                .to_owned(),
        );
    }
    let mut place = vec![&*last.id, &text, after.as_deref().unwrap_or_default(), redo];
    for file in &files {
        let content = file.data.as_deref().or(file.url.as_deref());
        place.extend([&*file.filename, content.unwrap_or_default()]);
    }
    let place = Digest::of_bytes(place.join("\0").as_bytes());
    Ok(Task {
        text,
        files,
        after,
        key: format!("chat-{place}"),
        fork: format!("chat-{}", place.short()),
        is_unnamed: request.trigger == Trigger::RegenerateMessage && request.message_id.is_none(),
    })
}

/// Whether a message is the answer of a turn. A page may add others, such as a greeting.
fn is_answer(message: &UiMessage) -> bool {
    message.role == "assistant" && message.id.parse::<TurnId>().is_ok()
}

/// The media type and the text of a `data:` URL in base64, without its scheme.
fn in_base64(content: &str) -> Option<(&str, &str)> {
    let (head, data) = content.split_once(',')?;
    let (mime, coding) = head.rsplit_once(';')?;
    let is_base64 = coding.trim().eq_ignore_ascii_case("base64");
    is_base64.then_some((mime, data))
}

fn file((at, part): (usize, &UiPart)) -> Option<Result<NewAttachment, String>> {
    if part.r#type != "file" {
        return None;
    }
    let url = part.url.as_deref().unwrap_or_default();
    let name = part.filename.clone().unwrap_or_default();
    let data = url
        .split_once(':')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("data"));
    let Some((_, content)) = data else {
        return Some(match url.is_empty() {
            true => Err(format!("messages: file {at} of the last one has no `url`")),
            false => Ok(NewAttachment {
                filename: name,
                url: Some(url.to_owned()),
                ..NewAttachment::default()
            }),
        });
    };
    let Some((mime, data)) = in_base64(content) else {
        let wrong = format!("messages: file {at} of the last one is not in base64");
        return Some(Err(wrong));
    };
    Some(Ok(NewAttachment {
        filename: name,
        mime: mime.to_owned(),
        data: Some(data.to_owned()),
        ..NewAttachment::default()
    }))
}

/// The text of a message: its parts, separated by blank lines. It may be empty if the message has
/// files.
fn text(message: &UiMessage, has_files: bool) -> Result<String, String> {
    let mut texts = Vec::new();
    for (at, part) in message.parts.iter().enumerate() {
        match part.r#type.as_str() {
            "text" => texts.extend(part.text.as_deref()),
            "file" => {}
            kind if kind.starts_with("data-") => {}
            kind => {
                return Err(format!(
                    "messages: part {at} of the last one is a {kind:?}; only texts and files are supported"
                ));
            }
        }
    }
    let text = texts.join("\n\n");
    match text.trim().is_empty() && !has_files {
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

/// The id of the question that was answered.
pub(super) fn question_of(answer: &CallAnswer) -> String {
    match answer.is_in_doubt {
        true => format!("{IN_DOUBT}{}", answer.call),
        false => answer.call.clone(),
    }
}

fn answer(part: &UiPart) -> Option<CallAnswer> {
    let approval = part.approval.as_ref()?;
    let is_answered = part.state.as_deref() == Some("approval-responded");
    let is_approved = approval.approved.filter(|_| is_answered)?;
    let (call, is_in_doubt) = match approval.id.strip_prefix(IN_DOUBT) {
        Some(call) => (call, true),
        None => (approval.id.as_str(), false),
    };
    let answer = CallAnswer::new(call.to_owned(), is_approved, approval.reason.clone());
    Some(answer.in_doubt(is_in_doubt))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn act(request: Value) -> Result<Action, String> {
        read(&serde_json::from_value(request).unwrap())
    }

    const ANSWER: &str = "01921111-0000-7000-8000-000000000002";

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
        let mut submitted = first("What is open?");
        submitted["trigger"] = "submit-message".into();
        assert_eq!(task, asked(submitted));
        // An edited message keeps its id.
        assert_ne!(task.key, asked(first("Who?")).key);
        let later = |trigger, id| {
            let said = [
                says("m1", "user", "a"),
                says(ANSWER, "assistant", "b"),
                says("m2", "user", "c"),
            ];
            asked(json!({"messages": said, "trigger": trigger, "messageId": id}))
        };
        let task = later("submit-message", Value::Null);
        assert_eq!(task.after.as_deref(), Some(ANSWER));
        let again = later("regenerate-message", json!("t2"));
        assert_ne!(task.key, again.key);
        assert_ne!(again.fork, later("regenerate-message", json!("t3")).fork);
        assert!(!task.is_unnamed && !again.is_unnamed);
        let unnamed = later("regenerate-message", Value::Null);
        assert!(unnamed.is_unnamed);
        let (key, fork) = (unnamed.key.clone(), unnamed.fork.clone());
        assert_eq!(
            later("regenerate-message", Value::Null).after_tries(0),
            unnamed
        );
        let third = unnamed.after_tries(2);
        assert_eq!(
            (third.key, third.fork),
            (format!("{key}-2"), format!("{fork}-2"))
        );
    }

    #[test]
    fn a_message_that_the_page_shows_of_its_own_is_no_answer() {
        let greeting = says("greeting", "assistant", "Ask me anything.");
        let question = || says("m1", "user", "What is open?");
        for (before, after) in [
            (vec![greeting.clone()], None),
            (vec![says(ANSWER, "assistant", "b"), greeting], Some(ANSWER)),
        ] {
            let messages = before.into_iter().chain([question()]);
            let request = json!({"messages": messages.collect::<Vec<_>>()});
            match act(request).unwrap() {
                Action::Ask(task) => assert_eq!(task.after.as_deref(), after),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn files_are_attachments_of_the_task_and_part_of_its_key() {
        let asked = |parts: Value| {
            let request = json!({"messages": [{"id": "m1", "role": "user", "parts": parts}]});
            match act(request).unwrap() {
                Action::Ask(task) => task,
                other => panic!("{other:?}"),
            }
        };
        let text = json!({"type": "text", "text": "See?"});
        let image = json!({"type": "file", "mediaType": "image/png", "filename": "a.png",
                           "url": "data:image/png;base64,AAAA"});
        let address = json!({"type": "file", "mediaType": "image/png", "url": "https://h/a.png"});
        let task = asked(json!([text, image, address]));
        let [first, second] = &task.files[..] else {
            panic!("{task:?}");
        };
        assert_eq!((&*first.filename, &*first.mime), ("a.png", "image/png"));
        assert_eq!((first.data.as_deref(), &first.url), (Some("AAAA"), &None));
        let mut upper = image.clone();
        upper["url"] = "DATA:image/png;BASE64,AAAA".into();
        assert_eq!(asked(json!([text, upper])).files, task.files[..1]);
        assert_eq!(second.url.as_deref(), Some("https://h/a.png"));
        assert_eq!(asked(json!([image])).text, "");
        assert_ne!(task.key, asked(json!([text])).key);
        assert_ne!(task.key, asked(json!([text, image])).key);
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
            calls: vec![CallAnswer::new("c1".into(), false, Some("too dear".into()))],
        };
        assert_eq!(decided, Ok(expected));
        let mut again = part("approval-responded", json!(true));
        again["approval"]["id"] = "in-doubt:c1".into();
        let calls = match act(answer(json!([again]))).unwrap() {
            Action::Answer { calls, .. } => calls,
            other => panic!("{other:?}"),
        };
        assert_eq!((&*calls[0].call, calls[0].is_in_doubt), ("c1", true));
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
        let rows = rows! {
            (json!({"messages": []}), "the list is empty"),
            (json!({"messages": [says("m", "system", "x")]}), "of role \"system\""),
            (json!({"messages": [says("m", "user", " \n")]}), "no text"),
            (json!({"messages": [{"id": "m", "role": "user",
                "parts": [{"type": "file", "url": "data:,", "mediaType": "image/png"}]}]}),
             "file 0 of the last one is not in base64"),
            (json!({"messages": [{"id": "m", "role": "user",
                "parts": [{"type": "file", "mediaType": "image/png"}]}]}),
             "file 0 of the last one has no `url`"),
            (json!({"messages": [{"id": "m", "role": "user", "parts": [{"type": "reasoning"}]}]}),
             "part 0 of the last one is a \"reasoning\""),
            (json!({"messages": [says("m", "user", "x")], "trigger": "regenerate-message"}),
             "cannot be regenerated"),
            (json!({"messages": [says("m", "user", "x")], "trigger": "submit-message",
                "messageId": "m"}), "cannot be edited: begin a new session"),
        };
        for (request, reason) in rows {
            let refused = act(request).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
