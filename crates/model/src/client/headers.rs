//! The headers of a response: its type, the provider's request id, the time of the next try, and
//! the remaining limits.
//!
//! OpenAI: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, with resets as `6m0s` or
//! `12ms`. Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-
//! {limit,remaining,reset}`, with resets as RFC 3339 times. Both report when a limit is completely
//! renewed. Times of day are compared with the response's own `Date`, so that a wrong local clock
//! does no harm.

mod time;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};

use super::limits;

/// The relevant headers of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeaders {
    /// The provider's id of the request.
    pub request_id: Option<Arc<str>>,
    /// The type of the body.
    pub body_type: BodyType,
    /// The requested wait before a retry.
    pub retry_after: Option<Duration>,
    /// Whether the provider asks not to retry.
    pub no_retry: bool,
    /// The limit of requests.
    pub requests: Option<limits::ReportedLimit>,
    /// The limit of tokens.
    pub tokens: Option<limits::ReportedLimit>,
}

/// The type of a body, by its content type and its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyType {
    /// A stream of events.
    Events,
    /// A JSON document.
    Json,
    /// An HTML page.
    Html,
    /// A compressed body.
    Compressed,
    /// Another type, or none.
    #[default]
    Other,
}

/// The headers with a provider's request id; the first existing one is used.
static REQUEST_IDS: [HeaderName; 4] = [
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-goog-request-id"),
    HeaderName::from_static("apim-request-id"),
];
static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
static SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// A part of the name of every header about limits.
const LIMITS: &str = "ratelimit-";

const LONGEST_ID: usize = 200;

/// Parses the headers of a response received at `now`.
pub fn read(headers: &HeaderMap, now: Timestamp) -> ResponseHeaders {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let asks_to_wait = text(&RETRY_AFTER_MS).or(text(&RETRY_AFTER)).is_some();
    let limited = headers.keys().any(|name| name.as_str().contains(LIMITS));
    // Most responses have no time, so the date is not parsed.
    let sent = text(&DATE).filter(|_| asks_to_wait || limited);
    let now = sent.and_then(time::http_date).unwrap_or(now);
    let scarcest = |names: &[&str]| match limited {
        true => scarcest(names, headers, now),
        false => None,
    };
    ResponseHeaders {
        request_id: REQUEST_IDS
            .iter()
            .filter_map(text)
            .find(|id| !id.is_empty() && id.len() <= LONGEST_ID)
            .map(Arc::from),
        body_type: match text(&CONTENT_ENCODING).is_some_and(is_compression) {
            true => BodyType::Compressed,
            false => text(&CONTENT_TYPE).map_or(BodyType::Other, body_type),
        },
        retry_after: text(&RETRY_AFTER_MS)
            .and_then(time::milliseconds)
            .or_else(|| text(&RETRY_AFTER).and_then(|value| time::wait(value, now))),
        no_retry: text(&SHOULD_RETRY).is_some_and(|value| value.eq_ignore_ascii_case("false")),
        requests: scarcest(&["requests"]),
        tokens: scarcest(&["tokens", "input-tokens", "output-tokens"]),
    }
}

/// Whether a content encoding is a compression. Some servers write `none` or a charset there.
fn is_compression(encoding: &str) -> bool {
    let compressions = ["gzip", "x-gzip", "br", "zstd", "deflate", "compress"];
    let mut codings = encoding.split(',').map(str::trim);
    codings.any(|coding| {
        compressions
            .iter()
            .any(|one| coding.eq_ignore_ascii_case(one))
    })
}

fn body_type(content_type: &str) -> BodyType {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| essence.eq_ignore_ascii_case(name);
    let ends = |suffix: &str| {
        let at = essence.len().checked_sub(suffix.len());
        let end = at.and_then(|at| essence.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    if is("text/event-stream") {
        BodyType::Events
    } else if is("text/html") || is("application/xhtml+xml") {
        BodyType::Html
    } else if is("application/json") || ends("+json") {
        BodyType::Json
    } else {
        BodyType::Other
    }
}

/// The limit with the least remaining of these names; of equal ones the one with the latest reset.
fn scarcest(names: &[&str], headers: &HeaderMap, now: Timestamp) -> Option<limits::ReportedLimit> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: String| text(&name)?.trim().parse::<u64>().ok();
    names
        .iter()
        .flat_map(|name| {
            let openai = |what: &str| format!("x-ratelimit-{what}-{name}");
            let anthropic = |what: &str| format!("anthropic-ratelimit-{name}-{what}");
            let both = [
                number(openai("remaining")).map(|remaining| limits::ReportedLimit {
                    limit: number(openai("limit")),
                    remaining,
                    reset: text(&openai("reset")).and_then(|value| time::wait(value, now)),
                }),
                number(anthropic("remaining")).map(|remaining| limits::ReportedLimit {
                    limit: number(anthropic("limit")),
                    remaining,
                    reset: text(&anthropic("reset")).and_then(|value| time::wait(value, now)),
                }),
            ];
            // Input and output are counted together here, so the rest of one of them says nothing
            // until it is used up.
            let is_part = name.ends_with("put-tokens");
            let reported = both.into_iter().flatten();
            reported.filter(move |reported| !is_part || reported.remaining == 0)
        })
        .min_by_key(|reported| (reported.remaining, std::cmp::Reverse(reported.reset)))
}

#[cfg(test)]
mod tests;
