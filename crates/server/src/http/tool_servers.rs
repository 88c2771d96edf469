//! `/v1/sessions/{session}/tool-servers`: tool servers that a client brings with a session.
//!
//! They are connected as long as the client reads the response.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use unisono_api::service::ToolServers as _;
use unisono_api::tool_server::{ConnectedToolServer, NewToolServers};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::events::{KEEP_ALIVE, json, reserve_stream};
use super::extract::{self, Path};
use super::problem::ApiError;
use crate::turn_follower::stopped;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(connect))
}

/// Offers the tools of a client's servers to the agents of a session, from its next turn on, until
/// the client closes the connection. The daemon starts the programs.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/tool-servers", tag = "sessions",
    params(("session" = String, Path, description = "The session's id")),
    request_body = NewToolServers,
    responses((status = 200, body = ConnectedToolServer, content_type = "text/event-stream",
               description = "Server-sent events, named `server`: each server once it has answered \
                   or failed. The response does not end by itself"))
)]
async fn connect(
    State(shared): State<Arc<Shared>>,
    Path(session): Path<String>,
    extract::Json(new): extract::Json<NewToolServers>,
) -> Result<Response, ApiError> {
    let place = reserve_stream(&shared)?;
    let states = shared.local.connect_tool_servers(&session, &new).await?;
    let mut stopping = shared.stopping.clone();
    let events = states.filter_map(|state| async move {
        let event = sse::Event::default()
            .event("server")
            .data(json(&state.ok()?));
        Some(Ok::<_, Infallible>(event))
    });
    let end = Box::pin(async move {
        stopped(&mut stopping).await;
        drop(place);
    });
    let events = events.take_until(end);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}
