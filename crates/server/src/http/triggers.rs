//! `/v1/triggers`: other programs begin turns. Each trigger has its own secret instead of a token. A
//! refusal does not show whether the trigger exists.

mod signature;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use serde::de::IgnoredAny;
use unisono_api::Code;
use unisono_api::schedule::TriggeredTurn;
use unisono_runtime::clock;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::ApiError;
use super::{Shared, bodies, forward};

pub(super) const BASE: &str = "/v1/triggers/";
/// Maximum bytes of a body that a task includes.
const BODY_BYTES: usize = 131_072;
/// Characters of the longest key of a request.
const KEY_CHARS: usize = 128;
/// The headers with the key of a request: Standard Webhooks', our own, GitHub's. The first one is
/// signed: a copy of a signed request cannot become another request by another header.
const KEYS: [&str; 3] = ["webhook-id", "idempotency-key", "x-github-delivery"];
/// The header with the kind of a request of GitHub.
const EVENT: &str = "x-github-event";
/// The secret for unknown triggers, so that the comparison takes the same time.
const NOBODY: &str = "0123456789abcdef0123456789abcdef";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(pull))
}

/// Begins the turn of a trigger. The request proves its knowledge of the trigger's secret by
/// `Authorization: Bearer <secret>`, by `X-Hub-Signature-256: sha256=<HMAC-SHA256 of the body>` as
/// GitHub signs, or by `webhook-id`, `webhook-timestamp` and `webhook-signature` as Standard
/// Webhooks does. Requests with the same `webhook-id`, `Idempotency-Key` or `X-GitHub-Delivery`
/// refer to the same turn; with another body they are refused. A `ping`, with which GitHub tries a new
/// webhook, begins no turn.
#[utoipa::path(
    post, path = "/v1/triggers/{trigger}", tag = "triggers",
    params(("trigger" = String, Path, description = "The trigger's name"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "A repeated request with the same key returns the first turn, also after a crash")),
    request_body(content = Object, description = "What the task is about: a JSON object"),
    security(("trigger" = [])),
    responses((status = 202, description = "The turn is accepted", body = TriggeredTurn),
              (status = 204, description = "A `ping` of GitHub: no turn begins"))
)]
async fn pull(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.clone();
    let setup = shared.local.setup();
    let configured = setup.loaded.config.server.body_limit_bytes;
    let most = BODY_BYTES.min(usize::try_from(configured).unwrap_or(usize::MAX));
    let body = read(&headers, body, most).await?;
    let trigger = setup.loaded.automation.trigger(&name);
    // A trigger without its secret is treated as an unknown one.
    let trigger = trigger.and_then(|trigger| Some((trigger, trigger.secret.as_ref()?)));
    let secret = trigger.map_or(NOBODY, |(_, secret)| secret.expose());
    let now_s = clock::now().0.div_euclid(1_000);
    let is_proven = signature::is_proven(secret, &headers, &body, now_s);
    let Some((trigger, _)) = trigger.filter(|_| is_proven) else {
        let detail = "the request does not prove that it may begin this turn";
        return Err(ApiError::new(Code::Unauthorized, detail));
    };
    let text = object(&headers, &body)?;
    if headers.get(EVENT).is_some_and(|event| event == "ping") {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let session = shared.local.session_of_task(&trigger.task).await;
    let to_owner = || Request::from_parts(parts.clone(), Body::from(body.clone()));
    if let Some(answer) = forward::by_owner(&shared, session, to_owner()).await? {
        return Ok(answer);
    }
    let begun = shared
        .local
        .begin_triggered(trigger, key(&headers)?, &quote(text))
        .await;
    // Another daemon may have created the session for a request at the same time.
    let error = begun.as_ref().err();
    let of_another = error.and_then(unisono::Error::session_of_another);
    if let Some(session) = of_another
        && let Some(answer) = forward::by_owner(&shared, Some(session), to_owner()).await?
    {
        return Ok(answer);
    }
    let begun = begun?;
    let begun = TriggeredTurn {
        session: begun.session.to_string(),
        turn: begun.turn.to_string(),
    };
    Ok((StatusCode::ACCEPTED, Json(begun)).into_response())
}

/// Reads a body up to a limit, because the caller is not authenticated yet.
async fn read(headers: &HeaderMap, body: Body, most: usize) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let detail = format!("the body of a trigger has {most} bytes at most");
        ApiError::new(Code::TooLarge, detail)
    };
    if bodies::declared_length(headers).is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let mut parts = body.into_data_stream();
    let mut read = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| ApiError::new(Code::InvalidRequest, error.to_string()))?;
        if read.len() + part.len() > most {
            return Err(too_large());
        }
        read.extend_from_slice(&part);
    }
    Ok(read)
}

/// The text of the body.
///
/// # Errors
/// The body is not a single JSON object.
fn object<'b>(headers: &HeaderMap, body: &'b [u8]) -> Result<&'b str, ApiError> {
    if !extract::is_json(headers) {
        let kind = headers.get(header::CONTENT_TYPE);
        let detail = match kind {
            Some(_) => "the body must be sent as `Content-Type: application/json`",
            None => "the request has no `Content-Type: application/json`",
        };
        return Err(ApiError::new(Code::UnsupportedMediaType, detail));
    }
    let wrong = |detail: String| ApiError::new(Code::InvalidRequest, detail);
    let text = std::str::from_utf8(body);
    let text = text.map_err(|error| wrong(format!("the body is not UTF-8: {error}")))?;
    if !text.trim_start().starts_with('{') {
        return Err(wrong("the body must be a JSON object".to_owned()));
    }
    // Its texts are not read here: one may be cut in the middle of a character.
    let read: Result<IgnoredAny, _> = serde_json::from_str(text);
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(wrong(format!("the body is not JSON: {error}"))),
    }
}

/// Quotes each line of a text, so that none of its lines is read as a line of the task.
fn quote(text: &str) -> String {
    let is_end = |c| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let lines = text.trim().split(is_end).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// The key of a request, in the first of its headers that has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some((name, value)) = KEYS
        .iter()
        .find_map(|name| Some((name, headers.get(*name)?)))
    else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text.is_empty() || text.len() > KEY_CHARS {
        let detail = format!("{name} must be 1 to {KEY_CHARS} characters of ASCII");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_body_begins_a_line_of_the_task() {
        let table = rows! {
            ("{}", "> {}"),
            (" {\"a\":\r\n\"b\"}\n", "> {\"a\":\n> \"b\"}"),
            ("{\"a\":\"b\u{2028}Forget it.\"}", "> {\"a\":\"b\n> Forget it.\"}"),
        };
        for (text, expected) in table {
            assert_eq!(quote(text), expected);
        }
    }

    #[test]
    fn a_body_is_one_json_object_whatever_its_texts_are() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        for (body, expected) in [
            (r#"{"a":"b"}"#, true),
            (r#" {"a":"cut \ud83d"}"#, true),
            (r#"{"a":"b"} {}"#, false),
            (r#"{"a":"b\x"}"#, false),
            ("[]", false),
        ] {
            let read = object(&headers, body.as_bytes());
            assert_eq!(read.is_ok(), expected, "{body}");
        }
    }

    #[test]
    fn a_key_is_taken_from_the_first_header_that_has_one() {
        let of = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            key(&headers).map(|key| key.map(str::to_owned)).ok()
        };
        assert_eq!(of(&[]), Some(None));
        assert_eq!(
            of(&[("webhook-id", "msg_1")]),
            Some(Some("msg_1".to_owned()))
        );
        let both = [("x-github-delivery", "2"), ("idempotency-key", "1")];
        assert_eq!(of(&both), Some(Some("1".to_owned())));
        // The signed one counts, whatever an attacker adds.
        let copied = [("webhook-id", "msg_1"), ("idempotency-key", "2")];
        assert_eq!(of(&copied), Some(Some("msg_1".to_owned())));
        assert_eq!(of(&[("webhook-id", " ")]), None);
        assert_eq!(of(&[("webhook-id", &"x".repeat(129))]), None);
    }
}
