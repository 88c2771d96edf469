//! `/v1/agents` and `/v1/models`: who can be asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::agent::{Agent, AgentQuery, Model, Reload};
use unisono_api::service::Agents;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(agents))
        .routes(routes!(reload))
        .routes(routes!(models))
}

/// All agents, each with its role in the described turn.
#[utoipa::path(
    get, path = "/v1/agents", tag = "agents", params(AgentQuery),
    responses((status = 200, description = "The agents, by name", body = Vec<Agent>))
)]
async fn agents(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<AgentQuery>,
) -> Result<Json<Vec<Agent>>, ApiError> {
    Ok(Json(shared.local.agents(&query).await?))
}

/// Reads the definitions of all agents again. They apply to turns that begin later; if one is
/// wrong, nothing changes.
#[utoipa::path(
    post, path = "/v1/agents/reload", tag = "agents",
    responses((status = 200, description = "What is different", body = Reload))
)]
async fn reload(State(shared): State<Arc<Shared>>) -> Result<Json<Reload>, ApiError> {
    Ok(Json(Agents::reload_agents(&*shared.local).await?))
}

/// The models of the catalogue, then other models that agents name or that were used.
#[utoipa::path(
    get, path = "/v1/models", tag = "agents",
    responses((status = 200, description = "The models, by name", body = Vec<Model>))
)]
async fn models(State(shared): State<Arc<Shared>>) -> Result<Json<Vec<Model>>, ApiError> {
    Ok(Json(shared.local.models().await?))
}
