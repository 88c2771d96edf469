//! Messages.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::{AgentId, MessageId, Timestamp, Tokens, message};

use super::codes::codes;

codes!(
    /// Who speaks.
    Role = message::Role {
        System,
        User,
        Assistant,
        Tool,
    }
);

/// A message to be appended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NewMessage {
    id: u128,
    role: Role,
    parts: Vec<Part>,
    author: Option<Arc<str>>,
    at: i64,
    usage: Option<ReportedUsage>,
}

/// A piece of a message. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    Text(Arc<str>),
    ToolCall {
        id: Arc<str>,
        name: Arc<str>,
        arguments: Arc<str>,
    },
    ToolResult {
        call_id: Arc<str>,
        content: Arc<str>,
        is_error: bool,
    },
    Attachment {
        filename: Arc<str>,
        mime: Arc<str>,
        size_bytes: u64,
    },
}

/// Tokens a provider reported.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportedUsage {
    input: u64,
    output: u64,
}

impl From<&message::NewMessage> for NewMessage {
    fn from(message: &message::NewMessage) -> Self {
        Self {
            id: message.id.as_u128(),
            role: message.role.into(),
            parts: message.parts.iter().map(Part::from).collect(),
            author: message.author.as_ref().map(|author| author.as_str().into()),
            at: message.at.0,
            usage: message.usage.map(|usage| ReportedUsage {
                input: usage.input.0,
                output: usage.output.0,
            }),
        }
    }
}

impl From<NewMessage> for message::NewMessage {
    fn from(message: NewMessage) -> Self {
        Self {
            id: MessageId::from_u128(message.id),
            role: message.role.into(),
            parts: message.parts.into_iter().map(Into::into).collect(),
            author: message.author.map(AgentId::new),
            at: Timestamp(message.at),
            usage: message.usage.map(|usage| message::ReportedUsage {
                input: Tokens(usage.input),
                output: Tokens(usage.output),
            }),
        }
    }
}

impl From<&message::Part> for Part {
    fn from(part: &message::Part) -> Self {
        match part {
            message::Part::Text(text) => Self::Text(text.clone()),
            message::Part::ToolCall {
                id,
                name,
                arguments,
            } => Self::ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            },
            message::Part::ToolResult {
                call_id,
                content,
                is_error,
            } => Self::ToolResult {
                call_id: call_id.clone(),
                content: content.clone(),
                is_error: *is_error,
            },
            message::Part::Attachment {
                filename,
                mime,
                size_bytes,
            } => Self::Attachment {
                filename: filename.clone(),
                mime: mime.clone(),
                size_bytes: *size_bytes,
            },
        }
    }
}

impl From<Part> for message::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text),
            Part::ToolCall {
                id,
                name,
                arguments,
            } => Self::ToolCall {
                id,
                name,
                arguments,
            },
            Part::ToolResult {
                call_id,
                content,
                is_error,
            } => Self::ToolResult {
                call_id,
                content,
                is_error,
            },
            Part::Attachment {
                filename,
                mime,
                size_bytes,
            } => Self::Attachment {
                filename,
                mime,
                size_bytes,
            },
        }
    }
}
