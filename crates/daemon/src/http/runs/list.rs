//! Runs as a list: those of one session, and those of all.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::run::ListedRun;
use unisono_api::turn::Turn;
use unisono_api::{Code, Page, Problem};
use unisono_context::RunId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::extract::{self, Path, Query};
use super::super::part::{after, no_cursor};
use super::super::problem::Fault;
use super::super::{Shared, record, sessions};
use crate::past;
use crate::past::runs::{Among, Place};

/// The states of runs.
const STATES: [&str; 6] = [
    "running",
    "waiting",
    "done",
    "partial",
    "failed",
    "cancelled",
];
/// Those of runs that have not ended.
const OPEN: [&str; 2] = ["running", "waiting"];

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(all))
        .routes(routes!(of_session))
}

/// Which runs.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only those of this agent.
    agent: Option<String>,
    /// Only those that are so: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    state: Option<String>,
    /// Only those of this turn.
    turn: Option<String>,
    /// `next` of the part before.
    cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    limit: Option<usize>,
}

/// Which runs of which sessions.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct WhichOfAll {
    /// Only those of this session.
    session: Option<String>,
    /// Only those of this agent.
    agent: Option<String>,
    /// Only those that are so: `running`, `waiting`, `done`, `partial`, `failed`, `cancelled`.
    state: Option<String>,
    /// `next` of the part before.
    cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    limit: Option<usize>,
}

/// What runs have in common that are wanted.
struct Wanted {
    agent: Option<String>,
    state: Option<String>,
}

impl Wanted {
    fn new(agent: Option<String>, state: Option<String>) -> Result<Wanted, Fault> {
        if let Some(state) = state.as_deref()
            && !STATES.contains(&state)
        {
            let all = STATES.join(", ");
            let detail = format!("{state:?} is no state of a run: they are {all}");
            return Err(Fault::new(Code::InvalidRequest, detail));
        }
        Ok(Wanted { agent, state })
    }

    /// Whether that one is.
    fn has(&self, listed: &ListedRun) -> bool {
        let (agent, state) = (self.agent.as_ref(), self.state.as_ref());
        agent.is_none_or(|agent| *agent == listed.run.agent)
            && state.is_none_or(|state| *state == listed.run.state)
    }
}

/// The runs of turns, in the order of these.
fn runs_of(turns: Vec<Turn>) -> impl Iterator<Item = ListedRun> {
    turns.into_iter().flat_map(|turn| {
        let (session, turn, runs) = (turn.session, turn.turn, turn.runs);
        runs.into_iter().map(move |run| ListedRun {
            session: session.clone(),
            turn: turn.clone(),
            run,
        })
    })
}

/// The runs of all sessions: those of the newest session first, of each the newest first. A part
/// may have fewer than asked for, and still `next`.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", security(("token" = [])), params(WhichOfAll),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn all(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<WhichOfAll>,
) -> Result<Json<Page<ListedRun>>, Fault> {
    let limit = Page::<ListedRun>::size(which.limit);
    let after: Option<Place> = after(which.cursor.as_deref())?;
    let session = match which.session.as_deref() {
        Some(id) => Some(sessions::open(&shared, id).await?.id()),
        None => None,
    };
    let wanted = Wanted::new(which.agent, which.state)?;
    let among = Among {
        session,
        open: wanted
            .state
            .as_deref()
            .is_some_and(|state| OPEN.contains(&state)),
    };
    let journal = shared.daemon.runtime().journal();
    let (items, next) = past::runs::part(journal, among, after, limit, |session, trace| {
        let runs = runs_of(record::of(trace, session)).filter(|run| wanted.has(run));
        // What was just written as an id is one.
        runs.filter_map(|run| Some((run.run.run.parse::<RunId>().ok()?, run)))
            .collect()
    })
    .await?;
    let next = next.map(|place| place.to_string());
    Ok(Json(Page { items, next }))
}

/// The runs of a session, in the order of its turns.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs", tag = "runs", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"), Which),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn of_session(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<Page<ListedRun>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let wanted = Wanted::new(which.agent, which.state)?;
    let cursor = which.cursor.as_deref();
    let after: Option<RunId> = after(cursor)?;
    let journal = shared.daemon.runtime().journal();
    let turns = match which.turn.as_deref() {
        Some(turn) => {
            let turn = extract::id("turn", turn)?;
            let found = record::turn(journal, &session, turn).await?;
            vec![found.ok_or_else(|| Fault::not_found("turn", turn))?]
        }
        None => record::of(&past::trace(journal, session.id()).await?, session.id()),
    };
    let mut runs = runs_of(turns);
    if let Some(after) = after {
        // Up to the last one that was told, whatever has become of it since.
        let after = after.to_string();
        let told = runs.find(|listed| listed.run.run == after);
        told.ok_or_else(|| no_cursor(cursor.unwrap_or_default()))?;
    }
    let runs = runs.filter(|run| wanted.has(run));
    let limit = Page::<ListedRun>::size(which.limit);
    Ok(Json(Page::first(runs, limit, |last| last.run.run.clone())))
}
