//! unisono JSONL: the session, then messages, branches, checkpoints, shortened messages and topics,
//! one object per line.
//!
//! | line | keys |
//! |---|---|
//! | `session` | `unisono` (version 1), `id`, `title`, `system`, `labels`, `settings` |
//! | `message` | `id`, `parent`, `role`, `author`, `at`, `usage`, `pinned`, `parts` |
//! | `branch` | `name`, `head` |
//! | `checkpoint` | see [`checkpoint`] |
//! | `masked` | `message`, `tokens` it had, `counts` it has, `after` |
//! | `cut`, `truncated` | `message`, `target_chars`, `counts`, `after` |
//! | `topics` | `through`, the last message it was decided about, `ends`: `opener`, `by` and `at` of each |
//! | `sealed` | `message`, the last of a topic that a person let end, `at` |
//!
//! `after` is the number of the checkpoint after which a message was shortened: reverting that
//! checkpoint restores the message. Without `after` it stays shortened.
//!
//! Ids, parents and times are optional: a message without a parent follows the previous one.

pub(super) mod checkpoint;
mod shortened;
mod topics;

use std::str::FromStr;

use unisono_context::alteration::Form;
use unisono_context::message::{Part, ReportedUsage};
use unisono_context::{AgentId, MessageId, Ordinal, Role, SessionId, Tokens};

use super::attachment::{attachment, checked};
use super::draft::{Draft, DraftMessage, Parent};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;
use unisono_config::diagnostic::{nearest, suggestion};

/// The version that this program writes and reads.
pub(super) const VERSION: u32 = 1;

const LINES: [&str; 9] = [
    "session",
    "message",
    "branch",
    "checkpoint",
    "masked",
    "cut",
    "truncated",
    "topics",
    "sealed",
];
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
const PARTS: [&str; 4] = ["text", "tool_call", "tool_result", "attachment"];

/// The names of keys in other formats, this format's name, and its meaning.
const OTHER_NAMES: [(&[&str], &str, &str); 3] = [
    (
        &[
            "created_at",
            "createdat",
            "created",
            "timestamp",
            "time",
            "date",
            "datetime",
            "ts",
            "sent_at",
        ],
        "at",
        "the time of a message",
    ),
    (
        &["name", "sender", "speaker", "from", "user", "agent"],
        "author",
        "the author of a message",
    ),
    (
        &[
            "parent_id",
            "parentid",
            "parent_uuid",
            "reply_to",
            "previous",
        ],
        "parent",
        "the message before it",
    ),
];

/// Reads the line with this index; `has_bad` is whether an earlier one was bad.
pub(super) fn read<'t>(
    item: Value<'t>,
    (index, has_bad): (usize, bool),
    draft: &mut Draft<'t, '_, '_>,
) {
    if index == 0 && !has_bad && kind(item).as_deref() != Some("session") {
        draft.bad(
            item.wrong(
                "the first line must be the session: {\"type\":\"session\",\"unisono\":1,…}",
            ),
        );
    }
    if let Err(problem) = line(item, index, draft) {
        draft.bad(problem);
    }
}

fn kind(item: Value<'_>) -> Option<String> {
    item.object()
        .ok()?
        .get("type")?
        .text()
        .ok()
        .map(String::from)
}

fn line<'t>(item: Value<'t>, index: usize, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let kind = object.need("type")?;
    let name = kind.text()?;
    match &*name {
        "session" if index > 0 => {
            Err(kind.wrong("a second session; put each into a file of its own"))
        }
        "session" => session(&object, draft),
        "message" => {
            let message = message(&object, draft)?;
            draft.push(item.raw(), message);
            Ok(())
        }
        "branch" => branch(&object, draft),
        "checkpoint" => checkpoint::read(&object, draft),
        "masked" => shortened::masked(&object, draft),
        "cut" => shortened::cut(&object, draft, |target_chars| Form::Cut { target_chars }),
        "truncated" => shortened::cut(&object, draft, |target_chars| Form::Truncated {
            target_chars,
        }),
        "topics" => topics::decided(&object, draft),
        "sealed" => topics::sealed(&object, draft),
        unknown => {
            let help = suggestion(unknown, LINES.into_iter()).unwrap_or_default();
            Err(kind.wrong(format!("unknown line type {unknown:?}; {help}")))
        }
    }
}

fn session<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let known = [
        "type", "unisono", "id", "title", "system", "labels", "settings",
    ];
    warn_unknown(object, &known, draft);
    let version = object.need("unisono")?;
    let number: u32 = version.number()?;
    if number != VERSION {
        let reason = format!(
            "format version {number}, this program reads version {VERSION}; use the version that wrote it"
        );
        return Err(version.wrong(reason));
    }
    let import = &mut draft.import;
    import.session = object.get("id").map(id::<SessionId>).transpose()?;
    import.title = object.opt_text("title")?.unwrap_or_default().into();
    import.system = object.opt_text("system")?.unwrap_or_default().into();
    if let Some(labels) = object.get("labels") {
        for (name, value) in labels.object()?.fields() {
            let value = value.text()?;
            draft.import.labels.insert(name.into(), value.into());
        }
    }
    if let Some(settings) = object.get("settings") {
        for (key, value) in settings.object()?.fields() {
            let value = value.text()?;
            draft.import.settings.insert(key.into(), value.into());
        }
    }
    Ok(())
}

fn message<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, DraftMessage> {
    let known = [
        "type", "id", "parent", "role", "author", "at", "usage", "pinned", "parts",
    ];
    warn_unknown(object, &known, draft);
    let role = object.need("role")?;
    let name = role.text()?;
    let Some(role) = Role::from_name(&name) else {
        let help = suggestion(&name, ROLES.into_iter()).unwrap_or_default();
        return Err(role.wrong(format!("unknown role {name:?}; {help}")));
    };
    let parent = match object.any("parent") {
        None => Parent::Previous,
        Some(null) if null.is_null() => Parent::Root,
        Some(parent) => Parent::Message(id(parent)?),
    };
    let parts = object.need("parts")?.array()?;
    let parts = parts.into_iter().map(|value| part(value, draft));
    let parts = parts.collect();
    let parts = draft.parts(parts)?;
    Ok(DraftMessage {
        id: object.get("id").map(id).transpose()?,
        parent,
        author: object.get("author").map(agent).transpose()?,
        at: object.get("at").map(fields::time).transpose()?,
        usage: object.get("usage").map(usage).transpose()?,
        pinned: object
            .get("pinned")
            .map(Value::bool)
            .transpose()?
            .unwrap_or_default(),
        ..DraftMessage::new(role, parts)
    })
}

fn part<'t>(value: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Part> {
    let object = value.object()?;
    let kind = object.need("type")?;
    let name = kind.text()?;
    let (part, known): (Part, &[&str]) = match &*name {
        "text" => (Part::text(object.text("text")?), &["type", "text"]),
        "tool_call" => (
            tool_call(&object)?,
            &["type", "id", "name", "arguments", "arguments_text"],
        ),
        "tool_result" => {
            let is_error = object.get("is_error").map(Value::bool).transpose()?;
            let part = Part::ToolResult {
                call_id: object.opt_text("call_id")?.unwrap_or_default().into(),
                content: object.text("content")?.into(),
                is_error: is_error.unwrap_or_default(),
            };
            (part, &["type", "call_id", "content", "is_error"])
        }
        "attachment" => {
            let known = &["type", "filename", "mime", "size_bytes", "digest", "data"];
            (file(&object)?, known)
        }
        unknown => {
            let help = suggestion(unknown, PARTS.into_iter()).unwrap_or_default();
            return Err(kind.wrong(format!("unknown part type {unknown:?}; {help}")));
        }
    };
    warn_unknown(&object, known, draft);
    Ok(part)
}

/// `data` is its content in base64, which must have the digest.
fn file<'t>(object: &Object<'t>) -> Result<'t, Part> {
    let (filename, mime) = (object.text("filename")?, object.text("mime")?);
    let size_bytes: u64 = object.need("size_bytes")?.number()?;
    let Some(data) = object.opt_text("data")? else {
        return Ok(attachment(&filename, &mime, size_bytes));
    };
    let part = checked(&filename, &mime, &data).map_err(|why| object.wrong(why))?;
    let digest = part.content().map(|content| content.digest.to_string());
    match (object.opt_text("digest")?, digest) {
        (Some(said), Some(found)) if *said != *found => {
            Err(object.wrong(format!("the digest of {filename:?} is {found}")))
        }
        _ => Ok(part),
    }
}

/// `arguments` is JSON; text that is not JSON, as models sometimes write, is in `arguments_text`.
fn tool_call<'t>(object: &Object<'t>) -> Result<'t, Part> {
    let arguments = match (object.opt_text("arguments_text")?, object.any("arguments")) {
        (Some(text), _) => text.into(),
        (None, Some(text)) if text.is_text() => text.text()?.into(),
        (None, Some(value)) => value.raw().into(),
        (None, None) => "{}".into(),
    };
    Ok(Part::ToolCall {
        id: object.opt_text("id")?.unwrap_or_default().into(),
        name: object.text("name")?.into(),
        arguments,
    })
}

fn branch<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    warn_unknown(object, &["type", "name", "head"], draft);
    let name = object.need("name")?;
    let text = name.text()?;
    let head = object.need("head")?;
    let message: MessageId = id(head)?;
    if draft
        .import
        .branches
        .iter()
        .any(|(known, _)| **known == *text)
    {
        return Err(name.wrong(format!("a second branch {text:?}")));
    }
    if let Err(error) = draft.tree.set_branch(&text, message) {
        return Err(head.wrong(error.to_string()));
    }
    draft.import.branches.push((text.into(), message));
    Ok(())
}

/// An earlier message of the file.
fn named<'t>(
    object: &Object<'t>,
    key: &str,
    draft: &Draft<'t, '_, '_>,
) -> Result<'t, (MessageId, Ordinal)> {
    let named = object.need(key)?;
    let message: MessageId = id(named)?;
    match draft.tree.get(message) {
        Some(node) => Ok((message, node.ordinal())),
        None => Err(named.wrong(format!("message {message} does not exist"))),
    }
}

fn warn_unknown<'t>(object: &Object<'t>, known: &[&str], draft: &mut Draft<'t, '_, '_>) {
    let unknown = object.fields().filter(|(name, _)| !known.contains(name));
    for (name, value) in unknown {
        let other = OTHER_NAMES
            .into_iter()
            .find(|(names, own, _)| known.contains(own) && names.contains(&&*name.to_lowercase()));
        let help = match (other, nearest(name, known.iter().copied())) {
            (Some((_, own, what)), _) => format!("; {what} is `{own}`"),
            (None, Some(similar)) => format!("; did you mean `{similar}`?"),
            (None, None) => String::new(),
        };
        draft.warn(value.wrong(format!("unknown key `{name}` is not kept{help}")));
    }
}

fn word<'t, T: Copy>(value: Value<'t>, words: &[(&str, T)]) -> Result<'t, T> {
    let text = value.text()?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known = words.iter().map(|(word, _)| *word);
        let help = suggestion(&text, known).unwrap_or_default();
        value.wrong(format!("unknown word {text:?}; {help}"))
    })
}

fn id<T: FromStr>(value: Value<'_>) -> Result<'_, T> {
    let text = value.text()?;
    text.parse()
        .map_err(|_| value.wrong(format!("{text:?} is not a UUID")))
}

fn agent(value: Value<'_>) -> Result<'_, AgentId> {
    let text = value.text()?;
    if text.is_empty() {
        return Err(value.wrong("an author needs a name"));
    }
    Ok(AgentId::new(&*text))
}

fn usage(value: Value<'_>) -> Result<'_, ReportedUsage> {
    let object = value.object()?;
    Ok(ReportedUsage {
        input: Tokens(object.need("input")?.number()?),
        output: Tokens(object.need("output")?.number()?),
    })
}
