//! `/v1/agents` and `/v1/models`: the agents and models that requests can name.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use unisono_api::agent::{
    Agent, AgentCheck, AgentDetail, AgentImport, AgentQuery, Model, NewAgentFile, NewAgentImport,
    Reload,
};
use unisono_api::service::Agents;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;
use crate::audit::Note;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(agents))
        .routes(routes!(reload))
        .routes(routes!(models))
        .routes(routes!(show, save))
        .routes(routes!(check))
        .routes(routes!(import))
}

/// All agents, each with its role in the turn that the query describes.
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

/// An agent with its definition and its file.
#[utoipa::path(
    get, path = "/v1/agents/{agent}", tag = "agents",
    params(("agent" = String, Path, description = "The agent's name")),
    responses((status = 200, description = "The agent", body = AgentDetail))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
) -> Result<Json<AgentDetail>, ApiError> {
    Ok(Json(shared.local.agent(&agent).await?))
}

/// Checks a new text for the file of an agent, with all other definitions. Nothing is written.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/check", tag = "agents",
    params(("agent" = String, Path, description = "The agent's name")),
    request_body = NewAgentFile,
    responses((status = 200, description = "The problems of the text", body = AgentCheck))
)]
async fn check(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
    extract::Json(new): extract::Json<NewAgentFile>,
) -> Result<Json<AgentCheck>, ApiError> {
    Ok(Json(shared.local.check_agent(&agent, &new).await?))
}

/// Replaces the file of an agent, for turns that begin later. An invalid text is refused, and so is
/// a text that was edited from an outdated version of the file.
#[utoipa::path(
    put, path = "/v1/agents/{agent}", tag = "agents",
    params(("agent" = String, Path, description = "The agent's name")),
    request_body = NewAgentFile,
    responses((status = 200, description = "The differences", body = Reload))
)]
async fn save(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
    extract::Json(new): extract::Json<NewAgentFile>,
) -> Result<Json<Reload>, ApiError> {
    Ok(Json(shared.local.save_agent(&agent, &new).await?))
}

/// Imports agents of other programs: converts them, and writes a file into `agents/` of the project
/// for each new agent. The response lists everything that could not be converted.
#[utoipa::path(
    post, path = "/v1/agent-imports", tag = "agents", request_body = NewAgentImport,
    responses((status = 200, description = "The outcome for each agent", body = AgentImport))
)]
async fn import(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    extract::Json(new): extract::Json<NewAgentImport>,
) -> Result<Json<AgentImport>, ApiError> {
    if new.dry_run {
        note.dry_run();
    }
    Ok(Json(shared.local.import_agents(&new).await?))
}

/// Reads the definitions of all agents again. They apply to turns that begin later; if one is
/// wrong, nothing changes.
#[utoipa::path(
    post, path = "/v1/agents/reload", tag = "agents",
    responses((status = 200, description = "The differences", body = Reload))
)]
async fn reload(State(shared): State<Arc<Shared>>) -> Result<Json<Reload>, ApiError> {
    Ok(Json(Agents::reload_agents(&*shared.local).await?))
}

/// The models of the catalogue, followed by other models that agents name or sessions used.
#[utoipa::path(
    get, path = "/v1/models", tag = "agents",
    responses((status = 200, description = "The models, by name", body = Vec<Model>))
)]
async fn models(State(shared): State<Arc<Shared>>) -> Result<Json<Vec<Model>>, ApiError> {
    Ok(Json(shared.local.models().await?))
}
