//! What was said.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::session::main_branch;

/// Which messages of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MessageQuery {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 100, and no more than 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A message to be appended without a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Its role; none: `user`.
    #[serde(default)]
    pub role: Role,
    /// What is said, where that is one text; otherwise `parts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it is made of: text and attachments of a user, text, attachments and calls of an
    /// assistant, results of a tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Who wrote it: an agent or a person, up to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        )
    )]
    pub author: Option<String>,
    /// When it was said, RFC 3339; none: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// The branch it continues.
    #[serde(default = "main_branch")]
    pub branch: String,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    #[default]
    User,
    /// An agent.
    Assistant,
    /// A tool.
    Tool,
    /// The author of the system text.
    System,
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Role, String> {
        match name {
            "user" => Ok(Role::User),
            "assistant" => Ok(Role::Assistant),
            "tool" => Ok(Role::Tool),
            "system" => Ok(Role::System),
            _ => Err(format!(
                "there is no role {name:?}: it is user, assistant, tool or system"
            )),
        }
    }
}

/// A message that was appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Appended {
    /// Its session.
    pub session: String,
    /// Its branch.
    pub branch: String,
    /// Its id.
    pub message: String,
    /// `appended`, or `waiting`: a turn is open on the branch, and the message follows when that has
    /// ended.
    pub state: String,
    /// Its place on the branch, from 1; none while it waits.
    pub ordinal: Option<u32>,
    /// Whether it was appended under this key before.
    #[serde(default)]
    pub repeated: bool,
}

/// Tokens that a provider reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReportedUsage {
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
}

/// A message on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
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
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// What it is made of.
    pub parts: Vec<Part>,
    /// Tokens in the encoding it was first counted in; none before that.
    pub tokens: Option<u64>,
    /// What the provider reported for the run that wrote it; none where nothing was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ReportedUsage>,
    /// How the context has it: `verbatim`, `masked`, `cut`, `summarised` or `dropped`.
    pub form: String,
    /// Whether it is pinned on the branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl Message {
    /// All that it says, as text.
    pub fn text(&self) -> String {
        let pieces: Vec<Cow<'_, str>> = self.parts.iter().map(Part::text).collect();
        pieces.join("\n")
    }
}

impl Part {
    /// What it says, as text.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Part::Text { text } => Cow::Borrowed(text),
            Part::ToolCall {
                name, arguments, ..
            } => Cow::Owned(format!("{name}({arguments})")),
            Part::ToolResult { content, .. } => Cow::Borrowed(content),
            Part::Attachment {
                filename,
                mime,
                size_bytes,
            } => Cow::Owned(format!("[attachment {filename} {mime} {size_bytes} bytes]")),
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
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
        #[serde(default)]
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
