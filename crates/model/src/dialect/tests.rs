//! Tests of the fields that all dialects have, each in its own form.

mod files;

use serde_json::{Value, json};
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::snapshot::ToolSpec;

use super::fixture::{SENDING, head_bytes};
use super::*;
use crate::fixture::request;

fn asking(client_options: ClientOptions, wrap_up: bool) -> Request {
    Request {
        tools: [ToolSpec::new("weather", "x", r#"{"type":"object"}"#)].into(),
        allowed: client_options.tools.clone().into(),
        client_options,
        wrap_up: wrap_up.then(|| "Answer now.".into()),
        ..request()
    }
}

fn whole_body(dialect: Dialect, request: &Request) -> Value {
    let mut body = head_bytes(dialect, "m", request, false, Accepts::default());
    body.extend(dialect.tail(request, &SENDING));
    serde_json::from_slice(&body).unwrap()
}

/// The field of a body about tools that have to be called.
fn insists(dialect: Dialect, request: &Request) -> Value {
    let body = whole_body(dialect, request);
    let key = match dialect {
        Dialect::Gemini => "toolConfig",
        _ => "tool_choice",
    };
    body.get(key).cloned().unwrap_or_default()
}

#[test]
fn a_client_may_insist_on_a_call_of_its_tool() {
    let client_options = |choice| ClientOptions {
        tools: vec!["weather".into()],
        choice,
        ..ClientOptions::default()
    };
    let by_name = json!({"name": "weather"});
    let function = |more: Value| {
        let mut choice = json!({"type": "function"});
        choice
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        choice
    };
    let any = [
        "required".into(),
        "required".into(),
        json!({"type": "any"}),
        json!({"functionCallingConfig": {"mode": "ANY"}}),
    ];
    let this = [
        function(json!({"function": by_name})),
        function(by_name.clone()),
        json!({"type": "tool", "name": "weather"}),
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}}),
    ];
    let none = || [Value::Null, Value::Null, Value::Null, Value::Null];
    let mut expected = none();
    (expected[0], expected[1]) = ("none".into(), "none".into());
    let table = [
        (client_options(Choice::Free), false, none()),
        // A call that is handed over is an answer: also the last one.
        (client_options(Choice::Free), true, none()),
        (client_options(Choice::Any), false, any.clone()),
        (client_options(Choice::Any), true, any),
        (client_options(Choice::This("weather".into())), false, this),
        (ClientOptions::default(), false, none()),
        (ClientOptions::default(), true, expected),
    ];
    for (client_options, wrap_up, expected) in table {
        let request = asking(client_options, wrap_up);
        let said = Dialect::ALL.map(|dialect| insists(dialect, &request));
        assert_eq!(
            said, expected,
            "{:?}, last: {wrap_up}",
            request.client_options
        );
    }
}

/// A tool of a server with a schema that is refused as it is.
#[test]
fn the_schemas_of_tools_have_a_form_that_providers_accept() {
    let schema =
        r#"{"type":"object","properties":{"all":{"type":"array"}},"anyOf":[{"required":["all"]}]}"#;
    let mut request = asking(ClientOptions::default(), false);
    request.tools = [ToolSpec::new("open", "Opens.", schema)].into();
    let properties = |all: Value| json!({"type": "object", "properties": {"all": all}});
    let with_items = properties(json!({"type": "array", "items": {}}));
    for (dialect, place, expected) in [
        (
            Dialect::OpenAiChat,
            "/tools/0/function/parameters",
            with_items.clone(),
        ),
        (Dialect::OpenAiResponses, "/tools/0/parameters", with_items),
        (
            Dialect::Anthropic,
            "/tools/0/input_schema",
            properties(json!({"type": "array"})),
        ),
    ] {
        let body = whole_body(dialect, &request);
        assert_eq!(body.pointer(place), Some(&expected), "{dialect:?}");
        let whole = body.to_string();
        assert!(whole.contains(r#"[{\"required\":[\"all\"]}]"#), "{whole}");
    }
}

/// A server that refuses `response_format`.
#[test]
fn a_model_without_output_schemas_gets_the_schema_in_words() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let request = Request {
        output_schema: Some(schema.into()),
        ..request()
    };
    let sending = Sending {
        structured: false,
        ..SENDING
    };
    for dialect in [
        Dialect::OpenAiChat,
        Dialect::OpenAiResponses,
        Dialect::Gemini,
    ] {
        let mut body = dialect.head(&Head {
            model: "m",
            shared: request.shared(),
            breakpoints: false,
            structured: false,
            accepts: Accepts::default(),
        });
        body.extend(dialect.tail(&request, &sending));
        let body: Value = serde_json::from_slice(&body).unwrap();
        for key in ["response_format", "text"] {
            assert_eq!(body.get(key), None, "{dialect:?}");
        }
        let config = &body["generationConfig"];
        assert_eq!(config.get("responseJsonSchema"), None, "{dialect:?}");
        let told = format!("Answer with JSON alone that fits this schema:\n{schema}");
        let told = Value::from(told).to_string();
        let told = told.trim_matches('"');
        assert!(body.to_string().contains(told), "{dialect:?}: {body}");
        // A tool of that name is a tool like any other.
        let mut reply = Reply {
            calls: vec![fixture::made("a", "answer", "{}")],
            ..Reply::default()
        };
        assert!(!dialect.answered(&mut reply));
    }
}
