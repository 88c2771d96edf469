//! What was said.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A message on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The id of the message before it.
    pub parent: Option<String>,
    /// Its place on the branch, from 1: `#1`, `#2` …
    pub ordinal: u32,
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The agent that wrote it.
    pub author: Option<String>,
    /// When it was written.
    pub at: String,
    /// What it is made of.
    pub parts: Vec<Part>,
    /// Tokens in the encoding it was first counted in; none before that.
    pub tokens: Option<u64>,
    /// How the context has it: `verbatim`, `masked`, `cut`, `summarised` or `dropped` or `dropped`.
    pub form: String,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A call of a tool.
    ToolCall {
        /// The model's id of it.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, JSON as text.
        arguments: String,
    },
    /// What a tool answered.
    ToolResult {
        /// The call's id.
        call_id: String,
        /// The answer.
        content: String,
        /// Whether it is a failure.
        is_error: bool,
    },
    /// A file, without its content.
    Attachment {
        /// Its name.
        filename: String,
        /// Its type.
        mime: String,
        /// Its size.
        size_bytes: u64,
    },
}
