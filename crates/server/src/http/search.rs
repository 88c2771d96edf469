//! `/v1/search` and `/v1/sessions/{session}/search`: what was said, found by its words.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::search::Found;
use unisono_api::session::main_branch;
use unisono_api::{Code, Page};
use unisono_context::SessionId;
use unisono_runtime::clock;
use unisono_search::Query as Words;
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::messages::unknown_branch;
use super::part::after;
use super::problem::Fault;
use unisono::hits;

/// Messages that are told, where nobody says how many; and the most.
const FOUND: usize = 20;
const MOST: usize = 1_000;
/// How far a list of what was found can be walked: each part costs all those before it.
const DEEPEST: usize = 10_000;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(all))
        .routes(routes!(within))
}

/// What is searched for.
#[derive(Clone, Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct For {
    /// Words, and within them: `"these in this order"`, `+required`, `-excluded`, `role:user`,
    /// `agent:risks`, `since:2026-03-01`, `until:7d`. At most 4,096 bytes and 128 terms.
    pub(super) q: String,
    /// The branch whose context tells what is active: `main`.
    #[serde(default = "main_branch")]
    pub(super) branch: String,
    /// `next` of the part before.
    pub(super) cursor: Option<String>,
    /// How many messages at most: 20, and no more than 1,000.
    #[param(value_type = Option<usize>, minimum = 1)]
    pub(super) limit: Option<NonZeroUsize>,
}

/// Searches all sessions, the best first.
#[utoipa::path(
    get, path = "/v1/search", tag = "messages", params(For),
    responses((status = 200, description = "What was found", body = Found))
)]
async fn all(
    State(shared): State<Arc<Shared>>,
    Query(sought): Query<For>,
) -> Result<Json<Found>, Fault> {
    found(&shared, &sought, None).await.map(Json)
}

/// Searches one session, also what has left its context.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/search", tag = "messages",
    params(("session" = String, Path, description = "The session's id"), For),
    responses((status = 200, description = "What was found", body = Found))
)]
async fn within(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(sought): Query<For>,
) -> Result<Json<Found>, Fault> {
    let session = super::sessions::open(&shared, &id).await?;
    let branch = sought.branch.clone();
    let known = move |state: &SessionState| {
        // Nothing was said yet in one that has none.
        state.tree().is_empty() || state.tree().head(&branch).is_some()
    };
    if !session.inspect(known).await? {
        return Err(unknown_branch(&sought.branch));
    }
    found(&shared, &sought, Some(session.id())).await.map(Json)
}

/// What is found in a session, or in all of them.
pub(super) async fn found(
    shared: &Shared,
    sought: &For,
    within: Option<SessionId>,
) -> Result<Found, Fault> {
    let query = Words::parse(&sought.q, clock::now()).map_err(unisono_search::Error::from)?;
    if query.is_empty() {
        let notes = query.notes.iter().map(|note| format!(": {note}"));
        let detail = format!(
            "there is nothing to search for{}",
            notes.collect::<String>()
        );
        return Err(Fault::new(Code::Refused, detail));
    }
    let named = query.session.as_deref();
    let named = named.map(|id| extract::id("session", id)).transpose()?;
    let only: Vec<SessionId> = within.or(named).into_iter().collect();
    let search = shared.local.search()?;
    if !search.follows() {
        // Made of what is asked for, when it is asked for.
        search.settle(only.first().copied()).await?;
    }
    let limit = sought.limit.map_or(FOUND, NonZeroUsize::get).min(MOST);
    let told = told_before(sought)?;
    let answer = search.find(&query, &only, told + limit + 1).await?;
    let left = answer.found.into_iter().skip(told);
    let part = Page::first(left, limit, |_| (told + limit).to_string());
    let stems = query.stems();
    let mut hits = Vec::with_capacity(part.items.len());
    for found in part.items {
        // A session that was deleted meanwhile is not found any more.
        let Ok(session) = shared.local.open(found.session).await else {
            continue;
        };
        let (branch, stems) = (sought.branch.clone(), stems.clone());
        let look = move |state: &SessionState| hits::Hit::of(&found, state, &branch, &stems);
        let hit = session.inspect(look).await?;
        hits.extend(hit.map(|hit| hit.to_api()));
    }
    Ok(Found {
        notes: query.notes.iter().map(ToString::to_string).collect(),
        complete: answer.complete,
        hits,
        next: part.next,
    })
}

/// How many messages the parts before had: the best come first, so there is no other place.
fn told_before(sought: &For) -> Result<usize, Fault> {
    let told = after(sought.cursor.as_deref())?.unwrap_or(0);
    if told > DEEPEST {
        let detail = format!("no more than {DEEPEST} messages are told: search for rarer words");
        return Err(Fault::new(Code::Refused, detail));
    }
    Ok(told)
}
