//! `/v1/vacuum` and `/v1/losses`: the store itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Page;
use unisono_api::service::Store;
use unisono_api::store::{Acknowledged, Loss, LossQuery, Vacuumed};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::problem::Fault;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(vacuum))
        .routes(routes!(losses))
        .routes(routes!(acknowledge))
}

/// Gives back the room of what was deleted or is outdated, and returns when that is done: nothing of
/// it is on disk any more. Other requests are answered meanwhile.
#[utoipa::path(
    post, path = "/v1/vacuum", tag = "about", operation_id = "vacuum",
    responses((status = 200, description = "It is done", body = Vacuumed))
)]
async fn vacuum(State(shared): State<Arc<Shared>>) -> Result<Json<Vacuumed>, Fault> {
    Ok(Json(shared.local.vacuum().await?))
}

/// What repairs of the store have lost and nobody has acknowledged, what was found last first.
#[utoipa::path(
    get, path = "/v1/losses", tag = "about", operation_id = "list_losses",
    params(LossQuery),
    responses((status = 200, description = "A part of the list", body = Page<Loss>))
)]
async fn losses(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<LossQuery>,
) -> Result<Json<Page<Loss>>, Fault> {
    Ok(Json(Store::losses(&*shared.local, &query).await?))
}

/// Takes note of what repairs of the store have lost: sessions do not tell of it any more.
#[utoipa::path(
    post, path = "/v1/losses/acknowledge", tag = "about", operation_id = "acknowledge_losses",
    responses((status = 200, description = "It is noted", body = Acknowledged))
)]
async fn acknowledge(State(shared): State<Arc<Shared>>) -> Result<Json<Acknowledged>, Fault> {
    Ok(Json(Store::acknowledge_losses(&*shared.local).await?))
}
