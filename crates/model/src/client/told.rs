//! What the headers of an answer tell: its kind, the provider's id of the request, when to try
//! again, and what is left of the limits.
//!
//! OpenAI: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, with resets as `6m0s` or
//! `12ms`. Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-
//! {limit,remaining,reset}`, with resets as RFC 3339 times. Both say when a limit is as new
//! again. Times of day are compared with the answer's own `Date`, so that a wrong clock here
//! does no harm.

mod time;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use super::limits;

/// What the headers of an answer tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The provider's id of the request.
    pub request_id: Option<Arc<str>>,
    /// What the body is.
    pub form: Form,
    /// How long to wait before the request is sent again.
    pub retry_after: Option<Duration>,
    /// Whether trying again is of no use.
    pub vetoed: bool,
    /// The limit of requests.
    pub requests: Option<limits::Told>,
    /// The limit of tokens.
    pub tokens: Option<limits::Told>,
}

/// What a body is, by its content type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A stream of events.
    Events,
    /// A JSON document.
    Json,
    /// A page for people.
    Html,
    /// Something else, or not said.
    #[default]
    Other,
}

/// The headers in which providers name a request, the first one that is there holds.
const REQUEST_IDS: &[&str] = &[
    "x-request-id",
    "request-id",
    "x-goog-request-id",
    "apim-request-id",
];

/// The longest id that is taken over.
const LONGEST_ID: usize = 200;

/// Reads the headers of an answer that came at `now`.
pub fn read(headers: &HeaderMap, now: Timestamp) -> Told {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let now = text("date").and_then(time::http_date).unwrap_or(now);
    Told {
        request_id: REQUEST_IDS
            .iter()
            .filter_map(|name| text(name))
            .find(|id| !id.is_empty() && id.len() <= LONGEST_ID)
            .map(Arc::from),
        form: text("content-type").map_or(Form::Other, form),
        retry_after: text("retry-after-ms")
            .and_then(time::milliseconds)
            .or_else(|| text("retry-after").and_then(|value| time::wait(value, now))),
        vetoed: text("x-should-retry").is_some_and(|value| value.eq_ignore_ascii_case("false")),
        requests: scarcest(["requests"], &text, now),
        tokens: scarcest(["tokens", "input-tokens", "output-tokens"], &text, now),
    }
}

fn form(content_type: &str) -> Form {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    match essence.to_ascii_lowercase().as_str() {
        "text/event-stream" => Form::Events,
        "text/html" | "application/xhtml+xml" => Form::Html,
        "application/json" => Form::Json,
        other if other.ends_with("+json") => Form::Json,
        _ => Form::Other,
    }
}

/// Of the limits of these names the one with the least left; of several the one that lasts.
fn scarcest<'h, const N: usize>(
    names: [&str; N],
    text: &impl Fn(&str) -> Option<&'h str>,
    now: Timestamp,
) -> Option<limits::Told> {
    let number = |name: String| text(&name)?.trim().parse::<u64>().ok();
    names
        .into_iter()
        .flat_map(|name| {
            let openai = |what: &str| format!("x-ratelimit-{what}-{name}");
            let anthropic = |what: &str| format!("anthropic-ratelimit-{name}-{what}");
            [
                number(openai("remaining")).map(|remaining| limits::Told {
                    limit: number(openai("limit")),
                    remaining,
                    reset: text(&openai("reset")).and_then(|value| time::wait(value, now)),
                }),
                number(anthropic("remaining")).map(|remaining| limits::Told {
                    limit: number(anthropic("limit")),
                    remaining,
                    reset: text(&anthropic("reset")).and_then(|value| time::wait(value, now)),
                }),
            ]
        })
        .flatten()
        .min_by_key(|told| (told.remaining, std::cmp::Reverse(told.reset)))
}

#[cfg(test)]
mod tests;
