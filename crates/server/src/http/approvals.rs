//! `/v1/approvals`: calls of tools that wait for a person, of all sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Page;
use unisono_api::approval::{Approval, ApprovalQuery, Decide, DecisionResult};
use unisono_api::service::Approvals as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(decide))
}

/// The waiting calls, the oldest first. The events `tools_called`, `tool_in_doubt` and
/// `tool_decided` report changes of this list.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals",
    params(ApprovalQuery),
    responses((status = 200, description = "A part of the list", body = Page<Approval>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ApprovalQuery>,
) -> Result<Json<Page<Approval>>, ApiError> {
    Ok(Json(shared.local.approvals(&query).await?))
}

/// Decides a waiting call. A second decision is refused with `conflict`.
#[utoipa::path(
    post, path = "/v1/approvals/{call}", tag = "approvals",
    params(("call" = String, Path, description = "The call's id")),
    request_body = unisono_api::approval::Decision,
    responses((status = 200, description = "It is decided, and on disk", body = DecisionResult))
)]
async fn decide(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    extract::Json(asked): extract::Json<Decide>,
) -> Result<Json<DecisionResult>, ApiError> {
    Ok(Json(shared.local.decide(&call, &asked).await?))
}
