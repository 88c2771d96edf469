//! What the extractive model reads: the parts of messages as plain lines of text.

use std::borrow::Cow;

use unisono_context::{AgentId, Message, Ordinal, Part, Role, Timestamp};

use super::json;

/// What a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What somebody said.
    Text,
    /// A request to run a tool.
    ToolCall,
    /// What a tool answered.
    ToolResult,
    /// A file's metadata.
    Attachment,
}

/// One part of a message, flattened to text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The message it is from.
    pub ordinal: Ordinal,
    /// Who speaks.
    pub role: Role,
    /// The agent or person by name, where known.
    pub author: Option<Cow<'a, str>>,
    /// When.
    pub at: Timestamp,
    /// What it is.
    pub kind: Kind,
    /// Its text. Quotes are substrings of it, white space aside.
    pub text: Cow<'a, str>,
}

impl<'a> Passage<'a> {
    /// A passage of plain text.
    pub fn text(
        ordinal: Ordinal,
        role: Role,
        at: Timestamp,
        text: impl Into<Cow<'a, str>>,
    ) -> Self {
        Passage {
            ordinal,
            role,
            author: None,
            at,
            kind: Kind::Text,
            text: text.into(),
        }
    }

    /// The passages of a message, one a part, empty ones left out.
    pub fn of_message(message: &'a Message) -> Vec<Passage<'a>> {
        let author = message.author.as_ref().map(AgentId::as_str);
        let passage =
            |part| Passage::of_part(message.ordinal, message.role, author, message.at, part);
        message.parts.iter().filter_map(passage).collect()
    }

    /// The passage of one part; none when it is empty.
    pub fn of_part(
        ordinal: Ordinal,
        role: Role,
        author: Option<&'a str>,
        at: Timestamp,
        part: &'a Part,
    ) -> Option<Passage<'a>> {
        let (kind, text) = flatten_part(part);
        let author = author.map(Cow::Borrowed);
        let passage = Passage {
            ordinal,
            role,
            author,
            at,
            kind,
            text,
        };
        (!passage.text.trim().is_empty()).then_some(passage)
    }

    /// The passages of a branch, oldest first.
    pub fn of_messages<I: IntoIterator<Item = &'a Message>>(messages: I) -> Vec<Passage<'a>> {
        messages.into_iter().flat_map(Passage::of_message).collect()
    }

    /// Who speaks, as a reader would say it.
    pub fn speaker(&self) -> &str {
        match (&self.author, self.role) {
            (Some(author), _) => author,
            (None, role) => role.name(),
        }
    }
}

fn flatten_part(part: &Part) -> (Kind, Cow<'_, str>) {
    match part {
        Part::Text(text) => (Kind::Text, Cow::Borrowed(text)),
        Part::ToolCall {
            name, arguments, ..
        } => {
            let arguments = flatten_json(arguments);
            (Kind::ToolCall, Cow::Owned(format!("{name}: {arguments}")))
        }
        Part::ToolResult { content, .. } => (Kind::ToolResult, flatten_json(content)),
        Part::Attachment { .. } => (Kind::Attachment, part.countable_text()),
    }
}

/// JSON as `key: value` lines; a text that is not JSON stays as it is.
fn flatten_json(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_start();
    let lines = if trimmed.starts_with(['{', '[']) {
        json::lines(trimmed)
    } else {
        None
    };
    lines.map_or(Cow::Borrowed(text), Cow::Owned)
}
