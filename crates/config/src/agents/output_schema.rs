//! The JSON schema of an agent's answers: a table of its definition, JSON text, or a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use unisono_context::AgentId;
use unisono_runtime::schema_fault;

use super::files::Source;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{Table, Value};
use crate::schema::is_inline_schema;

const KEY: &str = "output_schema";

/// The file with the schema, if it is in one.
pub(super) fn file(source: &Source) -> Option<PathBuf> {
    let text = source.text(KEY)?;
    (!is_inline_schema(text)).then(|| text.into())
}

/// The schema as JSON text, keys in their written order: models answer in that order. None if there
/// is no schema, or an invalid one, which is reported.
pub(super) fn schema_text(source: &Source, found: &mut Diagnostics) -> Option<Arc<str>> {
    let node = source.table.get(KEY)?;
    let (text, from) = match &node.value {
        Value::Table(table) => (json_of(table), String::new()),
        Value::Text(text) if is_inline_schema(text) => (text.clone(), String::new()),
        Value::Text(path) => match std::fs::read_to_string(path) {
            Ok(text) => (text, format!("{}: ", shown(path))),
            Err(error) => {
                let problem = format!("agent `{}`: {path} cannot be read: {error}", source.id);
                let help = "write the schema as a table, as JSON text, or the path of a file";
                found.push(diagnostic(source, problem).help(help));
                return None;
            }
        },
        _ => return None,
    };
    let problem = match object(&text) {
        Ok(schema) => match schema_fault(&schema) {
            None => return Some(schema),
            Some(fault) => not_checkable(&source.id, &from, &fault),
        },
        Err(fault) => not_a_schema(&source.id, &from, &fault),
    };
    found.push(diagnostic(source, problem));
    None
}

fn shown(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn diagnostic(source: &Source, problem: String) -> Diagnostic {
    Diagnostic::error(source.key_place(KEY), problem).with_key(KEY)
}

fn not_a_schema(agent: &AgentId, from: &str, fault: &str) -> String {
    format!("agent `{agent}`: {from}`{KEY}` is not a JSON object: {fault}")
}

fn not_checkable(agent: &AgentId, from: &str, fault: &str) -> String {
    format!("agent `{agent}`: {from}`{KEY}` is not a JSON schema that can be checked: {fault}")
}

/// The text of a JSON object, without surrounding text.
fn object(text: &str) -> Result<Arc<str>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if raw.get().starts_with('{') {
        Ok(raw.get().into())
    } else {
        Err("it does not begin with `{`".to_owned())
    }
}

fn json_of(table: &Table) -> String {
    let entries = table.iter().map(|entry| {
        let key = serde_json::Value::from(entry.key.as_str());
        format!("{key}:{}", json(&entry.node.value))
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(n) => n.to_string(),
        // A fraction without a JSON form (NaN, infinity) is null.
        Value::Float(x) => serde_json::Value::from(*x).to_string(),
        Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Value::List(items) => {
            let items = items.iter().map(|node| json(&node.value));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        Value::Table(table) => json_of(table),
    }
}
