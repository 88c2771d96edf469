//! `/v1/sessions`: conversations.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use unisono_api::Page;
use unisono_api::service::Sessions as _;
use unisono_api::session::{ExportQuery, NewSession, Session, SessionListItem, SessionQuery};
use unisono_context::SessionId;
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, delete))
        .routes(routes!(export))
}

pub(super) async fn open(shared: &Shared, id: &str) -> Result<Handle, ApiError> {
    let id: SessionId = extract::id("session", id)?;
    Ok(shared.local.open(id).await?)
}

/// All sessions, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions",
    params(SessionQuery),
    responses((status = 200, description = "A part of the list", body = Page<SessionListItem>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<SessionQuery>,
) -> Result<Json<Page<SessionListItem>>, ApiError> {
    Ok(Json(shared.local.sessions(&query).await?))
}

/// Creates a session from a conversation.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions",
    request_body = NewSession,
    responses((status = 201, description = "It is on disk", body = Session))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    extract::Json(new): extract::Json<NewSession>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Session>), ApiError> {
    let body = shared.local.create_session(new).await?;
    let location = format!("/v1/sessions/{}", body.session);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(body),
    ))
}

/// A session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its id")),
    responses((status = 200, description = "The session", body = Session))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(shared.local.session(&id).await?))
}

/// The parameters of a deletion.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Deleting {
    /// Removes all data of the session from the journal and the search index before the response:
    /// the live data is rewritten. The directory `quarantine` of an earlier repair is not changed.
    /// Without `purge`, the next vacuum removes the bytes; the daemon starts a vacuum only if it
    /// saves enough (`store.vacuum_over_mib`).
    #[serde(default)]
    purge: bool,
}

/// Deletes a session permanently.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its id"), Deleting),
    responses((status = 204, description = "The session is deleted"))
)]
async fn delete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(how): Query<Deleting>,
) -> Result<StatusCode, ApiError> {
    shared.local.delete_session(&id, how.purge).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The media type of an exported file.
const TEXT: &str = "text/plain; charset=utf-8";

/// A session in a file format that `unisono import` and `/v1/imports` read.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/export", tag = "sessions",
    params(("session" = String, Path, description = "Its id"), ExportQuery),
    responses((status = 200, description = "The file", body = String, content_type = "text/plain"))
)]
async fn export(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<([(HeaderName, &'static str); 1], Body), ApiError> {
    let parts = shared.local.export(&id, &query).await?;
    Ok(([(header::CONTENT_TYPE, TEXT)], Body::from_stream(parts)))
}
