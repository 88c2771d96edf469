//! Fields of a request that agents cannot carry out, and without which the answer would mean
//! something else. They are refused by name.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unisono_api::Code;
use unisono_api::openai::{ChatRequest, ResponseRequest};

use super::FieldError;

const EARLIER_TOOLS: &str = "is the earlier form of `tools` and `tool_choice`: send those";
const PROBABILITIES: &str = "asks for the probabilities of tokens, which an answer does not have";
const CHOICE_OF_TOKENS: &str =
    "changes the choice of tokens, which no agent can: say in the task what to avoid";
const TEXT_ALONE: &str = "asks for sound, but an answer is text";
const SEARCH: &str = "asks for a search, which a request cannot order: give the agent a tool server \
                      that searches (`[mcp.<name>]`)";
const NOT_KEPT: &str = "names a response, but responses are not kept: name a session in \
                        `metadata.session` or the header `X-Unisono-Session`, and it goes on there";
const OF_OPENAI: &str = "names a conversation that OpenAI keeps: name a session in \
                         `metadata.session` or the header `X-Unisono-Session`, and it goes on there";
const BACKGROUND: &str = "asks for an answer that is fetched later, but responses are not kept: start \
                          a turn (`POST /v1/sessions/{session}/turns`) and read it";
const TEMPLATE: &str = "names a template, but templates are not kept: send its text in the input";
const CALLS: &str = "cannot limit an agent: its definition does (`max_model_calls`)";
const LIMIT_OF_CHAT: &str = "is a field of responses: send `max_completion_tokens`";
const LIMIT_OF_RESPONSES: &str = "is a field of chat completions: send `max_output_tokens`";
/// The part of an answer with probabilities.
const WITH_PROBABILITIES: &str = "message.output_text.logprobs";

/// A field, whether the request needs it, and why it is refused.
type Unsupported = (&'static str, bool, &'static str);

/// The fields that both kinds of requests have.
macro_rules! fields_of_both {
    ($request:ident) => {
        [
            (
                "functions",
                $request.functions.as_ref().is_some_and(has_entries),
                EARLIER_TOOLS,
            ),
            (
                "function_call",
                asks_for_call($request.function_call.as_ref()),
                EARLIER_TOOLS,
            ),
            ("logprobs", $request.logprobs == Some(true), PROBABILITIES),
            (
                "top_logprobs",
                $request.top_logprobs.is_some_and(|count| count > 0),
                PROBABILITIES,
            ),
            (
                "logit_bias",
                has_biases($request.logit_bias.as_ref()),
                CHOICE_OF_TOKENS,
            ),
            (
                "modalities",
                is_not_text($request.modalities.as_deref()),
                TEXT_ALONE,
            ),
            ("audio", $request.audio.is_some(), TEXT_ALONE),
            (
                "web_search_options",
                $request.web_search_options.is_some(),
                SEARCH,
            ),
            (
                "previous_response_id",
                $request.previous_response_id.is_some(),
                NOT_KEPT,
            ),
            ("conversation", $request.conversation.is_some(), OF_OPENAI),
            ("prompt", $request.prompt.is_some(), TEMPLATE),
            ("background", $request.background == Some(true), BACKGROUND),
            ("max_tool_calls", $request.max_tool_calls.is_some(), CALLS),
        ]
    };
}

pub(super) fn check_chat(request: &ChatRequest) -> Result<(), FieldError> {
    check(&fields_of_both!(request))?;
    check(&[
        (
            "max_output_tokens",
            request.max_output_tokens.is_some(),
            LIMIT_OF_CHAT,
        ),
        (
            "instructions",
            request
                .instructions
                .as_ref()
                .is_some_and(|text| !text.is_empty()),
            "is a field of responses: send a message with the role `system`",
        ),
        (
            "text",
            request.text.as_ref().is_some_and(has_format),
            "is a field of responses: name the format in `response_format`",
        ),
    ])
}

pub(super) fn check_response(request: &ResponseRequest) -> Result<(), FieldError> {
    let include = request.include.as_deref().unwrap_or_default();
    check(&[
        (
            "include",
            include.iter().any(|part| part == WITH_PROBABILITIES),
            PROBABILITIES,
        ),
        (
            "response_format",
            request
                .response_format
                .as_ref()
                .is_some_and(asks_for_format),
            "is a field of chat completions: name the format in `text.format`",
        ),
        (
            "max_completion_tokens",
            request.max_completion_tokens.is_some(),
            LIMIT_OF_RESPONSES,
        ),
        (
            "max_tokens",
            request.max_tokens.is_some(),
            LIMIT_OF_RESPONSES,
        ),
        (
            "stop",
            request.stop.as_ref().is_some_and(has_entries),
            "is a field of chat completions: send the request there",
        ),
        (
            "n",
            request.n.is_some_and(|answers| answers != 1),
            "asks for several answers, but an agent gives one",
        ),
    ])?;
    check(&fields_of_both!(request))
}

/// Whether a value has entries; one that is no list is refused as one that has.
fn has_entries(list: &Value) -> bool {
    list.as_array().is_none_or(|list| !list.is_empty())
}

fn asks_for_call(choice: Option<&Value>) -> bool {
    choice.is_some_and(|choice| choice != "none")
}

/// Whether text settings have a format; a value that is no object is refused as one that has.
fn has_format(text: &Value) -> bool {
    let settings = text.as_object();
    settings.is_none_or(|settings| settings.get("format").is_some_and(asks_for_format))
}

/// Whether a format is another one than the text that every agent answers with.
fn asks_for_format(format: &Value) -> bool {
    !format.is_null() && *format != json!({"type": "text"})
}

fn has_biases(biases: Option<&BTreeMap<String, Value>>) -> bool {
    biases.is_some_and(|biases| !biases.is_empty())
}

fn is_not_text(modalities: Option<&[String]>) -> bool {
    let mut modalities = modalities.unwrap_or_default().iter();
    modalities.any(|modality| modality != "text")
}

fn check(fields: &[Unsupported]) -> Result<(), FieldError> {
    let found = fields.iter().find(|(_, is_needed, _)| *is_needed);
    found.map_or(Ok(()), |&(field, _, why)| {
        let detail = format!("`{field}` {why}");
        Err(FieldError::field(field, Code::InvalidRequest, detail))
    })
}
