//! Classifies errors of Google's APIs (`google.rpc.Status` as JSON).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use unisono_context::Tokens;

use crate::dialect::Failure;
use crate::dialect::refusal::{by_status, first_number, foreign, reason};
use crate::language::Class;

/// The `error` object of a body or of a stream's event.
#[derive(Deserialize)]
pub(super) struct Problem<'a> {
    code: Option<u16>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

impl Problem<'_> {
    fn says_anything(&self) -> bool {
        !self.message.is_empty() || !self.status.is_empty()
    }
}

/// The fields that this program reads from details of any type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Detail {
    /// `google.rpc.ErrorInfo`.
    reason: String,
    /// `google.rpc.RetryInfo`: seconds with a fraction and `s`.
    retry_delay: String,
    /// `google.rpc.QuotaFailure`.
    violations: Vec<Violation>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Violation {
    quota_id: String,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    error: Problem<'a>,
}

/// An answer with an error status. A request for a stream gets its errors in a list.
pub(in crate::dialect) fn refusal(status: u16, body: &[u8]) -> Failure {
    let body = body.trim_ascii();
    let bodies: Result<Vec<Body<'_>>, _> = if body.starts_with(b"[") {
        serde_json::from_slice(body)
    } else {
        serde_json::from_slice(body).map(|body| vec![body])
    };
    match bodies.ok().and_then(|bodies| bodies.into_iter().next()) {
        Some(Body { error }) if error.says_anything() => failure(&error, status),
        _ => foreign(status, body),
    }
}

/// An error that came with a status of success.
pub(super) fn in_stream(problem: &Problem<'_>) -> Failure {
    failure(problem, problem.code.unwrap_or(500))
}

pub(super) fn listed(data: &str) -> Option<Failure> {
    let bodies: Vec<Body<'_>> = serde_json::from_str(data).ok()?;
    bodies.first().map(|body| in_stream(&body.error))
}

fn failure(problem: &Problem<'_>, status: u16) -> Failure {
    let details = problem.details.map_or("[]", RawValue::get);
    let details: Vec<&RawValue> = serde_json::from_str(details).unwrap_or_default();
    let details: Vec<Detail> = details
        .iter()
        .filter_map(|detail| serde_json::from_str(detail.get()).ok())
        .collect();
    let class = class(problem, &details, status);
    let reason = match (reason(&problem.status), reason(&problem.message)) {
        (status, message) if message.is_empty() => status,
        (status, message) if status.is_empty() => message,
        (status, message) => format!("{status}: {message}"),
    };
    Failure::new(class, reason)
}

fn class(problem: &Problem<'_>, details: &[Detail], status: u16) -> Class {
    let message = &*problem.message;
    let bad_key = |detail: &Detail| detail.reason.starts_with("API_KEY_");
    if details.iter().any(bad_key) || message.contains("API key not valid") {
        return Class::Unauthorised;
    }
    let retry_after_ms = details.iter().find_map(|d| milliseconds(&d.retry_delay));
    match &*problem.status {
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => Class::Unauthorised,
        "NOT_FOUND" => Class::UnknownModel,
        "INVALID_ARGUMENT" | "OUT_OF_RANGE" | "FAILED_PRECONDITION" => invalid(message),
        "RESOURCE_EXHAUSTED" if is_spent(message, details) => Class::OutOfQuota,
        "RESOURCE_EXHAUSTED" => Class::RateLimited { retry_after_ms },
        "UNAVAILABLE" | "INTERNAL" | "UNKNOWN" | "ABORTED" | "CANCELLED" | "DEADLINE_EXCEEDED" => {
            Class::Unavailable { retry_after_ms }
        }
        _ => match by_status(status) {
            Class::RateLimited { .. } => Class::RateLimited { retry_after_ms },
            Class::Unavailable { .. } => Class::Unavailable { retry_after_ms },
            Class::BadRequest => invalid(message),
            class => class,
        },
    }
}

fn invalid(message: &str) -> Class {
    // "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    // "… the input token count is 1200000 but model only supports up to 1048576. Reduce …"
    let lower = message.to_ascii_lowercase();
    let limit = ["maximum number of tokens allowed", "only supports up to"]
        .into_iter()
        .find_map(|words| lower.split_once(words));
    match limit.filter(|(before, _)| before.contains("token count")) {
        Some((_, after)) => Class::Overflow {
            limit: first_number(after).map(Tokens),
        },
        None => Class::BadRequest,
    }
}

/// Whether waiting within a turn does not help: the quota is for a day, or it is zero.
fn is_spent(message: &str, details: &[Detail]) -> bool {
    let mut violations = details.iter().flat_map(|detail| &detail.violations);
    violations.any(|violation| violation.quota_id.contains("PerDay"))
        || message.contains("limit: 0,")
        || message.contains("credits are depleted")
}

/// `"20.04466179s"`, rounded up.
fn milliseconds(delay: &str) -> Option<u64> {
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    (0.0..1e9)
        .contains(&seconds)
        .then(|| (seconds * 1_000.0).ceil() as u64)
}
