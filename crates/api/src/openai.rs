//! OpenAI's chat completions and responses, as far as agents can be asked with them.
//!
//! Names and shapes are those of the public API reference. What a request holds besides is ignored:
//! `temperature`, `top_p` and the like are the agent's own.

mod responses;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use responses::{
    Incomplete, OutputCall, OutputItem, OutputMessage, OutputText, OutputTokens, Response,
    ResponseError, ResponseRequest, ResponseTokens, TextSettings,
};

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChatRequest {
    /// An agent, or `team` for the configured lead with its agents.
    pub model: String,
    /// The conversation; its last message is the task. In a session, what is new of it is appended.
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub messages: Vec<Value>,
    /// Whether the answer is sent piece by piece.
    #[serde(default)]
    pub stream: bool,
    /// What the stream tells besides.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// Functions that the client lends the agent: it makes the calls of them itself, and asks again
    /// with what they came back with. For one agent, not for the team.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Option<Vec<Object>>))]
    pub tools: Option<Vec<Value>>,
    /// `auto`, `none`, `required`, or one function.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Option<ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether one answer may leave several calls to the client.
    #[serde(default)]
    pub parallel_tool_calls: Option<bool>,
    /// `session`: the session that is continued, as the header `X-Unisono-Session` says it.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// How many answers: 1 is the most.
    #[serde(default)]
    pub n: Option<u64>,
    /// The answer's format: `text`, `json_object`, or `json_schema` with any schema, which then
    /// stands in place of the agent's own (`output_schema`).
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub response_format: Option<Box<RawValue>>,
    /// Tokens of a reply at most; its model's own limit holds besides.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(minimum = 1))]
    pub max_completion_tokens: Option<u64>,
    /// The same, as it was called before.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(minimum = 1))]
    pub max_tokens: Option<u64>,
    /// A text, or a list of texts, at which the reply ends; it has none of them.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Option<Stop>))]
    pub stop: Option<Value>,
}

/// Where a reply ends, as the description has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Stop {
    /// At this text.
    One(String),
    /// At the first of these.
    Any(Vec<String>),
}

/// The functions that a reply calls.
// The schema of `tool_choice`. The daemon reads the value itself: its errors name the field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ToolChoice {
    /// A mode.
    Mode(ToolChoiceMode),
    /// One function, by its name.
    Function(BTreeMap<String, Value>),
}

/// Whether a reply calls functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceMode {
    /// The model decides.
    Auto,
    /// It calls none.
    None,
    /// It calls at least one.
    Required,
}

/// The input of a response.
// The schema of `input`. The daemon reads the value itself: its errors name the item.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Input {
    /// The task.
    Text(String),
    /// The conversation, whose last item is the task.
    Items(Vec<BTreeMap<String, Value>>),
}

/// What a stream tells besides the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct StreamOptions {
    /// Whether its last piece says what was used.
    #[serde(default)]
    pub include_usage: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChatCompletion {
    /// Its id.
    pub id: String,
    /// `chat.completion`.
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: i64,
    /// As in the request.
    pub model: String,
    /// One answer.
    pub choices: Vec<Choice>,
    /// What was used, by all agents together.
    pub usage: Tokens,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Choice {
    /// 0.
    pub index: u32,
    /// The answer.
    pub message: Said,
    /// `stop`; `length` where the reply was as long as it may be; `tool_calls` where the client is to
    /// call tools.
    pub finish_reason: &'static str,
}

/// What the assistant says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Said {
    /// `assistant`.
    pub role: &'static str,
    /// The text; none where it only calls tools.
    pub content: Option<String>,
    /// The calls that the client is to make.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<FunctionCall>,
}

/// A call of a function that the client lent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FunctionCall {
    /// Its place among those of the answer, in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Its id, which its result has to name.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What is called.
    pub function: CalledFunction,
}

/// A function and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CalledFunction {
    /// Its name.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Chunk {
    /// The answer's id.
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: i64,
    /// As in the request.
    pub model: String,
    /// The piece; empty in the one that tells what was used.
    pub choices: Vec<ChunkChoice>,
    /// What was used, in the last piece, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
}

/// A piece of one answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChunkChoice {
    /// 0.
    pub index: u32,
    /// What comes next.
    pub delta: Delta,
    /// `stop`, `length` or `tool_calls` in the last piece.
    pub finish_reason: Option<&'static str>,
}

/// What comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Delta {
    /// `assistant`, in the first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The calls that the client is to make, each whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<FunctionCall>,
}

/// Tokens that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// In.
    pub prompt_tokens: u64,
    /// Out.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// What of those in was special.
    pub prompt_tokens_details: PromptTokens,
}

/// What of the tokens in was special.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct PromptTokens {
    /// Those from the prompt cache.
    pub cached_tokens: u64,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Models {
    /// `list`.
    pub object: &'static str,
    /// All of it.
    pub data: Vec<Model>,
}

/// An agent, or the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "description", schema(as = openai::Model))]
pub struct Model {
    /// Its name.
    pub id: String,
    /// `model`.
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: i64,
    /// `unisono`.
    pub owned_by: &'static str,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Failure {
    /// Why.
    pub error: Reason,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Reason {
    /// For people.
    pub message: String,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The field of the request that is wrong.
    pub param: Option<String>,
    /// For programs.
    pub code: Option<String>,
}
