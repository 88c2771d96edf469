//! `/v1/sessions/{session}/checkpoints`: lists, edits, regenerates and reverts summaries.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use unisono_api::Page;
use unisono_api::compaction::{
    Checkpoint, CheckpointDetail, Compaction, EditSummary, RegenerateSummary, RevertCheckpoint,
};
use unisono_api::service::Compactions as _;
use unisono_api::session::BranchPageQuery;
use unisono_api::turn::TurnRequest;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::compactions::compact;
use super::extract::{self, BranchQuery, Path, Query};
use super::problem::ApiError;
use super::turns::ResponseMode;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(edit))
        .routes(routes!(regenerate))
        .routes(routes!(revert))
}

/// The checkpoints of a session, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/checkpoints", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"), BranchPageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Checkpoint>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<BranchPageQuery>,
) -> Result<Json<Page<Checkpoint>>, ApiError> {
    Ok(Json(shared.local.checkpoints(&id, &query).await?))
}

/// A checkpoint with all its details, and the effect of reverting it.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/checkpoints/{number}", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id"), BranchQuery),
    responses((status = 200, description = "The checkpoint", body = CheckpointDetail))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    Query(on): Query<BranchQuery>,
) -> Result<Json<CheckpointDetail>, ApiError> {
    let found = shared.local.checkpoint(&id, &number, &on.branch).await?;
    Ok(Json(found))
}

/// Replaces the text of a summary. The old checkpoint is kept and can be restored.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/edit", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = EditSummary,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn edit(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<EditSummary>,
) -> Result<Response, ApiError> {
    let how = ResponseMode::from_headers(&headers, new.wait);
    let checkpoint = number;
    compact(&shared, &id, how, &TurnRequest::Edit { checkpoint, new }).await
}

/// Regenerates a summary. The old checkpoint is kept and can be restored.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/regenerate", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = RegenerateSummary,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn regenerate(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<RegenerateSummary>,
) -> Result<Response, ApiError> {
    let how = ResponseMode::from_headers(&headers, new.wait);
    let checkpoint = number;
    compact(
        &shared,
        &id,
        how,
        &TurnRequest::Regenerate { checkpoint, new },
    )
    .await
}

/// Reverts a checkpoint: restores the context before it, with all later messages.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/checkpoints/{number}/revert", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("number" = String, Path, description = "Its number in the session, from 1, or its id")),
    request_body = RevertCheckpoint,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn revert(
    State(shared): State<Arc<Shared>>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<RevertCheckpoint>,
) -> Result<Response, ApiError> {
    let how = ResponseMode::from_headers(&headers, new.wait);
    let checkpoint = number;
    compact(&shared, &id, how, &TurnRequest::Revert { checkpoint, new }).await
}
