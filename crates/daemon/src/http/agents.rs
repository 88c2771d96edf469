//! `/v1/agents` and `/v1/models`: who can be asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Problem;
use unisono_api::agent::{Agent, Model};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(agents))
        .routes(routes!(models))
}

/// The agents that can be given a task.
#[utoipa::path(
    get, path = "/v1/agents", tag = "agents", security(("token" = [])),
    responses((status = 200, description = "The agents, by name", body = Vec<Agent>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn agents(State(shared): State<Arc<Shared>>) -> Json<Vec<Agent>> {
    let roster = &shared.daemon.setup().roster;
    let agents = roster.iter().map(|agent| {
        let definition = &agent.definition;
        Agent {
            agent: definition.id.to_string(),
            description: definition.description.to_string(),
            kind: definition.kind.name().to_owned(),
            model: definition.model.to_string(),
            tools: definition.tools.iter().map(ToString::to_string).collect(),
            origin: agent.origin.to_string(),
        }
    });
    Json(agents.collect())
}

/// The models of the catalogue.
#[utoipa::path(
    get, path = "/v1/models", tag = "agents", security(("token" = [])),
    responses((status = 200, description = "The models, by name", body = Vec<Model>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn models(State(shared): State<Arc<Shared>>) -> Json<Vec<Model>> {
    let loaded = &shared.daemon.setup().loaded;
    let models = loaded.catalogue.entries().map(|entry| {
        let lacks = loaded.providers.lacks(&entry.model.provider);
        let model = entry.model.to_string();
        Model {
            usable: lacks.is_none(),
            lacks,
            default: model == loaded.default_model,
            model,
            window_tokens: entry.window.0,
            max_output_tokens: entry.max_output.0,
        }
    });
    Json(models.collect())
}
