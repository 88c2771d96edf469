//! The input of the extractive model: parts of messages as plain lines of text.

use std::borrow::Cow;

use unisono_context::{AgentId, Message, Ordinal, Part, Role, Timestamp};

use super::json;

/// The kind of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassageKind {
    /// Text of a message.
    Text,
    /// A tool call.
    ToolCall,
    /// A tool result.
    ToolResult,
    /// A file's metadata.
    Attachment,
}

/// One part of a message, flattened to text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// The message it is from.
    pub ordinal: Ordinal,
    /// The role of the speaker.
    pub role: Role,
    /// The agent or person by name as one word, where known.
    pub author: Option<Cow<'a, str>>,
    /// The time of the message.
    pub at: Timestamp,
    /// The kind.
    pub kind: PassageKind,
    /// Its text. Quotes are substrings of it, white space aside; in telegraphic wording without its
    /// articles and fillers. The line of a tool result's outcome consists of parts of it, after the name
    /// of the call.
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
            kind: PassageKind::Text,
            text: text.into(),
        }
    }

    /// The passages of a message, one per part, without empty ones.
    pub fn of_message(message: &'a Message) -> Vec<Passage<'a>> {
        let author = message.author.as_ref().map(AgentId::as_str);
        let passage =
            |part| Passage::of_part(message.ordinal, message.role, author, message.at, part);
        message.parts.iter().filter_map(passage).collect()
    }

    /// The passage of one part; `None` if it is empty.
    pub fn of_part(
        ordinal: Ordinal,
        role: Role,
        author: Option<&'a str>,
        at: Timestamp,
        part: &'a Part,
    ) -> Option<Passage<'a>> {
        let (kind, text) = flatten_part(part);
        let author = author.map(one_word);
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

    /// The text of a message with JSON as `key: value` lines, for search results.
    pub fn text_of(message: &Message) -> String {
        let parts = message.parts.iter().map(|part| flatten_part(part).1);
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The name of the speaker: the author, else the role.
    pub fn speaker(&self) -> &str {
        match (&self.author, self.role) {
            (Some(author), _) => author,
            (None, role) => role.name(),
        }
    }
}

/// A name as one word, so that a summary can be parsed: no-break spaces between its words, and without
/// a number sign before it or a colon after it.
pub(crate) fn one_word(name: &str) -> Cow<'_, str> {
    let name = name
        .trim()
        .trim_start_matches(['#', '\\'])
        .trim_end_matches(':')
        .trim();
    if !name.contains(|c: char| c.is_alphanumeric() || !c.is_ascii()) {
        // Signs alone would not be read as a name.
        return Cow::Borrowed("someone");
    }
    if name.contains(char::is_whitespace) {
        let words: Vec<&str> = name.split_whitespace().collect();
        return Cow::Owned(words.join("\u{a0}"));
    }
    Cow::Borrowed(name)
}

fn flatten_part(part: &Part) -> (PassageKind, Cow<'_, str>) {
    match part {
        Part::Text(text) => (PassageKind::Text, Cow::Borrowed(text)),
        Part::ToolCall {
            name, arguments, ..
        } => {
            let arguments = flatten_json(arguments);
            (
                PassageKind::ToolCall,
                Cow::Owned(format!("{name}: {arguments}")),
            )
        }
        Part::ToolResult { content, .. } => (PassageKind::ToolResult, flatten_json(content)),
        Part::Attachment { .. } => (PassageKind::Attachment, part.countable_text()),
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
