//! The known keys and their permitted values.
//!
//! One table of keys serves the configuration, another the agent files. Checking a document reports
//! every error with its position and leaves a valid document.

use std::net::SocketAddr;

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, nearest, suggestion};
use crate::document::{Entry, Node, Table, Value};

/// The permitted values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Text that is not empty.
    Text,
    AnyText,
    /// A path; see [`crate::paths`].
    Path,
    /// A program: a name that is searched for, or a path.
    Program,
    /// The name of a prompt, or the path of its file.
    Prompt,
    /// A whole number between two limits.
    Whole(i64, i64),
    /// A share above 0, at most 1.
    Share,
    /// A share from 0, below 1.
    Margin,
    /// A time: `"500ms"`, `"30s"`, `"2m"`, `"1h"`, or seconds as a number.
    Duration,
    /// A time of at least so many milliseconds.
    DurationFrom(u64),
    Choice(&'static [&'static str]),
    /// A number between two limits.
    Between(f64, f64),
    /// A JSON schema: a table, JSON text that begins with `{`, or the path of a file with it.
    Schema,
    /// An address to listen on: `"127.0.0.1:7007"`.
    Address,
    /// `true` or `false`.
    Flag,
    Texts,
    TextMap,
    Section(&'static [Key]),
    /// Tables of these keys, by name.
    Named(&'static [Key]),
    /// A key that a person might expect, and the reason why it does not exist.
    Refused(&'static str),
}

/// Keys by which other programs know a key, where the spelling would suggest a wrong one.
const OF_OTHERS: [(&str, &str); 9] = [
    ("maxTurns", "max_model_calls"),
    ("max_turns", "max_model_calls"),
    ("max_iter", "max_model_calls"),
    ("max_steps", "max_model_calls"),
    ("max_execution_time", "timeout"),
    ("disallowedTools", "deny_tools"),
    ("mcpServers", "mcp_servers"),
    ("prompt", "instructions"),
    ("system_prompt", "instructions"),
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

pub(crate) const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

/// Whether the text of a [`Kind::Schema`] is the schema itself, and not the path of its file.
pub(crate) fn is_inline_schema(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The kind of the value at the end of a path of keys.
pub(crate) fn kind_at(keys: &'static [Key], path: &[String]) -> Option<Kind> {
    let (name, rest) = path.split_first()?;
    let kind = keys.iter().find(|key| key.name == name)?.kind;
    match (kind, rest) {
        (_, []) => Some(kind),
        (Kind::Section(keys), rest) => kind_at(keys, rest),
        (Kind::Named(keys), [_, rest @ ..]) if !rest.is_empty() => kind_at(keys, rest),
        (Kind::TextMap, [_]) => Some(Kind::AnyText),
        _ => None,
    }
}

/// A path whose unknown keys are replaced by the most similar ones of their tables; none if a key is
/// similar to none.
pub(crate) fn similar_path(keys: &'static [Key], path: &[String]) -> Option<Vec<String>> {
    let (name, rest) = path.split_first()?;
    let known = || {
        let all = keys.iter();
        all.filter(|key| !matches!(key.kind, Kind::Refused(_)))
    };
    let meant = match known().any(|key| key.name == name) {
        true => name.as_str(),
        false => translated(name, keys).or_else(|| nearest(name, known().map(|key| key.name)))?,
    };
    let kind = keys.iter().find(|key| key.name == meant)?.kind;
    let mut whole = vec![meant.to_owned()];
    match (kind, rest) {
        (_, []) => {}
        (Kind::Section(keys), rest) => whole.extend(similar_path(keys, rest)?),
        (Kind::Named(keys), [of, rest @ ..]) if !of.is_empty() && !rest.is_empty() => {
            whole.push(of.clone());
            whole.extend(similar_path(keys, rest)?);
        }
        _ => return None,
    }
    Some(whole)
}

/// Converts the text of a variable or flag to the kind of its key. Unsuitable text stays text, and
/// the check reports it.
pub(crate) fn coerce(raw: &str, kind: Option<Kind>) -> Value {
    let text = || Value::Text(raw.to_owned());
    match kind {
        Some(Kind::Whole(..) | Kind::Duration | Kind::DurationFrom(_)) => {
            let digits = raw.trim().replace('_', "");
            digits.parse().map_or_else(|_| text(), Value::Integer)
        }
        Some(Kind::Share | Kind::Margin | Kind::Between(..)) => {
            raw.trim().parse().map_or_else(|_| text(), Value::Float)
        }
        Some(Kind::Flag) => raw.trim().parse().map_or_else(|_| text(), Value::Bool),
        _ => text(),
    }
}

/// The items in the text of a variable or flag for a list: a TOML array of texts, or commas between
/// the items.
pub(crate) fn coerce_list(raw: &str) -> Vec<String> {
    toml_array(raw).unwrap_or_else(|| {
        let items = raw.split(',').map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    })
}

fn toml_array(raw: &str) -> Option<Vec<String>> {
    let raw = raw.trim();
    // The text may close the array and continue with other keys.
    let table: toml::Table = raw
        .starts_with('[')
        .then(|| format!("a = {raw}"))?
        .parse()
        .ok()?;
    let items = table.get("a").filter(|_| table.len() == 1)?.as_array()?;
    let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
    texts.collect()
}

/// Checks a table against its keys and keeps the valid part. `path` leads to the table.
pub(crate) fn check(table: &mut Table, keys: &[Key], path: &str, found: &mut Diagnostics) {
    table.retain(|entry| {
        let dotted = join(path, &entry.key);
        match keys.iter().find(|key| key.name == entry.key) {
            Some(key) => check_node(&mut entry.node, key.kind, &dotted, found),
            None => {
                found.push(unknown(entry, keys, path, &dotted));
                false
            }
        }
    });
}

fn check_node(node: &mut Node, kind: Kind, path: &str, found: &mut Diagnostics) -> bool {
    match (kind, &mut node.value) {
        (Kind::Section(keys), Value::Table(table)) => {
            check(table, keys, path, found);
            true
        }
        (Kind::Named(keys), Value::Table(tables)) => {
            tables.retain(|entry| {
                let path = join(path, &entry.key);
                check_node(&mut entry.node, Kind::Section(keys), &path, found)
            });
            true
        }
        (Kind::TextMap, Value::Table(table)) => {
            let mut fits = true;
            for entry in table.iter() {
                if entry.node.value.as_text().is_none() {
                    // The value of a header or a variable may be a secret.
                    let (path, kind) = (join(path, &entry.key), entry.node.value.kind());
                    let problem = format!("`{path}` must be text, not {kind}");
                    found.push(Diagnostic::error(entry.node.place.clone(), problem).with_key(path));
                    fits = false;
                }
            }
            fits
        }
        (Kind::Refused(why), _) => {
            let problem = format!("`{path}` cannot be set: {why}");
            found.push(Diagnostic::error(node.place.clone(), problem).with_key(path));
            false
        }
        (_, value) => match fault(value, kind) {
            None => true,
            Some(expected) => {
                let problem = format!("`{path}` must be {expected}, not {}", shown(value));
                found.push(Diagnostic::error(node.place.clone(), problem).with_key(path));
                false
            }
        },
    }
}

/// The expected value, if the value is invalid.
fn fault(value: &Value, kind: Kind) -> Option<String> {
    let fits = match (kind, value) {
        (Kind::AnyText, Value::Text(_)) => true,
        (Kind::Text | Kind::Path | Kind::Program | Kind::Prompt, Value::Text(text)) => {
            !text.trim().is_empty()
        }
        (Kind::Whole(least, most), Value::Integer(n)) => (least..=most).contains(n),
        (Kind::Share, Value::Float(x)) => *x > 0.0 && *x <= 1.0,
        (Kind::Share, Value::Integer(n)) => *n == 1,
        (Kind::Margin, Value::Float(x)) => *x >= 0.0 && *x < 1.0,
        (Kind::Margin, Value::Integer(n)) => *n == 0,
        (Kind::Duration, Value::Integer(n)) => duration_ms(&n.to_string()).is_some(),
        (Kind::Duration, Value::Text(text)) => duration_ms(text).is_some(),
        (Kind::DurationFrom(least), Value::Integer(n)) => {
            duration_ms(&n.to_string()).is_some_and(|ms| ms >= least)
        }
        (Kind::DurationFrom(least), Value::Text(text)) => {
            duration_ms(text).is_some_and(|ms| ms >= least)
        }
        (Kind::Choice(words), Value::Text(word)) => words.contains(&word.as_str()),
        (Kind::Between(least, most), Value::Float(x)) => (least..=most).contains(x),
        (Kind::Between(least, most), Value::Integer(n)) => (least..=most).contains(&(*n as f64)),
        (Kind::Schema, Value::Text(text)) => !text.trim().is_empty(),
        (Kind::Schema, Value::Table(_)) => true,
        (Kind::Address, Value::Text(text)) => text.parse::<SocketAddr>().is_ok(),
        (Kind::Flag, Value::Bool(_)) => true,
        (Kind::Texts, Value::List(items)) => items.iter().all(|n| n.value.as_text().is_some()),
        _ => false,
    };
    (!fits).then(|| expected(kind))
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text => "text that is not empty".to_owned(),
        Kind::AnyText => "text".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Program => "a program".to_owned(),
        Kind::Prompt => "the name of a prompt, or the path of its file".to_owned(),
        Kind::Whole(least, i64::MAX) => format!("a whole number, at least {least}"),
        Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Share => "a share above 0, at most 1".to_owned(),
        Kind::Margin => "a share from 0, below 1".to_owned(),
        Kind::Duration => "a time such as \"30s\" or \"2m\"".to_owned(),
        Kind::DurationFrom(least) => {
            format!("a time of at least {least} ms, such as \"30s\" or \"2m\"")
        }
        Kind::Choice(words) => format!("one of {}", words.join(", ")),
        Kind::Between(least, most) => format!("a number from {least} to {most}"),
        Kind::Schema => "a JSON schema, or the path of a file with one".to_owned(),
        Kind::Address => "an address with a port such as \"127.0.0.1:7007\"".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::TextMap => "a table of texts".to_owned(),
        Kind::Section(_) | Kind::Named(_) => "a table".to_owned(),
        Kind::Refused(_) => "left out".to_owned(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Text(text) => {
            let head: String = text.chars().take(40).collect();
            format!("{head:?}")
        }
        Value::List(items) => match items.iter().find(|item| item.value.as_text().is_none()) {
            Some(item) => format!("a list with {}", shown(&item.value)),
            None => value.kind().to_owned(),
        },
        other => other.kind().to_owned(),
    }
}

fn unknown(entry: &Entry, keys: &[Key], path: &str, dotted: &str) -> Diagnostic {
    let place = if path.is_empty() {
        String::new()
    } else {
        format!(" in [{path}]")
    };
    let problem = format!("unknown key `{}`{place}", entry.key);
    let settable = keys
        .iter()
        .filter(|key| !matches!(key.kind, Kind::Refused(_)));
    let known = settable.map(|key| key.name);
    // A person's flag is intended; a file may come from another version.
    let is_typed = matches!(*entry.place.origin, Origin::Flag(_) | Origin::Env(_));
    let place = entry.place.clone();
    let diagnostic = match is_typed {
        true => Diagnostic::error(place, problem),
        false => Diagnostic::warning(place, problem),
    };
    let mut diagnostic = diagnostic.with_key(dotted);
    diagnostic.help = match translated(&entry.key, keys) {
        Some(key) => Some(format!("did you mean `{key}`?")),
        None if entry.key == "name" && keys.iter().any(|key| key.name == "instructions") => {
            Some("remove it: an agent has the name of its file or table".to_owned())
        }
        None => suggestion(&entry.key, known),
    };
    diagnostic.unknown_key = true;
    diagnostic
}

/// The corresponding key for a key of another program.
fn translated(name: &str, keys: &[Key]) -> Option<&'static str> {
    let (_, own) = OF_OTHERS.iter().find(|(other, _)| *other == name)?;
    keys.iter().any(|key| key.name == *own).then_some(*own)
}

/// The dotted path of a key in the table at `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = if key.chars().all(bare) && !key.is_empty() {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// Joins keys with dots; a key with other characters than letters, digits, `_` and `-` is quoted.
pub(crate) fn dotted(path: &[String]) -> String {
    path.iter()
        .fold(String::new(), |path, key| join(&path, key))
}

/// The milliseconds of `"500ms"`, `"30s"`, `"2m"`, `"1h"` or `"90"` (seconds); none for anything
/// else, for zero, and for more than a year.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=YEAR_MS).contains(&ms).then_some(ms)
}
