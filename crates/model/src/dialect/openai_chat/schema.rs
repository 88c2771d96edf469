//! Schemas that OpenAI's dialects accept.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialect::schemas::with_items;
use crate::prompt::json::{self, Json};

/// A schema for any arguments.
const ANY: &str = r#"{"type":"object","properties":{}}"#;

/// The schema of a tool's arguments: an object whose `type` is `object` and that has
/// `properties`, which a tool without arguments may leave out elsewhere. All arrays have `items`.
pub(in crate::dialect) fn parameters(schema: &str) -> Cow<'_, str> {
    match with_properties(schema) {
        Cow::Borrowed(schema) => with_items(schema),
        Cow::Owned(schema) => Cow::Owned(with_items(&schema).into_owned()),
    }
}

fn with_properties(schema: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Known<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        properties: Option<&'a RawValue>,
    }
    let schema = schema.trim();
    let known = json::is_object(schema).then(|| serde_json::from_str::<Known<'_>>(schema));
    let Some(Ok(known)) = known else {
        return ANY.into();
    };
    let typed = known.kind.map(RawValue::get);
    let missing = match (typed, known.properties) {
        (Some(r#""object""#), Some(_)) => return schema.into(),
        (Some(r#""object""#), None) => r#""properties":{}"#,
        (None, Some(_)) => r#""type":"object""#,
        (None, None) => r#""type":"object","properties":{}"#,
        (Some(_), _) => return ANY.into(),
    };
    // At the end, so that it also replaces an earlier key with the value `null`.
    let inside = schema[1..schema.len() - 1].trim_end();
    let comma = if inside.is_empty() { "" } else { "," };
    format!("{{{inside}{comma}{missing}}}").into()
}

/// A schema that answers must fit.
pub(in crate::dialect) struct Output<'a> {
    schema: &'a str,
    strict: bool,
}

/// None: it is not a JSON object.
pub(in crate::dialect) fn output(schema: &str) -> Option<Output<'_>> {
    let schema = schema.trim();
    json::is_object(schema).then_some(())?;
    let value: Value = serde_json::from_str(schema).ok()?;
    let is_object = value.get("type") == Some(&Value::from("object"));
    let is_union = value.get("anyOf").is_some();
    Some(Output {
        schema,
        strict: is_object && !is_union && is_strict(&value),
    })
}

impl Output<'_> {
    /// Writes `"name":…,"schema":…,"strict":…`.
    pub(in crate::dialect) fn write<'j>(&self, json: &'j mut Json) -> &'j mut Json {
        json.raw(r#""name":"answer","schema":"#).raw(self.schema);
        json.raw(r#","strict":"#).bool(self.strict)
    }
}

/// Keywords that strict schemas may have ("Structured outputs", "Supported schemas"), without those
/// that only some models or values allow.
const STRICT: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Whether the provider accepts the schema as strict, which guarantees that answers fit. Other
/// schemas are sent without `strict`, because it would refuse them.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(members) = schema else {
        return false;
    };
    if !members.keys().all(|key| STRICT.contains(&&**key)) {
        return false;
    }
    // A value of any type is not allowed.
    let is_typed = ["$ref", "anyOf", "type"]
        .iter()
        .any(|key| members.contains_key(*key));
    let has_type = |name: &str| match members.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        kind => kind.is_some_and(|kind| kind == name),
    };
    if !is_typed || (has_type("array") && !members.contains_key("items")) {
        return false;
    }
    let properties = members.get("properties").and_then(Value::as_object);
    if properties.is_some() || has_type("object") {
        let required = members.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
        if !closed || !properties.is_some_and(|all| all.keys().all(is_required)) {
            return false;
        }
    }
    let named = ["properties", "$defs"]
        .into_iter()
        .filter_map(|key| members.get(key));
    let named = named
        .filter_map(Value::as_object)
        .flat_map(|all| all.values());
    let any = members.get("anyOf").and_then(Value::as_array);
    let items = members.get("items");
    named
        .chain(any.into_iter().flatten())
        .chain(items)
        .all(is_strict)
}

#[cfg(test)]
mod tests {
    //! Tools without arguments, hostile schemas, and which output schemas are strict.

    use super::*;

    #[test]
    fn parameters_are_objects_with_properties() {
        for (schema, expected) in rows! {
            (r#"{"type":"object","properties":{"a":{}}}"#, None),
            ("{}", Some(ANY)),
            (" {\n} ", Some(ANY)),
            (r#"{"type":"object"}"#, Some(ANY)),
            (r#"{"properties":{"a":{}} }"#, Some(r#"{"properties":{"a":{}},"type":"object"}"#)),
            (
                r#"{"type":"object","properties":null}"#,
                Some(r#"{"type":"object","properties":null,"properties":{}}"#),
            ),
            (r#"{"type":"string"}"#, Some(ANY)),
            (r#"{"type":["object","null"],"properties":{}}"#, Some(ANY)),
            ("not a schema", Some(ANY)),
            ("[]", Some(ANY)),
            (r#"{"a":}"#, Some(ANY)),
            ("", Some(ANY)),
        } {
            assert_eq!(parameters(schema), expected.unwrap_or(schema), "{schema}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
        assert_eq!(parameters(&deep), ANY);
    }

    #[test]
    fn a_schema_is_strict_only_where_the_provider_takes_it_so() {
        let strict = |schema: &str| output(schema).map(|output| output.strict);
        let closed = r##"{"type":"object","properties":{"n":{"type":["integer","null"],"minimum":1},
            "all":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/one"},{"type":"null"}]}}},
            "required":["n","all"],"additionalProperties":false,
            "$defs":{"one":{"type":"string","enum":["a"],"description":"x"}}}"##;
        assert_eq!(strict(closed), Some(true));
        for (why, schema) in [
            ("open", r#"{"type":"object","properties":{}}"#),
            (
                "optional",
                r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#,
            ),
            (
                "an open object inside",
                r#"{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}"#,
            ),
            (
                "a keyword it does not know",
                r#"{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}"#,
            ),
            ("no object", r#"{"type":"array","items":{"type":"string"}}"#),
            (
                "a value of any type inside",
                r#"{"type":"object","properties":{"a":{"title":"A"}},"required":["a"],"additionalProperties":false}"#,
            ),
            (
                "an array of anything",
                r#"{"type":"object","properties":{"a":{"type":"array"}},"required":["a"],"additionalProperties":false}"#,
            ),
            (
                "alternatives at the top",
                r#"{"type":"object","properties":{},"additionalProperties":false,"anyOf":[{"type":"string"}]}"#,
            ),
            (
                "a boolean inside",
                r#"{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}"#,
            ),
        ] {
            assert_eq!(strict(schema), Some(false), "{why}");
        }
        for none in ["", "x", "[]", "true", "{"] {
            assert_eq!(strict(none), None);
        }
    }
}
