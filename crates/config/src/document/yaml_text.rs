//! Markdown with YAML front matter. Top-level keys of the front matter have their own line; nested
//! values have the position of their top-level key.

use super::{Entry, Node, Table, Value, yaml_size};
use crate::diagnostic::{Diagnostic, Origin, Place, Text};

const FENCE: &str = "---";

pub(super) fn parse(origin: Origin, text: &str) -> Result<(Table, &str), Box<Diagnostic>> {
    let positions = Text::new(origin, text);
    let at = |offset: usize| positions.place(offset);
    let bare = text.trim_start_matches('\u{feff}');
    let Some((front, body)) = split(bare) else {
        let problem = "there is no front matter: the first line must be `---`, and another `---` must close it";
        let help = "start the file with `---`, `description: …`, `---`";
        return Err(Box::new(Diagnostic::error(at(0), problem).help(help)));
    };
    let start = front.as_ptr() as usize - text.as_ptr() as usize;
    Ok((
        table(front, "the front matter", &|offset| at(start + offset))?,
        body,
    ))
}

/// Front matter that is not YAML, line by line.
pub(super) fn lines(origin: Origin, text: &str) -> Option<(Table, &str)> {
    let positions = Text::new(origin, text);
    let (front, body) = split(text.trim_start_matches('\u{feff}'))?;
    let mut offset = front.as_ptr() as usize - text.as_ptr() as usize;
    let mut entries: Vec<Entry> = Vec::new();
    for line in front.split_inclusive('\n') {
        let begins = line.split_once(':').filter(|(key, _)| is_key(key));
        match (begins, entries.last_mut()) {
            (Some((key, value)), _) => {
                let place = positions.place(offset);
                let node = Node {
                    value: Value::Text(unquoted(value.trim()).to_owned()),
                    place: place.clone(),
                };
                entries.push(Entry {
                    key: key.to_owned(),
                    place,
                    node,
                });
            }
            (None, Some(entry)) => {
                if let Value::Text(text) = &mut entry.node.value {
                    text.push('\n');
                    text.push_str(line.trim_end());
                }
            }
            (None, None) => {}
        }
        offset += line.len();
    }
    Some((entries.into_iter().collect(), body))
}

fn is_key(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(word)
}

fn unquoted(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

pub(super) fn whole(origin: Origin, text: &str) -> Result<Table, Box<Diagnostic>> {
    let positions = Text::new(origin, text);
    table(text, "the file", &|offset| positions.place(offset))
}

fn table(text: &str, what: &str, at: &dyn Fn(usize) -> Place) -> Result<Table, Box<Diagnostic>> {
    let value = yaml_size::check(text).and_then(|()| serde_norway::from_str(text));
    let value: serde_norway::Value = value.map_err(|error| {
        let offset = error.location().map_or(0, |l| l.index());
        let problem = format!("{what} is not YAML: {}", without_location(&error));
        Box::new(Diagnostic::error(at(offset), problem))
    })?;
    let serde_norway::Value::Mapping(mapping) = value else {
        if value.is_null() {
            return Ok(Table::default());
        }
        let problem = format!("{what} must be keys with values");
        return Err(Box::new(Diagnostic::error(at(0), problem)));
    };
    let entries = mapping.into_iter().map(|(key, value)| {
        let key = key_text(&key);
        let place = at(key_offset(text, &key).unwrap_or(0));
        Entry {
            node: node(value, &place),
            key,
            place,
        }
    });
    Ok(entries.collect())
}

/// The text between the fences, and the text after them.
fn split(text: &str) -> Option<(&str, &str)> {
    let first = text.lines().next()?;
    if first.trim_end() != FENCE {
        return None;
    }
    let rest = text.get(first.len()..)?;
    let rest = rest.strip_prefix('\r').unwrap_or(rest);
    let front = rest.strip_prefix('\n')?;
    let mut offset = 0;
    for line in front.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Some((&front[..offset], &front[offset + line.len()..]));
        }
        offset += line.len();
    }
    None
}

/// The library ends its messages with "at line L column C", counted only in the front matter.
fn without_location(error: &serde_norway::Error) -> String {
    let text = error.to_string();
    match text.find(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

fn key_text(key: &serde_norway::Value) -> String {
    match key {
        serde_norway::Value::String(text) => text.clone(),
        serde_norway::Value::Bool(value) => value.to_string(),
        serde_norway::Value::Number(number) => number.to_string(),
        _ => "?".to_owned(),
    }
}

/// The position of a top-level key.
fn key_offset(front: &str, key: &str) -> Option<usize> {
    let mut offset = 0;
    for line in front.split_inclusive('\n') {
        let bare = line.trim_start_matches(['"', '\'']);
        if let Some(rest) = bare.strip_prefix(key)
            && rest
                .trim_start_matches(['"', '\''])
                .trim_start()
                .starts_with(':')
        {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

fn node(value: serde_norway::Value, place: &Place) -> Node {
    use serde_norway::Value as Yaml;
    let value = match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Yaml::String(text) => Value::Text(text),
        Yaml::Sequence(items) => {
            Value::List(items.into_iter().map(|item| node(item, place)).collect())
        }
        Yaml::Mapping(mapping) => {
            let entries = mapping.into_iter().map(|(key, value)| Entry {
                key: key_text(&key),
                place: place.clone(),
                node: node(value, place),
            });
            Value::Table(entries.collect())
        }
        Yaml::Tagged(tagged) => return node(tagged.value, place),
    };
    Node {
        value,
        place: place.clone(),
    }
}
