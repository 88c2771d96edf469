//! `/v1/sessions/{session}/turns/{turn}/events`: the updates of a turn, as server-sent events.
//!
//! The updates are those of [`unisono::follow`]. When the program stops, the stream ends with the
//! turn, or when the drain time is over.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use unisono_api::turn_event::TurnUpdate;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::events::{KEEP_ALIVE, StartPosition, reserve_stream, turn_update};
use super::extract::{self, Path, Query};
use super::past_events::ENDS_AFTER;
use super::problem::ApiError;
use crate::turn_follower::{Pauses, TurnFollower};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(follow))
}

/// The updates of a turn, up to its end. Without `after` and `Last-Event-ID` the current state of
/// the turn comes first; with `after=0`, all updates from its acceptance on.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}/events", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id"), StartPosition,
           ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last received update")),
    responses((status = 200, body = TurnUpdate, content_type = "text/event-stream",
               description = "Server-sent events; the data of each is such an update, named by its \
                   `kind`. One that follows from an event of the journal has the number of that as \
                   its id. The last is `ended`"))
)]
async fn follow(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
    Query(from): Query<StartPosition>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (id, after) = (extract::id("session", &id)?, from.after(&headers)?);
    let turn = extract::id("turn", &turn)?;
    let place = reserve_stream(&shared)?;
    let pauses = Pauses::for_request(&headers, &shared.stopping, Some(ENDS_AFTER));
    let follower = TurnFollower::open(&shared.local, (id, turn), after, pauses).await?;
    let updates = stream::unfold((follower, shared, place), next);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(updates).keep_alive(keep_alive).into_response())
}

/// The parts of an open stream.
type Open = (TurnFollower, Arc<Shared>, OwnedSemaphorePermit);

async fn next(mut open: Open) -> Option<(Result<sse::Event, Infallible>, Open)> {
    match open.0.next().await {
        Ok(update) => Some((Ok(turn_update(&update?)), open)),
        Err(error) => {
            tracing::warn!(%error, "a stream of a turn ends early");
            None
        }
    }
}
