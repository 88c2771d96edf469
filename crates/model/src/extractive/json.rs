//! JSON flattened to lines, with the members in their original order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Objects and arrays that fit in this many bytes stay on one line.
const INLINE_BYTES: usize = 200;

/// Keys with these endings name their record.
const NAMING: [&str; 7] = ["id", "name", "number", "key", "code", "title", "path"];
/// The maximum length of a name.
const NAME_BYTES: usize = 48;

/// The `key: value` lines of a JSON text; `None` if it is not JSON.
pub(super) fn lines(text: &str) -> Option<String> {
    // serde_json bounds the nesting, and with it the recursion below.
    let value: Json = serde_json::from_str(text).ok()?;
    let mut out = String::new();
    value.write_lines("", &mut out);
    out.truncate(out.trim_end().len());
    Some(out)
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
            out.push_str(context);
            out.push_str(": ");
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

    /// A record that is too long for a line: its plain members together, then each longer one, all
    /// with the record's name.
    fn write_record(members: &[(String, Json)], context: &str, out: &mut String) {
        let name = members.iter().find_map(|(key, value)| value.name(key));
        let context = match (context, name) {
            ("", Some(name)) => name.to_owned(),
            (context, Some(name)) => format!("{context} {name}"),
            (context, None) => context.to_owned(),
        };
        let mut plain = String::new();
        let flush = |plain: &mut String, out: &mut String| {
            if !plain.is_empty() {
                if !context.is_empty() {
                    out.push_str(&context);
                    out.push_str(": ");
                }
                out.push_str(plain);
                out.push('\n');
                plain.clear();
            }
        };
        for (key, value) in members {
            if let Json::Plain(text) = value {
                if plain.len() + key.len() + text.len() > INLINE_BYTES {
                    flush(&mut plain, out);
                }
                plain.push_str(if plain.is_empty() { "" } else { ", " });
                plain.extend([key, ": ", text]);
                continue;
            }
            flush(&mut plain, out);
            let path = if context.is_empty() {
                key.clone()
            } else {
                format!("{context} {key}")
            };
            value.write_lines(&path, out);
        }
        flush(&mut plain, out);
    }

    /// The text that names this record, if `key` is a naming key.
    fn name(&self, key: &str) -> Option<&str> {
        let Json::Plain(text) = self else { return None };
        let names = NAMING.iter().any(|suffix| key.ends_with(suffix));
        (names && text.len() <= NAME_BYTES && !text.is_empty()).then_some(text)
    }

    /// Writes it on one line. Stops and returns false if an object or array would make the line
    /// longer than `limit`; a plain value always fits.
    fn write_inline(&self, limit: usize, out: &mut String) -> bool {
        match self {
            Json::Plain(text) => out.push_str(text),
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    if !item.write_inline(limit, out) || out.len() > limit {
                        return false;
                    }
                }
            }
            Json::Object(members) => {
                for (index, (key, value)) in members.iter().enumerate() {
                    let nested = matches!(value, Json::Object(_));
                    out.push_str(if index > 0 { ", " } else { "" });
                    out.push_str(key);
                    out.push_str(if nested { " (" } else { ": " });
                    if !value.write_inline(limit, out) || out.len() > limit {
                        return false;
                    }
                    out.push_str(if nested { ")" } else { "" });
                }
            }
        }
        true
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        from.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Plain("none".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Plain(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Plain(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Plain(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }
}
