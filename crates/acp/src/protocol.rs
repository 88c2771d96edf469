//! Messages of the protocol, version 1: the used fields of a client's messages, and the messages to
//! a client.
//!
//! Schema: <https://agentclientprotocol.com/protocol/v1/schema>. ADR 20 explains why these are not
//! the types of the official crates.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `session/new`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSession {
    pub(crate) cwd: PathBuf,
    #[serde(default)]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// `session/load` and `session/resume`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadSession {
    pub(crate) session_id: String,
    pub(crate) cwd: PathBuf,
    #[serde(default)]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// A tool server of the editor. Its environment and headers may be secret, so it has no debug
/// output.
#[derive(Deserialize)]
pub(crate) struct McpServer {
    pub(crate) name: String,
    /// None: a program.
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) command: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Vec<NamedValue>,
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) headers: Vec<NamedValue>,
}

/// A variable or a header.
#[derive(Deserialize)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// `session/list`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListSessions {
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

/// `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetOption {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: Value,
}

/// `session/close` and `session/cancel`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneSession {
    pub(crate) session_id: String,
}

/// `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<Block>,
}

/// A part of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Text {
        text: String,
    },
    ResourceLink {
        name: String,
        uri: String,
    },
    Resource {
        resource: Resource,
    },
    /// An image in base64.
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
        #[serde(default)]
        uri: Option<String>,
    },
    Audio {},
    #[serde(other)]
    Unknown,
}

/// A file that comes with a prompt.
#[derive(Debug, Deserialize)]
pub(crate) struct Resource {
    pub(crate) uri: String,
    /// The text; none for binary content.
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// Binary content in base64.
    #[serde(default)]
    pub(crate) blob: Option<String>,
    #[serde(default, rename = "mimeType")]
    pub(crate) mime_type: Option<String>,
}

/// A text or an image as the protocol has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Content {
    Text {
        text: String,
    },
    /// An image in base64.
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Text { text }
    }
}

/// The content of a call's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CallContent {
    Content { content: Content },
}

impl From<String> for CallContent {
    fn from(text: String) -> CallContent {
        CallContent::Content {
            content: text.into(),
        }
    }
}

/// `session/update`: a change of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum Update {
    UserMessageChunk(Chunk),
    AgentMessageChunk(Chunk),
    #[serde(rename = "tool_call")]
    Call(Call),
    /// A change of a call: absent fields stay unchanged.
    #[serde(rename = "tool_call_update")]
    CallChange(Call),
    Plan {
        entries: Vec<PlanEntry>,
    },
    #[serde(rename = "available_commands_update", rename_all = "camelCase")]
    AvailableCommands {
        available_commands: Vec<AvailableCommand>,
    },
    #[serde(rename = "usage_update")]
    Usage {
        /// Tokens.
        used: u64,
        /// Tokens.
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AvailableCommand {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<CommandInput>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CommandInput {
    pub(crate) hint: &'static str,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk {
    pub(crate) content: Content,
    pub(crate) message_id: String,
}

/// A tool call, or another activity shown as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    pub(crate) tool_call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<CallKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<CallStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) content: Vec<CallContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_input: Option<Value>,
}

/// The kind of a call, for its icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallKind {
    Think,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) priority: Priority,
    pub(crate) status: PlanStatus,
}

/// The only priority in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    Medium,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) amount: f64,
    pub(crate) currency: &'static str,
}

/// Why a prompt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    EndTurn,
    /// The answer was cut at the output limit of its model.
    MaxTokens,
    /// The agent that answers was stopped at its limit of model calls.
    MaxTurnRequests,
    /// The model declined to answer.
    Refusal,
    Cancelled,
}

/// The answer to `session/request_permission`.
#[derive(Debug, Deserialize)]
pub(crate) struct Permission {
    pub(crate) outcome: Outcome,
}

/// The choice of a person.
#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum Outcome {
    Cancelled,
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
}
