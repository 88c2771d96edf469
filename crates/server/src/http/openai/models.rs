//! `/openai/v1/models`: the agents, and the team.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use unisono_api::Code;
use unisono_api::openai::{Model, Models};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{FieldError, TEAM};
use crate::http::Shared;
use crate::http::extract::Path;
use crate::http::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(models))
        .routes(routes!(model))
}

/// The available models: the team, and each agent.
#[utoipa::path(
    get, path = "/openai/v1/models", tag = "openai",
    responses((status = 200, description = "The agents", body = Models))
)]
async fn models(State(shared): State<Arc<Shared>>) -> Json<Models> {
    Json(Models {
        object: "list",
        data: names(&shared).into_iter().map(model_named).collect(),
    })
}

/// The team, and each agent. An agent with the name of the team cannot be a model.
fn names(shared: &Shared) -> Vec<String> {
    let setup = shared.local.setup();
    let agents = setup.roster.iter();
    let agents = agents.map(|agent| agent.definition.id.to_string());
    let agents = agents.filter(|name| name != TEAM);
    std::iter::once(TEAM.to_owned()).chain(agents).collect()
}

fn model_named(id: String) -> Model {
    Model {
        id,
        object: "model",
        created: 0,
        owned_by: "unisono",
    }
}

/// One available model: the team, or an agent.
#[utoipa::path(
    get, path = "/openai/v1/models/{model}", tag = "openai",
    params(("model" = String, Path, description = "`team`, or an agent's name")),
    responses((status = 200, description = "The agent", body = Model))
)]
async fn model(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<String>, ApiError>,
) -> Result<Json<Model>, FieldError> {
    let Path(id) = path?;
    let known = names(&shared).contains(&id);
    if !known {
        let detail = format!("there is no agent {id:?}; GET /openai/v1/models lists all");
        return Err(FieldError::field("model", Code::NotFound, detail));
    }
    Ok(Json(model_named(id)))
}
