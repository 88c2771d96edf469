//! The shapes of objects by which formats are detected.

use super::json::{Object, Value};
use super::{Format, claude_code, codex, gemini_cli, slack};

/// What an object reveals about its file.
pub(super) enum Shape<'t> {
    /// It is a message or line of this format.
    Item(Format),
    /// It contains a conversation of this format with these messages.
    Wrapper(Format, Value<'t>),
    Conversation(Format),
}

/// The format of an object with a conversation, by the key of its messages.
pub(super) fn wrapper_format(key: &str) -> Option<Format> {
    match key {
        "messages" => Some(Format::OpenAi),
        "conversations" | "conversation" => Some(Format::ShareGpt),
        "history" => Some(Format::GeminiCli),
        _ => None,
    }
}

pub(super) fn is_conversation_object(object: &Object<'_>) -> bool {
    matches!(
        shape(object),
        Some(Shape::Wrapper(..) | Shape::Conversation(_))
    )
}

pub(super) fn shape<'t>(object: &Object<'t>) -> Option<Shape<'t>> {
    let kind = object.get("type").and_then(|kind| kind.text().ok());
    let is_line = match kind.as_deref() {
        Some("session" | "branch" | "checkpoint") => true,
        Some("message") => object.has("parts"),
        _ => false,
    };
    if is_line || object.has("unisono") {
        return Some(Shape::Item(Format::Unisono));
    }
    if slack::is_element(object) {
        return Some(Shape::Item(Format::Slack));
    }
    if codex::is_line(object) {
        return Some(Shape::Item(Format::Codex));
    }
    if claude_code::is_line(object) {
        return Some(Shape::Item(Format::ClaudeCode));
    }
    for key in ["messages", "conversations", "conversation", "history"] {
        if let (Some(format), Some(messages)) = (wrapper_format(key), object.get(key)) {
            return Some(Shape::Wrapper(format, messages));
        }
    }
    for (key, format) in [
        ("mapping", Format::ChatGpt),
        ("chat_messages", Format::Claude),
    ] {
        if object.has(key) {
            return Some(Shape::Conversation(format));
        }
    }
    if codex::is_older_line(object) {
        return Some(Shape::Item(Format::Codex));
    }
    if gemini_cli::is_message(object) || object.has("projectHash") {
        return Some(Shape::Item(Format::GeminiCli));
    }
    let item = [("role", Format::OpenAi), ("from", Format::ShareGpt)];
    let item = item.into_iter().find(|(key, _)| object.has(key));
    item.map(|(_, format)| Shape::Item(format))
}
