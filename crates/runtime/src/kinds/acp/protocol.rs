//! The used messages of the Agent Client Protocol, version 1, for a client.
//!
//! Schema: <https://agentclientprotocol.com/protocol/v1/schema>. Unused parts are omitted.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unisono_session::agent::ToolKind;

pub(super) const VERSION: u64 = 1;
/// The error code of an agent that requires a login.
pub(super) const AUTH_REQUIRED: i64 = -32_000;
/// The error code of a request that its sender withdrew.
const CANCELLED: i64 = -32_800;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
/// The maximum number of characters of an error's data that are shown.
const DATA_CHARS: usize = 200;

/// A line: a request, a notification or a response.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    #[serde(default)]
    pub(super) result: Value,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    data: Value,
}

impl RpcError {
    pub(super) fn text(&self) -> String {
        let data = match &self.data {
            Value::Null => return format!("{} ({})", self.message, self.code),
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let data: String = data.chars().take(DATA_CHARS).collect();
        format!("{} ({}): {data}", self.message, self.code)
    }
}

/// The result of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialized {
    pub(super) protocol_version: u64,
    #[serde(default)]
    pub(super) auth_methods: Option<Vec<AuthMethod>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AuthMethod {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
}

/// The result of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptResult {
    pub(super) stop_reason: String,
}

/// The tokens of a prompt in its result. They are not in every version of the protocol; Gemini CLI
/// has them in an extension, with its own names.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PromptTokens {
    pub(super) total_tokens: u64,
    #[serde(alias = "input_tokens")]
    pub(super) input_tokens: u64,
    #[serde(alias = "output_tokens")]
    pub(super) output_tokens: u64,
    pub(super) thought_tokens: Option<u64>,
    pub(super) cached_read_tokens: Option<u64>,
    pub(super) cached_write_tokens: Option<u64>,
}

impl PromptTokens {
    /// The tokens in a result, if it has readable ones.
    pub(super) fn from_result(result: &Value) -> Option<PromptTokens> {
        let extension = result.pointer("/_meta/quota/token_count");
        let mut places = [result.get("usage"), extension].into_iter().flatten();
        let usage = places.find(|usage| usage.is_object())?;
        PromptTokens::deserialize(usage).ok()
    }
}

/// `session/update`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionUpdate {
    pub(super) session_id: String,
    pub(super) update: Value,
}

pub(super) const PROMPT: &str = "session/prompt";

pub(super) const PERMISSION: &str = "session/request_permission";

/// The notification that withdraws a request.
pub(super) const CANCEL_REQUEST: &str = "$/cancel_request";

/// The kind of update without which an answer would be incomplete.
pub(super) const MESSAGE: &str = "agent_message_chunk";

/// A change of a session.
#[derive(Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum Update {
    #[serde(rename_all = "camelCase")]
    AgentMessageChunk {
        content: Content,
        #[serde(default)]
        message_id: Option<String>,
    },
    #[serde(rename = "tool_call")]
    Call(CallUpdate),
    #[serde(rename = "tool_call_update")]
    CallChange(CallUpdate),
    Plan {
        #[serde(default)]
        entries: Vec<PlanEntry>,
    },
    AgentThoughtChunk {
        content: Content,
    },
    #[serde(rename = "usage_update")]
    Usage(Usage),
    #[serde(other)]
    Unknown,
}

/// A part of a message, or of the output of a call.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content {
    Text {
        text: String,
    },
    ResourceLink {
        #[serde(default)]
        name: String,
        #[serde(default)]
        uri: String,
    },
    Resource {
        #[serde(default)]
        resource: Resource,
    },
    Image {},
    Audio {},
    #[serde(other)]
    Unknown,
}

/// A file in a message; without a text, if it is binary.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Resource {
    #[serde(default)]
    pub(super) uri: String,
    #[serde(default)]
    pub(super) text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallUpdate {
    pub(super) tool_call_id: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) raw_input: Option<Value>,
    #[serde(default)]
    pub(super) locations: Option<Vec<Location>>,
    #[serde(default)]
    pub(super) raw_output: Option<Value>,
    #[serde(default)]
    pub(super) content: Option<Vec<CallContent>>,
}

/// The usage that an agent reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Usage {
    /// Tokens in the context.
    pub(super) used: u64,
    /// Tokens of the window.
    pub(super) size: u64,
    /// The cost of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<Cost>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) amount: f64,
    pub(super) currency: String,
}

/// A place in a file.
#[derive(Debug, Deserialize)]
pub(super) struct Location {
    pub(super) path: String,
    #[serde(default)]
    pub(super) line: Option<u32>,
}

/// A part of the output of a tool call.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CallContent {
    /// A [`Content`], which is only shown: an invalid one is ignored.
    Content {
        #[serde(default)]
        content: Value,
    },
    #[serde(rename_all = "camelCase")]
    Diff {
        path: String,
        #[serde(default)]
        old_text: Option<String>,
        new_text: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlanEntry {
    #[serde(default)]
    pub(super) content: String,
    #[serde(default)]
    pub(super) status: String,
}

/// `session/request_permission`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    pub(super) tool_call: CallUpdate,
    pub(super) options: Vec<Choice>,
}

/// One of the permitted answers.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Choice {
    pub(super) option_id: String,
    #[serde(default)]
    pub(super) kind: String,
}

/// The kind of a call by its name; an unknown name is `other`.
pub(super) fn kind(name: &str) -> ToolKind {
    ToolKind::from_name(name).unwrap_or(ToolKind::Other)
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn cancel(session: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
}

/// A response that chooses this option; none: cancelled.
pub(super) fn chosen(id: &Value, option: Option<&str>) -> Value {
    let outcome = match option {
        Some(option) => json!({"outcome": "selected", "optionId": option}),
        None => json!({"outcome": "cancelled"}),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})
}

/// A response to a request that its sender withdrew.
pub(super) fn withdrawn(id: &Value) -> Value {
    let message = "the request was withdrawn";
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": CANCELLED, "message": message}})
}

/// A response to a request with an unknown method.
pub(super) fn unknown(id: &Value, method: &str) -> Value {
    let message = format!("this client has no `{method}`");
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}})
}

/// A response to an invalid request.
pub(super) fn unreadable(id: &Value, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": INVALID_PARAMS, "message": why}})
}
