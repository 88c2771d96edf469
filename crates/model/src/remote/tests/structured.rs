//! Tests of an older Claude model without support for output schemas, over HTTP: it receives a tool
//! to answer with, and the arguments of its call are the answer.

use unisono_context::call::ToolResult;
use unisono_context::snapshot::ToolSpec;
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use super::loopback::over_http;
use super::*;
use crate::language::Exchange;
use crate::provider::Kind;

const MODEL: &str = "anthropic/claude-3-5-haiku";
const SCHEMA: &str =
    r#"{"type":"object","properties":{"late":{"type":"integer"}},"required":["late"]}"#;

/// A model with that script, and a request whose answer has to match the schema.
async fn asked(script: Script) -> (FakeProvider, Arc<Remote<crate::client::Client>>, Request) {
    let provider = FakeProvider::play(script).await;
    let remote = over_http(MODEL, Dialect::Anthropic, Kind::Anthropic, &provider.url());
    let recall = ToolSpec::new("recall", "finds messages", r#"{"type":"object"}"#);
    let chat = Chat::new(1).say(Role::User, "Two of the nine parts are late.");
    let request = Request {
        group: Group::Shared,
        snapshot: Some(Arc::new(chat.freeze())),
        tools: Arc::from([recall]),
        allowed: Arc::from(["recall".into()]),
        output_schema: Some(SCHEMA.into()),
        ..fixture::request()
    };
    let prefix = remote.render(&request.shared());
    (provider, remote, Request { prefix, ..request })
}

#[tokio::test]
async fn an_output_schema_becomes_a_tool_whose_arguments_are_the_answer() {
    let arguments = r#"{"late":2}"#;
    let answer = Answer::call("answer", arguments).call_id("toolu_1");
    let script = Script::always(Act::answer(answer.in_pieces_of(3)));
    let (provider, remote, request) = asked(script).await;
    let received = Arc::new(Mutex::new(String::new()));
    let sink = received.clone();
    let listener = Listener::new(move |piece| sink.lock().unwrap().push_str(piece));
    let request = Request {
        listener,
        ..request
    };
    let reply = remote.complete(request.clone()).await.unwrap();
    assert_eq!((&*reply.text, reply.calls.len()), (arguments, 0));
    assert_eq!(reply.stop, crate::language::Stop::Complete);
    assert!(reply.usage.input > Tokens::ZERO && reply.usage.cost.is_some());
    assert_eq!(*received.lock().unwrap(), arguments);

    let sent = provider.requests();
    let body = std::str::from_utf8(&sent[0].body).unwrap();
    insta::assert_snapshot!(body, @r##"{"model":"claude-3-5-haiku","tools":[{"name":"recall","description":"finds messages","input_schema":{"type":"object"}},{"name":"answer","description":"Gives your answer, in the form that is asked for. Call it once, when you are done: it is the only way to answer, also where you are told to call no tools.","input_schema":{"type":"object","properties":{"late":{"type":"integer"}},"required":["late"]}}],"system":[{"type":"text","text":"be brief"},{"type":"text","text":"Each message begins with its number and, where it is known, its author (\"#12 Ana: …\"); a date in brackets begins a new day. Cite messages by number, such as #12. Do not begin your own reply with a number.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"[2026-05-07]\n#1 Two of the nine parts are late.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"# Your role\n\nYou are the agent \"risks\": finds risks\n\nName every \"risk\".\n\nOf the tools you may call: recall.\n\n# Task\n\nlist\nthe risks"}]}],"max_tokens":4096,"stream":true,"tool_choice":{"type":"any"}}"##);
    // The request that `why` and `replay` show is the one that was sent.
    assert_eq!(remote.body(&request).unwrap().concat(), body.as_bytes());
}

#[tokio::test]
async fn other_tools_may_be_called_first_and_plain_text_is_passed_on() {
    let script = Script::sequence([
        Answer::call("recall", r#"{"n":1}"#).call_id("toolu_1"),
        Answer::text("Let me see.").and_call("answer", r#"{"late":2}"#),
        Answer::text("Two are late."),
    ]);
    let (provider, remote, request) = asked(script).await;
    let first = remote.complete(request.clone()).await.unwrap();
    assert_eq!(&*first.calls[0].name, "recall");
    let found = ToolResult {
        call_id: first.calls[0].id.clone(),
        content: "Two of the nine parts are late.".into(),
        is_error: false,
        files: Vec::new(),
    };
    let request = Request {
        exchange: vec![Exchange::Reply(first), Exchange::Results(vec![found])],
        ..request
    };
    let second = remote.complete(request.clone()).await.unwrap();
    assert_eq!((&*second.text, second.calls.len()), (r#"{"late":2}"#, 0));
    let body = provider.requests()[1].json();
    assert_eq!(body["tool_choice"], serde_json::json!({"type": "any"}));
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"][0]["tool_use_id"], "toolu_1");
    // A server that does not enforce the tool call.
    let third = remote.complete(request).await.unwrap();
    assert_eq!(&*third.text, "Two are late.");
}
