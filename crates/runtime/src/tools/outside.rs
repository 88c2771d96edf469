//! Calls of tools that are not built in: validated against the specification in the prompt before
//! anything else.

use std::sync::Arc;

use serde_json::Value;
use unisono_context::snapshot::ToolSpec;
use unisono_session::machine::NewCall;
use unisono_session::run::ToolCall;

use crate::schema::faults;

/// The call, if its arguments fit the tool's schema; otherwise the faults.
pub(super) fn check_call(call: &ToolCall, tool: &ToolSpec) -> Result<NewCall, String> {
    let name = &call.name;
    // Some models write nothing if there are no arguments.
    let text = match call.arguments.trim() {
        "" => "{}",
        text => text,
    };
    let arguments: Value = serde_json::from_str(text)
        .map_err(|error| format!("the arguments of {name} are not JSON: {error}"))?;
    if !arguments.is_object() {
        return Err(format!("the arguments of {name} are not a JSON object"));
    }
    let faults = faults(&arguments, &tool.input_schema);
    if !faults.is_empty() {
        let faults = faults.join("; ");
        return Err(format!(
            "the arguments of {name} do not fit its schema: {faults}"
        ));
    }
    let fields = fields_of(&arguments);
    Ok(NewCall {
        call_id: call.id.clone(),
        tool: name.clone(),
        arguments: text.into(),
        fields,
        permission: None,
    })
}

/// Arguments as single fields: each value as text under its dotted path; all values of a list have
/// the same path.
pub(crate) fn fields_of(arguments: &Value) -> Vec<(Arc<str>, Arc<str>)> {
    let mut fields = Vec::new();
    flatten("", arguments, &mut fields);
    fields
}

fn flatten(path: &str, value: &Value, into: &mut Vec<(Arc<str>, Arc<str>)>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                flatten(&path, value, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| flatten(path, item, into)),
        Value::String(text) => into.push((path.into(), text.as_str().into())),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            into.push((path.into(), value.to_string().into()));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Valid arguments, and the errors of others.

    use super::*;

    #[cfg(feature = "schema")]
    const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer","minimum":0}},"required":["path"],"additionalProperties":false}"#;

    fn check(arguments: &str, schema: &str) -> Result<NewCall, String> {
        let call = ToolCall::new("c1", "files__list", arguments);
        let tool = ToolSpec::new("files__list", "", schema);
        check_call(&call, &tool)
    }

    #[cfg(feature = "schema")]
    #[test]
    fn invalid_arguments_are_reported_to_the_model() {
        for (arguments, says) in [
            ("{", "are not JSON"),
            ("[1]", "are not a JSON object"),
            ("", r#""path" is a required property"#),
            (r#"{"path":1}"#, "/path: 1 is not of type \"string\""),
            (r#"{"path":"a","depth":-1}"#, "/depth: -1 is less than"),
            (r#"{"path":"a","deep":1}"#, "'deep' was unexpected"),
        ] {
            let wrong = check(arguments, SCHEMA).unwrap_err();
            assert!(wrong.contains(says), "{arguments}: {wrong}");
        }
        assert!(check(r#"{"path":"a"}"#, SCHEMA).is_ok());
    }

    #[test]
    fn an_unusable_schema_accepts_everything() {
        for schema in [
            "",
            "7",
            r#"{"type":"nothing"}"#,
            r#"{"$ref":"https://example.com/elsewhere.json"}"#,
        ] {
            assert!(check(r#"{"a":1}"#, schema).is_ok(), "{schema}");
        }
    }

    #[test]
    fn rules_see_each_value_under_its_names() {
        let nested = r#"{"a":{"b":[1,{"c":"x"}],"d":null},"e":true}"#;
        let fields = check(nested, r#"{"type":"object"}"#).unwrap().fields;
        let shown: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(shown, ["a.b=1", "a.b.c=x", "a.d=null", "e=true"]);
    }
}
