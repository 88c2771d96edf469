//! `/v1/settings` and `/v1/sessions/{session}/settings`: settings with their values and origins,
//! and changes while the daemon runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use unisono_api::service::Settings;
use unisono_api::settings::{Changes, Setting, SettingKeys};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Path;
use super::problem::ApiError;
use super::{Shared, extract};
use crate::audit::Note;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, change))
        .routes(routes!(keys))
        .routes(routes!(own, change_own))
}

/// Every setting with its value and its origin.
#[utoipa::path(
    get, path = "/v1/settings", tag = "settings",
    responses((status = 200, description = "The settings", body = Vec<Setting>))
)]
async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Vec<Setting>>, ApiError> {
    Ok(Json(shared.local.settings().await?))
}

/// The keys that can be changed while the daemon runs, including keys without a value.
#[utoipa::path(
    get, path = "/v1/settings/keys", tag = "settings",
    responses((status = 200, description = "The keys", body = SettingKeys))
)]
async fn keys(State(shared): State<Arc<Shared>>) -> Result<Json<SettingKeys>, ApiError> {
    Ok(Json(shared.local.setting_keys().await?))
}

/// Changes settings for turns that begin later. The changes are stored beside the journal and
/// override the settings files; environment variables and flags override them. Either all changes
/// are made or none.
#[utoipa::path(
    patch, path = "/v1/settings", tag = "settings",
    request_body = Changes,
    responses((status = 200, description = "The settings now", body = Vec<Setting>))
)]
async fn change(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    extract::Json(new): extract::Json<Changes>,
) -> Result<Json<Vec<Setting>>, ApiError> {
    if new.dry_run {
        note.dry_run();
    }
    Ok(Json(Settings::change_settings(&*shared.local, &new).await?))
}

/// Every setting for turns of a session that begin now, with its value and its origin: `session`
/// for the overrides of the session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/settings", tag = "settings",
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The settings", body = Vec<Setting>))
)]
async fn own(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Setting>>, ApiError> {
    Ok(Json(shared.local.session_settings(&id).await?))
}

/// Changes settings for turns of a session that begin later. The changes are stored with the
/// session and included in its export. They override the settings of all sessions; environment
/// variables and flags override them. `null` removes an override. Either all changes are made or
/// none.
#[utoipa::path(
    patch, path = "/v1/sessions/{session}/settings", tag = "settings",
    params(("session" = String, Path, description = "The session's id")),
    request_body = Changes,
    responses((status = 200, description = "The settings now", body = Vec<Setting>))
)]
async fn change_own(
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<Changes>,
) -> Result<Json<Vec<Setting>>, ApiError> {
    if new.dry_run {
        note.dry_run();
    }
    let settings = shared.local.change_session_settings(&id, &new).await?;
    Ok(Json(settings))
}
