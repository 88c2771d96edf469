//! Calls that wait for a person while a client of the Model Context Protocol waits for an answer.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::mcp::{Spoken, current};
use crate::tools::{Scene, program};

/// A clerk who sends an invoice, which a rule holds.
fn held() -> Scene {
    let send = ("files__send", json!({"text": "the invoice"}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), "")
}

fn ask() -> Value {
    json!({"name": "ask", "arguments": {"task": "Do it."}})
}

#[track_caller]
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_client_that_can_ask_nobody_is_told_of_the_call_and_the_turn_stays() {
    let scene = held();
    let mut server = Spoken::started(scene.command(&["mcp"]));
    server.initialize("2025-11-25");
    let (answer, _) = server.ask(2, "tools/call", ask());
    let told = &answer["result"]["structuredContent"];
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    let call = told["waiting"][0]["call"].as_str().unwrap();
    assert_eq!(told["waiting"][0]["waits_for"], "approval");
    assert!(text(&answer).contains(&format!("unisono approvals approve {call}")));
    let turn = &told["turn"];
    let wait = json!({"session": turn["session"], "turn": turn["turn"]});
    let wait = json!({"name": "wait", "arguments": wait});
    let (still, _) = server.ask(3, "tools/call", wait.clone());
    assert_eq!(
        still["result"]["structuredContent"]["waiting"][0]["call"], call,
        "{still}"
    );
    server.end();
    // The turn is there for the next process, in which it is decided and ends.
    let daemon = Daemon::start(&scene.place);
    let at = format!("/v1/approvals/{call}");
    daemon
        .post(&at, &json!({"decision": "approve"}))
        .expect(200);
    let mut server = Spoken::started(scene.command(&["mcp"]));
    server.initialize("2025-11-25");
    let (answer, _) = server.ask(2, "tools/call", wait);
    assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
    server.end();
    daemon.stop();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_client_of_the_revision_before_asks_while_it_waits() {
    for (reply, told, made) in [
        (
            json!({"action": "accept", "content": {"approve": true}}),
            "Told: send: the invoice",
            1,
        ),
        (json!({"action": "decline"}), "did not allow this call", 0),
    ] {
        let scene = held();
        let mut server = Spoken::started(scene.command(&["mcp"]));
        server.initialize_as("2025-11-25", json!({"elicitation": {}}));
        server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ask()}));
        let question = loop {
            let message = server.next();
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let asked = question["params"]["message"].as_str().unwrap();
        assert!(
            asked.contains("files__send") && asked.contains("the invoice"),
            "{question}"
        );
        server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": reply}));
        let (answer, _) = server.answer(2);
        assert!(text(&answer).contains(told), "{answer}");
        server.end();
        assert_eq!(scene.count("call send "), made);
    }
}

#[test]
fn a_client_of_the_current_revision_asks_and_comes_again() {
    let scene = held();
    let mut server = Spoken::started(scene.command(&["mcp"]));
    let able = |mut params: Value| {
        params = current(params);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        params
    };
    let (asks, _) = server.ask(1, "tools/call", able(ask()));
    let asks = &asks["result"];
    assert_eq!(asks["resultType"], "input_required", "{asks}");
    assert_eq!(
        asks["inputRequests"]["approve"]["method"],
        "elicitation/create"
    );
    let mut again = ask();
    again["requestState"] = asks["requestState"].clone();
    again["inputResponses"] =
        json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let (answer, _) = server.ask(2, "tools/call", able(again));
    assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
    server.end();
    assert_eq!(scene.count("call send "), 1);
}
