//! Client tools: tools of a client for the agent that it asks. The agent's prompt lists them, and
//! the client makes their calls. They are written in OpenAI's format.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use unisono_api::Code;
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::snapshot::ToolSpec;
use unisono_runtime::tools::BUILT_IN;

use crate::error::Error;

/// Maximum number of tools in one request, as with OpenAI.
const MAX_TOOLS: usize = 128;
/// Maximum characters of a name, as with OpenAI.
const NAME_CHARS: usize = 64;

/// An invalid part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidTools {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it, and where.
    pub detail: String,
}

impl From<InvalidTools> for Error {
    fn from(wrong: InvalidTools) -> Error {
        Error::new(Code::InvalidRequest, wrong.detail)
    }
}

/// The fields of a request about tools.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ClientToolRequest {
    /// The tools.
    pub tools: Option<Vec<Value>>,
    /// Whether one must be called.
    pub choice: Option<Value>,
    /// Whether one reply may have several calls.
    pub parallel: Option<bool>,
}

impl ClientToolRequest {
    /// The fields `tools`, `tool_choice` and `parallel_tool_calls` of a request.
    pub fn new(
        tools: Option<Vec<Value>>,
        choice: Option<Value>,
        parallel: Option<bool>,
    ) -> ClientToolRequest {
        ClientToolRequest {
            tools,
            choice,
            parallel,
        }
    }

    /// The tools, and their options.
    ///
    /// # Errors
    /// A tool or the choice is wrong.
    pub fn read(self) -> Result<(Vec<ToolSpec>, ClientOptions), InvalidTools> {
        let tools = self.tools.unwrap_or_default();
        if tools.len() > MAX_TOOLS {
            let detail = format!(
                "{} tools are too many: the limit is {MAX_TOOLS}",
                tools.len()
            );
            return Err(wrong("tools", detail));
        }
        let mut specs = Vec::with_capacity(tools.len());
        let mut names = BTreeSet::new();
        for (at, tool) in tools.iter().enumerate() {
            let spec = spec(tool).map_err(|what| wrong("tools", format!("tools[{at}]: {what}")))?;
            if !names.insert(spec.name.clone()) {
                let detail = format!("tools[{at}]: {:?} is named twice", &*spec.name);
                return Err(wrong("tools", detail));
            }
            specs.push(spec);
        }
        let choice = choice(self.choice.as_ref(), &names);
        let choice = choice.map_err(|what| wrong("tool_choice", what))?;
        let client_options = choice.map_or_else(ClientOptions::default, |choice| ClientOptions {
            tools: names.into_iter().collect(),
            choice,
            one: self.parallel == Some(false),
            ..ClientOptions::default()
        });
        match client_options.tools.is_empty() {
            true => Ok((specs, ClientOptions::default())),
            false => Ok((specs, client_options)),
        }
    }
}

fn wrong(field: &'static str, detail: impl Into<String>) -> InvalidTools {
    let detail = detail.into();
    InvalidTools { field, detail }
}

/// One tool: in chat completions its data is under `function`, in responses beside its type.
fn spec(tool: &Value) -> Result<ToolSpec, String> {
    match tool["type"].as_str() {
        Some("function") => {}
        Some(kind) => {
            return Err(format!(
                "a tool of type {kind:?} is not supported: only functions are"
            ));
        }
        None => return Err("it has no `type`".to_owned()),
    }
    let function = tool.get("function").unwrap_or(tool);
    let name = function["name"].as_str().unwrap_or_default();
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(sound) {
        return Err(format!(
            "`name` must be 1 to {NAME_CHARS} letters, digits, `_` and `-`, and is {name:?}"
        ));
    }
    if BUILT_IN.contains(&name) {
        return Err(format!(
            "agents already have a tool {name:?}: give yours another name"
        ));
    }
    let schema = match function.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err("`parameters` must be a JSON schema: an object".to_owned()),
    };
    let description = function["description"].as_str().unwrap_or_default();
    Ok(ToolSpec::new(name, description, schema.to_string()))
}

/// Whether the model must call one of them; none: it must not.
fn choice(
    choice: Option<&Value>,
    names: &BTreeSet<std::sync::Arc<str>>,
) -> Result<Option<Choice>, String> {
    let choice = match choice {
        None | Some(Value::Null) => return Ok(Some(Choice::Free)),
        Some(choice) => choice,
    };
    let forced = match (choice.as_str(), choice["type"].as_str()) {
        (Some("auto"), _) => return Ok(Some(Choice::Free)),
        (Some("none"), _) => return Ok(None),
        (Some("required"), _) => Choice::Any,
        (None, Some("function")) => {
            let function = choice.get("function").unwrap_or(choice);
            let name = function["name"].as_str().unwrap_or_default();
            if !names.contains(name) {
                return Err(format!(
                    "`tool_choice` names {name:?}, which is not one of the request's tools"
                ));
            }
            Choice::This(name.into())
        }
        _ => {
            return Err(format!(
                "`tool_choice` must be \"auto\", \"none\", \"required\" or a function, and is \
                 {choice}"
            ));
        }
    };
    if names.is_empty() {
        return Err("`tool_choice` requires a call, but the request has no tools".to_owned());
    }
    Ok(Some(forced))
}

#[cfg(test)]
mod tests {
    //! Valid client tools, and the errors for invalid ones.

    use super::*;

    fn read(tools: Value, choice: Value) -> Result<(Vec<ToolSpec>, ClientOptions), String> {
        let wanted = ClientToolRequest {
            tools: tools.as_array().cloned(),
            choice: (!choice.is_null()).then_some(choice),
            parallel: None,
        };
        let read = wanted.read();
        read.map_err(|wrong| format!("{}: {}", wrong.field, wrong.detail))
    }

    #[test]
    fn both_shapes_are_the_same_tool() {
        let chat =
            json!([{"type": "function", "function": {"name": "weather", "description": "w"}}]);
        let flat =
            json!([{"type": "function", "name": "weather", "description": "w", "strict": true}]);
        let (specs, client_options) = read(chat, Value::Null).unwrap();
        assert_eq!(
            (specs.clone(), client_options.clone()),
            read(flat.clone(), "auto".into()).unwrap()
        );
        assert_eq!(
            &*specs[0].input_schema,
            r#"{"properties":{},"type":"object"}"#
        );
        assert_eq!(client_options.tools, ["weather".into()]);
        assert_eq!(client_options.choice, Choice::Free);
        let named = json!({"type": "function", "function": {"name": "weather"}});
        for (choice, expected) in [
            (named, Choice::This("weather".into())),
            (
                json!({"type": "function", "name": "weather"}),
                Choice::This("weather".into()),
            ),
            ("required".into(), Choice::Any),
        ] {
            assert_eq!(read(flat.clone(), choice).unwrap().1.choice, expected);
        }
        let (specs, client_options) = read(flat, "none".into()).unwrap();
        assert_eq!(
            (specs.len(), client_options),
            (1, ClientOptions::default()),
            "the model knows the tool but may not call it"
        );
    }

    #[test]
    fn an_invalid_tool_is_named() {
        let one = |name: &str| json!({"type": "function", "function": {"name": name}});
        let many: Vec<Value> = (0..129).map(|n| one(&format!("t{n}"))).collect();
        for (tools, choice, says) in rows! {
            (json!([{"type": "web_search"}]), Value::Null,
             "tools: tools[0]: a tool of type \"web_search\""),
            (json!([{}]), Value::Null, "tools: tools[0]: it has no `type`"),
            (json!([one("a"), one("a")]), Value::Null, "tools: tools[1]: \"a\" is named twice"),
            (json!([one("a b")]), Value::Null, "tools: tools[0]: `name` must be"),
            (json!([one("")]), Value::Null, "tools: tools[0]: `name` must be"),
            (json!([one("recall")]), Value::Null,
             "tools: tools[0]: agents already have a tool \"recall\""),
            (json!([{"type": "function", "function": {"name": "a", "parameters": 7}}]),
             Value::Null, "tools: tools[0]: `parameters` must be"),
            (Value::Array(many), Value::Null, "tools: 129 tools are too many"),
            (json!([one("a")]), json!("sometimes"), "tool_choice: `tool_choice` must be"),
            (json!([one("a")]), json!({"type": "function", "name": "b"}),
             "tool_choice: `tool_choice` names \"b\""),
            (json!([]), json!("required"), "tool_choice: `tool_choice` requires a call"),
        } {
            let wrong = read(tools.clone(), choice).unwrap_err();
            assert!(wrong.starts_with(says), "{tools}: {wrong}");
        }
    }
}
