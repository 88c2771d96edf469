//! Settings as requests have them.

use serde_json::Value;
use unisono_api::Code;
use unisono_api::turn::Settings;
use unisono_config::settings::Own;

use crate::error::Error;

/// The settings that a session is to have from its beginning.
pub fn of_new(settings: &Settings) -> Result<Own, Error> {
    let each = settings.iter().map(|(key, value)| {
        let text = as_text(value).ok_or_else(|| no_value(key))?;
        Ok((key.as_str().into(), text.into()))
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
