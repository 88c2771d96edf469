//! `/v1/agents` and `/v1/models`: who can be asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Code;
use unisono_api::agent::{Agent, Model, Reload};
use unisono_api::turn::Settings;
use unisono_context::AgentId;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::Entry;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::ask::Ask;
use unisono::local;
use unisono::models::notices;
use unisono::service::settings::of_request;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(agents))
        .routes(routes!(reload))
        .routes(routes!(models))
}

/// The agents that can be given a task, and the part each takes in what would be asked.
#[utoipa::path(
    get, path = "/v1/agents", tag = "agents", params(Whom),
    responses((status = 200, description = "The agents, by name", body = Vec<Agent>))
)]
async fn agents(
    State(shared): State<Arc<Shared>>,
    Query(whom): Query<Whom>,
) -> Result<Json<Vec<Agent>>, Fault> {
    let who = (whom.lead.as_deref(), whom.agents.as_deref());
    let ask = to_ask(who, whom.settings.as_deref())?;
    let local = &shared.local;
    let setup = match whom.session.as_deref() {
        Some(id) => {
            local
                .setup_for(&sessions::open(&shared, id).await?, &ask)
                .await?
        }
        None => local.setup_with(Arc::default(), ask.settings()).await?,
    };
    let told = unisono::agents::list(&setup, &ask);
    Ok(Json(told.map_err(unisono::Error::from)?))
}

/// Who would be asked.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Whom {
    /// The session that would be asked, whose settings count; none: a new one.
    session: Option<String>,
    /// The agent that would answer; none: as configured.
    lead: Option<String>,
    /// The agents that would work before it, with commas between them; none: as configured; empty:
    /// the lead alone.
    agents: Option<String>,
    /// Settings of its own, as a turn may have them: an object in JSON.
    settings: Option<String>,
}

/// What is asked of a lead with these agents, a comma between them, with settings of its own.
pub(super) fn to_ask(
    (lead, agents): (Option<&str>, Option<&str>),
    own: Option<&str>,
) -> Result<Ask, Fault> {
    let own: Settings = match own {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            let detail = format!("settings: no object in JSON: {error}");
            Fault::new(Code::InvalidRequest, detail)
        })?,
        None => Settings::default(),
    };
    let ask = Ask::new("").with_settings(of_request(&own)?);
    let ask = match lead {
        Some(lead) => ask.lead(lead),
        None => ask,
    };
    Ok(match agents {
        Some(agents) => {
            let named = agents.split(',').map(str::trim);
            ask.agents(named.filter(|name| !name.is_empty()))
        }
        None => ask,
    })
}

/// Reads the definitions of all agents again. Turns that begin after it have the new ones; if one
/// is wrong, all stay as they were.
#[utoipa::path(
    post, path = "/v1/agents/reload", tag = "agents",
    responses((status = 200, description = "What is different", body = Reload))
)]
async fn reload(State(shared): State<Arc<Shared>>) -> Result<Json<Reload>, Fault> {
    let reload = reload_to_api(&shared.local.reload_agents().await);
    if reload.taken {
        return Ok(Json(reload));
    }
    Err(Fault::new(Code::Refused, reload.problems.join("\n")))
}

/// What came of reading agents again, as it is told.
pub(super) fn reload_to_api(reload: &local::Reload) -> Reload {
    let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect();
    let problems = match reload {
        Ok((_, warnings)) => warnings,
        Err(found) => found,
    };
    let difference = reload.as_ref().map(|(difference, _)| difference.clone());
    let difference = difference.unwrap_or_default();
    Reload {
        taken: reload.is_ok(),
        added: names(&difference.added),
        changed: names(&difference.changed),
        removed: names(&difference.removed),
        problems: problems.iter().map(ToString::to_string).collect(),
    }
}

/// The models of the catalogue.
#[utoipa::path(
    get, path = "/v1/models", tag = "agents",
    responses((status = 200, description = "The models, by name", body = Vec<Model>))
)]
async fn models(State(shared): State<Arc<Shared>>) -> Json<Vec<Model>> {
    let setup = shared.local.setup();
    let (loaded, today) = (&setup.loaded, notices::today());
    let models = loaded.catalogue.entries().map(|entry| {
        let lacks = loaded.providers.lacks(&entry.model.provider);
        let model = entry.model.to_string();
        Model {
            usable: lacks.is_none(),
            lacks,
            default: model == loaded.default_model,
            model,
            learnt_window_tokens: learnt_window(&entry, shared.local.calibrations()),
            window_tokens: entry.window.0,
            max_output_tokens: entry.max_output.0,
            notice: notices::retiring(&entry, today).map(|notice| notice.to_string()),
        }
    });
    Json(models.collect())
}

/// A smaller window than the catalogue's that a provider named.
fn learnt_window(model: &Entry, learnt: &Calibrations) -> Option<u64> {
    let found = learnt.of(&model.model.to_string()).window(model.window);
    (found < model.window).then_some(found.0)
}
