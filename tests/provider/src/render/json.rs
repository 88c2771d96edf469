//! JSON by hand, so that keys stand in the order in which providers send them.

use std::fmt::Display;

use serde_json::Value;

/// A string literal.
pub(crate) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// A string literal, or `null`.
pub(super) fn quote_or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "null".into(), quote)
}

/// A list.
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// A call's arguments as a value: as they are if they are JSON, else as a string.
pub(super) fn value(arguments: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => quote(arguments),
    }
}
