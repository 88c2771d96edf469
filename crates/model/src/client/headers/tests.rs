//! Tests with headers as providers send them.

use reqwest::header::{HeaderName, HeaderValue};

use super::*;
use crate::fixture::ms;

type Lines<'l> = &'l [(&'l str, &'l str)];

fn headers(lines: Lines<'_>) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

fn now() -> Timestamp {
    "2026-05-26T05:00:04Z".parse().unwrap()
}

fn read_lines(lines: Lines<'_>) -> ResponseHeaders {
    read(&headers(lines), now())
}

#[test]
fn waits() {
    let table = [
        ("0", Some(0)),
        ("2", Some(2_000)),
        ("1.5", Some(1_500)),
        (" 20 ", Some(20_000)),
        ("Tue, 26 May 2026 05:00:34 GMT", Some(30_000)),
        ("Tuesday, 26-May-26 05:00:34 GMT", Some(30_000)),
        ("Tue May 26 05:00:34 2026", Some(30_000)),
        ("Tue, 26 May 2026 04:00:00 GMT", Some(0)),
        ("2026-05-26T05:00:05Z", Some(1_000)),
        ("2026-05-26T07:00:05.250+02:00", Some(1_250)),
        ("1779771609", Some(5_000)),
        ("1779771604250", Some(250)),
        ("1779771600", Some(0)),
        ("999999999", Some(31_536_000_000)),
        ("6m0s", Some(360_000)),
        ("1s", Some(1_000)),
        ("12ms", Some(12)),
        ("1h2m3.5s", Some(3_723_500)),
        ("7.66s", Some(7_660)),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1e3", None),
        ("NaN", None),
        ("inf", None),
        ("5x", None),
        ("5m3", None),
        ("99999999999999999999999999", Some(31_536_000_000)),
    ];
    for (value, expected) in table {
        let headers = read_lines(&[("retry-after", value)]);
        assert_eq!(headers.retry_after, expected.map(ms), "{value:?}");
    }
}

#[test]
fn milliseconds_take_precedence_over_seconds() {
    let both = read_lines(&[("retry-after", "2"), ("retry-after-ms", "1500")]);
    assert_eq!(both.retry_after, Some(ms(1_500)));
    let odd = read_lines(&[("retry-after", "2"), ("retry-after-ms", "soon")]);
    assert_eq!(odd.retry_after, Some(ms(2_000)));
}

#[test]
fn times_of_day_use_the_clock_of_the_response() {
    let headers = read_lines(&[
        ("date", "Mon, 25 May 2026 00:00:00 GMT"),
        ("retry-after", "Mon, 25 May 2026 00:00:07 GMT"),
    ]);
    assert_eq!(headers.retry_after, Some(ms(7_000)));
}

#[test]
fn the_id_of_the_request() {
    let table: &[(Lines<'_>, Option<&str>)] = &rows! {
        (&[("x-request-id", "req_1")], Some("req_1")),
        (&[("request-id", "req_2")], Some("req_2")),
        (&[("x-goog-request-id", "g")], Some("g")),
        (&[("apim-request-id", "a")], Some("a")),
        (&[("apim-request-id", "a"), ("x-request-id", "x")], Some("x")),
        (&[("x-request-id", ""), ("request-id", "r")], Some("r")),
        (&[("server", "s")], None),
    };
    for (lines, expected) in table {
        assert_eq!(
            read_lines(lines).request_id.as_deref(),
            *expected,
            "{lines:?}"
        );
    }
    let long = "x".repeat(LONGEST_ID + 1);
    assert_eq!(read_lines(&[("x-request-id", &long)]).request_id, None);
}

#[test]
fn body_types() {
    let table = [
        ("text/event-stream", BodyType::Events),
        ("text/event-stream; charset=utf-8", BodyType::Events),
        ("Text/Event-Stream;charset=utf-8", BodyType::Events),
        ("application/json", BodyType::Json),
        ("application/problem+json", BodyType::Json),
        ("text/html; charset=UTF-8", BodyType::Html),
        ("text/plain", BodyType::Other),
        ("", BodyType::Other),
    ];
    for (value, form) in table {
        assert_eq!(
            read_lines(&[("content-type", value)]).body_type,
            form,
            "{value:?}"
        );
    }
    assert_eq!(read_lines(&[]).body_type, BodyType::Other);
    for (encoding, form) in [
        ("gzip", BodyType::Compressed),
        ("identity, BR", BodyType::Compressed),
        ("identity", BodyType::Json),
        ("none", BodyType::Json),
        ("", BodyType::Json),
    ] {
        let lines = [
            ("content-type", "application/json"),
            ("content-encoding", encoding),
        ];
        assert_eq!(read_lines(&lines).body_type, form, "{encoding:?}");
    }
}

#[test]
fn retries_are_denied_by_the_word_false() {
    for (value, no_retry) in [
        ("false", true),
        ("False", true),
        ("true", false),
        ("0", false),
    ] {
        assert_eq!(
            read_lines(&[("x-should-retry", value)]).no_retry,
            no_retry,
            "{value}"
        );
    }
}

fn reported(limit: u64, remaining: u64, reset_ms: u64) -> Option<limits::ReportedLimit> {
    Some(limits::ReportedLimit {
        limit: Some(limit),
        remaining,
        reset: Some(ms(reset_ms)),
    })
}

#[test]
fn limits_of_openai() {
    let headers = read_lines(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]);
    assert_eq!(headers.requests, reported(60, 59, 1_000));
    assert_eq!(headers.tokens, reported(150_000, 0, 360_000));
}

#[test]
fn a_limit_may_be_renewed_at_a_time_in_seconds_since_1970() {
    let headers = read_lines(&[
        ("date", "Tue, 26 May 2026 05:00:04 GMT"),
        ("x-ratelimit-limit-requests", "200"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1779771606"),
    ]);
    assert_eq!(headers.requests, reported(200, 0, 2_000));
}

#[test]
fn the_tightest_of_anthropics_limits_applies() {
    // A small rest of the output alone does not hold back a request that is counted as a whole.
    for (output, tokens) in [
        ("100", reported(90_000, 5_000, 56_000)),
        ("0", reported(8_000, 0, 6_000)),
    ] {
        let headers = read_lines(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-05-26T05:00:16Z"),
            ("anthropic-ratelimit-tokens-limit", "90000"),
            ("anthropic-ratelimit-tokens-remaining", "5000"),
            ("anthropic-ratelimit-tokens-reset", "2026-05-26T05:01:00Z"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", output),
            (
                "anthropic-ratelimit-output-tokens-reset",
                "2026-05-26T05:00:10Z",
            ),
        ]);
        assert_eq!(headers.requests, reported(50, 0, 12_000));
        assert_eq!(headers.tokens, tokens);
    }
}

#[test]
fn limits_that_are_not_numbers_are_ignored() {
    for value in ["", "-1", "many", "1.5"] {
        let headers = read_lines(&[("x-ratelimit-remaining-requests", value)]);
        assert_eq!(headers.requests, None, "{value:?}");
    }
    let alone = read_lines(&[("x-ratelimit-remaining-requests", "3")])
        .requests
        .unwrap();
    assert_eq!((alone.limit, alone.remaining, alone.reset), (None, 3, None));
}
