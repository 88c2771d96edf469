//! What all dialects say alike, each in its own words.

use serde_json::{Value, json};
use unisono_context::call::{Choice, Lent};
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

fn asking(lent: Lent, wrap_up: bool) -> Request {
    Request {
        tools: [ToolSpec {
            name: "weather".into(),
            description: "x".into(),
            input_schema: r#"{"type":"object"}"#.into(),
        }]
        .into(),
        allowed: lent.tools.clone().into(),
        lent,
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
    let lent = |choice| Lent {
        tools: vec!["weather".into()],
        choice,
        ..Lent::default()
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
    let mut told = none();
    (told[0], told[1]) = ("none".into(), "none".into());
    let table = [
        (lent(Choice::Free), false, none()),
        // A call that is handed over is an answer: also the last one.
        (lent(Choice::Free), true, none()),
        (lent(Choice::Any), false, any.clone()),
        (lent(Choice::Any), true, any),
        (lent(Choice::This("weather".into())), false, this),
        (Lent::default(), false, none()),
        (Lent::default(), true, told),
    ];
    for (lent, wrap_up, expected) in table {
        let request = asking(lent, wrap_up);
        let said = ALL.map(|dialect| insists(dialect, &request));
        assert_eq!(said, expected, "{:?}, last: {wrap_up}", request.lent);
    }
}
