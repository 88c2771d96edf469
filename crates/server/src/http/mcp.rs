//! `/mcp`: the server of the Model Context Protocol, behind the guard like every route.

mod open_calls;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use rmcp::model::ErrorCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use unisono::caller::Caller;

use super::Shared;
use super::extract::is_json;
use crate::mcp::Server;
pub(super) use open_calls::OpenCalls;

pub(super) const PATH: &str = "/mcp";

/// The routes of a caller. `calls` has permits for tool calls. `open_calls` has the calls of all callers.
pub(super) fn routes(
    shared: &Arc<Shared>,
    calls: &Arc<Semaphore>,
    open_calls: &Arc<OpenCalls>,
) -> Router<Arc<Shared>> {
    let setup = shared.local.setup();
    let settings = &setup.loaded.config.server;
    let server = Server::new(&shared.local, shared.stopping.clone(), calls.clone());
    let limit = settings.body_limit_bytes as usize;
    let service = server.over_http(limit);
    let (caller, calls) = (shared.local.caller().clone(), open_calls.clone());
    let checked =
        move |request, next| checked(limit, (caller.clone(), calls.clone()), request, next);
    let routes = Router::new().route_service(PATH, service);
    routes.route_layer(from_fn(checked))
}

/// A message without its parameters.
#[derive(Deserialize)]
struct Envelope {
    jsonrpc: String,
    /// None if there is no `id`; an `id` may also be `null`.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<Value>,
}

impl Envelope {
    fn takes_call_back(&self) -> bool {
        let method = self.method.as_ref().and_then(Value::as_str);
        method == Some("notifications/cancelled") && self.id.is_none()
    }
}

/// Whether a message takes a call back. It does not say which daemon answers the call.
pub(super) fn takes_call_back(message: &[u8]) -> bool {
    let envelope = serde_json::from_slice::<Envelope>(message);
    envelope.is_ok_and(|envelope| envelope.takes_call_back())
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Answers a body that is no message with an error of JSON-RPC; the library answers it as a wrong
/// content type.
async fn checked(
    limit: usize,
    (caller, calls): (Caller, Arc<OpenCalls>),
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST || !is_json(request.headers()) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let bytes = match to_bytes(body, limit).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let reason = format!("the body cannot be read, at most {limit} bytes: {error}");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return refused(status, &Value::Null, ErrorCode::INVALID_REQUEST, &reason);
        }
    };
    match serde_json::from_slice::<Envelope>(&bytes) {
        Ok(envelope) if envelope.jsonrpc == "2.0" => {
            let id = envelope.id.as_ref();
            let method = envelope.method.as_ref().and_then(Value::as_str);
            let client = parts.headers.get(open_calls::CLIENT);
            let client = client.and_then(|client| client.to_str().ok());
            let client = client.map(|client| (caller, client.to_owned()));
            if let Some(client) = &client
                && envelope.takes_call_back()
            {
                calls.cancel(client.clone(), &bytes);
            }
            let request = Request::from_parts(parts, Body::from(bytes));
            let answering = next.run(request);
            let answered = match (method, client, id) {
                (Some("initialize"), _, _) => open_calls::name_client(answering.await),
                (Some("tools/call"), Some(client), Some(id)) => {
                    calls.answer((client, id.to_string()), answering).await
                }
                _ => answering.await,
            };
            match answered.status() {
                // The content type is right, so the library could not read the message.
                StatusCode::UNSUPPORTED_MEDIA_TYPE => unreadable(&envelope),
                _ => answered,
            }
        }
        Err(error) if error.is_syntax() || error.is_eof() => {
            let reason = format!("this is not JSON: {error}");
            let status = StatusCode::BAD_REQUEST;
            refused(status, &Value::Null, ErrorCode::PARSE_ERROR, &reason)
        }
        _ => {
            let reason = "a message is one object with `\"jsonrpc\": \"2.0\"`";
            let status = StatusCode::BAD_REQUEST;
            refused(status, &Value::Null, ErrorCode::INVALID_REQUEST, reason)
        }
    }
}

/// The answer to a message with an invalid part. A notification has none.
fn unreadable(envelope: &Envelope) -> Response {
    if envelope.method.is_some() && envelope.id.is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let id = envelope.id.as_ref();
    let id = id.filter(|id| id.is_number() || id.is_string());
    let reason = "a message has a text or an integer as its `id`, a text as its `method`, and an \
                  object as its `params`";
    refused(
        StatusCode::BAD_REQUEST,
        id.unwrap_or(&Value::Null),
        ErrorCode::INVALID_REQUEST,
        reason,
    )
}

fn refused(status: StatusCode, id: &Value, code: ErrorCode, message: &str) -> Response {
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    (status, Json(body)).into_response()
}
