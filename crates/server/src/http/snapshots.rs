//! `/v1/sessions/{session}/snapshots/{snapshot}`: the exact context that agents had.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::context::Snapshot;
use unisono_api::service::Contexts as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Path;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// A frozen context, rebuilt from the journal and checked against its id.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/snapshots/{snapshot}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("snapshot" = String, Path, description = "The snapshot's id")),
    responses((status = 200, description = "The snapshot", body = Snapshot))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, snapshot)): Path<(String, String)>,
) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(shared.local.snapshot(&id, &snapshot).await?))
}
