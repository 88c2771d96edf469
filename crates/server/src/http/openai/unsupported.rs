//! Fields of a request that agents cannot carry out, and without which the answer would mean
//! something else. They are refused by name.

use unisono_api::Code;
use unisono_api::openai::{ChatRequest, ResponseRequest};

use super::FieldError;

const EARLIER_TOOLS: &str = "is the earlier form of `tools` and `tool_choice`: send those";
const PROBABILITIES: &str = "asks for the probabilities of tokens, which an answer does not have";
const TEXT_ALONE: &str = "asks for sound, but an answer is text";
const NOT_KEPT: &str = "names a response, but responses are not kept: name a session in \
                        `metadata.session` or the header `X-Unisono-Session`, and it goes on there";
/// The part of an answer with probabilities.
const WITH_PROBABILITIES: &str = "message.output_text.logprobs";

/// A field, whether the request needs it, and why it is refused.
type Unsupported = (&'static str, bool, &'static str);

pub(super) fn check_chat(request: &ChatRequest) -> Result<(), FieldError> {
    let modalities = request.modalities.as_deref().unwrap_or_default();
    let biases = request.logit_bias.as_ref();
    check(&[
        ("functions", request.functions.is_some(), EARLIER_TOOLS),
        (
            "function_call",
            request.function_call.is_some(),
            EARLIER_TOOLS,
        ),
        ("logprobs", request.logprobs == Some(true), PROBABILITIES),
        (
            "top_logprobs",
            request.top_logprobs.is_some_and(|count| count > 0),
            PROBABILITIES,
        ),
        (
            "logit_bias",
            biases.is_some_and(|biases| !biases.is_empty()),
            "changes the choice of tokens, which no agent can: say in the task what to avoid",
        ),
        (
            "modalities",
            modalities.iter().any(|modality| modality != "text"),
            TEXT_ALONE,
        ),
        ("audio", request.audio.is_some(), TEXT_ALONE),
        (
            "web_search_options",
            request.web_search_options.is_some(),
            "asks for a search, which a request cannot order: give the agent a tool server that \
             searches (`[mcp.<name>]`)",
        ),
    ])
}

pub(super) fn check_response(request: &ResponseRequest) -> Result<(), FieldError> {
    let include = request.include.as_deref().unwrap_or_default();
    check(&[
        (
            "previous_response_id",
            request.previous_response_id.is_some(),
            NOT_KEPT,
        ),
        ("conversation", request.conversation.is_some(), NOT_KEPT),
        (
            "background",
            request.background == Some(true),
            "asks for an answer that is fetched later, but responses are not kept: start a turn \
             (`POST /v1/sessions/{session}/turns`) and read it",
        ),
        (
            "prompt",
            request.prompt.is_some(),
            "names a template, but templates are not kept: send its text in `instructions` or \
             `input`",
        ),
        (
            "max_tool_calls",
            request.max_tool_calls.is_some(),
            "cannot limit an agent: its definition does (`max_model_calls`)",
        ),
        (
            "include",
            include.iter().any(|part| part == WITH_PROBABILITIES),
            PROBABILITIES,
        ),
        (
            "top_logprobs",
            request.top_logprobs.is_some_and(|count| count > 0),
            PROBABILITIES,
        ),
        (
            "response_format",
            request.response_format.is_some(),
            "is a field of chat completions: name the format in `text.format`",
        ),
    ])
}

fn check(fields: &[Unsupported]) -> Result<(), FieldError> {
    let found = fields.iter().find(|(_, is_needed, _)| *is_needed);
    found.map_or(Ok(()), |&(field, _, why)| {
        let detail = format!("`{field}` {why}");
        Err(FieldError::field(field, Code::InvalidRequest, detail))
    })
}
