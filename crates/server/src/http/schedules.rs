//! `/v1/schedules`: turns that begin at times.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use unisono_api::schedule::{Schedule, ScheduledTurn};
use unisono_api::service::Schedules as _;
use unisono_api::{Page, PageQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(run))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// The schedules of the settings, by name.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules",
    params(PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Schedule>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Schedule>>, ApiError> {
    Ok(Json(shared.local.schedules(&query).await?))
}

/// Begins the turn of a schedule now. While the schedule's previous turn is open, the request is
/// refused with `conflict`.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/runs", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name")),
    responses((status = 202, description = "The turn is accepted", body = ScheduledTurn))
)]
async fn run(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<ScheduledTurn>), ApiError> {
    let begun = shared.local.run_schedule(&name).await?;
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

/// Pauses a schedule until it is resumed, also beyond a restart of the daemon.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name")),
    responses((status = 200, description = "It is paused, and that is on disk", body = Schedule))
)]
async fn pause(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<Json<Schedule>, ApiError> {
    Ok(Json(shared.local.pause_schedule(&name, true).await?))
}

/// Resumes a schedule. Times that passed during the pause are skipped.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule's name")),
    responses((status = 200, description = "The schedule is resumed, and that is on disk", body = Schedule))
)]
async fn resume(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<Json<Schedule>, ApiError> {
    Ok(Json(shared.local.pause_schedule(&name, false).await?))
}
