//! `/v1/sessions/{session}/turns`: the turns of a session.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use unisono_api::service::Turns as _;
use unisono_api::session::EndedTurn;
use unisono_api::timeline::Timeline;
use unisono_api::turn::{NewTurn, Turn, TurnEstimate};
use unisono_api::{Code, Page, PageQuery};
use unisono_context::TurnId;
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use unisono_session::event::RequestKey;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::problem::ApiError;
use super::{Shared, events, sessions};
use crate::body_share::BodyShare;
use unisono::append::{self, KEY_CHARS};
use unisono::ask::Ask;
use unisono::history::{self, Lookup};
use unisono::service::requests;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(ended))
        .routes(routes!(estimate))
        .routes(routes!(show))
        .routes(routes!(timeline))
        .routes(routes!(cancel))
}

/// The turns of a session, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns", tag = "turns",
    params(("session" = String, Path, description = "The session's id"), PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<Turn>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Turn>>, ApiError> {
    Ok(Json(shared.local.turns(&id, &query).await?))
}

/// The ended turns of a session with their outcomes, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/ended-turns", tag = "turns",
    params(("session" = String, Path, description = "The session's id"), PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<EndedTurn>))
)]
async fn ended(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<EndedTurn>>, ApiError> {
    Ok(Json(shared.local.ended_turns(&id, &query).await?))
}

/// Gives a task to a session. Without `Accept: text/event-stream` the response waits for the
/// answer, unless `wait` is false; with it, the response streams the events of the turn, then the
/// turn.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "A repeated request with the same key returns the first turn, also after a crash")),
    request_body = NewTurn,
    responses((status = 200, description = "The turn has ended",
               content((Turn = "application/json"), (String = "text/event-stream"))),
              (status = 202, description = "The turn is accepted", body = Turn))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Extension(body): Extension<BodyShare>,
    headers: HeaderMap,
    extract::Json(mut new): extract::Json<NewTurn>,
) -> Result<Response, ApiError> {
    let session = sessions::open(&shared, &id).await?;
    let how = ResponseMode::from_headers(&headers, new.wait);
    // The form of the response does not make another request.
    new.wait = true;
    let ask = requests::task(&new)?.with_key(key(&headers, &new)?);
    let (local, attachments) = (&shared.local, &new.attachments);
    let ask = local.with_attachments(&session, ask, attachments).await?;
    drop(new);
    answer(&shared, &session, (ask, &body), how, read).await
}

/// The header with the idempotency key.
const KEY: &str = "idempotency-key";

/// The idempotency key of a request, if it has one, with a digest of the request. The digest ignores
/// the form of the response.
pub(super) fn key(
    headers: &HeaderMap,
    request: &impl Serialize,
) -> Result<Option<RequestKey>, ApiError> {
    let Some(name) = key_name(headers) else {
        return Ok(None);
    };
    let detail = |_| format!("Idempotency-Key must be 1 to {KEY_CHARS} characters of ASCII");
    let key = append::key(name, request).map_err(detail);
    key.map(Some)
        .map_err(|detail| ApiError::new(Code::InvalidRequest, detail))
}

/// The idempotency key of a request, if any.
pub(super) fn key_name(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(KEY)?;
    Some(name.to_str().unwrap_or_default())
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseMode {
    /// As a stream of events.
    events: bool,
    /// Responds after the end of the turn; otherwise as soon as it is accepted.
    wait: bool,
}

impl ResponseMode {
    /// As the request says.
    pub(super) fn from_headers(headers: &HeaderMap, wait: bool) -> ResponseMode {
        let mut accepted = headers.get_all(header::ACCEPT).iter();
        let events = accepted.any(|accept| {
            let accept = accept.to_str().unwrap_or_default();
            accept.contains("text/event-stream")
        });
        ResponseMode { events, wait }
    }
}

/// Accepts a turn and responds in the requested way: with a stream of its events, or with the value
/// of `tell`, at the end of the turn or as soon as it is accepted. While it waits for the end, it keeps
/// neither the ask nor the room of the body that it was read from.
pub(super) async fn answer<T: Serialize>(
    shared: &Arc<Shared>,
    session: &Handle,
    (ask, body): (Ask, &BodyShare),
    how: ResponseMode,
    tell: impl AsyncFnOnce(&Shared, &Handle, TurnId) -> Result<T, ApiError>,
) -> Result<Response, ApiError> {
    if how.events {
        return stream(shared, session, &ask).await;
    }
    let turn = shared.local.begin(session, &ask).await?;
    drop(ask);
    body.release();
    if how.wait {
        session.wait(turn).await?;
        return Ok(Json(tell(shared, session, turn).await?).into_response());
    }
    let body = tell(shared, session, turn).await?;
    let location = format!("/v1/sessions/{}/turns/{turn}", session.id());
    let location = [(header::LOCATION, location)];
    Ok((StatusCode::ACCEPTED, location, Json(body)).into_response())
}

/// Accepts a turn and responds with a stream of its events.
async fn stream(shared: &Arc<Shared>, session: &Handle, ask: &Ask) -> Result<Response, ApiError> {
    let name = ask.key().map(|key| key.name.clone());
    let look = move |state: &SessionState| {
        let known = name.as_ref().and_then(|name| state.turn_by_key(name));
        (state.events(), known.map(|(_, turn)| turn))
    };
    let (now, known) = session.inspect(look).await?;
    let place = events::reserve_stream(shared)?;
    let turn = shared.local.begin(session, ask).await?;
    let after = match known {
        Some(turn) => accepted(shared, session, turn).await?,
        None => now,
    };
    let stream = events::Stream::new(shared.clone(), session.clone(), after, place).await?;
    Ok(stream.until(turn).into_response())
}

/// The number of the event before a turn was accepted.
async fn accepted(shared: &Shared, session: &Handle, turn: TurnId) -> Result<u64, ApiError> {
    let journal = shared.local.journal();
    let trace = history::turn(journal, session, Lookup::Turn(turn)).await?;
    let found = trace.as_ref().and_then(|trace| trace.turn(turn));
    Ok(found.map_or(0, |turn| turn.accepted.0.seq.saturating_sub(1)))
}

pub(super) async fn read(
    shared: &Shared,
    session: &Handle,
    turn: TurnId,
) -> Result<Turn, ApiError> {
    Ok(shared.local.turn_of(session, turn).await?)
}

/// A turn in its current state.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "The turn", body = Turn))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Turn>, ApiError> {
    Ok(Json(shared.local.turn(&id, &turn).await?))
}

/// The tokens and the cost that a task is expected to use, without its attachments and results.
/// Nothing is started.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns/estimate", tag = "turns",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewTurn,
    responses((status = 200, description = "The estimate", body = TurnEstimate))
)]
async fn estimate(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<NewTurn>,
) -> Result<Json<TurnEstimate>, ApiError> {
    Ok(Json(shared.local.estimate_turn(&id, &new).await?))
}

/// The instants of a turn and of its runs.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns/{turn}/timeline", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "The instants", body = Timeline))
)]
async fn timeline(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Timeline>, ApiError> {
    Ok(Json(shared.local.timeline(&id, &turn).await?))
}

/// Cancels a turn and all its runs.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns/{turn}/cancel", tag = "turns",
    params(("session" = String, Path, description = "The session's id"),
           ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, description = "It is cancelled", body = Turn))
)]
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((id, turn)): Path<(String, String)>,
) -> Result<Json<Turn>, ApiError> {
    Ok(Json(shared.local.cancel_turn(&id, &turn).await?))
}
