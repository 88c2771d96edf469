//! `/mcp`: the server of the Model Context Protocol, behind the guard like every route.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::Shared;
use crate::mcp::Server;

pub(super) const PATH: &str = "/mcp";

pub(super) fn routes(shared: &Arc<Shared>, calls: &Arc<Semaphore>) -> Router<Arc<Shared>> {
    let setup = shared.local.setup();
    let settings = &setup.loaded.config.server;
    let server = Server::new(&shared.local, shared.stopping.clone(), calls.clone());
    let limit = settings.body_limit_bytes as usize;
    let service = server.over_http(limit);
    let checked = move |request, next| checked(limit, request, next);
    let routes = Router::new().route_service(PATH, service);
    routes.route_layer(from_fn(checked))
}

/// The part of a message that every message has.
#[derive(Deserialize)]
struct Envelope {
    jsonrpc: String,
}

/// Answers a body that is no message with an error of JSON-RPC; the library answers it as a wrong
/// content type.
async fn checked(limit: usize, request: Request, next: Next) -> Response {
    let kind = request.headers().get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if request.method() != Method::POST || !is_json {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let bytes = match to_bytes(body, limit).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let reason = format!("the body cannot be read, at most {limit} bytes: {error}");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return refused(status, ErrorCode::INVALID_REQUEST, &reason);
        }
    };
    match serde_json::from_slice::<Envelope>(&bytes) {
        Ok(envelope) if envelope.jsonrpc == "2.0" => {
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Err(error) if error.is_syntax() || error.is_eof() => {
            let reason = format!("this is not JSON: {error}");
            refused(StatusCode::BAD_REQUEST, ErrorCode::PARSE_ERROR, &reason)
        }
        _ => {
            let reason = "a message is one object with `\"jsonrpc\": \"2.0\"`";
            refused(StatusCode::BAD_REQUEST, ErrorCode::INVALID_REQUEST, reason)
        }
    }
}

fn refused(status: StatusCode, code: ErrorCode, message: &str) -> Response {
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    (status, Json(body)).into_response()
}
