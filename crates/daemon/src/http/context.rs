//! `/v1/sessions/{session}/context`: what a model sees of a branch.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Problem;
use unisono_api::context::Context;
use unisono_api::session::main_branch;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Path, Query};
use super::messages::unknown_branch;
use super::problem::Fault;
use super::{Shared, sessions};
use crate::ask::{self, Ask};
use crate::context::{Shown, told};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Of which branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
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
}

impl Of {
    fn ask(&self) -> Ask {
        let ask = Ask::new("").branch(self.branch.as_str());
        let ask = match &self.lead {
            Some(lead) => ask.lead(lead.as_str()),
            None => ask,
        };
        match &self.agents {
            Some(agents) => {
                let named = agents.split(',').map(str::trim);
                ask.agents(named.filter(|name| !name.is_empty()))
            }
            None => ask,
        }
    }
}

/// The context of a branch for a lead with its agents, by section.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/context", tag = "context", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"), Of),
    responses((status = 200, description = "The context", body = Context),
              (status = "default", description = "A problem", body = Problem))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(of): Query<Of>,
) -> Result<Json<Context>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    of_team(&shared, &session, &of.ask()).await.map(Json)
}

/// The context of a branch for the configured lead.
pub(super) async fn of_branch(
    shared: &Shared,
    session: &Handle,
    branch: &str,
) -> Result<Context, Fault> {
    of_team(shared, session, &Ask::new("").branch(branch)).await
}

/// The context of a branch for those who would be asked.
async fn of_team(shared: &Shared, session: &Handle, ask: &Ask) -> Result<Context, Fault> {
    let setup = shared.daemon.setup();
    let team = ask.team(&setup).map_err(crate::daemon::Error::from)?;
    let (policy, safety) = ask::policy(&setup, &team);
    let mut state = session.inspect(Clone::clone).await?;
    let branch = ask.on_branch();
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let branch = branch.to_owned();
    // Counting takes a tokenizer, and time.
    let look = move || {
        let shown = Shown::new(&mut state, head, &team, (&policy, safety))?;
        Ok::<_, crate::context::Error>(told::told(&shown, &state, &branch, &policy))
    };
    Ok(super::off_thread(look).await??)
}
