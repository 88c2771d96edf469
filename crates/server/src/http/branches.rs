//! `/v1/sessions/{session}/branches`: paths through the conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use unisono_api::service::Messages as _;
use unisono_api::session::{Branch, BranchSegment, NewBranch, TreeMessage, TreeQuery};
use unisono_api::{Page, PageQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(tree))
        .routes(routes!(tree_messages))
}

/// The branches of a session, by name.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/branches", tag = "branches",
    params(("session" = String, Path, description = "The session's id"), PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Branch>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Branch>>, ApiError> {
    Ok(Json(shared.local.branches(&id, &query).await?))
}

/// Creates a branch at a message, or moves it there. Nothing is copied.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/branches", tag = "branches",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewBranch,
    responses((status = 201, description = "The branch", body = Branch))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewBranch>,
) -> Result<(StatusCode, Json<Branch>), ApiError> {
    Ok((
        StatusCode::CREATED,
        Json(shared.local.fork(&id, &new).await?),
    ))
}

/// The message tree of a session: stretches between forks, in drawing order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/tree", tag = "branches",
    params(("session" = String, Path, description = "The session's id"), TreeQuery),
    responses((status = 200, description = "A part of the list", body = Page<BranchSegment>))
)]
async fn tree(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<TreeQuery>,
) -> Result<Json<Page<BranchSegment>>, ApiError> {
    Ok(Json(shared.local.tree(&id, &query).await?))
}

/// All messages of a session, on any branch, in order of arrival.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/tree/messages", tag = "branches",
    params(("session" = String, Path, description = "The session's id"), PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<TreeMessage>))
)]
async fn tree_messages(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<TreeMessage>>, ApiError> {
    Ok(Json(shared.local.tree_messages(&id, &query).await?))
}
