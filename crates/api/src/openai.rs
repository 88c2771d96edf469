//! OpenAI's chat completions and responses, as far as agents support them.
//!
//! Names and shapes are those of the public API reference. A field that agents cannot carry out is
//! refused if the answer would mean something else without it. Other fields are ignored:
//! `temperature`, `top_p` and similar parameters come from the agent's definition.

mod responses;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use responses::{
    IncompleteDetails, OutputCall, OutputItem, OutputMessage, OutputText, OutputTokens, Response,
    ResponseError, ResponseRequest, ResponseTokens, TextSettings,
};

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChatRequest {
    /// An agent, or `team` for the configured lead with its agents.
    pub model: String,
    /// The conversation; its last message is the task. In a session, only new messages are
    /// appended.
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub messages: Vec<Value>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// Options of the stream.
    pub stream_options: Option<StreamOptions>,
    /// Functions of the client for the agent. The client makes their calls and sends another
    /// request with the results. For one agent, not for the team.
    #[cfg_attr(feature = "description", schema(value_type = Option<Vec<Object>>))]
    pub tools: Option<Vec<Value>>,
    /// `auto`, `none`, `required`, or one function.
    #[cfg_attr(feature = "description", schema(value_type = Option<ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether one answer may have several calls for the client.
    pub parallel_tool_calls: Option<bool>,
    /// `session`: the session to continue, as in the header `X-Unisono-Session`.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Number of answers, at most 1.
    pub n: Option<u64>,
    /// The format of the answer: `text`, `json_object`, or `json_schema` with any schema, which
    /// replaces the agent's own (`output_schema`).
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub response_format: Option<Box<RawValue>>,
    /// Maximum tokens of a reply; the model's own limit applies too.
    #[cfg_attr(feature = "description", schema(minimum = 1))]
    pub max_completion_tokens: Option<u64>,
    /// The earlier name of the same field.
    #[cfg_attr(feature = "description", schema(minimum = 1))]
    pub max_tokens: Option<u64>,
    /// A text, or a list of texts, at which the reply ends; the reply does not contain them.
    #[cfg_attr(feature = "description", schema(value_type = Option<Stop>))]
    pub stop: Option<Value>,
    /// Only an empty list is supported: the earlier name of `tools`.
    #[cfg_attr(feature = "description", schema(value_type = Option<Vec<Object>>))]
    pub functions: Option<Value>,
    /// Only `none` is supported: the earlier name of `tool_choice`.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub function_call: Option<Value>,
    /// Only `false` is supported: an answer has no probabilities.
    pub logprobs: Option<bool>,
    /// Only 0 is supported: an answer has no probabilities.
    pub top_logprobs: Option<u64>,
    /// Only an empty object is supported.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub logit_bias: Option<BTreeMap<String, Value>>,
    /// Only `text` is supported.
    pub modalities: Option<Vec<String>>,
    /// Not supported: an answer is text.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub audio: Option<Value>,
    /// Not supported: agents have tools of their own.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub web_search_options: Option<Value>,
    /// Not supported: `max_completion_tokens` has the limit.
    pub max_output_tokens: Option<u64>,
    /// Only an empty text is supported: a message with the role `system` has them.
    pub instructions: Option<String>,
    /// Not supported with a format other than `text`: `response_format` has the format.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub text: Option<Value>,
    /// Not supported: a session continues a conversation.
    pub previous_response_id: Option<String>,
    /// Not supported: a session continues a conversation.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub conversation: Option<Value>,
    /// Not supported: templates are not kept.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub prompt: Option<Value>,
    /// Only `false` is supported: a turn of a session runs in the background.
    pub background: Option<bool>,
    /// Not supported: the definition of an agent limits its calls.
    pub max_tool_calls: Option<u64>,
}

/// The stop texts of a reply, for the API description.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Stop {
    /// Ends at this text.
    One(String),
    /// Ends at the first of these texts.
    Any(Vec<String>),
}

/// The functions that a reply calls. The schema of `tool_choice`. The daemon parses the value
/// itself: its errors name the field.
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

/// The input of a response. The schema of `input`. The daemon parses the value itself: its errors
/// name the item.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Input {
    /// The task.
    Text(String),
    /// The conversation, whose last item is the task.
    Items(Vec<BTreeMap<String, Value>>),
}

/// Options of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct StreamOptions {
    /// Whether its last chunk contains the usage.
    pub include_usage: Option<bool>,
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
    /// The usage of all agents together.
    pub usage: Tokens,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Choice {
    /// 0.
    pub index: u32,
    /// The answer.
    pub message: ReplyMessage,
    /// `stop`; `length` if the reply reached its maximum length; `tool_calls` if the client must
    /// call tools.
    pub finish_reason: &'static str,
}

/// The message of the assistant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ReplyMessage {
    /// `assistant`.
    pub role: &'static str,
    /// The text; null if it only calls tools.
    pub content: Option<String>,
    /// The calls that the client must make.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<FunctionCall>,
}

/// A call of a client function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FunctionCall {
    /// Its position among the calls of the answer, in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Its id, which its result must name.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The function.
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

/// A chunk of an answer.
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
    /// The chunk; empty in the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    /// The usage, in the last chunk, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
}

/// A chunk of one answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ChunkChoice {
    /// 0.
    pub index: u32,
    /// The next piece.
    pub delta: Delta,
    /// `stop`, `length` or `tool_calls` in the last chunk.
    pub finish_reason: Option<&'static str>,
}

/// The next piece.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Delta {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The calls that the client must make, each complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<FunctionCall>,
}

/// The used tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Their sum.
    pub total_tokens: u64,
    /// Details of the input tokens.
    pub prompt_tokens_details: PromptTokens,
}

/// Details of the input tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct PromptTokens {
    /// Tokens from the prompt cache.
    pub cached_tokens: u64,
}

/// The available models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Models {
    /// `list`.
    pub object: &'static str,
    /// All models.
    pub data: Vec<Model>,
}

/// An agent, or the team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = openai::Model))]
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

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Failure {
    /// The reason.
    pub error: Reason,
}

/// The reason of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Reason {
    /// A message for people.
    pub message: String,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error`, `insufficient_quota` (a
    /// budget is used up) or `server_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The invalid field of the request.
    pub param: Option<String>,
    /// A code for programs.
    pub code: Option<String>,
}
