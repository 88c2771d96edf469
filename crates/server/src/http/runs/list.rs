//! Runs as a list: those of one session, and those of all.

use std::num::NonZeroUsize;
use std::sync::Arc;
use unisono::turn_view;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::run::ListedRun;
use unisono_api::turn::Turn;
use unisono_api::{Code, Page};
use unisono_context::RunId;
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use unisono_session::trace::Status;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::extract::{self, Path, Query};
use super::super::part::{after, no_cursor};
use super::super::problem::Fault;
use super::super::{Shared, sessions};
use unisono::past;
use unisono::past::runs::{Among, Place, Spot, of_session as of};

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
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
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
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// What runs have in common that are wanted.
struct Wanted {
    agent: Option<String>,
    state: Option<Status>,
}

impl Wanted {
    fn new(agent: Option<String>, state: Option<String>) -> Result<Wanted, Fault> {
        let named = |name: String| {
            Status::named(&name).ok_or_else(|| {
                let all = Status::ALL.map(Status::name).join(", ");
                let detail = format!("{name:?} is no state of a run: they are {all}");
                Fault::new(Code::InvalidRequest, detail)
            })
        };
        let state = state.map(named).transpose()?;
        if agent.as_deref() == Some("") {
            let detail = "`agent` is empty: name one, or leave it out";
            return Err(Fault::new(Code::InvalidRequest, detail));
        }
        Ok(Wanted { agent, state })
    }

    /// Whether that one is.
    fn has(&self, listed: &ListedRun) -> bool {
        let agent = self.agent.as_ref();
        agent.is_none_or(|agent| *agent == listed.run.agent)
            && self
                .state
                .is_none_or(|state| state.name() == listed.run.state)
    }

    /// Whether only those of open turns can be wanted.
    fn is_open(&self) -> bool {
        self.state.is_some_and(Status::is_open)
    }

    /// Those of turns that are.
    fn of(&self, turns: Vec<Turn>) -> Vec<(RunId, ListedRun)> {
        let runs = runs_of(turns).filter(|run| self.has(run));
        // What was just written as an id is one.
        runs.filter_map(|run| Some((run.run.run.parse().ok()?, run)))
            .collect()
    }
}

/// The runs of turns, in the order of these.
fn runs_of(turns: Vec<Turn>) -> impl DoubleEndedIterator<Item = ListedRun> {
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
    get, path = "/v1/runs", tag = "runs", params(WhichOfAll),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>))
)]
async fn all(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<WhichOfAll>,
) -> Result<Json<Page<ListedRun>>, Fault> {
    let limit = Page::<ListedRun>::size(which.limit);
    let wanted = Wanted::new(which.agent, which.state)?;
    if let Some(id) = which.session.as_deref() {
        let session = sessions::open(&shared, id).await?;
        let after: Option<Spot> = after(which.cursor.as_deref())?;
        return newest(&shared, &session, &wanted, after, limit)
            .await
            .map(Json);
    }
    let after: Option<Place> = after(which.cursor.as_deref())?;
    let among = Among {
        session: None,
        open: wanted.is_open(),
    };
    let journal = shared.local.journal();
    let (items, next) = past::runs::part(journal, among, after, limit, |session, trace| {
        wanted.of(turn_view::of(trace, session))
    })
    .await?;
    let next = next.map(|place| place.to_string());
    Ok(Json(Page { items, next }))
}

/// The runs of a session: those of its newest turn first, of each the newest first. A part may have
/// fewer than asked for, and still `next`.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/runs", tag = "runs",
    params(("session" = String, Path, description = "The session's id"), Which),
    responses((status = 200, description = "A part of the list", body = Page<ListedRun>))
)]
async fn of_session(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<Page<ListedRun>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let wanted = Wanted::new(which.agent, which.state)?;
    let limit = Page::<ListedRun>::size(which.limit);
    let Some(turn) = which.turn.as_deref() else {
        let after: Option<Spot> = after(which.cursor.as_deref())?;
        return newest(&shared, &session, &wanted, after, limit)
            .await
            .map(Json);
    };
    let turn = extract::id("turn", turn)?;
    let after: Option<RunId> = after(which.cursor.as_deref())?;
    let journal = shared.local.journal();
    let found = turn_view::turn(journal, &session, turn).await?;
    let found = found.ok_or_else(|| Fault::not_found("turn", turn))?;
    let mut runs = runs_of(vec![found]).rev();
    if let Some(after) = after {
        // Up to the last one that was told, whatever has become of it since.
        let after = after.to_string();
        let told = runs.find(|listed| listed.run.run == after);
        told.ok_or_else(|| no_cursor(&after))?;
    }
    let runs = runs.filter(|run| wanted.has(run));
    Ok(Json(Page::first(runs, limit, |last| last.run.run.clone())))
}

/// The newest runs of a session that are wanted, after a spot.
async fn newest(
    shared: &Shared,
    session: &Handle,
    wanted: &Wanted,
    after: Option<Spot>,
    limit: usize,
) -> Result<Page<ListedRun>, Fault> {
    let is_open = |state: &SessionState| state.open_turns().next().is_some();
    if wanted.is_open() && !session.inspect(is_open).await? {
        let (items, next) = (Vec::new(), None);
        return Ok(Page { items, next });
    }
    let (journal, id) = (shared.local.journal(), session.id());
    let (items, next) = of(journal, session, after, limit, |turn, trace| {
        wanted.of(turn_view::one(trace, id, turn).into_iter().collect())
    })
    .await?;
    let next = next.map(|spot| spot.to_string());
    Ok(Page { items, next })
}
