//! `/v1/runs`, `/v1/sessions/{session}/runs` and `/v1/lookup`: runs with their tasks, results, and
//! the exact bytes of their requests.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Page;
use unisono_api::run::{
    ListedRun, LookupQuery, LookupResult, Replay, RunDetail, RunQuery, Why, WhyQuery,
};
use unisono_api::service::{Runs as _, Turns as _};
use unisono_api::turn::Turn;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(all))
        .routes(routes!(of_session))
        .routes(routes!(show))
        .routes(routes!(cancel))
        .routes(routes!(request))
        .routes(routes!(replay_turn))
        .routes(routes!(lookup))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct RunFilter {
    /// Only runs of this session.
    session: Option<String>,
    /// Only runs of this agent.
    agent: Option<String>,
    /// Only runs in this state: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    state: Option<String>,
    /// `next` of the previous page.
    cursor: Option<String>,
    /// The maximum number of runs: 50 by default, at most 500.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// The runs of all sessions, the run that was opened last first. A page may have fewer items than
/// requested and still have `next`.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", params(RunFilter),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>))
)]
async fn all(
    State(shared): State<Arc<Shared>>,
    Query(of): Query<RunFilter>,
) -> Result<Json<Page<ListedRun>>, ApiError> {
    let query = RunQuery {
        session: of.session,
        turn: None,
        agent: of.agent,
        state: of.state,
        cursor: of.cursor,
        limit: of.limit,
    };
    Ok(Json(shared.local.runs(&query).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct SessionRunFilter {
    /// Only runs of this agent.
    agent: Option<String>,
    /// Only runs in this state: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    state: Option<String>,
    /// Only runs of this turn.
    turn: Option<String>,
    /// `next` of the previous page.
    cursor: Option<String>,
    /// The maximum number of runs: 50 by default, at most 500.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// The runs of a session: its newest turn first, and in each turn the newest run first. A page may
/// have fewer items than requested and still have `next`.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs", tag = "runs",
    params(("session" = String, Path, description = "The session's id"), SessionRunFilter),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>))
)]
async fn of_session(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(of): Query<SessionRunFilter>,
) -> Result<Json<Page<ListedRun>>, ApiError> {
    let query = RunQuery {
        session: Some(id),
        turn: of.turn,
        agent: of.agent,
        state: of.state,
        cursor: of.cursor,
        limit: of.limit,
    };
    Ok(Json(shared.local.runs(&query).await?))
}

/// A run with its steps.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs/{run}", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id")),
    responses((status = 200, description = "The run", body = RunDetail))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
) -> Result<Json<RunDetail>, ApiError> {
    Ok(Json(shared.local.run(&id, &run).await?))
}

/// Cancels a run and its delegated runs. The turn continues without it; cancelling a lead's run
/// cancels its turn.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/runs/{run}/cancel", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id")),
    responses((status = 200, description = "Its turn", body = Turn))
)]
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
) -> Result<Json<Turn>, ApiError> {
    Ok(Json(shared.local.cancel_run(&id, &run).await?))
}

/// The exact bytes of a run's requests, the part shared with a sibling, and the chain of causes;
/// rebuilt from the journal, with every digest compared.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs/{run}/request", tag = "runs",
    params(("session" = String, Path, description = "The session's id"),
           ("run" = String, Path, description = "The run's id"), WhyQuery),
    responses((status = 200, description = "The requests and their causes", body = Why))
)]
async fn request(
    State(shared): State<Arc<Shared>>,
    Path((id, run)): Path<(String, String)>,
    Query(query): Query<WhyQuery>,
) -> Result<Json<Why>, ApiError> {
    Ok(Json(shared.local.why(&id, &run, &query).await?))
}

/// Rebuilds the requests of a turn from the journal and compares every digest. No model is called.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}/replay", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "The comparisons", body = Replay))
)]
async fn replay_turn(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Replay>, ApiError> {
    Ok(Json(shared.local.replay(&id, &turn).await?))
}

/// The runs and turns that match a name, in the 10,000 most recently changed sessions.
#[utoipa::path(
    get, path = "/v1/lookup", tag = "runs", params(LookupQuery),
    responses((status = 200, description = "The matching runs and turns", body = LookupResult))
)]
async fn lookup(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<LookupQuery>,
) -> Result<Json<LookupResult>, ApiError> {
    Ok(Json(shared.local.lookup(&query).await?))
}
