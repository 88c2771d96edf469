//! JSON values with their position in the file's text.
//!
//! A [`Value`] is a piece of that text, so that errors have a line and a column, and tool arguments
//! are kept word for word.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::source::Problem;

/// The maximum number of levels of a message's lists and objects.
const MOST_LEVELS: usize = 128;

/// One JSON value, without surrounding white space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'t>(&'t str);

#[derive(Clone, Debug)]
pub(super) struct Object<'t> {
    whole: Value<'t>,
    fields: Vec<(String, Value<'t>)>,
}

impl<'t> Value<'t> {
    /// Parses the single value in `text`.
    pub(super) fn parse(text: &'t str) -> Result<Value<'t>, Problem<'t>> {
        serde_json::from_str::<&RawValue>(text)
            .map(|raw| Value(raw.get()))
            .map_err(|error| problem(text, &error))
    }

    /// The problem of a value with too many levels of lists and objects. Formats whose contents nest
    /// are read recursively.
    pub(super) fn shallow(self) -> Result<(), Problem<'t>> {
        match is_deep(self.0) {
            true => Err(self.wrong(format!("it is nested in more than {MOST_LEVELS} levels"))),
            false => Ok(()),
        }
    }

    pub(super) fn raw(self) -> &'t str {
        self.0
    }

    pub(super) fn wrong(self, reason: impl Into<String>) -> Problem<'t> {
        Problem::new(self.0, reason)
    }

    pub(super) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(super) fn is_text(self) -> bool {
        self.0.starts_with('"')
    }

    pub(super) fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    pub(super) fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub(super) fn text(self) -> Result<Cow<'t, str>, Problem<'t>> {
        if !self.is_text() {
            return Err(self.wrong(format!("text was expected, not {}", self.kind())));
        }
        let inner = &self.0[1..self.0.len() - 1];
        if !inner.contains('\\') {
            return Ok(Cow::Borrowed(inner));
        }
        let text: Result<String, _> = serde_json::from_str(self.0);
        text.map(Cow::Owned)
            .map_err(|error| problem(self.0, &error))
    }

    pub(super) fn array(self) -> Result<Vec<Value<'t>>, Problem<'t>> {
        if !self.is_array() {
            return Err(self.wrong(format!("a list was expected, not {}", self.kind())));
        }
        let items: Result<Vec<&RawValue>, _> = serde_json::from_str(self.0);
        items
            .map(|items| items.into_iter().map(|raw| Value(raw.get())).collect())
            .map_err(|error| problem(self.0, &error))
    }

    pub(super) fn object(self) -> Result<Object<'t>, Problem<'t>> {
        if !self.is_object() {
            return Err(self.wrong(format!("an object was expected, not {}", self.kind())));
        }
        let mut deserializer = serde_json::Deserializer::from_str(self.0);
        match deserializer.deserialize_map(Fields) {
            Ok(fields) => Ok(Object {
                whole: self,
                fields,
            }),
            Err(error) => Err(problem(self.0, &error)),
        }
    }

    pub(super) fn number<T: serde::de::DeserializeOwned>(self) -> Result<T, Problem<'t>> {
        serde_json::from_str(self.0)
            .map_err(|_| self.wrong(format!("a whole number was expected, not {}", self.short())))
    }

    pub(super) fn bool(self) -> Result<bool, Problem<'t>> {
        serde_json::from_str(self.0)
            .map_err(|_| self.wrong(format!("true or false was expected, not {}", self.short())))
    }

    fn kind(self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'"') => "text",
            Some(b'[') => "a list",
            Some(b'{') => "an object",
            Some(b'n') => "null",
            Some(b't' | b'f') => "true or false",
            _ => "a number",
        }
    }

    fn short(self) -> String {
        match self.0.char_indices().nth(40) {
            Some((end, _)) => format!("{}…", &self.0[..end]),
            None => self.0.to_owned(),
        }
    }
}

impl<'t> Object<'t> {
    /// The value of a field; `None` if it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<Value<'t>> {
        self.any(key).filter(|value| !value.is_null())
    }

    /// The value of a field, including null. Of duplicate names the last one is used.
    pub(super) fn any(&self, key: &str) -> Option<Value<'t>> {
        let mut fields = self.fields.iter().rev();
        fields
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.any(key).is_some()
    }

    pub(super) fn need(&self, key: &str) -> Result<Value<'t>, Problem<'t>> {
        self.get(key)
            .ok_or_else(|| self.wrong(format!("`{key}` is missing")))
    }

    pub(super) fn text(&self, key: &str) -> Result<Cow<'t, str>, Problem<'t>> {
        self.need(key)?.text()
    }

    pub(super) fn opt_text(&self, key: &str) -> Result<Option<Cow<'t, str>>, Problem<'t>> {
        self.get(key).map(Value::text).transpose()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, Value<'t>)> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    }

    pub(super) fn wrong(&self, reason: impl Into<String>) -> Problem<'t> {
        self.whole.wrong(reason)
    }
}

struct Fields;

impl<'t> Visitor<'t> for Fields {
    type Value = Vec<(String, Value<'t>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &'t RawValue>()? {
            fields.push((key, Value(value.get())));
        }
        Ok(fields)
    }
}

/// Whether a valid value has too many levels.
fn is_deep(json: &str) -> bool {
    let begins = json.bytes().filter(|byte| matches!(byte, b'[' | b'{'));
    if begins.count() <= MOST_LEVELS {
        return false;
    }
    let (mut level, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => level += 1,
            b']' | b'}' if !in_text => level = level.saturating_sub(1),
            _ => {}
        }
        if level > MOST_LEVELS {
            return true;
        }
    }
    false
}

/// JSON with U+FFFD in place of each half of a character. Programs that cut a text between the two
/// escapes of a character write one of them. The length stays the same.
pub(super) fn without_halves(json: &str) -> Cow<'_, str> {
    let halves = halves(json);
    if halves.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut whole = json.to_owned();
    for at in halves {
        whole.replace_range(at..at + ESCAPE_BYTES, "\\ufffd");
    }
    Cow::Owned(whole)
}

/// The length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// The offsets of the escapes of halves without the other half.
fn halves(json: &str) -> Vec<usize> {
    let unit = |text: &str| {
        let digits = text.get(..ESCAPE_BYTES)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut at, mut found) = (0, Vec::new());
    while let Some(before) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += before;
        let rest = json.get(at..).unwrap_or_default();
        let second = rest.get(ESCAPE_BYTES..).and_then(unit);
        at += match (unit(rest), second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE_BYTES,
            (Some(0xd800..=0xdfff), _) => {
                found.push(at);
                ESCAPE_BYTES
            }
            (Some(_), _) => ESCAPE_BYTES,
            (None, _) => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
        };
    }
    found
}

/// The parser's error with its position in the text.
fn problem<'t>(text: &'t str, error: &serde_json::Error) -> Problem<'t> {
    let mut start = 0;
    for _ in 1..error.line() {
        start = text[start..]
            .find('\n')
            .map_or(text.len(), |at| start + at + 1);
    }
    let mut offset = (start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    Problem::new(&text[offset..], reason(error))
}

/// The message of a parser's error.
pub(super) fn reason(error: &serde_json::Error) -> String {
    if error.is_data() {
        return "a list was expected".to_owned();
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    match error.is_eof() {
        true => format!("this is not complete JSON, was it cut off? {message}"),
        false => reason_of(message),
    }
}

pub(super) fn reason_of(message: &str) -> String {
    format!("this is not JSON: {message}")
}
