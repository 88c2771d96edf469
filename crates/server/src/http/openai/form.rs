//! The requested form of the answer: its maximum length, format and stop sequences.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use unisono_api::Code;
use unisono_context::Tokens;
use unisono_runtime::schema_fault;
use unisono_session::Definition;

use super::FieldError;
use unisono::ask::{Bounds, Shape};

/// Maximum bytes of a schema: it is part of every prompt of the turn.
const SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum number of stop texts, and maximum bytes of one.
const MAX_STOPS: usize = 16;
const STOP_BYTES: usize = 1_024;

/// The fields of a request that determine the form of the answer.
#[derive(Debug, Default)]
pub(super) struct Form {
    pub(super) answers: Option<u64>,
    /// The format and its field.
    pub(super) format: Option<(&'static str, Box<RawValue>)>,
    /// The maximum tokens of a reply and its field.
    pub(super) most: Option<(&'static str, u64)>,
    /// Texts that end it.
    pub(super) stop: Option<Value>,
}

/// The settings for the turn.
#[derive(Debug)]
pub(super) struct AnswerOptions {
    pub(super) bounds: Bounds,
    pub(super) stop: Vec<Arc<str>>,
    /// The field of the format.
    format: &'static str,
}

impl Form {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// The invalid field of the request.
    pub(super) fn read(self) -> Result<AnswerOptions, FieldError> {
        if let Some(answers) = self.answers.filter(|answers| *answers != 1) {
            let why = format!("requests {answers} answers, but an agent gives one");
            return Err(refused("n", &why));
        }
        let format = self.format.as_ref().map_or("", |(field, _)| field);
        let shape = match &self.format {
            Some((field, format)) => shape(format).map_err(|why| refused(field, &why))?,
            None => Shape::Own,
        };
        let max_output = match self.most {
            Some((field, 0)) => return Err(refused(field, "must be at least 1")),
            most => most.map(|(_, most)| Tokens(most)),
        };
        let stop = self.stop.as_ref().map(stop).transpose();
        Ok(AnswerOptions {
            bounds: Bounds::new(max_output, shape),
            stop: stop
                .map_err(|why| refused("stop", &why))?
                .unwrap_or_default(),
            format,
        })
    }
}

impl AnswerOptions {
    /// Whether the agent can answer in that form.
    pub(super) fn fits(&self, agent: &Definition) -> Result<(), FieldError> {
        if self.bounds.can_be_kept_by(agent) {
            return Ok(());
        }
        let why = format!(
            "requests a form, but agent {} (kind `{}`, model `{}`) has no language model that could \
             write in it: it answers in its own",
            agent.id,
            agent.kind.name(),
            agent.model
        );
        Err(refused(self.format, &why))
    }
}

/// The error of a field. Many clients print its message alone.
fn refused(field: &'static str, why: &str) -> FieldError {
    FieldError::field(field, Code::InvalidRequest, format!("`{field}` {why}"))
}

/// A format, as chat completions have it or, without the level between, responses.
#[derive(Deserialize)]
#[serde(expecting = "an object with a `type`")]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    json_schema: Option<NamedSchema>,
    #[serde(default)]
    schema: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct NamedSchema {
    #[serde(default)]
    schema: Option<Box<RawValue>>,
}

fn shape(format: &RawValue) -> Result<Shape, String> {
    let format: Format = serde_json::from_str(format.get())
        .map_err(|error| format!("is not a format of an answer: {error}"))?;
    match format.kind.as_str() {
        // An agent that answers with JSON answers with text.
        "text" => Ok(Shape::Own),
        "json_object" => Ok(Shape::Json),
        "json_schema" => {
            let within = format.json_schema.and_then(|named| named.schema);
            let schema = within.or(format.schema).ok_or("has no `schema`")?;
            if schema.get().len() > SCHEMA_BYTES {
                return Err(format!("has a schema of more than {SCHEMA_BYTES} bytes"));
            }
            let members: Members = serde_json::from_str(schema.get())
                .map_err(|_| "has a `schema` that is not a JSON object".to_owned())?;
            let schema = members.without_dialect();
            match schema_fault(&schema) {
                None => Ok(Shape::Schema(schema.into())),
                Some(fault) => Err(format!("has a `schema` that cannot be checked: {fault}")),
            }
        }
        kind => Err(format!(
            "has the unknown type {kind:?}; known are text, json_object and json_schema"
        )),
    }
}

/// The members of an object in their written order: models answer in that order.
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// The object without `$schema`: it does not affect the answer, and some providers reject it.
    fn without_dialect(&self) -> String {
        let members = self.0.iter().filter(|(key, _)| key != "$schema");
        let written = members.map(|(key, value)| format!("{}:{}", Value::from(&**key), value));
        format!("{{{}}}", written.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Members, D::Error> {
        struct MemberVisitor;
        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(MemberVisitor)
    }
}

/// Texts that end a reply: one, or a list.
fn stop(stop: &Value) -> Result<Vec<Arc<str>>, String> {
    let texts = match stop {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) => {
            let texts = texts.iter().map(|text| text.as_str());
            texts
                .collect::<Option<Vec<_>>>()
                .ok_or("must be a text or a list of texts")?
        }
        _ => return Err("must be a text or a list of texts".to_owned()),
    };
    let sound = |text: &&str| !text.is_empty() && text.len() <= STOP_BYTES;
    if texts.len() > MAX_STOPS || !texts.iter().all(sound) {
        return Err(format!(
            "must be at most {MAX_STOPS} texts of 1 to {STOP_BYTES} bytes each"
        ));
    }
    Ok(texts.into_iter().map(Arc::from).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape_of(format: &str) -> Result<Shape, String> {
        shape(&RawValue::from_string(format.to_owned()).unwrap())
    }

    #[test]
    fn any_schema_is_taken_in_its_own_order() {
        let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","title":"T","type":"object","required":["z","a"],"properties":{"z":{"type":"string","description":"$schema"},"a":{}}}"#;
        let expected = r#"{"title":"T","type":"object","required":["z","a"],"properties":{"z":{"type":"string","description":"$schema"},"a":{}}}"#;
        let chat = format!(
            r#"{{"type":"json_schema","json_schema":{{"name":"a","strict":true,"schema":{schema}}}}}"#
        );
        let response = format!(r#"{{"type":"json_schema","name":"a","schema":{schema}}}"#);
        for format in [chat, response] {
            assert_eq!(
                shape_of(&format),
                Ok(Shape::Schema(expected.into())),
                "{format}"
            );
        }
        assert_eq!(shape_of(r#"{"type":"text"}"#), Ok(Shape::Own));
        assert_eq!(shape_of(r#"{"type":"json_object"}"#), Ok(Shape::Json));
    }

    #[test]
    fn what_is_no_format_is_refused() {
        let long = format!(
            r#"{{"type":"json_schema","schema":{{"title":"{}"}}}}"#,
            "x".repeat(SCHEMA_BYTES)
        );
        for (format, says) in rows! {
            (r#""text""#, "is not a format"),
            (r#"{"type":"grammar"}"#, "has the unknown type \"grammar\"; known are text"),
            (r#"{"type":"json_schema"}"#, "has no `schema`"),
            (r#"{"type":"json_schema","schema":{"type":"objekt"}}"#,
             "has a `schema` that cannot be checked: /type: \"objekt\""),
            (r#"{"type":"json_schema","schema":{"$ref":"https://example.com/a.json"}}"#,
             "has a `schema` that cannot be checked: "),
            (r#"{"type":"json_schema","schema":[]}"#, "has a `schema` that is not"),
            (r#"{"type":"json_schema","json_schema":{"schema":7}}"#, "has a `schema` that is not"),
            (long.as_str(), "has a schema of more than"),
        } {
            let why = shape_of(format).unwrap_err();
            assert!(why.starts_with(says), "{why}");
        }
    }

    #[test]
    fn an_error_names_its_field() {
        let format = RawValue::from_string(r#""json""#.to_owned()).unwrap();
        for (form, says) in rows! {
            (Form { answers: Some(2), ..Form::default() }, "`n` requests 2 answers"),
            (Form { most: Some(("max_tokens", 0)), ..Form::default() }, "`max_tokens` must be"),
            (Form { stop: Some(json!(7)), ..Form::default() }, "`stop` must be a text"),
            (Form { format: Some(("response_format", format)), ..Form::default() },
             "`response_format` is not a format of an answer: invalid type: string \"json\", \
              expected an object"),
        } {
            let message = form.read().unwrap_err().failure().error.message;
            assert!(message.starts_with(says), "{message}");
        }
    }

    #[test]
    fn stop_texts_are_one_or_a_few() {
        assert_eq!(stop(&json!("END")).unwrap(), ["END".into()]);
        assert_eq!(stop(&json!(["a", "b"])).unwrap().len(), 2);
        assert!(stop(&Value::Null).unwrap().is_empty());
        for wrong in [json!(""), json!(["a", 1]), json!(7), json!(vec!["x"; 17])] {
            assert!(stop(&wrong).is_err(), "{wrong}");
        }
    }
}
