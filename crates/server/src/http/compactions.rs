//! `/v1/sessions/{session}/compactions`: summaries on request.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use unisono_api::compaction::{Compaction, Estimate, NewCompaction, RetryCompaction};
use unisono_api::service::Compactions as _;
use unisono_api::turn::TurnRequest;
use unisono_context::TurnId;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::ApiError;
use super::turns::{self, ResponseMode};
use super::{Shared, sessions};
use crate::body_share::BodyShare;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
        .routes(routes!(retry))
        .routes(routes!(dry_run))
}

/// Compacts a branch: summarises all messages before its newest user message, unless the request
/// keeps more. With `Accept: text/event-stream` the response streams the events of the turn, then
/// the turn.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/compactions", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewCompaction,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewCompaction>,
) -> Result<Response, ApiError> {
    let how = ResponseMode::from_headers(&headers, new.wait);
    compact(&shared, &id, how, &TurnRequest::Compact(new)).await
}

/// Begins a turn that changes the context of a session, and answers as requested.
pub(super) async fn compact(
    shared: &Arc<Shared>,
    session: &str,
    how: ResponseMode,
    request: &TurnRequest,
) -> Result<Response, ApiError> {
    let session = sessions::open(shared, session).await?;
    let ask = shared.local.ask_for(&session, request, None).await?;
    // The caller keeps the request, so its body counts.
    let body = BodyShare::default();
    turns::answer(shared, &session, (ask, &body), how, read_compaction).await
}

async fn read_compaction(
    shared: &Shared,
    session: &Handle,
    turn: TurnId,
) -> Result<Compaction, ApiError> {
    let (session, turn) = (session.id().to_string(), turn.to_string());
    Ok(shared.local.compaction(&session, &turn).await?)
}

/// A turn with its changes of the context.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/compactions/{turn}", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "The turn", body = Compaction))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Compaction>, ApiError> {
    Ok(Json(shared.local.compaction(&id, &turn).await?))
}

/// Repeats the compaction, or the regeneration of a summary, of a failed turn, with the same
/// instructions.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns/{turn}/retry", tag = "compaction",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    request_body = RetryCompaction,
    responses((status = 200, description = "It has ended",
               content((Compaction = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Compaction))
)]
async fn retry(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<RetryCompaction>,
) -> Result<Response, ApiError> {
    let how = ResponseMode::from_headers(&headers, new.wait);
    compact(
        &shared,
        &id,
        how,
        &TurnRequest::RetryCompaction { turn, new },
    )
    .await
}

/// The expected outcome of a compaction, without carrying it out.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/compactions/dry-run", tag = "compaction",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewCompaction,
    responses((status = 200, description = "The expected outcome", body = Estimate))
)]
async fn dry_run(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewCompaction>,
) -> Result<Json<Estimate>, ApiError> {
    Ok(Json(shared.local.estimate(&id, &new).await?))
}
