//! Which format a file is in, by its first object.

use super::Format;
use super::json::{Object, Value};
use super::source::{Problem, Problems};

/// What a file holds.
#[derive(Debug)]
pub(super) struct Found<'t> {
    pub(super) format: Format,
    /// Messages, or lines.
    pub(super) items: Vec<Value<'t>>,
    /// The object around the messages, if there is one.
    pub(super) outer: Option<Object<'t>>,
}

/// What an object tells of the file it is in.
enum Shape<'t> {
    /// It is a message or line of that format.
    Item(Format),
    /// It holds a conversation of that format.
    Whole(Format, Value<'t>),
}

/// Finds format and items. `Err` says what the file is instead.
pub(super) fn detect<'t>(
    text: &'t str,
    wanted: Option<Format>,
    problems: &mut Problems,
) -> Result<Found<'t>, String> {
    let items = match text.trim_start().chars().next() {
        Some('[') => array(text, problems),
        Some('{') => objects(text, problems),
        // Only lines that are not UTF-8, and those are reported.
        None => Vec::new(),
        Some(other) => return Err(format!("it starts with {other:?}, not with `{{` or `[`")),
    };
    let first = items.iter().find_map(|item| item.object().ok());
    match (first.as_ref().and_then(shape), wanted) {
        (Some(Shape::Item(format) | Shape::Whole(format, _)), Some(wanted)) if format != wanted => {
            Err(format!("it looks like {format}, not like {wanted}"))
        }
        (Some(Shape::Item(format)), _) => Ok(found(format, items, None)),
        (Some(Shape::Whole(..)), _) if items.len() > 1 => Err(format!(
            "it holds {} conversations; put each into a file of its own",
            items.len()
        )),
        (Some(Shape::Whole(format, messages)), _) => match messages.array() {
            Ok(items) => Ok(found(format, items, first)),
            Err(problem) => {
                problems.bad(text, problem);
                Ok(found(format, Vec::new(), None))
            }
        },
        (None, Some(format)) => Ok(found(format, items, None)),
        (None, None) if !problems.is_empty() => Ok(found(Format::OpenAi, Vec::new(), None)),
        (None, None) => Err(unknown(first.as_ref())),
    }
}

fn found<'t>(format: Format, items: Vec<Value<'t>>, outer: Option<Object<'t>>) -> Found<'t> {
    Found {
        format,
        items,
        outer,
    }
}

fn unknown(first: Option<&Object<'_>>) -> String {
    match first {
        Some(object) => {
            let keys: Vec<&str> = object.fields().map(|(key, _)| key).take(8).collect();
            format!("its first object has the keys {}", keys.join(", "))
        }
        None => "it holds no object".to_owned(),
    }
}

fn shape<'t>(object: &Object<'t>) -> Option<Shape<'t>> {
    let kind = object.get("type").and_then(|kind| kind.text().ok());
    let is_line = match kind.as_deref() {
        Some("session" | "branch" | "checkpoint") => true,
        Some("message") => object.has("parts"),
        _ => false,
    };
    if is_line || object.has("unisono") {
        return Some(Shape::Item(Format::Unisono));
    }
    let whole = [
        ("messages", Format::OpenAi),
        ("conversations", Format::ShareGpt),
        ("conversation", Format::ShareGpt),
    ];
    for (key, format) in whole {
        if let Some(messages) = object.get(key) {
            return Some(Shape::Whole(format, messages));
        }
    }
    let item = [("role", Format::OpenAi), ("from", Format::ShareGpt)];
    let item = item.into_iter().find(|(key, _)| object.has(key));
    item.map(|(_, format)| Shape::Item(format))
}

fn array<'t>(text: &'t str, problems: &mut Problems) -> Vec<Value<'t>> {
    match Value::parse(text).and_then(Value::array) {
        Ok(items) => items,
        Err(problem) => {
            problems.bad(text, problem);
            Vec::new()
        }
    }
}

/// One object, or one a line.
fn objects<'t>(text: &'t str, problems: &mut Problems) -> Vec<Value<'t>> {
    let whole = match Value::parse(text) {
        Ok(whole) => return vec![whole],
        Err(problem) => problem,
    };
    let mut items = Vec::new();
    let mut bad: Vec<Problem<'t>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match Value::parse(line) {
            Ok(item) => items.push(item),
            Err(problem) => bad.push(problem),
        }
    }
    if !items.iter().any(|item| item.is_object()) {
        // One object over several lines, and a broken one.
        bad = vec![whole];
        items.clear();
    }
    bad.into_iter()
        .for_each(|problem| problems.bad(text, problem));
    items
}
