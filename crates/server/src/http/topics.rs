//! `/v1/sessions/{session}/topics`: the topics of a conversation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Page;
use unisono_api::service::Compactions as _;
use unisono_api::session::BranchPageQuery;
use unisono_api::topic::{Seal, Topic};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(seal))
}

/// The topics of a branch, oldest first; empty if no topics were detected.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/topics", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"), BranchPageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Topic>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<BranchPageQuery>,
) -> Result<Json<Page<Topic>>, ApiError> {
    Ok(Json(shared.local.topics(&id, &query).await?))
}

/// Ends the current topic of a branch; the next message begins another one.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/topics/seal", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = Seal,
    responses((status = 200, description = "The topic that has ended", body = Topic))
)]
async fn seal(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<Seal>,
) -> Result<Json<Topic>, ApiError> {
    Ok(Json(shared.local.seal(&id, &new.branch).await?))
}
