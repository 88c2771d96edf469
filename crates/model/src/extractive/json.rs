//! JSON flattened to lines, with the members in their original order.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::days::has_word;

/// Objects and arrays that fit in this many bytes stay on one line.
const INLINE_BYTES: usize = 200;

/// Plain members up to this many bytes stand on a line together.
const SHORT_BYTES: usize = 80;

/// Keys with these endings name their record.
const NAMING: [&str; 7] = ["id", "name", "number", "key", "code", "title", "path"];
/// Words that end like an id and are none.
const NO_IDS: &str =
    "avoid bid fluid grid hybrid invalid mid paid prepaid said solid unpaid valid void";
/// The maximum length of a name.
const NAME_BYTES: usize = 48;
/// A number with more digits may have another value as a floating-point number.
const EXACT_DIGITS: usize = 15;

/// The `key: value` lines of a JSON text; `None` if it is not JSON.
pub(super) fn lines(text: &str) -> Option<String> {
    // serde_json bounds the nesting, and with it the recursion below.
    let value: Json = match has_long_number(text) {
        true => {
            serde_json::from_str::<IgnoredAny>(text).ok()?;
            serde_json::from_str(&with_numbers_as_texts(text)).ok()?
        }
        false => serde_json::from_str(text).ok()?,
    };
    let mut out = String::new();
    value.write_lines("", &mut out);
    out.truncate(out.trim_end().len());
    Some(out)
}

fn has_long_number(text: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let mut numbers = text.as_bytes().split(|byte| !is_part(byte));
    numbers.any(|number| number.len() > EXACT_DIGITS)
}

/// A JSON text with quotation marks around its numbers, so that all their digits stay.
fn with_numbers_as_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut is_escaped, mut in_number) = (false, false, false);
    for c in text.chars() {
        let is_sign = matches!(c, '-' | '+' | '.');
        let is_exponent = in_number && matches!(c, 'e' | 'E');
        let is_number = !in_string && (c.is_ascii_digit() || is_sign || is_exponent);
        if is_number != in_number {
            out.push('"');
            in_number = is_number;
        }
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

/// Writes a line of a record, unless it is empty.
fn write_line(context: &str, line: &str, out: &mut String) {
    if line.is_empty() {
        return;
    }
    if !context.is_empty() {
        out.extend([context, ": "]);
    }
    out.extend([line, "\n"]);
}

enum Json {
    Plain(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// `context` is the name of the record, which each of its lines repeats.
    fn write_lines(&self, context: &str, out: &mut String) {
        let start = out.len();
        if !context.is_empty() {
            out.extend([context, ": "]);
        }
        let limit = out.len() + INLINE_BYTES;
        if self.write_inline(limit, out) {
            out.push('\n');
            return;
        }
        out.truncate(start);
        match self {
            Json::Plain(_) => {}
            Json::Array(items) => items.iter().for_each(|item| item.write_lines(context, out)),
            Json::Object(members) => Json::write_record(members, context, out),
        }
    }

    /// A record that is too long for a line: its short members together, then each longer one. A line
    /// without the member that names the record begins with the name.
    fn write_record(members: &[(String, Json)], context: &str, out: &mut String) {
        let naming = members.iter().find_map(|(key, value)| value.name(key));
        let named = match (context, naming) {
            ("", Some(name)) => name.to_owned(),
            (context, Some(name)) => format!("{context} {name}"),
            (context, None) => context.to_owned(),
        };
        let (mut line, mut has_name) = (String::new(), false);
        let each = members.iter();
        for (key, text) in each.filter_map(|(key, value)| Some((key, value.short()?))) {
            if line.len() + key.len() + text.len() > INLINE_BYTES {
                let context = if has_name { context } else { &named };
                write_line(context, &std::mem::take(&mut line), out);
                has_name = false;
            }
            has_name |= naming == Some(text);
            line.push_str(if line.is_empty() { "" } else { ", " });
            line.extend([key, ": ", text]);
        }
        write_line(if has_name { context } else { &named }, &line, out);
        for (key, value) in members.iter().filter(|(_, value)| value.short().is_none()) {
            value.write_lines(format!("{named} {key}").trim_start(), out);
        }
    }

    /// A plain value that stands on a line with others.
    fn short(&self) -> Option<&str> {
        match self {
            Json::Plain(text) if text.len() <= SHORT_BYTES => Some(text),
            _ => None,
        }
    }

    /// The text that names this record, if `key` is a naming key.
    fn name(&self, key: &str) -> Option<&str> {
        let Json::Plain(text) = self else { return None };
        let word = key.rsplit(['_', '-']).next().unwrap_or(key);
        let names = NAMING.iter().any(|suffix| key.ends_with(suffix)) && !has_word(NO_IDS, word);
        (names && text.len() <= NAME_BYTES && !text.is_empty()).then_some(text)
    }

    /// Writes it on one line. Stops and returns false if an object or array would make the line
    /// longer than `limit`; a plain value always fits.
    fn write_inline(&self, limit: usize, out: &mut String) -> bool {
        match self {
            Json::Plain(text) => {
                out.push_str(text);
                true
            }
            Json::Array(items) => items.iter().enumerate().all(|(index, item)| {
                out.push_str(if index > 0 { ", " } else { "" });
                item.write_inline(limit, out) && out.len() <= limit
            }),
            Json::Object(members) => members.iter().enumerate().all(|(index, (key, value))| {
                let nested = matches!(value, Json::Object(_));
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(key);
                out.push_str(if nested { " (" } else { ": " });
                let fits = value.write_inline(limit, out) && out.len() <= limit;
                out.push_str(if nested { ")" } else { "" });
                fits
            }),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        from.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

macro_rules! plain_values {
    ($($visit:ident: $value:ty),+) => {
        $(fn $visit<E>(self, value: $value) -> Result<Json, E> {
            Ok(Json::Plain(value.to_string()))
        })+
    };
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Plain("none".to_owned()))
    }

    plain_values!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Json, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Json::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_record_names_its_lines() {
        let note = "x".repeat(INLINE_BYTES);
        for key in ["id", "order_id", "orderid"] {
            let text = format!(r#"{{"is_paid":true,"{key}":"W-17","note":"{note}"}}"#);
            let expected = format!("is_paid: true, {key}: W-17\nW-17 note: {note}");
            assert_eq!(lines(&text), Some(expected));
        }
    }

    #[test]
    fn long_numbers_keep_their_digits() {
        let rows = [
            (
                r#"{"wei":1234567890123456789012,"part":-0.12345678901234567e-3,"at":["\"7\" \\",8]}"#,
                r#"wei: 1234567890123456789012, part: -0.12345678901234567e-3, at: "7" \, 8"#,
            ),
            (
                r#"{"id":18446744073709551616,"ok":true,"rest":null}"#,
                "id: 18446744073709551616, ok: true, rest: none",
            ),
            (
                r#"{"id":"110248495921238986420","total":12}"#,
                "id: 110248495921238986420, total: 12",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(text).as_deref(), Some(expected));
        }
        assert_eq!(lines("[1234567890123456789012 is long]"), None);
        assert_eq!(lines("[1234-56789012345678.1]"), None);
    }
}
