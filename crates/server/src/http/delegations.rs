//! `/v1/sessions/{session}/delegations`: the caller gives tasks to several agents at once.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use unisono_api::Code;
use unisono_api::delegation::{Delegation, MissingResult, NewDelegation};
use unisono_api::service::Turns as _;
use unisono_api::turn::Turn;
use unisono_context::TurnId;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::ApiError;
use super::turns::{self, ResponseMode};
use super::{Shared, sessions};
use crate::body_share::BodyShare;
use unisono::ask::Ask;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
}

/// Gives tasks to several agents in parallel, on the same frozen context, and their results to a
/// lead. It is a turn: with `Accept: text/event-stream` the response streams its events.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/delegations", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "A repeated request with the same key returns the first delegation, also after a crash")),
    request_body = NewDelegation,
    responses((status = 200, description = "All have ended",
               content((Delegation = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "It is accepted", body = Delegation))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Extension(body): Extension<BodyShare>,
    headers: HeaderMap,
    extract::Json(mut new): extract::Json<NewDelegation>,
) -> Result<Response, ApiError> {
    let session = sessions::open(&shared, &id).await?;
    if new.agents.is_empty() {
        let detail = "a delegation names at least one agent; a turn is for a lead alone";
        return Err(ApiError::new(Code::Refused, detail));
    }
    let how = ResponseMode::from_headers(&headers, new.wait);
    // The form of the response does not make another request.
    new.wait = true;
    let ask = to_ask(&new).with_key(turns::key(&headers, &new)?);
    drop(new);
    turns::answer(&shared, &session, (ask, &body), how, read).await
}

fn to_ask(new: &NewDelegation) -> Ask {
    let agents = new.agents.iter();
    let agents = agents.map(|delegate| (delegate.agent.as_str(), delegate.task.as_deref()));
    let ask = Ask::delegation(&new.task, agents).branch(new.branch.as_str());
    match &new.lead {
        Some(lead) => ask.lead(lead.as_str()),
        None => ask,
    }
}

async fn read(shared: &Shared, session: &Handle, turn: TurnId) -> Result<Delegation, ApiError> {
    Ok(to_api(turns::read(shared, session, turn).await?))
}

/// Converts a turn to a delegation and names missing agents.
fn to_api(turn: Turn) -> Delegation {
    let usage = turn.usage;
    let given = turn.runs.into_iter().filter(|run| run.role != "lead");
    let runs: Vec<_> = given.collect();
    let lacking = |state: &str| matches!(state, "partial" | "failed" | "cancelled");
    let missing = runs.iter().filter(|run| lacking(&run.state));
    let missing = missing.map(|run| MissingResult {
        run: run.run.clone(),
        agent: run.agent.clone(),
        state: run.state.clone(),
        reason: run.error.as_ref().map(|error| error.reason.clone()),
    });
    Delegation {
        missing: missing.collect(),
        session: turn.session,
        turn: turn.turn,
        branch: turn.branch,
        state: turn.state,
        snapshot: turn.snapshot,
        snapshot_agents: turn.snapshot_agents,
        runs,
        answer: turn.answer,
        error: turn.error,
        cost_usd: turn.cost_usd,
        usage,
    }
}

/// A fan-out in its current state.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/delegations/{turn}", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The id of the turn of the fan-out")),
    responses((status = 200, description = "The delegation", body = Delegation))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Delegation>, ApiError> {
    Ok(Json(to_api(shared.local.turn(&id, &turn).await?)))
}
