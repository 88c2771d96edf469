//! `/v1/settings`: what is set, where it comes from, and what can be changed while the daemon runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use unisono_api::settings::{Changes, Setting};
use unisono_api::turn::Settings;
use unisono_api::{Code, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Fault;
use super::{Shared, extract};
use crate::config::{self, Override};
use crate::daemon::NotChanged;

/// The model of agents that name none: the one setting that is not kept but can be chosen for one
/// request.
const DEFAULT_MODEL: &str = "models.default";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list, change))
}

/// Every setting with its value and where it was written.
#[utoipa::path(
    get, path = "/v1/settings", tag = "settings", security(("token" = [])),
    responses((status = 200, description = "The settings", body = Vec<Setting>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn list(State(shared): State<Arc<Shared>>) -> Json<Vec<Setting>> {
    Json(all(&shared))
}

/// Every setting.
pub(super) fn all(shared: &Shared) -> Vec<Setting> {
    let all = shared.daemon.setup().loaded.show();
    let each = all.into_iter().map(|setting| Setting {
        changeable: config::is_changeable(&setting.key),
        origin: setting.place.to_string(),
        key: setting.key,
        value: setting.value,
    });
    each.collect()
}

/// Changes settings for turns that begin after it. They are kept beside the journal, win over the
/// settings files, and give way to environment variables and flags. All are changed, or none.
#[utoipa::path(
    patch, path = "/v1/settings", tag = "settings", security(("token" = [])),
    request_body = Changes,
    responses((status = 200, description = "The settings now", body = Vec<Setting>),
              (status = "default", description = "A problem: what is wrong, and where", body = Problem))
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
    shared.daemon.change_settings(changes).await?;
    Ok(Json(all(&shared)))
}

/// The settings of a request that count for it alone.
pub(super) fn of_request(settings: &Settings) -> Result<Vec<Override>, Fault> {
    let each = settings.iter().map(|(key, value)| {
        if !config::is_changeable(key) && key != DEFAULT_MODEL {
            let detail = format!(
                "`{key}` cannot be set for one request: the daemon's own counts; keys of `run`, \
                 `delegation`, `agent_defaults`, of the policy in `compaction`, and \
                 `{DEFAULT_MODEL}` can"
            );
            return Err(Fault::new(Code::Refused, detail));
        }
        let value = as_text(value).ok_or_else(|| wrong(key))?;
        Ok(Override::new("the request", key, value))
    });
    each.collect()
}

/// A value as on a command line, the items of a list separated by commas.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(as_text).collect();
            Some(items?.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

fn wrong(key: &str) -> Fault {
    let detail = format!("`{key}`: a value is a text, a number, true or false, or a list of texts");
    Fault::new(Code::Refused, detail)
}

fn as_toml(key: &str, value: Value) -> Result<toml::Value, Fault> {
    match value {
        Value::String(text) => Ok(text.into()),
        Value::Bool(flag) => Ok(flag.into()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(whole.into()),
            (None, Some(fraction)) => Ok(fraction.into()),
            (None, None) => Err(wrong(key)),
        },
        Value::Array(items) => {
            let items = items.into_iter().map(|item| as_toml(key, item));
            Ok(toml::Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Null | Value::Object(_) => Err(wrong(key)),
    }
}

impl From<NotChanged> for Fault {
    fn from(error: NotChanged) -> Fault {
        let code = match &error {
            NotChanged::Key(_) | NotChanged::Wrong(_) => Code::Refused,
            NotChanged::Store(_) => Code::Unavailable,
        };
        Fault::new(code, error.to_string())
    }
}
