//! Anthropic's messages: one object with the system text and the messages of one branch. It loses
//! the same data as OpenAI's format, but keeps whether a tool failed. The format has no authors: the
//! author of a user's message stands before its text.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use unisono_context::attachment::Files;
use unisono_context::message::Part;
use unisono_context::{MessageId, Role};
use unisono_session::State;

use super::chat::{author, path, signed};
use super::lossless::verbatim_json;
use super::{Kept, WriteError, line};

/// The messages; consecutive ones of one role are merged, because a call's result must follow
/// directly.
pub(super) fn messages(
    state: &State,
    head: MessageId,
    files: &Files,
) -> Result<String, WriteError> {
    let mut system = vec![state.system().to_string()];
    let mut messages: Vec<Turn<'_>> = Vec::new();
    for message in path(state, head) {
        let role = match message.role {
            Role::System => {
                let texts = message.parts.iter().map(|part| part.countable_text());
                system.extend(texts.map(Cow::into_owned));
                continue;
            }
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        let mut author = author(message);
        let content = message.parts.iter().map(|part| {
            let kept = Kept::new(part, files).filter(|_| role == "user");
            match (kept, part) {
                (Some(kept), _) => Block::of_file(kept),
                (None, Part::Text(text)) => Block::Text {
                    text: signed(author.take(), text),
                },
                (None, part) => Block::from(part),
            }
        });
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(Turn {
                role,
                content: content.collect(),
            }),
        }
    }
    system.retain(|text| !text.is_empty());
    let mut out = String::new();
    let system = system.join("\n\n");
    line(&mut out, &Conversation { system, messages })?;
    Ok(out)
}

#[derive(Serialize)]
struct Conversation<'m> {
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<Turn<'m>>,
}

#[derive(Serialize)]
struct Turn<'m> {
    role: &'static str,
    content: Vec<Block<'m>>,
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
