//! `/v1/sessions/{session}/messages`: the messages of a session.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use unisono_api::Page;
use unisono_api::message::{AppendedMessage, Message, MessageQuery, NewMessage};
use unisono_api::service::Messages as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::problem::ApiError;
use super::{Shared, turns};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list, append))
}

/// The messages of a branch, oldest first, including compacted messages.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/messages", tag = "messages",
    params(("session" = String, Path, description = "The session's id"), MessageQuery),
    responses((status = 200, description = "A part of the branch", body = Page<Message>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<MessageQuery>,
) -> Result<Json<Page<Message>>, ApiError> {
    Ok(Json(shared.local.messages(&id, &query).await?))
}

/// Appends a message without a turn. While a turn is open on the branch, the message waits for its
/// end and is not visible before.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/messages", tag = "messages",
    params(("session" = String, Path, description = "The session's id"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "The same request under the same key again gives the same message, also after a crash")),
    request_body = NewMessage,
    responses((status = 200, description = "It was appended under this key before", body = AppendedMessage),
              (status = 201, description = "It is on its branch", body = AppendedMessage),
              (status = 202, description = "It waits for the end of a turn", body = AppendedMessage))
)]
async fn append(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewMessage>,
) -> Result<(StatusCode, Json<AppendedMessage>), ApiError> {
    let key = turns::key_name(&headers);
    let appended = shared.local.append(&id, &new, key).await?;
    let status = match appended.ordinal {
        None => StatusCode::ACCEPTED,
        Some(_) if appended.repeated => StatusCode::OK,
        Some(_) => StatusCode::CREATED,
    };
    Ok((status, Json(appended)))
}
