//! Classifies errors of the Messages API. Other servers with this API (llama.cpp, vLLM, LiteLLM,
//! GLM, Kimi) have its form of an error, and the types and messages of their OpenAI API.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::Tokens;

use crate::dialect::refusal::{first_number, reason};
use crate::dialect::{Failure, openai_chat};
use crate::language::Class;

/// The `error` object of a body or of a stream's event.
#[derive(Deserialize)]
pub(super) struct Problem<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

impl Problem<'_> {
    fn class(&self) -> Option<Class> {
        if self.is_spent() {
            return Some(Class::OutOfQuota);
        }
        class(&self.kind, &self.message)
    }

    /// Whether the spend of a month is used up, which has the type of a limit of a minute.
    fn is_spent(&self) -> bool {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(borrow)]
            error_code: Option<Cow<'a, str>>,
        }
        let details = self.details.map(RawValue::get);
        let details = details.and_then(|details| serde_json::from_str::<Details<'_>>(details).ok());
        let code = details.and_then(|details| details.error_code);
        code.as_deref() == Some("enforced_spend_limit_reached")
    }
}

pub(in crate::dialect) fn refusal(status: u16, body: &[u8]) -> Failure {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        error: Problem<'a>,
    }
    match serde_json::from_slice::<Body<'_>>(body) {
        Ok(Body { error }) if !(error.kind.is_empty() && error.message.is_empty()) => {
            let other = openai_chat::refusal(status, body).class;
            let class = match error.class() {
                Some(own) if own != Class::BadRequest && other != Class::OutOfQuota => own,
                _ => other,
            };
            failure(&error, class)
        }
        _ => openai_chat::refusal(status, body),
    }
}

/// An error that came with a status of success.
pub(super) fn in_stream(problem: &Problem<'_>) -> Failure {
    failure(problem, problem.class().unwrap_or(Class::UNAVAILABLE))
}

fn failure(problem: &Problem<'_>, class: Class) -> Failure {
    let reason = match (reason(&problem.kind), reason(&problem.message)) {
        (kind, message) if message.is_empty() => kind,
        (kind, message) if kind.is_empty() => message,
        (kind, message) => format!("{kind}: {message}"),
    };
    Failure::new(class, reason)
}

/// The class of an error type ("Errors", "HTTP errors"); none: a type this program does not know.
fn class(kind: &str, message: &str) -> Option<Class> {
    Some(match kind {
        "authentication_error" | "permission_error" => Class::Unauthorised,
        "billing_error" => Class::OutOfQuota,
        "not_found_error" => Class::UnknownModel,
        "request_too_large" => Class::Overflow { limit: None },
        "invalid_request_error" => invalid(message),
        "rate_limit_error" => Class::RATE_LIMITED,
        "overloaded_error" | "api_error" | "timeout_error" => Class::UNAVAILABLE,
        _ => return None,
    })
}

/// The class by the message, for causes without their own type.
fn invalid(message: &str) -> Class {
    let lower = message.to_ascii_lowercase();
    // The last one is Bedrock's.
    let overflow = [
        "prompt is too long",
        "exceed context limit",
        "input is too long",
    ];
    if overflow.iter().any(|phrase| lower.contains(phrase)) {
        // "… 207791 tokens > 200000 maximum", "… 178959 + 64000 > 200000, decrease …"
        let limit = message
            .rsplit_once('>')
            .and_then(|(_, after)| first_number(after));
        return Class::Overflow {
            limit: limit.map(Tokens),
        };
    }
    if lower.contains("credit balance is too low") || lower.contains("usage limits") {
        return Class::OutOfQuota;
    }
    Class::BadRequest
}
