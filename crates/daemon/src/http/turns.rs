//! `/v1/sessions/{session}/turns`: what is asked, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use unisono_api::Problem;
use unisono_api::turn::{NewTurn, Turn};
use unisono_context::TurnId;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path};
use super::problem::Fault;
use super::{Shared, events, record, sessions};
use crate::ask::Ask;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
        .routes(routes!(cancel))
}

/// Gives a session a task. Without `Accept: text/event-stream` the answer is waited for, unless
/// `wait` is false; with it, the turn's events are streamed, then the turn itself.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns", tag = "turns", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewTurn,
    responses((status = 200, description = "The turn has ended", body = Turn),
              (status = 202, description = "The turn is accepted", body = Turn),
              (status = "default", description = "A problem", body = Problem))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewTurn>,
) -> Result<Response, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (ask, wait) = (asked(&new), new.wait);
    let after = session.inspect(|state| state.events()).await?;
    let place = wants_events(&headers).then(|| events::place(&shared));
    let place = place.transpose()?;
    let turn = begin(&shared, &session, &ask).await?;
    if let Some(place) = place {
        let stream = events::Stream::new(shared, session, after, place).await?;
        return Ok(stream.until(turn).into_response());
    }
    if wait {
        shared.daemon.wait(&session, turn).await?;
        return Ok(Json(read(&shared, &session, turn).await?).into_response());
    }
    let body = read(&shared, &session, turn).await?;
    let location = format!("/v1/sessions/{}/turns/{turn}", session.id());
    Ok((
        StatusCode::ACCEPTED,
        [(header::LOCATION, location)],
        Json(body),
    )
        .into_response())
}

fn asked(new: &NewTurn) -> Ask {
    let ask = Ask::new(new.task.as_str()).branch(new.branch.as_str());
    let ask = match &new.lead {
        Some(lead) => ask.lead(lead.as_str()),
        None => ask,
    };
    match &new.agents {
        Some(agents) => ask.agents(agents.iter().map(String::as_str)),
        None => ask,
    }
}

/// Hands a turn in; it is cancelled when it takes longer than `run.timeout_seconds`.
pub(super) async fn begin(shared: &Shared, session: &Handle, ask: &Ask) -> Result<TurnId, Fault> {
    let turn = shared.daemon.begin(session, ask).await?;
    let allowed = shared.daemon.setup().loaded.config.run.timeout();
    tokio::spawn(bound(session.clone(), turn, allowed));
    Ok(turn)
}

/// Cancels a turn that takes too long.
async fn bound(session: Handle, turn: TurnId, allowed: Duration) {
    if tokio::time::timeout(allowed, session.wait(turn))
        .await
        .is_err()
        && let Err(error) = session.cancel(turn).await
    {
        tracing::debug!(%error, "a turn that took too long is not cancelled");
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|accept| {
        let accept = accept.to_str().unwrap_or_default();
        accept.contains("text/event-stream")
    })
}

/// A turn as it is now.
pub(super) async fn read(shared: &Shared, session: &Handle, turn: TurnId) -> Result<Turn, Fault> {
    let journal = shared.daemon.runtime().journal();
    let found = record::turn(journal, session.id(), turn).await?;
    found.ok_or_else(|| Fault::not_found("turn", turn))
}

/// A turn, as far as it has come.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}", tag = "turns", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "The turn", body = Turn),
              (status = "default", description = "A problem", body = Problem))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Turn>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let turn = extract::id("turn", &turn)?;
    Ok(Json(read(&shared, &session, turn).await?))
}

/// Stops a turn and all of its runs.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns/{turn}/cancel", tag = "turns",
    security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "It is cancelled", body = Turn),
              (status = "default", description = "A problem", body = Problem))
)]
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Turn>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let turn = extract::id("turn", &turn)?;
    session.cancel(turn).await?;
    Ok(Json(read(&shared, &session, turn).await?))
}
