//! Output schemas for structured outputs: every object is closed, and numbers and lengths have no
//! limits. The description has the removed limits in words.

use serde_json::value::RawValue;

use crate::dialect::schemas::Members;
use crate::prompt::json::{self, Json};

/// Keywords the API refuses ("Structured outputs", "JSON Schema limitations").
const REFUSED: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The schema in that form, keys in their order; none: it is not a JSON object.
pub(super) fn strict(schema: &str) -> Option<String> {
    json::is_object(schema.trim()).then_some(())?;
    let mut out = Json::with_capacity(schema.len() + schema.len() / 4);
    write(&mut out, schema.trim())?;
    String::from_utf8(out.into_bytes()).ok()
}

/// Writes a schema. Values that are not objects, such as booleans, do not change.
fn write(out: &mut Json, schema: &str) -> Option<()> {
    if !schema.starts_with('{') {
        out.raw(schema);
        return Some(());
    }
    let Members(members) = serde_json::from_str(schema).ok()?;
    let is_object = members.iter().any(|(key, value)| match &**key {
        "properties" => true,
        "type" => value.get().contains("\"object\""),
        _ => false,
    });
    let mut limits = Vec::new();
    out.raw("{");
    let mut first = true;
    for (key, value) in &members {
        let value = value.get();
        let few = matches!(value, "0" | "1");
        if REFUSED.contains(&&**key) || (key == "minItems" && !few) {
            limits.push(format!("{key}: {value}"));
            continue;
        }
        if key == "description" || (key == "additionalProperties" && is_object) {
            continue;
        }
        let key = if key == "oneOf" { "anyOf" } else { key };
        separate(out, &mut first).string(key).raw(":");
        member(out, key, value)?;
    }
    let description = members.iter().find(|(key, _)| key == "description");
    let description = description.and_then(|(_, text)| serde_json::from_str(text.get()).ok());
    if let Some(description) = describe(description, &limits) {
        separate(out, &mut first)
            .raw(r#""description":"#)
            .string(&description);
    }
    if is_object {
        separate(out, &mut first).raw(r#""additionalProperties":false"#);
    }
    out.raw("}");
    Some(())
}

/// The value of a keyword, with its schemas rewritten.
fn member(out: &mut Json, key: &str, value: &str) -> Option<()> {
    match key {
        "properties" | "$defs" | "definitions" if value.starts_with('{') => {
            let Members(members) = serde_json::from_str(value).ok()?;
            out.raw("{");
            let mut first = true;
            for (name, schema) in &members {
                separate(out, &mut first).string(name).raw(":");
                write(out, schema.get())?;
            }
            out.raw("}");
            Some(())
        }
        "anyOf" | "allOf" | "items" | "prefixItems" if value.starts_with('[') => {
            let schemas: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            let mut sound = Some(());
            out.list(schemas, |out, schema| {
                sound = sound.and(write(out, schema.get()));
            });
            sound
        }
        "items" => write(out, value),
        _ => {
            out.raw(value);
            Some(())
        }
    }
}

fn describe(description: Option<String>, limits: &[String]) -> Option<String> {
    if limits.is_empty() {
        return description;
    }
    let limits = format!("({})", limits.join(", "));
    Some(match description {
        Some(description) => format!("{description} {limits}"),
        None => limits,
    })
}

fn separate<'j>(out: &'j mut Json, first: &mut bool) -> &'j mut Json {
    if !std::mem::take(first) {
        out.raw(",");
    }
    out
}

#[cfg(test)]
mod tests {
    //! Objects are closed and refused limits become words, at every depth, in the order given.

    use super::strict;

    #[test]
    fn limits_become_words_and_objects_are_closed() {
        let schema = r#" {"type":"object","properties":{
            "why":{"type":"string","description":"the reason","maxLength":9},
            "n":{"type":["integer","null"],"minimum":1,"maximum":5},
            "minimum":{"type":"array","minItems":1,"maxItems":3,"items":{"properties":{}}},
            "any":{"oneOf":[{"type":"object","additionalProperties":true},true]}},
            "required":["why"]}
        "#;
        let expected = concat!(
            r#"{"type":"object","properties":{"#,
            r#""why":{"type":"string","description":"the reason (maxLength: 9)"},"#,
            r#""n":{"type":["integer","null"],"description":"(minimum: 1, maximum: 5)"},"#,
            r#""minimum":{"type":"array","minItems":1,"#,
            r#""items":{"properties":{},"additionalProperties":false},"description":"(maxItems: 3)"},"#,
            r#""any":{"anyOf":[{"type":"object","additionalProperties":false},true]}},"#,
            r#""required":["why"],"additionalProperties":false}"#,
        );
        assert_eq!(strict(schema).unwrap(), expected);
    }

    #[test]
    fn what_is_no_schema_is_none() {
        for schema in ["", "not json", "[]", "true", "{", r#"{"a":}"#] {
            assert_eq!(strict(schema), None, "{schema}");
        }
    }
}
