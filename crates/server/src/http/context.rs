//! `/v1/sessions/{session}/context`: what a model sees of a branch.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::context::Context;
use unisono_api::session::main_branch;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::agents::to_ask;
use super::extract::{Path, Query};
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::ask::Ask;
use unisono::context::{Shown, sections, tip};
use unisono::models;
use unisono::service::messages::unknown_branch;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Of which branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Of {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    branch: String,
    /// The agent that would answer; none: as configured.
    lead: Option<String>,
    /// The agents that would work before it, with commas between them; none: as configured; empty:
    /// the lead alone.
    agents: Option<String>,
    /// Settings of its own, as a turn may have them: an object in JSON.
    settings: Option<String>,
    /// Whether the provider of the lead's model is asked as well how many tokens it has.
    #[serde(default)]
    exact: bool,
}

/// The context of a branch for a lead with its agents, by section.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/context", tag = "context",
    params(("session" = String, Path, description = "The session's id"), Of),
    responses((status = 200, description = "The context", body = Context))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(of): Query<Of>,
) -> Result<Json<Context>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let who = (of.lead.as_deref(), of.agents.as_deref());
    let ask = to_ask(who, of.settings.as_deref())?;
    let ask = ask.branch(of.branch.as_str());
    of_team(&shared, &session, &ask, of.exact).await.map(Json)
}

/// The context of a branch for the configured lead.
pub(super) async fn of_branch(
    shared: &Shared,
    session: &Handle,
    branch: &str,
) -> Result<Context, Fault> {
    of_team(shared, session, &Ask::new("").branch(branch), false).await
}

/// The context of a branch for those who would be asked.
async fn of_team(
    shared: &Shared,
    session: &Handle,
    ask: &Ask,
    exact: bool,
) -> Result<Context, Fault> {
    let setup = shared.local.setup_for(session, ask).await?;
    let by = ask.measured_by(&setup, shared.local.calibrations());
    let by = by.map_err(unisono::Error::from)?;
    let mut state = session.inspect(Clone::clone).await?;
    let branch = ask.on_branch();
    let head = tip(&state, branch).ok_or_else(|| unknown_branch(branch))?;
    let branch = branch.to_owned();
    // Counting takes a tokenizer, and time.
    let look = move || {
        let shown = Shown::new(&mut state, head, &by)?;
        let told = sections::to_api(&shown, &state, &branch, &by.policy);
        Ok::<_, unisono::context::Error>((told, shown.snapshot, by.team.lead))
    };
    let (told, snapshot, lead) = super::off_thread(look).await??;
    if !exact {
        return Ok(told);
    }
    let counted = models::count(&setup, shared.local.extensions(), &lead, Arc::new(snapshot)).await;
    Ok(told.counted(counted))
}
