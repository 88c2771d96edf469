//! Classifies errors of OpenAI's dialects, in the shapes of the servers that speak them.
//!
//! ```text
//! {"error":{"message":…,"type":…,"param":…,"code":…}}       OpenAI, Azure, vLLM, OpenRouter …
//! {"error":{"code":400,"message":…,"type":…,"n_ctx":…}}     llama.cpp
//! {"object":"error","message":…,"type":…,"code":…}          older vLLM, Mistral
//! {"success":false,"errors":[{"code":…,"message":…}]}        Cloudflare
//! {"error":"…"}   {"detail":…}   {"message":…}   [{"error":{…}}]
//! ```
//!
//! Google's errors have details, which the dialect of Gemini reads.

use serde_json::Value;
use unisono_context::Tokens;

use crate::dialect::refusal::{by_status, foreign, reason};
use crate::dialect::{Failure, gemini};
use crate::language::Class;

/// Words for a credit that is used up, or that was never bought, and for limits of hours or days. The
/// status says nothing of it.
const NO_CREDIT: &[&str] = &[
    // xAI.
    "all available credits",
    "spending limit",
    "have any credits",
    // GLM.
    "insufficient balance",
    "余额不足",
    "usage limit reached for",
    "monthly limit exhausted",
    "使用上限",
    // Cloudflare.
    "daily free allocation",
    // SiliconFlow.
    "balance is insufficient",
    // OpenRouter.
    "key limit exceeded",
];

/// Words for a request that is refused for what it says.
const FLAGGED: &[&str] = &["moderation", "was flagged", "violates usage guidelines"];

/// A server's description of an error.
#[derive(Debug, Default, PartialEq)]
struct ErrorBody {
    message: String,
    /// Its codes and types in lower case, the most specific first, without numbers.
    codes: Vec<String>,
    /// The status in the error itself.
    status: Option<u16>,
    /// The window, if it is a number.
    window: Option<u64>,
    /// Whether it has details as Google's APIs have them.
    has_details: bool,
}

pub(in crate::dialect) fn refusal(status: u16, body: &[u8]) -> Failure {
    match parse_error(body) {
        Some(error) if error.has_details => gemini::refusal(status, body),
        Some(error) => Failure::new(class(&error, Some(status)), error.reason()),
        None => foreign(status, body),
    }
}

/// An error that came with a status of success, whole or in mid-stream. None: it is no error.
pub(in crate::dialect) fn reported(body: &[u8]) -> Option<Failure> {
    parse_error(body).map(|error| match error.has_details {
        true => gemini::refusal(error.status.unwrap_or(500), body),
        false => Failure::new(class(&error, error.status), error.reason()),
    })
}

/// An error by its code alone, as a response that failed has one.
pub(in crate::dialect) fn failed(code: &str, message: &str) -> Failure {
    let error = ErrorBody {
        message: message.to_owned(),
        codes: vec![code.to_ascii_lowercase()],
        ..ErrorBody::default()
    };
    Failure::new(class(&error, None), error.reason())
}

fn parse_error(body: &[u8]) -> Option<ErrorBody> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let body = match &body {
        Value::Array(several) => several.first()?,
        one => one,
    };
    let body = body.as_object()?;
    let error = body.get("error").filter(|error| !error.is_null());
    let inside = error.and_then(Value::as_object).unwrap_or(body);
    let message = [
        inside.get("message"),
        error,
        body.get("detail"),
        body.get("message"),
        body.get("errors"),
    ];
    let mut message = message
        .into_iter()
        .flatten()
        .map(words)
        .find(|text| !text.is_empty());
    // The error of a router only quotes the error of a provider.
    if let Some(raw) = inside.get("metadata").and_then(|about| about.get("raw")) {
        message = Some(format!("{}: {}", message.unwrap_or_default(), words(raw)));
    }
    // MiMo: the message is always the same, and the parameter is a sentence.
    let parameter = inside.get("param").and_then(Value::as_str);
    if let Some(said) = parameter.filter(|parameter| parameter.contains(' ')) {
        message = Some(format!("{}: {said}", message.unwrap_or_default()));
    }
    let codes = ["code", "type", "status", "error_type"];
    let codes = codes
        .into_iter()
        .filter_map(|key| inside.get(key)?.as_str());
    // LiteLLM writes `None`.
    let codes = codes.filter(|code| !matches!(*code, "" | "None"));
    let codes = codes.filter(|code| code.parse::<u64>().is_err());
    let codes: Vec<String> = codes.map(str::to_ascii_lowercase).collect();
    let says_so = |key| body.get(key).is_some_and(|kind| kind == "error");
    if message.is_none() && error.is_none() && !says_so("object") && !says_so("type") {
        return None;
    }
    let status = ["code", "status", "statusCode"]
        .into_iter()
        .filter_map(|key| {
            let value = inside.get(key)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        });
    Some(ErrorBody {
        message: message.unwrap_or_default(),
        codes,
        status: status
            .filter_map(|status| u16::try_from(status).ok())
            .find(|status| (400..600).contains(status)),
        window: inside.get("n_ctx").and_then(Value::as_u64),
        has_details: has_details(inside.get("details")),
    })
}

/// Whether these are details of `google.rpc.Status`.
fn has_details(details: Option<&Value>) -> bool {
    let details = details.and_then(Value::as_array);
    let kinds = details
        .into_iter()
        .flatten()
        .filter_map(|one| one.get("@type"));
    let mut kinds = kinds.filter_map(Value::as_str);
    kinds.any(|kind| kind.starts_with("type.googleapis.com/google.rpc."))
}

/// The text of a value: a string, the strings of a list, or what an object says as its message.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(several) => {
            let several: Vec<String> = several.iter().map(words).collect();
            several.join("; ")
        }
        Value::Object(members) => {
            let keys = ["message", "msg", "error", "detail"];
            let text = keys.into_iter().find_map(|key| members.get(key));
            let text = text.map(words).unwrap_or_default();
            match members.get("loc").and_then(Value::as_array) {
                Some(path) => {
                    let path: Vec<String> = path.iter().map(words).collect();
                    format!("{}: {text}", path.join("."))
                }
                None => text,
            }
        }
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) => String::new(),
    }
}

impl ErrorBody {
    fn reason(&self) -> String {
        let message = reason(&self.message);
        let message = message.trim_end_matches('.');
        match self.codes.first() {
            None if message.is_empty() => "an error without a reason".to_owned(),
            None => message.to_owned(),
            Some(code) if message.is_empty() => reason(code),
            Some(code) => format!("{}: {message}", reason(code)),
        }
    }

    fn contains_any(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }
}

/// The class of an error: by its body, since servers differ in their statuses; else by its status;
/// else a temporary error.
fn class(error: &ErrorBody, status: Option<u16>) -> Class {
    if matches!(status, Some(403 | 429)) && error.contains_any(NO_CREDIT) {
        return Class::OutOfQuota;
    }
    let by_code = error.codes.iter().find_map(|code| by_code(code, error));
    let refused = !matches!(status, Some(429 | 500..));
    let by_message = || refused.then(|| by_message(error)).flatten();
    by_code.or_else(by_message).unwrap_or_else(|| match status {
        // An address without a model behind it is a fault of the configuration.
        Some(404) if !error.contains_any(&["model", "deployment"]) => Class::BadRequest,
        // OpenRouter, xAI: not the key is refused, but what was said.
        Some(403) if error.contains_any(FLAGGED) => Class::BadRequest,
        Some(status) => by_status(status),
        None => Class::UNAVAILABLE,
    })
}

/// The class of a code or type ("Error codes"); none: it says no more than the status.
fn by_code(code: &str, error: &ErrorBody) -> Option<Class> {
    Some(match code {
        "invalid_api_key" | "authentication_error" | "invalid_authentication" | "unauthorized" => {
            Class::Unauthorised
        }
        // Alibaba: the limit of a minute.
        "insufficient_quota" if error.contains_any(&["#token-limit"]) => Class::RATE_LIMITED,
        "insufficient_quota"
        | "insufficient_balance"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "credits_exhausted"
        | "credit_balance_exhausted"
        | "organization_spend_limit_exceeded"
        | "organization_usage_limit_exceeded"
        | "project_spend_limit_exceeded"
        // Kimi; Alibaba.
        | "exceeded_current_quota_error"
        | "arrearage" => Class::OutOfQuota,
        "model_not_found" | "deploymentnotfound" | "invalid_model" => Class::UnknownModel,
        "context_length_exceeded"
        | "exceed_context_size_error"
        // GitHub.
        | "tokens_limit_reached" => Class::Overflow {
            limit: limit(error),
        },
        // The request exceeds the limit of a minute: waiting does not help.
        "rate_limit_exceeded" | "tokens" if error.contains_any(&["request too large"]) => {
            Class::BadRequest
        }
        "rate_limit_exceeded" | "rate_limit_error" | "resource_exhausted" => Class::RATE_LIMITED,
        "server_error"
        | "internal_error"
        | "overloaded_error"
        | "server_overloaded"
        | "engine_overloaded"
        | "unavailable"
        | "vector_store_timeout" => Class::UNAVAILABLE,
        // Groq: the model's reply was not usable. Another attempt writes a new one.
        "tool_use_failed" | "json_validate_failed" => Class::UNAVAILABLE,
        "invalid_prompt" | "content_filter" | "unsupported_parameter" => Class::BadRequest,
        _ => return None,
    })
}

/// The class of a message, for errors without a code.
fn by_message(error: &ErrorBody) -> Option<Class> {
    let overflow = [
        "context length",
        "context window",
        "context size",
        "maximum model length",
        "input is too long",
        "input tokens exceed",
        "maximum number of tokens allowed",
        "input token count is",
        "maximum prompt length",
        "prompt is too long",
        "exceed context limit",
        "`max_new_tokens` must be <=",
        "`inputs` must have less than",
        // Kimi.
        "model token limit",
        "input token length too long",
        // GLM.
        "prompt exceeds max length",
        "prompt too long",
        "tokens in request more than",
        // Qwen.
        "range of input length",
        // Cohere. Bedrock has `Too many tokens, please wait`.
        "too many tokens:",
    ];
    let unknown = [
        "is not a valid model",
        "invalid model",
        "unknown model",
        "model not exist",
    ];
    // xAI and Google refuse a key with status 400.
    let key = [
        "incorrect api key",
        "invalid api key",
        "api key not valid",
        "api key expired",
    ];
    if error.contains_any(&key) {
        return Some(Class::Unauthorised);
    }
    if error.window.is_some() || error.contains_any(&overflow) {
        return Some(Class::Overflow {
            limit: limit(error),
        });
    }
    error.contains_any(&unknown).then_some(Class::UnknownModel)
}

/// The window that a message names.
fn limit(error: &ErrorBody) -> Option<Tokens> {
    let lower = error.message.to_ascii_lowercase();
    // MiniMax: the number after it is a code.
    let (lower, _) = lower
        .split_once("exceeds limit (")
        .unwrap_or((lower.as_str(), ""));
    let named = || {
        [
            "context length",
            "context window",
            "context size",
            "model length",
            "prompt length",
            "tokens allowed",
            "only supports up to",
            "configured limit",
            "`max_new_tokens` must be",
            "`inputs` must have less than",
            "model token limit",
            "range of input length should be [1",
            // Cerebras.
            "while limit is",
            // GitHub.
            "max size",
            // Mistral.
            "too large for model with",
            // Cohere.
            "cannot exceed",
            // Claude.
            " > ",
        ]
        .into_iter()
        .find_map(|phrase| {
            let (_, after) = lower.split_once(phrase)?;
            number_in_clause(after)
        })
    };
    error.window.or_else(named).map(Tokens)
}

/// The first number in the next few words of the sentence. Thousands may have commas.
fn number_in_clause(text: &str) -> Option<u64> {
    const REACH: usize = 24;
    let at = text.find(|c: char| c.is_ascii_digit())?;
    if at > REACH || text[..at].contains(['.', ';', '!']) {
        return None;
    }
    let digits = text[at..].split(|c: char| !c.is_ascii_digit() && c != ',');
    let digits = digits.map(|digits| digits.replace(',', ""));
    digits.take(1).find_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests;
