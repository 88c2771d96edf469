//! Reads a client's message: a task for an agent, or a decision about waiting calls.

use std::collections::BTreeSet;

use a2a::{Message, Part, PartContent, Role, SendMessageRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use unisono::Download;
use unisono::attachments;
use unisono::chat::CallAnswer;
use unisono_api::approval::Approval;
use unisono_api::turn::NewAttachment;
use unisono_runtime::a2a_files::to_standard_base64;

use super::error::{Error, Kind};
use super::parts::{SEPARATOR, is_file};
use super::references;
use super::rpc::typed;

/// Parts of one message, at most.
const PARTS: usize = 1_000;
/// Bytes of the longest id that a client makes.
const ID_BYTES: usize = 1_024;

/// The expected form of a decision about a waiting call, for the error.
pub(super) const HOW: &str = "answer `approve <call>` or `deny <call>: <why>`, or `repeat <call>` where nobody \
                              knows whether the call was made; the first question of a task needs no name if \
                              it is about one call";

/// The kind of a call that may have been made.
const IN_DOUBT: &str = "in_doubt";

/// The keys of a content. A part has one of them.
const CONTENTS: [&str; 4] = ["text", "raw", "url", "data"];

/// Parses a request that sends a message.
///
/// # Errors
/// The first invalid field. A part with several contents is invalid.
pub(super) fn request(mut params: Value) -> Result<SendMessageRequest, Error> {
    check_contents(&params["message"]["parts"])?;
    if let Some(message) = params.get_mut("message") {
        to_standard_base64(message);
    }
    typed(params)
}

/// Parses a message of a request; none if it is invalid.
pub(super) fn parse(mut message: Value) -> Option<Message> {
    to_standard_base64(&mut message);
    serde_json::from_value(message).ok()
}

/// Rejects parts with several contents. Parsing would drop all but one.
fn check_contents(parts: &Value) -> Result<(), Error> {
    for (at, part) in parts.as_array().into_iter().flatten().enumerate() {
        let has = |name: &&&str| part.get(name).is_some_and(|content| !content.is_null());
        let found: Vec<&str> = CONTENTS.iter().filter(has).copied().collect();
        if found.len() > 1 {
            let why = format!("has {}; a part has one content", found.join(" and "));
            return Err(Error::field(format!("message.parts[{at}]"), why));
        }
    }
    Ok(())
}

/// Rejects a message whose role is not the user.
pub(super) fn check(message: &Message) -> Result<(), Error> {
    let id = &message.message_id;
    if id.trim().is_empty() || id.len() > ID_BYTES {
        let why = format!("must have 1 to {ID_BYTES} bytes");
        return Err(Error::field("message.messageId", why));
    }
    if message.role != Role::User {
        return Err(Error::field("message.role", "must be ROLE_USER"));
    }
    let tasks = references::of_message(message).len();
    if tasks > references::TASKS {
        let why = format!(
            "there are {tasks} tasks, but at most {} are supported",
            references::TASKS
        );
        return Err(Error::field(references::FIELD, why));
    }
    match message.parts.len() {
        0 => Err(Error::field("message.parts", "the list is empty")),
        1..=PARTS => Ok(()),
        more => {
            let why = format!("there are {more} parts, but at most {PARTS} are supported");
            Err(Error::field("message.parts", why))
        }
    }
}

/// The task: the texts of the parts, one under the other, and their data as JSON.
pub(super) fn task(message: &Message) -> Result<String, Error> {
    let parts = message.parts.iter().enumerate();
    let said = parts.filter(|(_, part)| !is_file(part));
    let texts: Vec<String> = said.map(text).collect::<Result<_, _>>()?;
    let has_files = texts.len() < message.parts.len();
    let text = texts.join(SEPARATOR);
    match text.trim().is_empty() && !has_files {
        true => Err(Error::field("message.parts", "they say nothing")),
        false => Ok(text),
    }
}

/// Images and documents that come with the task, in the message or at addresses of these hosts.
pub(super) fn attachments(
    message: &Message,
    hosts: &[String],
) -> Result<Vec<NewAttachment>, Error> {
    let mut attachments = Vec::new();
    for (at, part) in message.parts.iter().enumerate() {
        let name = part.filename.as_deref().unwrap_or_default();
        let mime = part.media_type.as_deref();
        let unsupported = |wrong: &dyn std::fmt::Display| {
            let message = format!("message.parts[{at}]: {wrong}");
            Error::new(Kind::ContentTypeNotSupported, message)
        };
        let attachment = match &part.content {
            PartContent::Raw(bytes) => {
                let checked = attachments::part(name, mime, bytes.as_slice().into(), u64::MAX);
                checked.map_err(|wrong| unsupported(&wrong))?;
                NewAttachment {
                    mime: mime.unwrap_or_default().to_owned(),
                    data: Some(STANDARD.encode(bytes)),
                    ..NewAttachment::default()
                }
            }
            PartContent::Url(url) => {
                let allowed = Download::new(url, hosts);
                allowed.map_err(|why| unsupported(&format_args!("its address {why}")))?;
                NewAttachment {
                    url: Some(url.clone()),
                    ..NewAttachment::default()
                }
            }
            PartContent::Text(_) | PartContent::Data(_) => continue,
        };
        attachments.push(NewAttachment {
            filename: name.to_owned(),
            ..attachment
        });
    }
    Ok(attachments)
}

fn text((at, part): (usize, &Part)) -> Result<String, Error> {
    match &part.content {
        PartContent::Text(text) => Ok(text.clone()),
        PartContent::Data(data) => Ok(data.to_string()),
        PartContent::Raw(_) | PartContent::Url(_) => {
            let kind = part.media_type.as_deref().unwrap_or("no media type");
            let message = format!(
                "message.parts[{at}] is a file ({kind:?}): agents are sent texts, data, images and PDFs in the \
                 message alone"
            );
            Err(Error::new(Kind::ContentTypeNotSupported, message))
        }
    }
}

/// A part of data that answers a call.
#[derive(Debug, Deserialize)]
struct Answer {
    decision: String,
    call: Option<String>,
    text: Option<String>,
}

/// The decisions of a message about the waiting calls of its task. `is_first`: this is the first question
/// of the task. Otherwise a decision without a name may be the answer to an earlier one.
pub(super) fn answers(
    message: &Message,
    waiting: &[Approval],
    is_first: bool,
) -> Result<Vec<CallAnswer>, Error> {
    let mut answers = Vec::new();
    let mut decided = BTreeSet::new();
    for (at, part) in message.parts.iter().enumerate() {
        let field = format!("message.parts[{at}]");
        let answer = match &part.content {
            PartContent::Text(text) => spoken(text),
            // Fields could also be read from an array, by their order: nobody means that.
            PartContent::Data(data) => {
                let read = match data.is_object() {
                    true => Answer::deserialize(data),
                    false => Err(serde::de::Error::custom("must be an object")),
                };
                Some(read.map_err(|error| Error::field(field.as_str(), error))?)
            }
            PartContent::Raw(_) | PartContent::Url(_) => return text((at, part)).map(|_| answers),
        };
        let refused = || {
            Error::field(
                field.as_str(),
                format!("the task waits for an answer: {HOW}"),
            )
        };
        let answer = answer.ok_or_else(refused)?;
        let decision = Decision::of_word(&answer.decision).ok_or_else(refused)?;
        let wrong = |why: String| Error::field(field.as_str(), why);
        let one = select_call(answer.call, waiting, is_first).map_err(wrong)?;
        decision.check(one).map_err(wrong)?;
        let call = one.call.clone();
        if !decided.insert(call.clone()) {
            return Err(Error::field(
                field,
                format!("call {call} is decided about twice"),
            ));
        }
        let reason = answer.text.filter(|text| !text.trim().is_empty());
        let is_approved = decision != Decision::Deny;
        let is_in_doubt = one.kind == IN_DOUBT;
        answers.push(CallAnswer::new(call, is_approved, reason).in_doubt(is_in_doubt));
    }
    Ok(answers)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Approve,
    Repeat,
    Deny,
}

impl Decision {
    fn of_word(word: &str) -> Option<Decision> {
        match word.to_ascii_lowercase().as_str() {
            "approve" | "approved" => Some(Decision::Approve),
            "repeat" | "repeated" => Some(Decision::Repeat),
            "deny" | "denied" => Some(Decision::Deny),
            _ => None,
        }
    }

    /// Rejects an approval of a call that may have been made: its client may not know that.
    fn check(self, waiting: &Approval) -> Result<(), String> {
        let call = &waiting.call;
        match (self, waiting.kind == IN_DOUBT) {
            (Decision::Approve, true) => Err(format!(
                "nobody knows whether call {call} was made: answer `repeat` or `deny`"
            )),
            (Decision::Repeat, false) => Err(format!(
                "call {call} was not made: answer `approve` or `deny`"
            )),
            _ => Ok(()),
        }
    }
}

/// `approve`, `deny <call>`, `deny: too dear`.
fn spoken(text: &str) -> Option<Answer> {
    let (head, reason) = match text.split_once(':') {
        Some((head, reason)) => (head, Some(reason.trim().to_owned())),
        None => (text, None),
    };
    let mut words = head.split_whitespace();
    let (decision, call) = (words.next()?.to_owned(), words.next().map(str::to_owned));
    words.next().is_none().then_some(Answer {
        decision,
        call,
        text: reason,
    })
}

/// The call with this id. Without an id: the only one, if this is the first question of the task.
fn select_call(
    call: Option<String>,
    waiting: &[Approval],
    is_first: bool,
) -> Result<&Approval, String> {
    let ids = || {
        let ids: Vec<&str> = waiting.iter().map(|one| one.call.as_str()).collect();
        ids.join(", ")
    };
    match (call, waiting) {
        (None, [only]) if is_first => Ok(only),
        (None, [only]) => Err(format!(
            "the task has asked before; name the call that you mean: {}",
            only.call
        )),
        (None, several) => Err(format!("{} calls wait, name one: {}", several.len(), ids())),
        (Some(call), waiting) => {
            let named = waiting.iter().find(|one| one.call == call);
            named.ok_or_else(|| format!("call {call:?} does not wait; these do: {}", ids()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(parts: Value) -> Message {
        serde_json::from_value(json!({"messageId": "m", "role": "ROLE_USER", "parts": parts}))
            .unwrap()
    }

    fn waits(call: &str, kind: &str) -> Approval {
        serde_json::from_value(
            json!({"call": call, "kind": kind, "session": "s",
            "turn": "t", "run": "r", "agent": "a", "tool": "x", "arguments": {},
            "contract": "pure", "rule": null, "requested_at": "2026-05-07T00:00:00Z", "expires_at": null}),
        )
        .unwrap()
    }

    #[test]
    fn a_part_has_one_content_and_an_invalid_one_is_named() {
        let sent = |part: Value| {
            let parts = json!([{"text": "See."}, part]);
            let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
            request(json!({"message": message}))
        };
        sent(json!({"text": "a", "raw": null, "filename": "a.txt"})).unwrap();
        sent(json!({"data": null})).unwrap();
        for (part, why) in rows! {
            (json!({"text": "a", "data": {}}), "has text and data"),
            (json!({"text": "a", "raw": "YQ=="}), "has text and raw"),
            (json!({"raw": "YQ==", "url": "https://h"}), "has raw and url"),
            (json!({"raw": "!"}), "Invalid symbol 33"),
            (json!({"kind": "text"}), "must have one of"),
        } {
            let refused = sent(part).unwrap_err();
            assert_eq!(refused.kind, Kind::InvalidParams);
            let refused = refused.to_string();
            assert!(refused.starts_with("message.parts[1]: "), "{refused}");
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_file_is_read_from_either_alphabet_of_base64_with_and_without_padding() {
        let read = |raw: &str| {
            let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": raw}]});
            let begun = parse(message.clone());
            let request = request(json!({"message": message})).ok();
            let request = request.map(|request| request.message);
            assert_eq!(begun.is_some(), request.is_some(), "{raw}");
            match request?.parts.remove(0).content {
                PartContent::Raw(bytes) => Some(bytes),
                _ => None,
            }
        };
        for (raw, bytes) in [
            ("+/8=", &[0xfb, 0xff][..]),
            ("+/8", &[0xfb, 0xff]),
            ("-_8=", &[0xfb, 0xff]),
            ("-_8", &[0xfb, 0xff]),
            ("_w==", &[0xff]),
            ("_w", &[0xff]),
            ("----", &[0xfb, 0xef, 0xbe]),
            ("", &[]),
        ] {
            assert_eq!(read(raw).as_deref(), Some(bytes), "{raw}");
        }
        for raw in ["-", "=", "_w=", "_w=x", "a b-", "-_8\n", "ä_"] {
            assert_eq!(read(raw), None, "{raw:?}");
        }
    }

    #[test]
    fn a_task_is_the_texts_and_data_of_a_message() {
        let said = message(json!([{"text": "Compare."}, {"data": {"b": 1, "a": [true]}}]));
        assert_eq!(task(&said).unwrap(), "Compare.\n\n{\"a\":[true],\"b\":1}");
        for parts in [
            json!([{"raw": "aGk=", "mediaType": "image/png"}]),
            json!([{"text": "See"}, {"url": "https://example.com/a.pdf"}]),
        ] {
            let said = message(parts);
            let read = task(&said).and_then(|_| attachments(&said, &[]));
            let refused = read.unwrap_err();
            assert_eq!(refused.kind, Kind::ContentTypeNotSupported);
        }
        let document = STANDARD.encode(b"%PDF-1.7 /Type /Page %%EOF");
        let said = message(json!([{"raw": document, "filename": "plan.pdf"}]));
        assert_eq!(task(&said).unwrap(), "");
        let files = attachments(&said, &[]).unwrap();
        assert_eq!(
            (&*files[0].filename, files[0].data.as_ref()),
            ("plan.pdf", Some(&document))
        );
        let url = "https://images.example.com/a.png";
        let said = message(json!([{"url": url, "mediaType": "image/png"}]));
        let files = attachments(&said, &["images.example.com".to_owned()]).unwrap();
        assert_eq!(files[0].url.as_deref(), Some(url));
        assert_eq!(task(&said).unwrap(), "");
        let nothing = task(&message(json!([{"text": " \n"}]))).unwrap_err();
        assert_eq!(nothing.kind, Kind::InvalidParams);
    }

    #[test]
    fn a_message_is_a_users_and_says_something() {
        let rows = rows! {
            (json!({"messageId": " "}), "message.messageId"),
            (json!({"messageId": "m".repeat(1_025)}), "message.messageId"),
            (json!({"role": "ROLE_AGENT"}), "message.role"),
            (json!({"role": "ROLE_UNSPECIFIED"}), "message.role"),
            (json!({"parts": []}), "message.parts"),
            (json!({"parts": vec![json!({"text": "x"}); 1_001]}), "message.parts"),
            (json!({"referenceTaskIds": vec!["s.t"; 17]}), "message.referenceTaskIds"),
        };
        for (change, field) in rows {
            let mut said = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
            let (said_map, changed) = (said.as_object_mut().unwrap(), change.as_object().unwrap());
            said_map.extend(changed.clone());
            let refused = check(&serde_json::from_value(said).unwrap()).unwrap_err();
            assert!(refused.to_string().starts_with(field), "{refused}");
        }
        check(&message(json!([{"text": "x"}]))).unwrap();
    }

    #[test]
    fn calls_are_decided_by_a_word_or_by_data() {
        let [c1, c2] = ["c1", "c2"].map(|call| waits(call, "approval"));
        let one = [c1.clone()];
        let two = [c1, c2];
        let in_doubt = [waits("c1", "in_doubt")];
        let decided = |parts: Value, waiting: &[Approval]| {
            let answers = answers(&message(parts), waiting, true)?;
            let each = answers.into_iter();
            let each = each.map(|answer| (answer.call, answer.is_approved, answer.reason));
            Ok::<_, Error>(each.collect::<Vec<_>>())
        };
        type Decided<'d> = (&'d str, bool, Option<&'d str>);
        let rows: [(Value, &[Approval], &[Decided<'_>]); 7] = rows! {
            (json!([{"text": " Approve\n"}]), &one, &[("c1", true, None)]),
            (json!([{"text": "deny: too dear: 9 EUR"}]), &one,
             &[("c1", false, Some("too dear: 9 EUR"))]),
            (json!([{"text": "deny c2"}]), &two, &[("c2", false, None)]),
            (json!([{"data": {"decision": "deny", "text": "no"}}]), &one,
             &[("c1", false, Some("no"))]),
            (json!([{"data": {"decision": "approve", "call": "c2"}}, {"text": "deny c1: no"}]),
             &two, &[("c2", true, None), ("c1", false, Some("no"))]),
            (json!([{"text": "DENIED"}]), &one, &[("c1", false, None)]),
            (json!([{"text": "repeat"}]), &in_doubt, &[("c1", true, None)]),
        };
        for (parts, waiting, expected) in rows {
            let expected: Vec<_> = expected
                .iter()
                .map(|(call, is, why)| ((*call).to_owned(), *is, why.map(str::to_owned)))
                .collect();
            assert_eq!(
                decided(parts.clone(), waiting).unwrap(),
                expected,
                "{parts}"
            );
        }
        for (parts, waiting, why) in rows! {
            (json!([{"text": "Yes, do it."}]), &one[..], "waits for an answer"),
            (json!([{"text": ""}]), &one, "waits for an answer"),
            (json!([{"text": "approve"}]), &two, "2 calls wait, name one: c1, c2"),
            (json!([{"text": "approve c3"}]), &two, "\"c3\" does not wait"),
            (json!([{"data": {"decision": "maybe"}}]), &one, "waits for an answer"),
            (json!([{"text": "approve"}]), &in_doubt, "nobody knows whether call c1 was made"),
            (json!([{"text": "repeat c2"}]), &two, "call c2 was not made"),
            (json!([{"data": ["approve"]}]), &one, "message.parts[0]"),
            (json!([{"text": "approve"}, {"text": "deny"}]), &one, "decided about twice"),
            (json!([{"url": "https://example.com"}]), &one, "is a file"),
        } {
            let refused = decided(parts, waiting).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_decision_after_another_one_names_its_call() {
        let later = [waits("c2", "approval")];
        let decided = |text: &str| answers(&message(json!([{"text": text}])), &later, false);
        let refused = decided("approve").unwrap_err().to_string();
        assert!(
            refused.contains("name the call that you mean: c2"),
            "{refused}"
        );
        assert_eq!(decided("approve c2").unwrap()[0].call, "c2");
    }
}
