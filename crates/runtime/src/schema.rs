//! Validates JSON against a schema: arguments of calls, and structured answers.

#[cfg(feature = "schema")]
mod expansion;

#[cfg(feature = "schema")]
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

#[cfg(feature = "schema")]
use expansion::Expansion;

/// The maximum number of reported faults of one value.
#[cfg(feature = "schema")]
const FAULTS: usize = 3;
/// The maximum number of levels that a check may have on the stack of its caller.
#[cfg(feature = "schema")]
const MAX_LEVELS: usize = 800;
/// More than a level takes on a stack, in bytes.
#[cfg(feature = "schema")]
const LEVEL_BYTES: usize = 8 * 1024;

/// The faults of a value. An invalid schema, one that refers to other documents, and one whose
/// references multiply accept everything: nothing is fetched.
#[cfg(feature = "schema")]
pub(crate) fn faults(value: &Value, schema: &str) -> Vec<String> {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else {
        return Vec::new();
    };
    let (validator, expansion) = match usable(&schema) {
        Ok(usable) => usable,
        Err(error) => {
            tracing::debug!(%error, "a schema cannot be used");
            return Vec::new();
        }
    };
    let check = || {
        if validator.is_valid(value) {
            return Vec::new();
        }
        if !expansion.has_few_errors_for(value) {
            return vec!["it does not match its schema".to_owned()];
        }
        let errors = validator.iter_errors(value).take(FAULTS);
        errors.map(|error| described(&error)).collect()
    };
    let found = on_stack_of(expansion.levels_for(value), check);
    found.unwrap_or_else(|| vec!["it is nested too deeply to be checked".to_owned()])
}

/// Checks a value on a stack for this number of levels. None: there is no memory for it.
#[cfg(feature = "schema")]
fn on_stack_of(levels: usize, check: impl FnOnce() -> Vec<String> + Send) -> Option<Vec<String>> {
    if levels <= MAX_LEVELS {
        return Some(check());
    }
    let thread = std::thread::Builder::new().stack_size(levels.saturating_mul(LEVEL_BYTES));
    std::thread::scope(|scope| {
        let thread = thread.spawn_scoped(scope, check).ok()?;
        thread.join().ok()
    })
}

/// Why nothing can be checked against a schema: it is not valid, refers to another document, which
/// is not fetched, or has references that multiply. None: it can be used.
#[cfg(feature = "schema")]
pub fn schema_fault(schema: &str) -> Option<String> {
    match serde_json::from_str::<Value>(schema) {
        Ok(schema) => usable(&schema).err(),
        Err(error) => Some(error.to_string()),
    }
}

/// A schema that can be used, and the size of its checks.
#[cfg(feature = "schema")]
fn usable(schema: &Value) -> Result<(Validator, Expansion), String> {
    let expansion = Expansion::new(schema)?;
    match jsonschema::validator_for(schema) {
        Ok(validator) => Ok((validator, expansion)),
        Err(error) => Err(described(&error)),
    }
}

/// An error with its place.
#[cfg(feature = "schema")]
fn described(error: &ValidationError<'_>) -> String {
    match error.instance_path().to_string() {
        path if path.is_empty() => error.to_string(),
        path => format!("{path}: {error}"),
    }
}

/// None: this build does not check schemas.
#[cfg(not(feature = "schema"))]
pub fn schema_fault(_: &str) -> Option<String> {
    None
}

/// No faults: this build does not check schemas.
#[cfg(not(feature = "schema"))]
pub(crate) fn faults(_: &Value, _schema: &str) -> Vec<String> {
    Vec::new()
}

/// The JSON of an answer, without a code fence; an error says why it does not fit the schema.
pub(crate) fn answer<'a>(text: &'a str, schema: &str) -> Result<&'a str, String> {
    let json = unfenced(text.trim());
    let value = serde_json::from_str(json).map_err(|error| format!("it is not JSON: {error}"))?;
    match &faults(&value, schema)[..] {
        [] => Ok(json),
        faults => Err(faults.join("; ")),
    }
}

/// The content of a Markdown code block, if the text is exactly one block.
fn unfenced(text: &str) -> &str {
    let block = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    let lines = block.and_then(|block| block.split_once('\n'));
    // The first line of a block names its language.
    let named = lines.filter(|(language, _)| language.trim().chars().all(char::is_alphanumeric));
    named.map_or(text, |(_, inside)| inside.trim())
}

#[cfg(test)]
mod tests {
    //! Structured answers that fit their schema, and others.

    #[cfg(feature = "schema")]
    use serde_json::json;

    use super::*;

    #[cfg(feature = "schema")]
    const SCHEMA: &str = r#"{"type":"object","properties":{"late":{"type":"array","items":{"type":"string"}},"sure":{"enum":["yes","no"]}},"required":["late"],"additionalProperties":false}"#;

    #[cfg(feature = "schema")]
    #[test]
    fn an_answer_fits_its_schema_or_has_faults() {
        let rows = rows! {
            (r#"{"late":[]}"#, Ok(r#"{"late":[]}"#)),
            (" \n{\"late\":[\"p3\"]}\n", Ok(r#"{"late":["p3"]}"#)),
            ("```json\n{\"late\":[]}\n```", Ok(r#"{"late":[]}"#)),
            ("```\n{\"late\":[]}\n```\n", Ok(r#"{"late":[]}"#)),
            ("Part 3 is late.", Err("it is not JSON: expected value")),
            ("Here:\n```json\n{}\n```", Err("it is not JSON: expected value")),
            ("```{\"late\":[]}```", Err("it is not JSON: expected value")),
            (r#"{"late":[]} so"#, Err("it is not JSON: trailing characters")),
            ("{}", Err("\"late\" is a required property")),
            (r#"{"late":[3]}"#, Err("/late/0: 3 is not of type \"string\"")),
            (r#"{"late":[],"sure":"so"}"#, Err("/sure: \"so\" is not one of")),
            ("[]", Err("[] is not of type \"object\"")),
        };
        for (text, expected) in rows {
            match (answer(text, SCHEMA), expected) {
                (Ok(json), Ok(expected)) => assert_eq!(json, expected, "{text}"),
                (Err(fault), Err(says)) => assert!(fault.starts_with(says), "{text}: {fault}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn a_schema_that_cannot_be_used_has_a_fault() {
        let faults = [
            (r#"{"type":"objekt"}"#, "/type: \"objekt\""),
            (r#"{"properties":{"a":{"pattern":"(["}}}"#, "(["),
            (
                r#"{"$ref":"https://example.com/elsewhere.json"}"#,
                "https://example.com/elsewhere.json",
            ),
            (r##"{"$ref":"#/$defs/none"}"##, "/$defs/none"),
            ("none", "expected"),
        ];
        for (schema, says) in faults {
            let fault = schema_fault(schema).unwrap_or_default();
            assert!(fault.contains(says), "{schema}: {fault}");
        }
        for schema in [
            SCHEMA,
            "{}",
            "true",
            r#"{"type":["string","null"],"format":"unknown","x-own":1}"#,
            r#"{"pattern":"^(?!draft)\\p{L}+$"}"#,
            r##"{"$defs":{"n":{"items":{"$ref":"#/$defs/n"}}},"$ref":"#/$defs/n"}"##,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}"#,
        ] {
            assert_eq!(schema_fault(schema), None, "{schema}");
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn a_deep_value_of_a_recursive_schema_is_checked() {
        let mut schema = json!({"type": ["array", "string"], "items": {"$ref": "#"}});
        for _ in 0..50 {
            schema = json!({"allOf": [schema]});
        }
        let schema = schema.to_string();
        for (leaf, expected) in rows! {
            (json!("leaf"), ""),
            (json!(7), "7 is not of types"),
        } {
            let nested = (0..100).fold(leaf, |inner, _| json!([inner]));
            let found = faults(&nested, &schema).join("; ");
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn an_unusable_schema_requires_only_json() {
        for schema in ["none", r#"{"$ref":"https://example.com/elsewhere.json"}"#] {
            assert_eq!(answer("{}", schema), Ok("{}"), "{schema}");
            assert!(answer("so", schema).is_err(), "{schema}");
        }
    }
}
