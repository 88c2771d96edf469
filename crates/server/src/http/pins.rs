//! `/v1/sessions/{session}/pins`: messages that stay verbatim.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::pin::Pins;
use unisono_api::service::Contexts as _;
use unisono_api::session::BranchPageQuery;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{BranchQuery, Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(pin, unpin))
}

/// The pinned messages of a branch, and their tokens.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/pins", tag = "context",
    params(("session" = String, Path, description = "The session's id"), BranchPageQuery),
    responses((status = 200, description = "A page of the pinned messages", body = Pins))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<BranchPageQuery>,
) -> Result<Json<Pins>, ApiError> {
    Ok(Json(shared.local.pins(&id, &query).await?))
}

/// Pins a message, together with its tool calls or results.
#[utoipa::path(
    put, path = "/v1/sessions/{session}/pins/{message}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("message" = String, Path, description = "Its id, or its place on the branch"), BranchQuery),
    responses((status = 200, description = "The pinned messages", body = Pins))
)]
async fn pin(
    State(shared): State<Arc<Shared>>,
    Path((id, message)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Json<Pins>, ApiError> {
    let pins = shared.local.pin(&id, &on.branch, &message, true).await?;
    Ok(Json(pins))
}

/// Unpins a message.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/pins/{message}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("message" = String, Path, description = "Its id, or its place on the branch"), BranchQuery),
    responses((status = 200, description = "The pinned messages", body = Pins))
)]
async fn unpin(
    State(shared): State<Arc<Shared>>,
    Path((id, message)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Json<Pins>, ApiError> {
    let pins = shared.local.pin(&id, &on.branch, &message, false).await?;
    Ok(Json(pins))
}
