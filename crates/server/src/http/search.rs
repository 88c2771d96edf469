//! `/v1/search` and `/v1/sessions/{session}/search`: full-text search.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::search::{SearchQuery, SearchResults};
use unisono_api::service::Search;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(all))
        .routes(routes!(within))
}

/// Searches all sessions, the best matches first.
#[utoipa::path(
    get, path = "/v1/search", tag = "messages", params(SearchQuery),
    responses((status = 200, description = "The found messages", body = SearchResults))
)]
async fn all(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<SearchQuery>,
) -> Result<Json<SearchResults>, ApiError> {
    Ok(Json(Search::search(&*shared.local, None, &query).await?))
}

/// Searches one session, including messages that have left the context.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/search", tag = "messages",
    params(("session" = String, Path, description = "The session's id"), SearchQuery),
    responses((status = 200, description = "The found messages", body = SearchResults))
)]
async fn within(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<SearchQuery>,
) -> Result<Json<SearchResults>, ApiError> {
    Ok(Json(
        Search::search(&*shared.local, Some(&id), &query).await?,
    ))
}
