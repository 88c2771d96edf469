//! OpenAI's Responses API: requests and responses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PromptTokens;

/// A request of the Responses API.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ResponseRequest {
    /// An agent, or `team` for the configured lead with its agents.
    pub model: String,
    /// The task as a text, or the conversation as items. The last item is the task. A session
    /// appends the new items.
    #[cfg_attr(feature = "description", schema(value_type = super::Input))]
    pub input: Value,
    /// The system text. It stands before the system text of the items.
    pub instructions: Option<String>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// `session`: the session to continue, as in the header `X-Unisono-Session`.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Functions of the client for the agent. The client makes their calls and sends another
    /// request with the results. For one agent, not for the team.
    #[cfg_attr(feature = "description", schema(value_type = Option<Vec<Object>>))]
    pub tools: Option<Vec<Value>>,
    /// `auto`, `none`, `required`, or one function.
    #[cfg_attr(feature = "description", schema(value_type = Option<super::ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether one answer may have several calls for the client.
    pub parallel_tool_calls: Option<bool>,
    /// Not supported: a session continues a conversation.
    pub previous_response_id: Option<String>,
    /// Not supported: a session continues a conversation.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub conversation: Option<Value>,
    /// `format`: the format of the answer: `text`, `json_object`, or `json_schema` with any schema,
    /// which replaces the agent's own (`output_schema`).
    pub text: Option<TextSettings>,
    /// Maximum tokens of a reply; the model's own limit applies too.
    #[cfg_attr(feature = "description", schema(minimum = 1))]
    pub max_output_tokens: Option<u64>,
    /// Only `false` is supported: a turn of a session runs in the background.
    pub background: Option<bool>,
    /// Not supported: templates are not kept.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub prompt: Option<Value>,
    /// Not supported: the definition of an agent limits its calls.
    pub max_tool_calls: Option<u64>,
    /// Additional parts of the answer. It never has them; `message.output_text.logprobs` is refused.
    pub include: Option<Vec<String>>,
    /// Only 0 is supported: an answer has no probabilities.
    pub top_logprobs: Option<u64>,
    /// Only the format `text` is supported: `text` has the format.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub response_format: Option<Value>,
    /// Not supported: `max_output_tokens` has the limit.
    pub max_completion_tokens: Option<u64>,
    /// Not supported: `max_output_tokens` has the limit.
    pub max_tokens: Option<u64>,
    /// Only an empty list is supported: chat completions have it.
    #[cfg_attr(feature = "description", schema(value_type = Option<super::Stop>))]
    pub stop: Option<Value>,
    /// Only 1 is supported: an agent gives one answer.
    pub n: Option<u64>,
    /// Only an empty list is supported: the earlier name of `tools`.
    #[cfg_attr(feature = "description", schema(value_type = Option<Vec<Object>>))]
    pub functions: Option<Value>,
    /// Only `none` is supported: the earlier name of `tool_choice`.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub function_call: Option<Value>,
    /// Only `false` is supported: an answer has no probabilities.
    pub logprobs: Option<bool>,
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
}

/// The text options of a request of the Responses API.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TextSettings {
    /// Its format.
    #[cfg_attr(feature = "description", schema(value_type = Option<Object>))]
    pub format: Option<Box<RawValue>>,
}

/// An answer of the Responses API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema), schema(as = openai::Response))]
pub struct Response {
    /// Its id.
    pub id: String,
    /// `response`.
    pub object: &'static str,
    /// Unix time in seconds.
    pub created_at: i64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub status: &'static str,
    /// As in the request.
    pub model: String,
    /// The answer: a message and the calls that the client must make. Empty before the answer.
    pub output: Vec<OutputItem>,
    /// The usage of all agents together.
    pub usage: Option<ResponseTokens>,
    /// Why there is no answer.
    pub error: Option<ResponseError>,
    /// Why it is `incomplete`.
    pub incomplete_details: Option<IncompleteDetails>,
    /// As in the request.
    pub instructions: Option<String>,
    /// As in the request.
    pub metadata: BTreeMap<String, String>,
    /// As in the request.
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub tools: Vec<Value>,
    /// As in the request.
    #[cfg_attr(feature = "description", schema(value_type = super::ToolChoice))]
    pub tool_choice: Value,
    /// As in the request.
    pub parallel_tool_calls: bool,
    /// From the agent's definition.
    pub temperature: Option<f64>,
    /// From the agent's definition.
    pub top_p: Option<f64>,
}

/// Why an answer is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct IncompleteDetails {
    /// `max_output_tokens`.
    pub reason: &'static str,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum OutputItem {
    /// A message.
    Message(OutputMessage),
    /// A call for the client.
    Call(OutputCall),
}

/// A call that the client must make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OutputCall {
    /// `function_call`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The item's id.
    pub id: String,
    /// The call's id, which its result must name.
    pub call_id: String,
    /// The function.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
    /// `in_progress` or `completed`.
    pub status: &'static str,
}

/// A message of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OutputMessage {
    /// `message`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its id.
    pub id: String,
    /// `in_progress`, `completed` or `incomplete`.
    pub status: &'static str,
    /// `assistant`.
    pub role: &'static str,
    /// The text.
    pub content: Vec<OutputText>,
}

/// A text of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OutputText {
    /// `output_text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The text.
    pub text: String,
    /// None.
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub annotations: Vec<Value>,
}

/// The used tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ResponseTokens {
    /// Input tokens.
    pub input_tokens: u64,
    /// Details of the input tokens.
    pub input_tokens_details: PromptTokens,
    /// Output tokens.
    pub output_tokens: u64,
    /// Details of the output tokens.
    pub output_tokens_details: OutputTokens,
    /// Their sum.
    pub total_tokens: u64,
}

/// Details of the output tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OutputTokens {
    /// Reasoning tokens. Always 0: the other count includes them.
    pub reasoning_tokens: u64,
}

/// The error of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ResponseError {
    /// `server_error` or `rate_limit_exceeded`: the request may be repeated. `insufficient_quota` (a
    /// budget is used up) or `invalid_prompt`: it would fail again.
    pub code: &'static str,
    /// A message for people.
    pub message: String,
}
