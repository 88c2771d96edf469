//! `/v1/usage`: what model calls used.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::service::Usage as _;
use unisono_api::usage::{Usage, UsageQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What model calls used, by agent and model.
#[utoipa::path(
    get, path = "/v1/usage", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "What was used", body = Usage))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<UsageQuery>,
) -> Result<Json<Usage>, ApiError> {
    Ok(Json(shared.local.usage(of.session.as_deref()).await?))
}
