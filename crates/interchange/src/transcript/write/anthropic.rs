//! Anthropic's messages: one object with the system text and the messages of one branch. It loses
//! the same data as OpenAI's format, but keeps whether a tool failed. The format has no authors: the
//! author of a user's message stands before its text.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use unisono_api::harmless::for_json;
use unisono_context::attachment::Files;
use unisono_context::message::Part;
use unisono_context::{Message, MessageId, Role};
use unisono_session::State;

use super::chat::{author, path, signed};
use super::lossless::verbatim_json;
use super::{Kept, Section, WriteError};

/// The messages; consecutive ones of one role are merged, because a call's result must follow
/// directly.
pub(super) fn messages(state: &State, head: MessageId) -> Result<Vec<Section>, WriteError> {
    let mut system = vec![state.system().to_string()];
    let mut turns: Vec<(&str, Vec<&Message>)> = Vec::new();
    for message in path(state, head) {
        let Some(role) = role(message) else {
            let texts = message.parts.iter().map(|part| part.countable_text());
            system.extend(texts.map(Cow::into_owned));
            continue;
        };
        match turns.last_mut() {
            Some((last, messages)) if *last == role => messages.push(message),
            _ => turns.push((role, vec![message])),
        }
    }
    system.retain(|text| !text.is_empty());
    let mut begin = "{".to_owned();
    if !system.is_empty() {
        let system = serde_json::to_string(&system.join("\n\n"))?;
        begin.push_str(&format!("\"system\":{},", for_json(&system)));
    }
    begin.push_str("\"messages\":[");
    let mut sections = vec![Section::Text(begin)];
    let text = |text: &str| Section::Text(text.to_owned());
    for (place, (role, messages)) in turns.into_iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let begin = format!("{comma}{{\"role\":\"{role}\",\"content\":[");
        sections.push(Section::Text(begin));
        let filled = messages.iter().filter(|message| !message.parts.is_empty());
        for (place, message) in filled.enumerate() {
            sections.extend((place > 0).then(|| text(",")));
            sections.push(Section::Message(message.id));
        }
        sections.push(text("]}"));
    }
    sections.push(text("]}\n"));
    Ok(sections)
}

/// The role of a message; none: it is part of the system text.
fn role(message: &Message) -> Option<&'static str> {
    match message.role {
        Role::System => None,
        Role::Assistant => Some("assistant"),
        Role::User | Role::Tool => Some("user"),
    }
}

/// The blocks of a message.
pub(super) fn blocks(message: &Message, files: &Files) -> Result<String, WriteError> {
    let is_user = role(message) == Some("user");
    let mut author = author(message);
    let mut out = String::new();
    for part in &message.parts {
        let kept = Kept::new(part, files).filter(|_| is_user);
        let block = match (kept, part) {
            (Some(kept), _) => Block::of_file(kept),
            (None, Part::Text(text)) => Block::Text {
                text: signed(author.take(), text),
            },
            (None, part) => Block::from(part),
        };
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(&for_json(&serde_json::to_string(&block)?));
    }
    Ok(out)
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'m> {
    Text {
        text: Cow<'m, str>,
    },
    Image {
        source: Source<'m>,
    },
    Document {
        title: &'m str,
        source: Source<'m>,
    },
    ToolUse {
        id: &'m str,
        name: &'m str,
        input: Input<'m>,
    },
    ToolResult {
        tool_use_id: &'m str,
        content: &'m str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'m> {
    r#type: &'static str,
    media_type: &'m str,
    data: String,
}

impl<'m> Block<'m> {
    fn of_file(kept: Kept<'m>) -> Block<'m> {
        let source = Source {
            r#type: "base64",
            media_type: kept.mime,
            data: kept.data,
        };
        match kept.is_image {
            true => Block::Image { source },
            false => Block::Document {
                title: kept.filename,
                source,
            },
        }
    }
}

/// The arguments of a call, which must be an object.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'m> {
    Json(&'m RawValue),
    Text { input: &'m str },
}

impl<'m> From<&'m Part> for Block<'m> {
    fn from(part: &'m Part) -> Block<'m> {
        match part {
            Part::Text(_) | Part::Attachment { .. } => Block::Text {
                text: part.countable_text(),
            },
            Part::ToolCall {
                id,
                name,
                arguments,
            } => Block::ToolUse {
                id,
                name,
                input: match verbatim_json(arguments).filter(|json| json.get().starts_with('{')) {
                    Some(json) => Input::Json(json),
                    None => Input::Text { input: arguments },
                },
            },
            Part::ToolResult {
                call_id,
                content,
                is_error,
            } => Block::ToolResult {
                tool_use_id: call_id,
                content,
                is_error: *is_error,
            },
        }
    }
}
