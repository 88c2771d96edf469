//! `/v1/settings` and `/v1/sessions/{session}/settings`: what is set, where it comes from, and what
//! can be changed while the daemon runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use unisono_api::settings::{Changes, Setting};
use unisono_runtime::Handle;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Path;
use super::problem::Fault;
use super::{Shared, extract, sessions};
use unisono::service::settings::{as_text, no_value};
use unisono_config::settings;
use unisono_config::setup::Setup;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, change))
        .routes(routes!(own, change_own))
}

/// Every setting with its value and where it was written.
#[utoipa::path(
    get, path = "/v1/settings", tag = "settings",
    responses((status = 200, description = "The settings", body = Vec<Setting>))
)]
async fn list(State(shared): State<Arc<Shared>>) -> Json<Vec<Setting>> {
    Json(all(&shared))
}

/// Every setting.
pub(super) fn all(shared: &Shared) -> Vec<Setting> {
    to_api(&shared.local.setup(), settings::is_changeable)
}

/// Every setting as it counts for a session.
pub(super) async fn of_session(shared: &Shared, session: &Handle) -> Result<Vec<Setting>, Fault> {
    let setup = shared.local.setup_of(session).await?;
    Ok(to_api(&setup, settings::is_settable))
}

fn to_api(setup: &Setup, changeable: fn(&str) -> bool) -> Vec<Setting> {
    let each = setup.loaded.show().into_iter().map(|setting| Setting {
        changeable: changeable(&setting.key),
        origin: setting.place.to_string(),
        key: setting.key,
        value: setting.value,
    });
    each.collect()
}

/// Changes settings for turns that begin after it. They are kept beside the journal, win over the
/// settings files, and give way to environment variables and flags. All are changed, or none.
#[utoipa::path(
    patch, path = "/v1/settings", tag = "settings",
    request_body = Changes,
    responses((status = 200, description = "The settings now", body = Vec<Setting>))
)]
async fn change(
    State(shared): State<Arc<Shared>>,
    extract::Json(new): extract::Json<Changes>,
) -> Result<Json<Vec<Setting>>, Fault> {
    let changes = new.changes.into_iter().map(|(key, value)| {
        let value = value.map(|value| as_toml(&key, value)).transpose()?;
        Ok((key, value))
    });
    let changes = changes.collect::<Result<BTreeMap<_, _>, Fault>>()?;
    shared.local.change_settings(changes).await?;
    Ok(Json(all(&shared)))
}

/// Every setting as it counts for turns of a session that begin now, with its value and where it
/// was written: `session` where it is the session's own.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/settings", tag = "settings",
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The settings", body = Vec<Setting>))
)]
async fn own(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Setting>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    of_session(&shared, &session).await.map(Json)
}

/// Changes settings for turns of a session that begin after it. They are kept with the session and
/// go with a copy of it, win over what is set for all sessions, and give way to environment
/// variables and flags. `null` leaves a key to the settings of all sessions again. All are changed,
/// or none.
#[utoipa::path(
    patch, path = "/v1/sessions/{session}/settings", tag = "settings",
    params(("session" = String, Path, description = "The session's id")),
    request_body = Changes,
    responses((status = 200, description = "The settings now", body = Vec<Setting>))
)]
async fn change_own(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(new): extract::Json<Changes>,
) -> Result<Json<Vec<Setting>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    change_of(&shared, &session, new.changes).await?;
    of_session(&shared, &session).await.map(Json)
}

/// Changes settings of a session.
pub(super) async fn change_of(
    shared: &Shared,
    session: &Handle,
    changes: impl IntoIterator<Item = (String, Option<Value>)>,
) -> Result<(), Fault> {
    let changes = changes.into_iter().map(|(key, value)| {
        let text = |value| as_text(&value).ok_or_else(|| Fault::from(no_value(&key)));
        let text = value.map(text).transpose()?;
        Ok((key, text))
    });
    let changes = changes.collect::<Result<_, Fault>>()?;
    Ok(shared.local.change_own(session, changes).await?)
}

fn as_toml(key: &str, value: Value) -> Result<toml::Value, Fault> {
    match value {
        Value::String(text) => Ok(text.into()),
        Value::Bool(flag) => Ok(flag.into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(whole.into()),
            (None, Some(fraction)) => Ok(fraction.into()),
            (None, None) => Err(no_value(key).into()),
        },
        Value::Array(items) => {
            let items = items.into_iter().map(|item| as_toml(key, item));
            Ok(toml::Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Null | Value::Object(_) => Err(no_value(key).into()),
    }
}
