//! One immutable message of a conversation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::attachment::{Content, FileTokens, note};
use crate::digest::{Digest, Hasher};
use crate::ids::{AgentId, MessageId, Ordinal, Timestamp};
use crate::tokens::{Count, Tokens};

/// The tool by which a lead gives tasks to other agents.
pub const DELEGATE: &str = "delegate";

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Instructions; the leading ones become the session's system text on import.
    System,
    /// A person, or the program that delegates.
    User,
    /// A model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

crate::names!(Role {
    System = "system",
    User = "user",
    Assistant = "assistant",
    Tool = "tool",
});

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Plain text.
    Text(Arc<str>),
    /// A request to run a tool.
    ToolCall {
        /// The provider's id. Real transcripts reuse ids, so results are paired by position.
        id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// Arguments as JSON text.
        arguments: Arc<str>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call it answers, as the provider wrote it.
        call_id: Arc<str>,
        /// The result.
        content: Arc<str>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A file the person attached.
    Attachment {
        /// File name without a path.
        filename: Arc<str>,
        /// Media type.
        mime: Arc<str>,
        /// Size in bytes.
        size_bytes: u64,
        /// Its content; none: only this note of it is kept.
        content: Option<Content>,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<Arc<str>>) -> Part {
        Part::Text(text.into())
    }

    /// A request to run a tool, with arguments as JSON text.
    pub fn tool_call(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        arguments: impl Into<Arc<str>>,
    ) -> Part {
        Part::ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }

    /// An attached file.
    pub fn attachment(
        filename: impl Into<Arc<str>>,
        mime: impl Into<Arc<str>>,
        size_bytes: u64,
        content: Option<Content>,
    ) -> Part {
        Part::Attachment {
            filename: filename.into(),
            mime: mime.into(),
            size_bytes,
            content,
        }
    }

    /// The result of the call with this id.
    pub fn tool_result(
        call_id: impl Into<Arc<str>>,
        content: impl Into<Arc<str>>,
        is_error: bool,
    ) -> Part {
        Part::ToolResult {
            call_id: call_id.into(),
            content: content.into(),
            is_error,
        }
    }

    /// The text that counts as tokens: text, tool JSON, attachment metadata.
    pub fn countable_text(&self) -> Cow<'_, str> {
        match self {
            Part::Text(text) => Cow::Borrowed(text),
            Part::ToolCall {
                name, arguments, ..
            } => Cow::Owned(format!("{name}({arguments})")),
            Part::ToolResult { content, .. } => Cow::Borrowed(content),
            Part::Attachment {
                filename,
                mime,
                size_bytes,
                content,
            } => Cow::Owned(note(filename, mime, *size_bytes, content.as_ref())),
        }
    }

    /// Its content, if it is an attachment whose content is kept.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Part::Attachment { content, .. } => content.as_ref(),
            _ => None,
        }
    }

    /// The bytes of an attachment whose content is kept; 0 for any other part.
    pub fn kept_bytes(&self) -> u64 {
        match self {
            Part::Attachment {
                size_bytes,
                content: Some(_),
                ..
            } => *size_bytes,
            _ => 0,
        }
    }

    /// The name, the media type and the content of an attachment whose content is kept.
    pub fn file(&self) -> Option<(&Arc<str>, &Arc<str>, &Content)> {
        match self {
            Part::Attachment {
                filename,
                mime,
                content: Some(content),
                ..
            } => Some((filename, mime, content)),
            _ => None,
        }
    }

    /// Its content, to be changed.
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match self {
            Part::Attachment { content, .. } => content.as_mut(),
            _ => None,
        }
    }

    /// What it costs besides its text: see [`Extent::at_most`](crate::attachment::Extent::at_most).
    pub fn tokens_beside_text(&self) -> Count {
        let tokens = self.content().map(|content| content.extent.at_most());
        Count::exact(tokens.unwrap_or_default().0)
    }

    /// Adds the content of this part that a model sees; call ids are excluded, [`CallRef`]s pair
    /// them.
    fn digest_into(&self, hasher: &mut Hasher) {
        match self {
            Part::Text(text) => hasher.u64(0).str(text),
            Part::ToolCall {
                name, arguments, ..
            } => hasher.u64(1).str(name).str(arguments),
            Part::ToolResult {
                content, is_error, ..
            } => hasher.u64(2).str(content).u64(u64::from(*is_error)),
            Part::Attachment {
                filename,
                mime,
                size_bytes,
                content: None,
            } => hasher.u64(3).str(filename).str(mime).u64(*size_bytes),
            Part::Attachment {
                filename,
                mime,
                size_bytes,
                content: Some(content),
            } => {
                let named = hasher.u64(4).str(filename).str(mime).u64(*size_bytes);
                named.digest(&content.digest)
            }
        };
    }
}

/// A tool call by position: the call that a tool result answers, independent of provider ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallRef {
    /// The message that made the call.
    pub message: Ordinal,
    /// The index of the call in that message, from 0.
    pub index: u16,
}

/// Tokens a provider reported for the response that produced a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// Input tokens.
    pub input: Tokens,
    /// Output tokens.
    pub output: Tokens,
}

/// The data of a new message; the tree adds its position and digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, unique within the session.
    pub id: MessageId,
    /// Its role.
    pub role: Role,
    /// Its parts.
    pub parts: Vec<Part>,
    /// The agent that wrote it, if one did.
    pub author: Option<AgentId>,
    /// When it was written.
    pub at: Timestamp,
    /// Usage as the provider reported it.
    pub usage: Option<ReportedUsage>,
}

impl NewMessage {
    /// A message without an author.
    pub fn new(id: MessageId, role: Role, parts: Vec<Part>, at: Timestamp) -> Self {
        NewMessage {
            id,
            role,
            parts,
            author: None,
            at,
            usage: None,
        }
    }

    /// A message of one text part.
    pub fn text(id: MessageId, role: Role, text: impl Into<Arc<str>>, at: Timestamp) -> Self {
        NewMessage::new(id, role, vec![Part::text(text)], at)
    }

    /// Whether it is the same message. The texts of its documents make no difference: a document that
    /// is read again may get another one.
    pub fn is_same(&self, other: &NewMessage) -> bool {
        self == other || self.without_texts() == other.without_texts()
    }

    fn without_texts(&self) -> NewMessage {
        let mut message = self.clone();
        for content in message.parts.iter_mut().filter_map(Part::content_mut) {
            content.text = None;
        }
        message
    }
}

/// A message at its position in the tree. Immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The previous message; none for a root.
    pub parent: Option<MessageId>,
    /// Its position on every branch that contains it.
    pub ordinal: Ordinal,
    /// Its role.
    pub role: Role,
    /// Its parts.
    pub parts: Vec<Part>,
    /// The agent that wrote it, if one did.
    pub author: Option<AgentId>,
    /// When it was written.
    pub at: Timestamp,
    /// Usage as the provider reported it.
    pub usage: Option<ReportedUsage>,
    /// The calls that its tool results answer, one for each result, in order.
    pub answers: Vec<CallRef>,
    /// Digest of the content that a model sees: role, author, parts, and the distances to the calls
    /// that it answers. No ids, no times, no texts of documents: one that is read again, such as by an
    /// import, may get another text.
    pub content_digest: Digest,
    /// Digest of the content of the whole path from the root to here.
    pub path_digest: Digest,
}

/// Reads the beginning of each text. Messages lie apart in memory: this loop is so short that the processor
/// waits for several of them at the same time, and a longer loop after it finds them in the cache.
pub fn prefetch<'m>(messages: impl Iterator<Item = &'m Message>) {
    let parts = messages.flat_map(|message| &message.parts);
    let first = parts.map(|part| match part {
        Part::Text(text) | Part::ToolResult { content: text, .. } => text.as_bytes().first(),
        Part::ToolCall { arguments, .. } => arguments.as_bytes().first(),
        Part::Attachment { .. } => None,
    });
    std::hint::black_box(first.fold(0, |sum: u8, first| sum ^ first.map_or(0, |&byte| byte)));
}

impl Message {
    pub(crate) fn file_tokens(&self) -> FileTokens {
        let contents = self.parts.iter().filter_map(Part::content);
        contents.map(FileTokens::for_content).sum()
    }

    /// Places `new` after its parent; `answers` has one entry for each of its tool results.
    pub(crate) fn place(
        new: NewMessage,
        parent: Option<&Message>,
        answers: Vec<CallRef>,
    ) -> Message {
        let ordinal = parent.map_or(Ordinal::FIRST, |p| p.ordinal.next());
        let content_digest = content_digest(&new, ordinal, &answers);
        let mut hasher = Hasher::new("unisono/path", 1);
        if let Some(parent) = parent {
            hasher.digest(&parent.path_digest);
        }
        let path_digest = hasher.digest(&content_digest).finish();
        Message {
            id: new.id,
            parent: parent.map(|p| p.id),
            ordinal,
            role: new.role,
            parts: new.parts,
            author: new.author,
            at: new.at,
            usage: new.usage,
            answers,
            content_digest,
            path_digest,
        }
    }

    /// The data from which it was made.
    pub fn to_new(&self) -> NewMessage {
        NewMessage {
            id: self.id,
            role: self.role,
            parts: self.parts.clone(),
            author: self.author.clone(),
            at: self.at,
            usage: self.usage,
        }
    }

    /// Its tool calls in order: id, name, arguments.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<str>)> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall {
                id,
                name,
                arguments,
            } => Some((id, name, arguments)),
            _ => None,
        })
    }

    /// True when the message answers a tool call.
    pub fn is_tool_result(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::ToolResult { .. }))
    }

    /// What it costs besides its text.
    pub fn tokens_beside_text(&self) -> Count {
        self.parts.iter().map(Part::tokens_beside_text).sum()
    }

    /// All text that counts as tokens, parts joined by a newline.
    pub fn countable_text(&self) -> String {
        let pieces: Vec<_> = self.parts.iter().map(Part::countable_text).collect();
        pieces.join("\n")
    }
}

fn content_digest(new: &NewMessage, ordinal: Ordinal, answers: &[CallRef]) -> Digest {
    let mut hasher = Hasher::new("unisono/message", 1);
    hasher
        .str(new.role.name())
        .opt_str(new.author.as_ref().map(AgentId::as_str));
    hasher.u64(new.parts.len() as u64);
    for part in &new.parts {
        part.digest_into(&mut hasher);
    }
    for call in answers {
        hasher
            .u64(u64::from(ordinal.0 - call.message.0))
            .u64(u64::from(call.index));
    }
    hasher.finish()
}
