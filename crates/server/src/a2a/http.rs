//! The parts of HTTP that both bindings share: version, bodies, errors, streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest as _, Query, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _};
use serde_json::Value;

use super::error::{Error, Kind};
use super::follow::Updates;

/// The supported version of the protocol: major, minor.
const VERSION: (&str, &str) = ("1", "0");
/// The version of a request that names none.
const UNNAMED: &str = "0.3";
/// The header, or the parameter, that names it.
const VERSION_NAME: &str = a2a::SVC_PARAM_VERSION;
/// The media type of a body.
pub(super) const JSON: &str = "application/a2a+json";
/// The idle time after which a comment is sent, so that a broken connection is detected.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Seconds after which a retry may succeed.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Refuses a request of another version.
pub(super) fn check_version(headers: &HeaderMap, uri: &Uri) -> Result<(), Error> {
    let said = headers
        .get(VERSION_NAME)
        .map(|said| said.to_str().unwrap_or("?").to_owned());
    let said = said.or_else(|| {
        parameters(uri)
            .into_iter()
            .find_map(|(name, value)| name.eq_ignore_ascii_case(VERSION_NAME).then_some(value))
    });
    let said = said
        .map(|said| said.trim().to_owned())
        .filter(|said| !said.is_empty());
    let version = said.as_deref().unwrap_or(UNNAMED);
    let mut parts = version.split('.');
    if (parts.next(), parts.next()) == (Some(VERSION.0), Some(VERSION.1)) {
        return Ok(());
    }
    let shown: String = version.chars().take(16).collect();
    let message = match said {
        Some(_) => format!("version {shown:?} of the protocol is not spoken; 1.0 is"),
        None => "the request names no version of the protocol (`A2A-Version`), which means 0.3; \
                 1.0 is spoken"
            .to_owned(),
    };
    let error = Error::new(Kind::VersionNotSupported, message);
    Err(error.with_detail("supportedVersions", a2a::VERSION))
}

pub(super) fn parameters(uri: &Uri) -> Vec<(String, String)> {
    Query::try_from_uri(uri).map_or_else(|_| Vec::new(), |Query(parameters)| parameters)
}

/// The body of a request. If `may_be_empty`, an empty body may have any media type.
pub(super) async fn body(request: Request, may_be_empty: bool) -> Result<Bytes, Error> {
    let is_json = is_json(request.headers());
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = "the body is larger than `server.body_limit_bytes`";
            return Err(Error::new(Kind::TooLarge, message));
        }
        Err(rejection) => return Err(Error::new(Kind::InvalidRequest, rejection.body_text())),
    };
    let is_left_out = may_be_empty && body.is_empty();
    if !is_json && !is_left_out {
        let message =
            format!("the body must be sent as `Content-Type: {JSON}`, or application/json");
        return Err(Error::new(Kind::MediaType, message));
    }
    Ok(body)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    let mut known = [JSON, "application/json"].into_iter();
    known.any(|known| essence.trim().eq_ignore_ascii_case(known))
}

/// The media type of a response: `application/json` if the request names it and not [`JSON`].
pub(super) fn media_type(headers: &HeaderMap) -> &'static str {
    let named = |kind: &str| {
        let named = headers.get_all(header::ACCEPT).iter();
        let mut named = named.chain(headers.get(header::CONTENT_TYPE));
        named.any(|named| named.to_str().is_ok_and(|named| named.contains(kind)))
    };
    match named("application/json") && !named(JSON) {
        true => "application/json",
        false => JSON,
    }
}

/// An error in the binding to HTTP: always `application/json`, as the protocol shows it.
pub(super) fn refused(error: &Error) -> Response {
    answer(
        error.status(),
        "application/json",
        &error.to_http(),
        Some(error),
    )
}

/// A response of JSON.
pub(super) fn answer(status: u16, kind: &str, body: &Value, error: Option<&Error>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, body.to_string()).into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    let Some(error) = error else {
        return response;
    };
    match error.kind {
        Kind::Busy | Kind::Unavailable => {
            let after = error.retry_after.unwrap_or(RETRY_AFTER_SECONDS);
            headers.insert(header::RETRY_AFTER, after.into());
        }
        Kind::Unauthenticated => {
            let how = HeaderValue::from_static("Bearer realm=\"unisono\"");
            headers.insert(header::WWW_AUTHENTICATE, how);
        }
        Kind::Internal => tracing::error!(%error, "a request of the Agent2Agent protocol failed"),
        _ => {}
    }
    response
}

/// A stream of server-sent events, formatted by the binding. An error ends it.
pub(super) fn events<E>(updates: Updates, word: E) -> Response
where
    E: Fn(Result<Value, Error>) -> Event + Send + 'static,
{
    let events = worded(updates.stream(), word);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(keep_alive).into_response()
}

fn worded<E>(
    updates: impl Stream<Item = Result<a2a::StreamResponse, Error>>,
    word: E,
) -> impl Stream<Item = Result<Event, Infallible>>
where
    E: Fn(Result<Value, Error>) -> Event,
{
    updates.map(move |update| {
        // Serialising an update does not fail.
        let update = update.map(|update| serde_json::to_value(&update).unwrap_or_default());
        Ok(word(update))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_the_media_type_of_its_request() {
        for (accept, content, expected) in [
            ("*/*", "", JSON),
            ("*/*", "application/json", "application/json"),
            ("application/json", "", "application/json"),
            ("application/json, application/a2a+json", "", JSON),
            ("*/*", "application/a2a+json", JSON),
            ("application/json", JSON, JSON),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
            assert_eq!(media_type(&headers), expected, "{accept} {content}");
        }
    }

    #[test]
    fn a_request_says_that_it_speaks_version_1_0() {
        let check = |header: Option<&str>, uri: &str| {
            let value = header.map(|value| HeaderValue::from_str(value).unwrap());
            let headers =
                value.map(|value| (header::HeaderName::from_static("a2a-version"), value));
            let headers: HeaderMap = headers.into_iter().collect();
            check_version(&headers, &uri.parse().unwrap())
        };
        for (header, uri) in [
            (Some("1.0"), "/a2a"),
            (Some(" 1.0.3 "), "/a2a"),
            (None, "/a2a/tasks?pageSize=2&A2A-Version=1.0"),
            (None, "/a2a/tasks?a2a-version=1.0"),
        ] {
            assert_eq!(check(header, uri), Ok(()), "{header:?} {uri}");
        }
        for (header, says) in [
            (None, "which means 0.3"),
            (Some(""), "which means 0.3"),
            (Some("0.3"), "\"0.3\""),
            (Some("1"), "\"1\""),
            (Some("1.1"), "\"1.1\""),
            (Some("2.0"), "\"2.0\""),
            (Some("01.0"), "\"01.0\""),
        ] {
            let refused = check(header, "/a2a").unwrap_err();
            assert_eq!(refused.kind, Kind::VersionNotSupported);
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }
}
