//! Values that several formats share: times, names, usage, arguments of calls, notes of programs.

use std::sync::Arc;

use unisono_api::harmless::is_direction;
use unisono_context::message::{Part, ReportedUsage};
use unisono_context::{AgentId, Timestamp, Tokens};

use super::json::{Object, Value};
use super::source::Problem;

/// The keys of a conversation's title, the preferred one first.
pub(super) const TITLES: [&str; 2] = ["title", "name"];

/// The first of these fields that is a text and not empty.
pub(super) fn first_text(object: &Object<'_>, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| object.get(key)?.text().ok());
    texts.map(String::from).find(|text| !text.is_empty())
}

/// A time in RFC 3339, or in milliseconds since 1970.
pub(super) fn time(value: Value<'_>) -> Result<Timestamp, Problem<'_>> {
    if !value.is_text() {
        return value.number().map(Timestamp);
    }
    let text = value.text()?;
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(|time| Timestamp(time.as_millisecond()))
        .map_err(|_| {
            value.wrong(format!(
                "{text:?} is not a time such as 2026-03-02T09:14:00Z"
            ))
        })
}

/// The time in a field, in RFC 3339; `None` if it is missing or invalid.
pub(super) fn instant(object: &Object<'_>, key: &str) -> Option<Timestamp> {
    time(object.get(key).filter(|value| value.is_text())?).ok()
}

/// The time in a field, in seconds since 1970 as a number or a text; `None` if it is missing,
/// invalid, or not after 1970.
pub(super) fn seconds(object: &Object<'_>, key: &str) -> Option<Timestamp> {
    let value = object.get(key)?;
    let seconds: f64 = match value.is_text() {
        true => value.text().ok()?.parse().ok()?,
        false => value.number().ok()?,
    };
    let ms = (seconds * 1_000.0).round();
    // Up to the year 9999.
    (1.0..253_402_300_800_000.0)
        .contains(&ms)
        .then_some(Timestamp(ms as i64))
}

/// The author's `name`; `None` also if characters set its direction.
pub(super) fn author(object: &Object<'_>) -> Option<AgentId> {
    let name = object.get("name")?.text().ok()?;
    named(&name).filter(|_| !name.contains(is_direction))
}

/// An author with this name; `None` if it is blank, longer than 200 characters, or has control
/// characters.
pub(super) fn named(name: &str) -> Option<AgentId> {
    const CHARS: usize = 200;
    let fits = name.chars().take(CHARS + 1).count() <= CHARS && !name.contains(char::is_control);
    (fits && !name.trim().is_empty()).then(|| AgentId::new(name.trim()))
}

/// The reported usage as the sums of these fields; `None` without input.
pub(super) fn usage(object: &Object<'_>, input: &[&str], output: &[&str]) -> Option<ReportedUsage> {
    let sum = |keys: &[&str]| {
        let counts = keys.iter().filter_map(|key| object.get(key)?.number().ok());
        counts.reduce(|sum: u64, more: u64| sum.saturating_add(more))
    };
    Some(ReportedUsage {
        input: Tokens(sum(input)?),
        output: Tokens(sum(output).unwrap_or_default()),
    })
}

/// Puts a note before the text, on its first line.
pub(super) fn begin_with(note: &str, parts: &mut Vec<Part>) {
    match parts.first_mut() {
        Some(Part::Text(text)) => *text = format!("{note} {text}").into(),
        _ => parts.insert(0, Part::text(note)),
    }
}

/// The beginning and the end of a note that a program adds to a person's text.
pub(super) type Note = (&'static str, &'static str);

/// The rest of a text that begins with one of these notes; `None` for another text.
pub(super) fn without_first_note<'t>(text: &'t str, notes: &[Note]) -> Option<&'t str> {
    let text = text.trim_start();
    notes.iter().find_map(|&(begin, end)| {
        let (_, rest) = text.strip_prefix(begin)?.split_once(end)?;
        Some(rest)
    })
}

/// The arguments of a call from a text: an object verbatim, anything else as the `input` of an
/// object.
pub(super) fn arguments(text: &str) -> Arc<str> {
    let object = Value::parse(text).is_ok_and(Value::is_object);
    match object {
        true => text.into(),
        false => {
            let text = serde_json::to_string(text).unwrap_or_default();
            format!("{{\"input\":{text}}}").into()
        }
    }
}
