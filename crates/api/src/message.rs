//! Messages of sessions.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::blob::Extent;
use crate::run::RunStep;
use crate::session::main_branch;

/// Selects messages of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MessageQuery {
    /// The branch (default: `main`).
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 1,000 (default: 100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
    /// Whether messages of agents come with the steps behind them, and tasks without an answer with
    /// the steps of their lead. A page then has at most 100 messages, or fewer: its steps have at
    /// most 4 MiB, unless the first message alone has more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steps: bool,
}

/// A message to append without a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Its role; absent: `user`.
    #[serde(default)]
    pub role: Role,
    /// Its text, if it is a single text; otherwise `parts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its parts: text and attachments of a user, text, attachments and calls of an assistant,
    /// results of a tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Who wrote it: an agent or a person, up to 200 characters. For a message of a user, the rules for
    /// the author of a turn apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        )
    )]
    pub author: Option<String>,
    /// When it was written, RFC 3339; absent: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// The branch to continue.
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
                "role {name:?} does not exist: use user, assistant, tool or system"
            )),
        }
    }
}

/// An appended message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AppendedMessage {
    /// Its session.
    pub session: String,
    /// Its branch.
    pub branch: String,
    /// Its id.
    pub message: String,
    /// `appended`, or `waiting`: a turn is open on the branch, and the message is appended when
    /// that turn has ended.
    pub state: String,
    /// Its position on the branch, from 1; null while it waits.
    pub ordinal: Option<u32>,
    /// Whether it was appended under this key before.
    #[serde(default)]
    pub repeated: bool,
}

/// Tokens that a provider reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReportedUsage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

/// A message on a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The id of the previous message.
    pub parent: Option<String>,
    /// Its position on the branch, from 1: `#1`, `#2` …
    pub ordinal: u32,
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The agent or the person who wrote it.
    pub author: Option<String>,
    /// The run that wrote it; absent: it was not written by a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// When it was written; null if that is unknown.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Tokens in the encoding in which it was first counted, its files as the models of the session's
    /// agents get them; null before that.
    pub tokens: Option<u64>,
    /// The provider's report for the run that wrote it; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ReportedUsage>,
    /// Its state in the context: `verbatim`, `masked`, `cut`, `summarised` or `dropped`.
    pub form: String,
    /// Whether it is pinned on the branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The steps of the agent's run behind it, or of the lead that did not answer it, if they were
    /// requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RunStep>,
}

impl Message {
    /// Its parts as one text.
    pub fn text(&self) -> String {
        let pieces: Vec<Cow<'_, str>> = self.parts.iter().map(Part::text).collect();
        pieces.join("\n")
    }
}

impl Part {
    /// The part as text.
    pub fn text(&self) -> Cow<'_, str> {
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
                extent,
                ..
            } => {
                let extent = extent.to_string();
                Cow::Owned(format!(
                    "[attachment {filename} {mime} {size_bytes} bytes{extent}]"
                ))
            }
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
    /// A tool call.
    ToolCall {
        /// The model's id of the call.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, JSON as text.
        arguments: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The call's id.
        call_id: String,
        /// The result.
        content: String,
        /// Whether it is an error.
        #[serde(default)]
        is_error: bool,
    },
    /// A file. In a request, `data` or `digest` say which content is kept; without both, only this
    /// note of it is.
    Attachment {
        /// Its name.
        filename: String,
        /// Its type; absent: that of its content.
        #[serde(default)]
        mime: String,
        /// Its size; of a file with content that of the content.
        #[serde(default)]
        size_bytes: u64,
        /// BLAKE3 of its content in hexadecimal digits; absent: the content is not kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// Its content in base64, in requests only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The address of its content, in requests only, at a host of `attachments.allowed_hosts`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// How large its content is to a model.
        #[serde(flatten)]
        extent: Extent,
    },
}
