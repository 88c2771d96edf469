//! OpenAI chat messages, one per line, and ShareGPT. Both lose ids, times, branches and
//! checkpoints. In OpenAI's, the attachments of a user's messages have their contents; all others
//! become a line of text. ShareGPT has no authors: the author of a user's message stands
//! before its text.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use unisono_context::attachment::Files;
use unisono_context::message::Part;
use unisono_context::{Message, MessageId, Ordinal, Role};
use unisono_session::State;

use super::lossless::verbatim_json;
use super::{Kept, Section, WriteError, line};

/// Id, name and arguments of a call.
type Borrowed<'m> = (&'m Arc<str>, &'m Arc<str>, &'m Arc<str>);

/// OpenAI chat messages, the system text first.
pub(super) fn openai(state: &State, head: MessageId) -> Result<Vec<Section>, WriteError> {
    let mut system = String::new();
    if !state.system().is_empty() {
        line(&mut system, &ChatLine::text("system", state.system()))?;
    }
    let messages = path(state, head).map(|message| Section::Message(message.id));
    let system = Section::Text(system);
    Ok([system].into_iter().chain(messages).collect())
}

/// The lines of a message.
pub(super) fn lines(message: &Message, files: &Files) -> Result<String, WriteError> {
    let mut out = String::new();
    let content = content(message, files);
    let calls: Vec<Call<'_>> = message.tool_calls().map(Call::new).collect();
    let has_result = message.is_tool_result();
    if content.is_some() || !calls.is_empty() || !has_result {
        let role = match message.role {
            // The format has no tool message without a call.
            Role::Tool => Role::User.name(),
            role => role.name(),
        };
        let chat = ChatLine {
            role,
            content,
            name: message.author.as_ref().map(|author| author.as_str()),
            tool_calls: calls,
            tool_call_id: None,
        };
        line(&mut out, &chat)?;
    }
    for (call_id, content) in results(message) {
        let chat = ChatLine {
            tool_call_id: Some(call_id),
            ..ChatLine::text("tool", content)
        };
        line(&mut out, &chat)?;
    }
    Ok(out)
}

/// One ShareGPT conversation.
pub(super) fn sharegpt(state: &State, head: MessageId) -> Result<String, WriteError> {
    let mut turns = Vec::new();
    let turn = |from, value: String| Turn { from, value };
    if !state.system().is_empty() {
        turns.push(turn("system", state.system().to_string()));
    }
    for message in path(state, head) {
        let from = match message.role {
            Role::System => "system",
            Role::User | Role::Tool => "human",
            Role::Assistant => "gpt",
        };
        let said = text(message).map(|text| signed(author(message), &text).into_owned());
        turns.extend(said.map(|text| turn(from, text)));
        let calls: Vec<NamedCall<'_>> = message.tool_calls().map(NamedCall::new).collect();
        match &calls[..] {
            [] => {}
            [call] => turns.push(turn("function_call", serde_json::to_string(call)?)),
            calls => turns.push(turn("function_call", serde_json::to_string(calls)?)),
        }
        turns.extend(results(message).map(|(_, content)| turn("observation", content.to_owned())));
    }
    let mut out = String::new();
    let conversation = Conversation {
        conversations: turns,
    };
    line(&mut out, &conversation)?;
    Ok(out)
}

pub(super) fn path(state: &State, head: MessageId) -> impl Iterator<Item = &Message> {
    let tree = state.tree();
    let last = tree
        .get(head)
        .map_or(Ordinal(0), |node| node.message.ordinal);
    tree.range(head, Ordinal::FIRST..=last)
        .into_iter()
        .map(|node| &*node.message)
}

pub(super) fn author(message: &Message) -> Option<&str> {
    let author = message.author.as_ref().map(|author| author.as_str());
    author.filter(|_| message.role == Role::User)
}

/// A text after its author, as in `Alice: …`.
pub(super) fn signed<'m>(author: Option<&str>, text: &'m str) -> Cow<'m, str> {
    match author {
        Some(author) => format!("{author}: {text}").into(),
        None => text.into(),
    }
}

/// Texts and attachments, one per line; `None` if the message has neither.
fn text(message: &Message) -> Option<String> {
    let pieces: Vec<_> = message
        .parts
        .iter()
        .filter(|part| matches!(part, Part::Text(_) | Part::Attachment { .. }))
        .map(Part::countable_text)
        .collect();
    (!pieces.is_empty()).then(|| pieces.join("\n"))
}

/// The content of a message: a text, or blocks if it has files whose bytes are here.
fn content<'m>(message: &'m Message, files: &Files) -> Option<Content<'m>> {
    let is_user = matches!(message.role, Role::User | Role::Tool);
    let parts = message.parts.iter().filter(|_| is_user);
    let blocks: Vec<Block<'m>> = parts.filter_map(|part| Block::new(part, files)).collect();
    let has_files = |block: &Block<'_>| !matches!(block, Block::Text { .. });
    match blocks.iter().any(has_files) {
        true => Some(Content::Blocks(blocks)),
        false => text(message).map(|text| Content::Text(text.into())),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'m> {
    Text(Cow<'m, str>),
    Blocks(Vec<Block<'m>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'m> {
    Text { text: Cow<'m, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'m> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct File<'m> {
    filename: &'m str,
    file_data: String,
}

impl<'m> Block<'m> {
    /// A text or an attachment; one without bytes is a text. None: a call or a result.
    fn new(part: &'m Part, files: &Files) -> Option<Block<'m>> {
        match part {
            Part::Text(_) | Part::Attachment { .. } => {}
            Part::ToolCall { .. } | Part::ToolResult { .. } => return None,
        }
        let Some(Kept {
            filename,
            mime,
            data,
            is_image,
        }) = Kept::new(part, files)
        else {
            let text = part.countable_text();
            return Some(Block::Text { text });
        };
        let url = format!("data:{mime};base64,{data}");
        Some(match is_image {
            true => Block::ImageUrl {
                image_url: ImageUrl { url },
            },
            false => Block::File {
                file: File {
                    filename,
                    file_data: url,
                },
            },
        })
    }
}

fn results(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolResult {
            call_id, content, ..
        } => Some((&**call_id, &**content)),
        _ => None,
    })
}

#[derive(Serialize)]
struct ChatLine<'m> {
    role: &'static str,
    content: Option<Content<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'m str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'m str>,
}

impl<'m> ChatLine<'m> {
    fn text(role: &'static str, content: &'m str) -> ChatLine<'m> {
        ChatLine {
            role,
            content: Some(Content::Text(content.into())),
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

#[derive(Serialize)]
struct Call<'m> {
    id: &'m str,
    r#type: &'static str,
    function: FunctionCall<'m>,
}

impl<'m> Call<'m> {
    fn new((id, name, arguments): Borrowed<'m>) -> Call<'m> {
        Call {
            id,
            r#type: "function",
            function: FunctionCall { name, arguments },
        }
    }
}

#[derive(Serialize)]
struct FunctionCall<'m> {
    name: &'m str,
    arguments: &'m str,
}

/// A call in ShareGPT: arguments as JSON if they are valid JSON, else as a text.
#[derive(Serialize)]
struct NamedCall<'m> {
    name: &'m str,
    arguments: Arguments<'m>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'m> {
    Json(&'m RawValue),
    Text(&'m str),
}

impl<'m> NamedCall<'m> {
    fn new((_, name, arguments): Borrowed<'m>) -> NamedCall<'m> {
        NamedCall {
            name,
            arguments: match verbatim_json(arguments) {
                Some(json) => Arguments::Json(json),
                None => Arguments::Text(arguments),
            },
        }
    }
}

#[derive(Serialize)]
struct Conversation {
    conversations: Vec<Turn>,
}

#[derive(Serialize)]
struct Turn {
    from: &'static str,
    value: String,
}
