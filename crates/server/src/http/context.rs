//! `/v1/sessions/{session}/context`: the context of a branch.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Page;
use unisono_api::context::{Context, ContextQuery, ContextSize};
use unisono_api::service::Contexts as _;
use unisono_api::session::BranchPageQuery;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(history))
}

/// The context of a branch for a lead with its agents, by section.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/context", tag = "context",
    params(("session" = String, Path, description = "The session's id"), ContextQuery),
    responses((status = 200, description = "The context", body = Context))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<ContextQuery>,
) -> Result<Json<Context>, ApiError> {
    Ok(Json(shared.local.context(&id, &query).await?))
}

/// The size of the context at each turn of a branch that froze or changed it, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/context/history", tag = "context",
    params(("session" = String, Path, description = "The session's id"), BranchPageQuery),
    responses((status = 200, description = "A part of the list", body = Page<ContextSize>))
)]
async fn history(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<BranchPageQuery>,
) -> Result<Json<Page<ContextSize>>, ApiError> {
    Ok(Json(shared.local.context_history(&id, &query).await?))
}
