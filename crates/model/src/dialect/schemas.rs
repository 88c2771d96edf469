//! JSON schemas of tools as providers accept them, with their keys in order.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use unisono_context::snapshot::ToolSpec;

use crate::prompt::json::{self, Json};

/// Keywords that OpenAI and Anthropic do not accept at the top of a tool's schema. They refuse the
/// whole request.
const REFUSED: &[&str] = &["allOf", "anyOf", "enum", "not", "oneOf"];
/// The words before these keywords in a description.
const MUST_FIT: &str = "Its arguments must also fit this JSON schema:";
/// The words before arguments in a description.
const ALSO_TAKES: &str = "It also takes these arguments:";
/// The longest name of an argument at Anthropic.
const NAME_BYTES: usize = 64;
/// The `items` of an array of anything, before other keywords.
const ANY_ITEMS: &str = r#""items":{},"#;

/// The description and the schema of a tool. The description has the keywords that providers refuse
/// at the top of the schema.
pub(super) fn described(tool: &ToolSpec) -> (Cow<'_, str>, Cow<'_, str>) {
    let schema = tool.input_schema.trim();
    let members = match json::is_object(schema).then(|| serde_json::from_str(schema)) {
        Some(Ok(Members(members))) => members,
        _ => Vec::new(),
    };
    let (refused, rest): (Vec<_>, Vec<_>) = members
        .iter()
        .partition(|(key, _)| REFUSED.contains(&key.as_str()));
    if refused.is_empty() {
        return (Cow::Borrowed(&*tool.description), Cow::Borrowed(schema));
    }
    let refused = object(&refused);
    let description = format!("{}\n\n{MUST_FIT} {refused}", tool.description);
    let description = description.trim_start().to_owned();
    (Cow::Owned(description), Cow::Owned(object(&rest)))
}

/// As [`described`], for Anthropic, which refuses a request if the name of an argument has other
/// characters than letters, digits, `_`, `.` and `-`. The description has these arguments.
pub(super) fn described_with_plain_names(tool: &ToolSpec) -> (Cow<'_, str>, Cow<'_, str>) {
    let (description, schema) = described(tool);
    match without_odd_names(&schema) {
        Some((odd, rest)) => {
            let description = format!("{description}\n\n{ALSO_TAKES} {odd}");
            let description = description.trim_start().to_owned();
            (Cow::Owned(description), Cow::Owned(rest))
        }
        None => (description, schema),
    }
}

/// The arguments that have such names, and the schema without them; none if there are none.
fn without_odd_names(schema: &str) -> Option<(String, String)> {
    let Members(members) = serde_json::from_str(schema).ok()?;
    let (_, arguments) = members.iter().find(|(key, _)| key == "properties")?;
    let Members(arguments) = serde_json::from_str(arguments.get()).ok()?;
    let (plain, odd): (Vec<_>, Vec<_>) = arguments.iter().partition(|(name, _)| is_plain(name));
    if odd.is_empty() {
        return None;
    }
    let mut rest = Vec::with_capacity(members.len());
    for (key, value) in &members {
        let value = match key.as_str() {
            "properties" => object(&plain),
            "required" => plain_names(value.get()),
            // They are allowed besides the others.
            "additionalProperties" => continue,
            _ => value.get().to_owned(),
        };
        rest.push(member(key, &value));
    }
    Some((object(&odd), format!("{{{}}}", rest.join(","))))
}

fn is_plain(name: &str) -> bool {
    let fits = (1..=NAME_BYTES).contains(&name.len());
    fits && name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// A list of names without those that Anthropic refuses.
fn plain_names(list: &str) -> String {
    let Ok(names) = serde_json::from_str::<Vec<String>>(list) else {
        return list.to_owned();
    };
    let mut json = Json::with_capacity(list.len());
    json.list(
        names.iter().filter(|name| is_plain(name)),
        |json, name: &String| {
            json.string(name);
        },
    );
    String::from_utf8_lossy(&json.into_bytes()).into_owned()
}

/// The schema with `items` for each array without: OpenAI refuses a request for a missing one.
pub(super) fn with_items(schema: &str) -> Cow<'_, str> {
    let mut places = Vec::new();
    if schema.contains(r#""array""#) {
        bare_arrays(schema, schema, &mut places);
    }
    if places.is_empty() {
        return Cow::Borrowed(schema);
    }
    let mut out = String::with_capacity(schema.len() + places.len() * ANY_ITEMS.len());
    let mut copied = 0;
    for place in places {
        out.push_str(schema.get(copied..place).unwrap_or_default());
        out.push_str(ANY_ITEMS);
        copied = place;
    }
    out.push_str(schema.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Finds the first byte inside each schema of an array without `items`: in `part`, which is a part
/// of `schema`, and in the schemas within it.
fn bare_arrays(schema: &str, part: &str, places: &mut Vec<usize>) {
    let Ok(Members(members)) = serde_json::from_str(part) else {
        return;
    };
    let is_array = members
        .iter()
        .any(|(key, value)| key == "type" && value.get().contains(r#""array""#));
    if is_array && !members.iter().any(|(key, _)| key == "items") {
        let begin = (part.as_ptr() as usize).checked_sub(schema.as_ptr() as usize);
        places.extend(begin.map(|begin| begin + 1));
    }
    for (key, value) in &members {
        for inner in schemas_in(key, value) {
            bare_arrays(schema, inner.get(), places);
        }
    }
}

/// The schemas in the value of a keyword.
fn schemas_in<'a>(key: &str, value: &'a RawValue) -> Vec<&'a RawValue> {
    let text = value.get();
    match key {
        "$defs" | "definitions" | "patternProperties" | "properties" => {
            let Ok(Members(named)) = serde_json::from_str(text) else {
                return Vec::new();
            };
            named.into_iter().map(|(_, schema)| schema).collect()
        }
        "allOf" | "anyOf" | "items" | "oneOf" | "prefixItems" if text.starts_with('[') => {
            serde_json::from_str(text).unwrap_or_default()
        }
        "additionalProperties" | "items" | "not" => vec![value],
        _ => Vec::new(),
    }
}

fn object(members: &[&(String, &RawValue)]) -> String {
    let written = members.iter().map(|(key, value)| member(key, value.get()));
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

/// A member of an object; the value is JSON.
fn member(key: &str, value: &str) -> String {
    let mut json = Json::with_capacity(key.len() + value.len() + 3);
    json.string(key).raw(":").raw(value);
    String::from_utf8_lossy(&json.into_bytes()).into_owned()
}

/// An object's members in their order.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    //! Schemas of real tools that providers refuse unless they are changed.

    use super::*;

    fn tool(description: &str, schema: &str) -> ToolSpec {
        ToolSpec::new("t", description, schema)
    }

    #[test]
    fn alternatives_at_the_top_are_said_in_the_description() {
        let union = r#"{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],
            "properties":{"a":{"anyOf":[{"type":"string"}]}},"not":{}}"#;
        let said = concat!(
            "Its arguments must also fit this JSON schema: ",
            r#"{"oneOf":[{"required":["a"]},{"required":["b"]}],"not":{}}"#,
        );
        for (description, expected) in [
            ("Opens a or b.", format!("Opens a or b.\n\n{said}")),
            ("", said.to_owned()),
        ] {
            let tool = tool(description, union);
            let (description, schema) = described(&tool);
            assert_eq!(description, expected);
            let rest = r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}"#;
            assert_eq!(schema, rest);
        }
        for schema in rows! {
            r#"{"type":"object","properties":{"anyOf":{"type":"string"}}}"#, "{}", "[]", "", "{",
        } {
            let tool = tool("Opens.", schema);
            let (description, unchanged) = described(&tool);
            assert_eq!((&*description, &*unchanged), ("Opens.", schema));
        }
        let padded = tool("", " {} ");
        assert_eq!(described(&padded).1, "{}");
    }

    #[test]
    fn arguments_that_anthropic_refuses_are_said_in_the_description() {
        let schema = r#"{"type":"object","properties":{"$top":{"type":"integer"},"path":{},"é":true},
            "required":["path","$top"],"additionalProperties":false}"#;
        let files = tool("Lists files.", schema);
        let (description, rest) = described_with_plain_names(&files);
        let said = r#"It also takes these arguments: {"$top":{"type":"integer"},"é":true}"#;
        assert_eq!(description, format!("Lists files.\n\n{said}"));
        let expected = r#"{"type":"object","properties":{"path":{}},"required":["path"]}"#;
        assert_eq!(rest, expected);
        let long = "a".repeat(NAME_BYTES + 1);
        let named = |name: &str| format!(r#"{{"properties":{{"{name}":{{}}}}}}"#);
        let too_long = tool("", &named(&long));
        let (description, rest) = described_with_plain_names(&too_long);
        assert_eq!(rest, r#"{"properties":{}}"#);
        assert!(description.starts_with("It also takes"), "{description}");
        for schema in [&*named(&long[1..]), &*named("a.b-C_9"), "{}", "no schema"] {
            let plain = tool("x", schema);
            let (description, unchanged) = described_with_plain_names(&plain);
            assert_eq!((&*description, &*unchanged), ("x", schema));
        }
    }

    #[test]
    fn every_array_has_items() {
        for (schema, expected) in rows! {
            (r#"{"type":"array"}"#, r#"{"items":{},"type":"array"}"#),
            (r#"{"type":["array","null"]}"#, r#"{"items":{},"type":["array","null"]}"#),
            (
                r#"{"properties":{ "é":{"description":"x","type":"array"},"type":{"type":"array"}}}"#,
                r#"{"properties":{ "é":{"items":{},"description":"x","type":"array"},"type":{"items":{},"type":"array"}}}"#,
            ),
            (
                r#"{"anyOf":[{"type":"array","items":{"type":"array"}}],"$defs":{"d":{"type":"array"}}}"#,
                r#"{"anyOf":[{"type":"array","items":{"items":{},"type":"array"}}],"$defs":{"d":{"items":{},"type":"array"}}}"#,
            ),
        } {
            assert_eq!(with_items(schema), expected, "{schema}");
            assert_eq!(with_items(expected), expected, "{schema}");
        }
        for unchanged in rows! {
            r#"{"type":"array","items":{"type":"string"}}"#,
            r#"{"enum":["array"],"default":{"type":"array"}}"#,
            r#"{"properties":{"items":true,"a":{"const":"array"}}}"#,
            "\"array\"", "",
        } {
            assert_eq!(with_items(unchanged), unchanged);
        }
    }
}
