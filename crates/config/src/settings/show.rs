//! Every setting with its value and its origin.

use figment::Provider;
use figment::value::Value;

use super::header;
use super::layers::Layers;
use crate::diagnostic::Place;
use crate::schema;

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its dotted key; a part with other characters than letters, digits, `_`, `-` is quoted.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// Its position.
    pub place: Place,
    /// Whether its value may be a secret.
    secret: bool,
}

/// The replacement of a value that may be a secret.
const HIDDEN: &str = "\"(not shown)\"";

/// The settings for display, without possible secrets.
pub(super) fn list(layers: &Layers) -> Vec<Setting> {
    let mut all = settings(layers);
    for setting in all.iter_mut().filter(|setting| setting.secret) {
        setting.value = HIDDEN.to_owned();
    }
    all
}

/// All settings with a value; settings that are missing in the defaults come last.
fn settings(layers: &Layers) -> Vec<Setting> {
    let merged = layers.figment().data().unwrap_or_default();
    let mut all = Vec::new();
    for (key, value) in merged.into_values().flatten() {
        leaves(layers, vec![key], value, &mut all);
    }
    all.sort_by_key(|(rank, setting)| (*rank, setting.key.clone()));
    all.into_iter().map(|(_, setting)| setting).collect()
}

/// The settings that differ in `now` from `before`, or are missing, except those of agents.
pub(super) fn differing(before: &Layers, now: &Layers) -> Vec<Setting> {
    let (before, now) = (settings(before), settings(now));
    let same = |a: &Setting, b: &Setting| a.key == b.key && a.value == b.value;
    let changed = now
        .iter()
        .filter(|setting| !before.iter().any(|known| same(known, setting)));
    let gone = before
        .iter()
        .filter(|setting| !now.iter().any(|known| known.key == setting.key));
    let settings = changed.chain(gone).cloned();
    settings
        .filter(|setting| !setting.key.starts_with("agents."))
        .collect()
}

fn leaves(layers: &Layers, path: Vec<String>, value: Value, all: &mut Vec<(usize, Setting)>) {
    if let Value::Dict(_, dict) = value {
        for (key, value) in dict {
            let mut path = path.clone();
            path.push(key);
            leaves(layers, path, value, all);
        }
        return;
    }
    let place = match layers.find(&path) {
        Some((_, entry)) => entry.place.clone(),
        None => return,
    };
    let setting = Setting {
        key: schema::dotted(&path),
        secret: value.as_str().is_some_and(|value| {
            header::is_hidden(&path, value) || has_password(&path, value) || is_variable(&path)
        }),
        value: toml(&value),
        place,
    };
    all.push((rank(&path), setting));
}

fn has_password(path: &[String], value: &str) -> bool {
    let is_address = path.iter().eq(["store", "url"]);
    let of_user = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('@'));
    // A list of `name=value` may have spaces around its signs.
    is_address
        && (of_user.is_some_and(|(user, _)| user.contains(':')) || value.contains("password"))
}

/// Whether a setting is a variable of a program.
fn is_variable(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path[..], ["mcp" | "hooks" | "agents", _, "env", _])
}

/// The section's position among all sections.
fn rank(path: &[String]) -> usize {
    let mut sections = super::keys::ALL.iter();
    let section = sections.position(|key| path.first().is_some_and(|first| first == key.name));
    section.unwrap_or(usize::MAX)
}

fn toml(value: &Value) -> String {
    match toml::Value::try_from(value) {
        Ok(value) => value.to_string(),
        Err(_) => format!("{value:?}"),
    }
}
