//! MCP's tasks: a call that takes long is polled, answered, cancelled, and found after a restart.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};

use crate::http::Daemon;
use crate::support::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// A place whose model answers once the gate is open, and whose clients wait for a moment only.
fn place(gate: &Gate, more: &str) -> (FakeProvider, Place) {
    let script = Script::always(Act::from(Answer::text("All is well.")).hold(gate));
    let provider = FakeProvider::builder().script(script).start_on_thread();
    let place = Place::with_config(&format!(
        "[providers.openai]\nbase_url = \"{}/v1\"\napi_key_env = \"TEST_KEY\"\n\
         [models]\ndefault = \"openai/gpt-4o-mini\"\n[server]\nmcp_task_after = \"50ms\"\n{more}",
        provider.url()
    ));
    (provider, place)
}

fn daemon(place: &Place) -> Daemon {
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("TEST_KEY", "sk-test");
    Daemon::of(place, command)
}

/// A request of a client with these capabilities; what it is answered.
fn ask(daemon: &Daemon, method: &str, mut params: Value, able: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": able,
    });
    let name = params["name"].as_str().or(params["taskId"].as_str());
    let name = name.unwrap_or_default().to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
        ("Mcp-Name", &name),
    ];
    daemon
        .request_with("POST", "/mcp", &headers, Some(&message))
        .json()
}

fn tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}})
}

fn begun(daemon: &Daemon) -> Value {
    let call = json!({"name": "ask", "arguments": {"task": "Well?", "lead": "lead", "agents": []}});
    let answer = ask(daemon, "tools/call", call, tasks());
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].clone()
}

/// Looks at a task until it is in that state.
fn until(daemon: &Daemon, id: &str, status: &str) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = ask(daemon, "tasks/get", json!({"taskId": id}), tasks());
        if seen["result"]["status"] == status {
            return seen["result"].clone();
        }
        assert!(Instant::now() < end, "{seen}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_call_that_takes_long_is_a_task_that_outlives_the_daemon() {
    let gate = Gate::new();
    let (provider, place) = place(&gate, "");
    let daemon_one = daemon(&place);
    let task = begun(&daemon_one);
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("working"))
    );
    let id = task["taskId"].as_str().unwrap().to_owned();
    block_on(provider.wait_for(1));
    let working = until(&daemon_one, &id, "working");
    assert!(
        working["statusMessage"]
            .as_str()
            .unwrap()
            .contains("runs have ended"),
        "{working}"
    );
    assert!(working["pollIntervalMs"].is_u64() && working["ttlMs"].is_null());
    daemon_one.going.signal("KILL");
    daemon_one.going.finish();
    gate.open();
    let again = daemon(&place);
    let done = until(&again, &id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "All is well.");
    assert_eq!(
        done["result"]["structuredContent"]["turn"]["state"],
        "answered"
    );
    // Who does not know tasks waits for the answer.
    let call = json!({"name": "ask", "arguments": {"task": "Well?", "lead": "lead", "agents": []}});
    let answered = ask(&again, "tools/call", call, json!({}));
    assert_eq!(answered["result"]["content"][0]["text"], "All is well.");
    for wrong in ["x", "x.y", &id.replace('.', "-"), &id[..id.len() - 1]] {
        let refused = ask(&again, "tasks/get", json!({"taskId": wrong}), tasks());
        assert_eq!(refused["error"]["code"], -32_602, "{refused}");
    }
    let unable = ask(&again, "tasks/get", json!({"taskId": id}), json!({}));
    assert!(unable["error"]["code"].is_i64(), "{unable}");
    // The library logs what was refused in its own words.
    again.going.signal("TERM");
    again.going.finish().expect(0);
}

#[test]
fn a_task_is_cancelled() {
    let gate = Gate::new();
    let (provider, place) = place(&gate, "");
    let daemon = daemon(&place);
    let task = begun(&daemon);
    let id = task["taskId"].as_str().unwrap().to_owned();
    block_on(provider.wait_for(1));
    let cancelled = ask(&daemon, "tasks/cancel", json!({"taskId": id}), tasks());
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    until(&daemon, &id, "cancelled");
    // Again it changes nothing.
    let again = ask(&daemon, "tasks/cancel", json!({"taskId": id}), tasks());
    assert!(again["error"].is_null(), "{again}");
    gate.open();
    daemon.stop();
}
