//! `/v1/usage`: the usage of model calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::service::Usage as _;
use unisono_api::usage::{SessionUsage, Usage, UsageQuery};
use unisono_api::{Page, PageQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(sessions))
}

/// The usage of model calls, of all or some days, by agent and model, and grouped as requested.
#[utoipa::path(
    get, path = "/v1/usage", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "The usage", body = Usage))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<UsageQuery>,
) -> Result<Json<Usage>, ApiError> {
    Ok(Json(shared.local.usage(&of).await?))
}

/// The sessions with their usage, the largest usage first; sessions without usage are omitted.
#[utoipa::path(
    get, path = "/v1/usage/sessions", tag = "usage", params(PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<SessionUsage>))
)]
async fn sessions(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<SessionUsage>>, ApiError> {
    Ok(Json(shared.local.session_usage(&query).await?))
}
