//! Headers by which providers say when to come back and what is left of a limit.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::dialect::Dialect;

/// When a client may try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// `Retry-After` in seconds.
    Seconds(u64),
    /// `Retry-After` as a date.
    Date(SystemTime),
    /// `Retry-After` as the date of that long after the answer, rounded up to a second.
    DateIn(Duration),
    /// `retry-after-ms`, which OpenAI and Azure send too.
    Milliseconds(u64),
    /// `Retry-After` with that text.
    Text(String),
}

/// What is left of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests a minute.
    pub requests: Option<Window>,
    /// Tokens a minute.
    pub tokens: Option<Window>,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is allowed a minute.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// When all of it is there again, from the answer on.
    pub reset: Duration,
}

impl RetryAfter {
    /// The header. `now`: the time of the answer.
    pub(crate) fn header(&self, now: SystemTime) -> (String, String) {
        let (name, value) = match self {
            RetryAfter::Seconds(seconds) => ("retry-after", seconds.to_string()),
            RetryAfter::Date(date) => ("retry-after", http_date(*date)),
            RetryAfter::DateIn(wait) => {
                let whole = Duration::from_secs(wait.as_secs() + 1);
                ("retry-after", http_date(now + whole))
            }
            RetryAfter::Milliseconds(wait) => ("retry-after-ms", wait.to_string()),
            RetryAfter::Text(text) => ("retry-after", text.clone()),
        };
        (name.to_owned(), value)
    }
}

impl RateLimits {
    /// The headers in that dialect; Gemini has none. `now`: the time of the answer.
    pub(crate) fn headers(&self, dialect: Dialect, now: SystemTime) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let windows = [("requests", self.requests), ("tokens", self.tokens)];
        for (what, window) in windows.iter().filter_map(|(what, w)| Some((what, (*w)?))) {
            let mut push = |name: String, value: String| found.push((name, value));
            match dialect {
                Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                    let name = |field: &str| format!("x-ratelimit-{field}-{what}");
                    push(name("limit"), window.limit.to_string());
                    push(name("remaining"), window.remaining.to_string());
                    push(name("reset"), go_duration(window.reset));
                }
                Dialect::Anthropic => {
                    let name = |field: &str| format!("anthropic-ratelimit-{what}-{field}");
                    push(name("limit"), window.limit.to_string());
                    push(name("remaining"), window.remaining.to_string());
                    push(name("reset"), rfc3339(now + window.reset));
                }
                Dialect::Gemini => {}
            }
        }
        found
    }
}

/// The header that carries a request's id; Gemini has its `responseId` in the body instead.
pub(crate) fn request_id(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Some("x-request-id"),
        Dialect::Anthropic => Some("request-id"),
        Dialect::Gemini => None,
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
fn http_date(time: SystemTime) -> String {
    let printed = DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp(time));
    printed.expect("a date that RFC 9110 can write")
}

/// `1994-11-06T08:49:37Z`, to the second.
fn rfc3339(time: SystemTime) -> String {
    let seconds = timestamp(time).as_second();
    let whole = Timestamp::from_second(seconds).expect("a whole second of a valid time");
    whole.to_string()
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).expect("a time within ten thousand years")
}

/// `6m0s`, `1.5s`, `120ms`: how the language Go writes a duration, and OpenAI a reset.
fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let (minutes, rest) = (seconds / 60, seconds % 60);
    let fraction = match millis {
        0 => String::new(),
        _ => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    };
    match (minutes, rest) {
        (0, 0) if millis > 0 => format!("{millis}ms"),
        (0, rest) => format!("{rest}{fraction}s"),
        (minutes, rest) => format!("{minutes}m{rest}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    //! The text of each header.

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn retry_after_comes_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + 784_111_777 * SECOND;
        let cases = [
            (RetryAfter::Seconds(7), "retry-after", "7"),
            (
                RetryAfter::Date(now),
                "retry-after",
                "Sun, 06 Nov 1994 08:49:37 GMT",
            ),
            (
                RetryAfter::DateIn(2 * SECOND),
                "retry-after",
                "Sun, 06 Nov 1994 08:49:40 GMT",
            ),
            (RetryAfter::Milliseconds(250), "retry-after-ms", "250"),
            (RetryAfter::Text("soon".into()), "retry-after", "soon"),
        ];
        for (after, name, value) in cases {
            assert_eq!(after.header(now), (name.to_owned(), value.to_owned()));
        }
    }

    #[test]
    fn limits_are_in_the_headers_of_the_dialect() {
        let limits = RateLimits {
            requests: Some(Window {
                limit: 60,
                remaining: 59,
                reset: SECOND,
            }),
            tokens: Some(Window {
                limit: 150_000,
                remaining: 9,
                reset: 360 * SECOND,
            }),
        };
        let text = |dialect| {
            let now = SystemTime::UNIX_EPOCH + 784_111_777 * SECOND;
            let headers = limits.headers(dialect, now);
            let lines = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\n"));
            lines.collect::<String>()
        };
        insta::assert_snapshot!(text(Dialect::OpenAiChat), @r"
        x-ratelimit-limit-requests: 60
        x-ratelimit-remaining-requests: 59
        x-ratelimit-reset-requests: 1s
        x-ratelimit-limit-tokens: 150000
        x-ratelimit-remaining-tokens: 9
        x-ratelimit-reset-tokens: 6m0s
        ");
        insta::assert_snapshot!(text(Dialect::Anthropic), @r"
        anthropic-ratelimit-requests-limit: 60
        anthropic-ratelimit-requests-remaining: 59
        anthropic-ratelimit-requests-reset: 1994-11-06T08:49:38Z
        anthropic-ratelimit-tokens-limit: 150000
        anthropic-ratelimit-tokens-remaining: 9
        anthropic-ratelimit-tokens-reset: 1994-11-06T08:55:37Z
        ");
        assert_eq!(text(Dialect::Gemini), "");
    }

    #[test]
    fn resets_are_written_as_openai_writes_them() {
        let cases = [
            (0, "0s"),
            (120, "120ms"),
            (1_000, "1s"),
            (6_570, "6.57s"),
            (360_000, "6m0s"),
            (90_500, "1m30.5s"),
        ];
        for (millis, expected) in cases {
            assert_eq!(go_duration(Duration::from_millis(millis)), expected);
        }
    }
}
