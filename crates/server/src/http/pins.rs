//! `/v1/sessions/{session}/pins`: messages that stay verbatim.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::pin::Pins;
use unisono_api::service::Contexts as _;
use unisono_api::session::{BranchPageQuery, main_branch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(pin, unpin))
}

/// The query of a branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct BranchQuery {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    branch: String,
}

/// The pinned messages of a branch, and their tokens.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/pins", tag = "context",
    params(("session" = String, Path, description = "The session's id"), BranchPageQuery),
    responses((status = 200, description = "What is pinned, a part of it", body = Pins))
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
    responses((status = 200, description = "What is pinned now", body = Pins))
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
    responses((status = 200, description = "What is pinned now", body = Pins))
)]
async fn unpin(
    State(shared): State<Arc<Shared>>,
    Path((id, message)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Json<Pins>, ApiError> {
    let pins = shared.local.pin(&id, &on.branch, &message, false).await?;
    Ok(Json(pins))
}
