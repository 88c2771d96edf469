//! The input of the extractive model: parts of messages as plain lines of text.

use std::borrow::Cow;

use unisono_context::{AgentId, Message, Ordinal, Part, Role, Timestamp};

use super::json;

/// How the result of a failed call begins.
const ERROR: &str = "error";
/// The values of a member `error` if nothing failed.
const NO_ERROR: [&str; 6] = ["", "none", "null", "false", "no", "0"];
/// A result of at most [`REFUSAL_BYTES`] that contains this, in lower case, is of a refused call. A
/// longer one may be a log that was read.
const REFUSAL: &str = "403 forbidden";
const REFUSAL_BYTES: usize = 400;

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
    /// The provider's id of the call, for a tool call and for its result.
    pub call_id: Option<&'a str>,
    /// Whether it is the result of a call that failed.
    pub is_failure: bool,
    /// Its text. Quotes are substrings of it, white space aside, with a mark before the end of a long
    /// sentence; in telegraphic wording without its articles and fillers. The line of a tool result's
    /// outcome consists of parts of it, after the name of the call.
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
            call_id: None,
            is_failure: false,
            text: text.into(),
        }
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
        let (call_id, is_failure) = match part {
            Part::ToolCall { id, .. } => (Some(&**id), false),
            Part::ToolResult {
                call_id, is_error, ..
            } => (Some(&**call_id), *is_error || reports_failure(&text)),
            Part::Text(_) | Part::Attachment { .. } => (None, false),
        };
        let passage = Passage {
            ordinal,
            role,
            author,
            at,
            kind,
            call_id,
            is_failure,
            text,
        };
        (!passage.text.trim().is_empty()).then_some(passage)
    }

    /// The passages of messages, one per part, without empty ones.
    pub fn of_messages<I: IntoIterator<Item = &'a Message>>(messages: I) -> Vec<Passage<'a>> {
        let passages = messages.into_iter().flat_map(|message| {
            let author = message.author.as_ref().map(AgentId::as_str);
            let passage = move |part| {
                Passage::of_part(message.ordinal, message.role, author, message.at, part)
            };
            message.parts.iter().filter_map(passage)
        });
        passages.collect()
    }

    /// The text of a message with JSON as `key: value` lines, for search results.
    pub fn text_of(message: &Message) -> String {
        let parts = message.parts.iter().map(|part| flatten_part(part).1);
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The name of the speaker: the author, else the role.
    pub fn speaker(&self) -> &str {
        self.author.as_deref().unwrap_or(self.role.name())
    }
}

/// A name as one word, so that a summary can be parsed: no-break spaces between its words, and without
/// a number sign before it or a colon after it.
pub(crate) fn one_word(name: &str) -> Cow<'_, str> {
    let name = name.trim().trim_start_matches(['#', '\\']);
    let name = name.trim_end_matches(':').trim();
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
            let text = format!("{name}: {}", flatten_json(arguments));
            (PassageKind::ToolCall, Cow::Owned(text))
        }
        Part::ToolResult { content, .. } => (PassageKind::ToolResult, flatten_json(content)),
        Part::Attachment { .. } => (PassageKind::Attachment, part.countable_text()),
    }
}

/// Whether a result says that its call failed, as results of formats without a flag do: it begins with
/// `Error: …`, `Error 404` or an object `error (code: 404, …)`, or is a short text with `403 Forbidden`.
fn reports_failure(text: &str) -> bool {
    let text = text.trim_start();
    if text.len() <= REFUSAL_BYTES && text.to_lowercase().contains(REFUSAL) {
        return true;
    }
    let parts = text.split_at_checked(ERROR.len());
    let Some((_, rest)) = parts.filter(|(word, _)| word.eq_ignore_ascii_case(ERROR)) else {
        return false;
    };
    let Some(value) = rest.strip_prefix(':') else {
        let code = rest.strip_prefix(' ').unwrap_or_default();
        let object = code.strip_prefix('(').unwrap_or_default();
        let object = object.split(')').next().unwrap_or_default();
        return rest.trim().is_empty()
            || code.starts_with(|c: char| c.is_ascii_digit())
            || object.contains(": ");
    };
    // A record may have an empty member for errors: `error: none, status: ok`.
    let value = value.trim_start();
    let end = value.find([',', '\n']).unwrap_or(value.len());
    let value = value[..end].trim().to_lowercase();
    !NO_ERROR.contains(&&*value)
}

/// JSON as `key: value` lines; a text that is not JSON stays as it is.
fn flatten_json(text: &str) -> Cow<'_, str> {
    let json = Some(text.trim_start()).filter(|text| text.starts_with(['{', '[']));
    let lines = json.and_then(json::lines);
    lines.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_report_a_failure_are_known() {
        let is_failure = |content: &str, is_error| {
            let part = Part::tool_result("1", content, is_error);
            let passage = Passage::of_part(Ordinal(1), Role::Tool, None, Timestamp(0), &part);
            passage.is_some_and(|passage| passage.is_failure)
        };
        assert!(is_failure("The seat is taken.", true));
        for failed in [
            "Error: the seat is taken",
            "error: \"read\" is denied",
            "Error 404",
            "Error",
            r#"{"error":"no such order","order":"W-17"}"#,
            r#"{"error":{"code":404,"message":"no such order"}}"#,
            "HTTP/1.1 403 Forbidden",
        ] {
            assert!(is_failure(failed, false), "{failed}");
        }
        for done in [
            "Errors: 0",
            "Error handling is described below.",
            "Error (s) are described below.",
            r#"{"error":{},"order":"W-17"}"#,
            r#"{"error":null,"order":"W-17"}"#,
            r#"{"error":"","order":"W-17"}"#,
            "No error: all is well",
            "The seat is yours.",
        ] {
            assert!(!is_failure(done, false), "{done}");
        }
        let log = format!("{} 403 Forbidden", "GET / 200 OK\n".repeat(40));
        assert!(!is_failure(&log, false));
    }
}
