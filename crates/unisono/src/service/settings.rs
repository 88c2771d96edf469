//! Settings as requests have them.

use serde_json::Value;
use unisono_api::Code;
use unisono_api::turn::Settings;
use unisono_config::settings::own::{DEFAULT_MODEL, MODEL_OVERRIDE, is_of_request};
use unisono_config::settings::{Override, Own};

use crate::error::Error;

/// The settings that a session is to have from its beginning.
pub fn of_new(settings: &Settings) -> Result<Own, Error> {
    let each = settings.iter().map(|(key, value)| {
        let text = as_text(value).ok_or_else(|| no_value(key))?;
        Ok((key.as_str().into(), text.into()))
    });
    each.collect()
}

/// The settings of a request that count for it alone.
///
/// # Errors
/// One cannot be set for a request, or its value is none.
pub fn of_request(settings: &Settings) -> Result<Vec<Override>, Error> {
    let each = settings.iter().map(|(key, value)| {
        if !is_of_request(key) {
            let detail = format!(
                "`{key}` cannot be set for one request: the daemon's own counts; keys of `run`, \
                 `delegation`, `agent_defaults`, of the policy in `compaction`, and \
                 `{DEFAULT_MODEL}` and `{MODEL_OVERRIDE}` can"
            );
            return Err(Error::new(Code::Refused, detail));
        }
        let value = as_text(value).ok_or_else(|| no_value(key))?;
        Ok(Override::new("the request", key, value))
    });
    each.collect()
}

/// A value as on a command line, the items of a list separated by commas.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(as_text).collect();
            // A comma would end an item.
            let items = items.filter(|items| !items.iter().any(|item| item.contains(',')));
            Some(items?.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// What is no value of a setting.
pub fn no_value(key: &str) -> Error {
    let detail = format!(
        "`{key}`: a value is a text, a number, true or false, or a list of texts without commas"
    );
    Error::new(Code::Refused, detail)
}
