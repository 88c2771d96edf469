//! MCP's tasks: a call that takes long is polled, answered, cancelled, and found after a restart.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};

use crate::http::Daemon;
use crate::mcp::Spoken;
use crate::people::caller;
use crate::support::{Place, awaited};
use crate::tools::{Scene, program};

/// A place whose model answers once the gate is open, and whose clients wait for a moment only.
fn place(gate: &Gate, more: &str) -> (FakeProvider, Place) {
    let script = Script::always(Act::from(Answer::text("All is well.")).hold(gate));
    let provider = FakeProvider::play_on_thread(script);
    let more = format!(
        "[models]\ndefault = \"openai/gpt-4o-mini\"\n[server]\nmcp_task_after = \"50ms\"\n{more}"
    );
    let place = Place::with_openai(&provider, &more);
    (provider, place)
}

/// What a request of a client with these capabilities carries.
fn able_to(able: Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": able,
    });
    params
}

/// A request of a client with these capabilities; what it is answered.
fn ask(daemon: &Daemon, method: &str, params: Value, able: Value) -> Value {
    ask_as(daemon, &daemon.token, method, params, able)
}

/// The same with another token.
fn ask_as(daemon: &Daemon, token: &str, method: &str, params: Value, able: Value) -> Value {
    let params = able_to(able, params);
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
        .request_as(token, "POST", "/mcp", &headers, Some(&message))
        .json()
}

fn tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}})
}

/// A task whose turn has a delegate. The answer is the lead's, as it is for the call itself.
fn begun(daemon: &Daemon) -> Value {
    let asked = json!({"task": "Well?", "lead": "lead", "agents": ["facts"]});
    let call = json!({"name": "ask", "arguments": asked});
    let answer = ask(daemon, "tools/call", call, tasks());
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].clone()
}

/// Looks at a task until it is in that state.
fn until(daemon: &Daemon, id: &str, status: &str) -> Value {
    awaited(|| {
        let seen = ask(daemon, "tasks/get", json!({"taskId": id}), tasks());
        match seen["result"]["status"] == status {
            true => Ok(seen["result"].clone()),
            false => Err(seen),
        }
    })
}

#[test]
fn a_call_that_takes_long_is_a_task_that_outlives_the_daemon() {
    let gate = Gate::new();
    let (provider, place) = place(&gate, "");
    let daemon_one = Daemon::keyed(&place);
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
    daemon_one.kill();
    gate.open();
    let again = Daemon::keyed(&place);
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
    let daemon = Daemon::keyed(&place);
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

#[test]
fn a_task_is_looked_at_and_cancelled_on_standard_input_while_a_daemon_runs() {
    let gate = Gate::new();
    let (provider, place) = place(&gate, "");
    let daemon = Daemon::keyed(&place);
    let mut server = Spoken::started(place.command(&["mcp"]));
    let mut ask = |id: u32, method: &str, params: Value| {
        let (answer, _) = server.ask(id, method, able_to(tasks(), params));
        answer["result"].clone()
    };
    let call = json!({"task": "Well?", "lead": "lead", "agents": []});
    let task = ask(1, "tools/call", json!({"name": "ask", "arguments": call}));
    let id = task["taskId"].as_str().unwrap();
    block_on(provider.wait_for(1));
    let working = ask(2, "tasks/get", json!({"taskId": id}));
    assert_eq!(working["status"], "working", "{working}");
    let cancelled = ask(3, "tasks/cancel", json!({"taskId": id}));
    assert_eq!(cancelled["resultType"], "complete", "{cancelled}");
    until(&daemon, id, "cancelled");
    gate.open();
    server.end();
    daemon.stop();
}

#[test]
fn a_task_that_waits_for_a_person_asks_who_may_decide_and_ignores_other_answers() {
    let send = ("files__send", json!({"text": "the invoice"}));
    let scene = Scene::new(&[&[send]], &program("approve = [\"send\"]"), "");
    let daemon = Daemon::keyed(&scene.place);
    // Who knows no tasks and can ask nobody is told at once that the turn waits.
    let call = json!({"name": "ask", "arguments": {"task": "Do it."}});
    let waits = ask(&daemon, "tools/call", call, json!({}));
    let turn = &waits["result"]["structuredContent"]["turn"];
    let [session, turn] = [&turn["session"], &turn["turn"]].map(|id| id.as_str().unwrap());
    let id = format!("{session}.{turn}.ask");
    let asks = until(&daemon, &id, "input_required");
    let questions = asks["inputRequests"].as_object().unwrap();
    let keys: Vec<&str> = questions.keys().map(String::as_str).collect();
    let [key] = keys[..] else {
        panic!("{asks}");
    };
    assert_eq!(questions[key]["method"], "elicitation/create");
    let yes = json!({"action": "accept", "content": {"approve": true}});
    let answers =
        |key: &str, answer: &Value| json!({"taskId": id, "inputResponses": {key: answer}});

    // A token that may not decide is not asked to.
    let other = caller(&daemon, &json!({"name": "other", "scope": "ask"}));
    let as_other =
        |method: &str, params: Value| ask_as(&daemon, &other.token, method, params, tasks());
    let seen = as_other("tasks/get", json!({"taskId": id}));
    assert_eq!(seen["result"]["status"], "working", "{seen}");
    let message = seen["result"]["statusMessage"].as_str().unwrap();
    assert!(message.contains("unisono approvals approve"), "{seen}");
    let refused = as_other("tasks/update", answers(key, &yes));
    let reason = refused["error"]["message"].as_str().unwrap();
    assert!(reason.contains("`approve`"), "{refused}");

    // An answer to a question that is not open, or without a decision, changes nothing.
    let update = |params: Value| ask(&daemon, "tasks/update", params, tasks());
    for (key, answer) in [("approve", &yes), (key, &json!({"action": "cancel"}))] {
        let ignored = update(answers(key, answer));
        assert_eq!(ignored["result"]["resultType"], "complete", "{ignored}");
        until(&daemon, &id, "input_required");
    }
    let wrong = update(answers(key, &json!(7)));
    assert_eq!(wrong["error"]["code"], -32_602, "{wrong}");
    for _ in 0..2 {
        // The second time nobody asks any more.
        let taken = update(answers(key, &yes));
        assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    }
    let done = until(&daemon, &id, "completed");
    assert_eq!(
        done["result"]["content"][0]["text"],
        "Told: send: the invoice"
    );
    daemon.going.signal("TERM");
    daemon.going.finish().expect(0);
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_client_of_an_earlier_revision_waits_for_the_answer() {
    let gate = Gate::new();
    let script = Script::always(Act::from(Answer::text("All is well.")).hold(&gate));
    let provider = FakeProvider::play_on_thread(script);
    let more = "[models]\ndefault = \"openai/gpt-4o-mini\"\n[server]\nmcp_task_after = \"1ms\"\n";
    let place = Place::with_openai(&provider, more);
    let mut server = Spoken::started(place.keyed_command(&["mcp"]));
    // The extension does not exist in that revision.
    server.initialize_as("2025-11-25", tasks());
    let call = json!({"name": "ask", "arguments": {"task": "Well?", "lead": "lead", "agents": []}});
    server.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}));
    block_on(provider.wait_for(1));
    let other = json!({"name": "sessions", "arguments": {}});
    let (_, before) = server.ask(6, "tools/call", other);
    assert!(before.iter().all(|one| one["id"] != 5), "{before:?}");
    gate.open();
    let (answer, _) = server.answer(5);
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!(text, "All is well.", "{answer}");
    server.end();
}
