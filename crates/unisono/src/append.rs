//! Messages of clients that are appended without a turn.

use unisono_api::harmless::is_direction;
use unisono_api::message::{self as api, NewMessage, Part};
use unisono_context::message::{self, Role};
use unisono_context::{AgentId, Digest, MessageId, Timestamp};
use unisono_runtime::clock;
use unisono_session::event::RequestKey;
use unisono_session::machine::Append;
use uuid::Uuid;

use crate::attachments::NewContent;

const AUTHOR_CHARS: usize = 200;
/// Maximum characters of a key.
pub const KEY_CHARS: usize = 255;

/// Why a message cannot be appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Both forms were used.
    #[error("the message has both `text` and `parts`: send only one of them")]
    Both,
    /// The author is not a name.
    #[error(
        "the author is not valid: use 1 to {AUTHOR_CHARS} characters without line ends, control \
         characters and characters that set the direction of text"
    )]
    Author,
    /// The time cannot be read.
    #[error("{0:?} is not a time: write one such as 2026-03-02T09:14:00Z")]
    Time(String),
    /// The arguments of a call are no JSON object.
    #[error("the arguments of the call of `{0}` are not a JSON object: send one as a text")]
    Arguments(String),
    /// The key is invalid.
    #[error("the idempotency key is not valid: use 1 to {KEY_CHARS} ASCII characters")]
    Key,
}

/// The idempotency key of a request: its name with a digest of the request.
///
/// # Errors
/// The name is empty, too long, or has other characters than printable ASCII.
pub fn key(name: &str, request: &impl serde::Serialize) -> Result<RequestKey, Error> {
    let name = name.trim();
    let printable = name.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if name.is_empty() || name.len() > KEY_CHARS || !printable {
        return Err(Error::Key);
    }
    let bytes = serde_json::to_vec(request).map_err(|_| Error::Key)?;
    Ok(RequestKey::new(name, Digest::of_bytes(&bytes)))
}

/// The message, with a new id. The session decides whether it fits its branch. `attachments` are its
/// attachments whose contents are kept, in its order.
///
/// # Errors
/// The invalid part of the message.
pub fn message(
    new: &NewMessage,
    key: Option<RequestKey>,
    attachments: Vec<message::Part>,
) -> Result<Append, Error> {
    let mut attachments = attachments.into_iter();
    let parts = match &new.text {
        Some(_) if !new.parts.is_empty() => return Err(Error::Both),
        Some(text) => vec![message::Part::text(text.as_str())],
        None => {
            let parts = new
                .parts
                .iter()
                .map(|part| match NewContent::of_part(part) {
                    Some(_) => attachments.next().map_or_else(|| plain(part), Ok),
                    None => plain(part),
                });
            parts.collect::<Result<_, _>>()?
        }
    };
    let at = new.at.as_deref().map(instant).transpose()?;
    Ok(Append {
        branch: new.branch.as_str().into(),
        message: message::NewMessage {
            id: MessageId::new(Uuid::now_v7()),
            role: role(new.role),
            parts,
            author: new.author.as_deref().map(author).transpose()?,
            at: at.unwrap_or_else(clock::now),
            usage: None,
        },
        key,
    })
}

fn role(role: api::Role) -> Role {
    match role {
        api::Role::User => Role::User,
        api::Role::Assistant => Role::Assistant,
        api::Role::Tool => Role::Tool,
        api::Role::System => Role::System,
    }
}

pub(crate) fn author(name: &str) -> Result<AgentId, Error> {
    let fits = name.chars().take(AUTHOR_CHARS + 1).count() <= AUTHOR_CHARS;
    let steers = |c: char| c.is_control() || is_direction(c);
    if name.trim().is_empty() || !fits || name.contains(steers) {
        return Err(Error::Author);
    }
    Ok(AgentId::from(name.trim()))
}

fn instant(text: &str) -> Result<Timestamp, Error> {
    let read: Result<jiff::Timestamp, _> = text.parse();
    let at = read.map_err(|_| Error::Time(text.to_owned()))?;
    Ok(Timestamp(at.as_millisecond()))
}

fn plain(part: &Part) -> Result<message::Part, Error> {
    Ok(match part {
        Part::Text { text } => message::Part::text(text.as_str()),
        Part::ToolCall {
            id,
            name,
            arguments,
        } => {
            let object: Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_str(arguments);
            object.map_err(|_| Error::Arguments(name.clone()))?;
            message::Part::tool_call(id.as_str(), name.as_str(), arguments.as_str())
        }
        Part::ToolResult {
            call_id,
            content,
            is_error,
        } => message::Part::tool_result(call_id.as_str(), content.as_str(), *is_error),
        Part::Attachment {
            filename,
            mime,
            size_bytes,
            ..
        } => message::Part::Attachment {
            filename: filename.as_str().into(),
            mime: mime.as_str().into(),
            size_bytes: *size_bytes,
            content: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> Result<Append, Error> {
        let new: NewMessage = serde_json::from_value(json).unwrap();
        message(&new, None, Vec::new())
    }

    #[test]
    fn what_cannot_be_a_message_is_refused_by_name() {
        use serde_json::json;
        let long = "a".repeat(AUTHOR_CHARS + 1);
        let call = json!({"type": "tool_call", "id": "1", "name": "look", "arguments": "[1]"});
        for (json, says) in rows! {
            (json!({"text": "a", "parts": [{"type": "text", "text": "b"}]}), "only one of them"),
            (json!({"text": "a", "author": " "}), "the author is not valid"),
            (json!({"text": "a", "author": "a\u{1b}[2J"}), "the author is not valid"),
            (json!({"text": "a", "author": long}), "the author is not valid"),
            (json!({"text": "a", "at": "yesterday"}), "is not a time"),
            (json!({"role": "assistant", "parts": [call]}), "of `look`"),
        } {
            let error = read(json.clone()).unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
        let said = read(json!({"text": "a", "at": "2026-03-02T09:14:00Z", "author": "Zoë"}));
        let said = said.unwrap().message;
        assert_eq!(said.role, Role::User);
        assert_eq!(said.at, Timestamp(1_772_442_840_000));
        assert_eq!(said.author, Some(AgentId::from("Zoë")));
    }

    #[test]
    fn a_key_names_one_request() {
        let of = |name: &str, text: &str| key(name, &text);
        assert_eq!(of(" irc-1 ", "a"), of("irc-1", "a"));
        assert_ne!(of("irc-1", "a"), of("irc-1", "b"));
        for name in ["", "  ", "ä", "a\nb", &"k".repeat(KEY_CHARS + 1)] {
            assert_eq!(of(name, "a"), Err(Error::Key), "{name:?}");
        }
    }
}
