//! What all dialects say alike, each in its own words.

mod files;

use serde_json::{Value, json};
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::snapshot::ToolSpec;

use super::fixture::SENDING;
use super::*;
use crate::fixture::request;

const ALL: [Dialect; 4] = [
    Dialect::OpenAiChat,
    Dialect::OpenAiResponses,
    Dialect::Anthropic,
    Dialect::Gemini,
];

fn asking(client_options: ClientOptions, wrap_up: bool) -> Request {
    Request {
        tools: [ToolSpec {
            name: "weather".into(),
            description: "x".into(),
            input_schema: r#"{"type":"object"}"#.into(),
        }]
        .into(),
        allowed: client_options.tools.clone().into(),
        client_options,
        wrap_up: wrap_up.then(|| "Answer now.".into()),
        ..request()
    }
}

/// What a body says about tools that have to be called.
fn insists(dialect: Dialect, request: &Request) -> Value {
    let mut body = dialect.head(&Head {
        model: "m",
        shared: request.shared(),
        breakpoints: false,
        structured: true,
        accepts: Accepts::default(),
    });
    body.extend(dialect.tail(request, &SENDING));
    let body: Value = serde_json::from_slice(&body).unwrap();
    let key = match dialect {
        Dialect::Gemini => "toolConfig",
        _ => "tool_choice",
    };
    body.get(key).cloned().unwrap_or_default()
}

#[test]
fn whoever_lends_a_tool_may_insist_on_a_call() {
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
        let said = ALL.map(|dialect| insists(dialect, &request));
        assert_eq!(
            said, expected,
            "{:?}, last: {wrap_up}",
            request.client_options
        );
    }
}
