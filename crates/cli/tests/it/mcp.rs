//! The Model Context Protocol: over standard input and output, and over HTTP, in the current
//! revision and the one before it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams};
use serde_json::{Value, json};

use crate::http::{Daemon, Reply};
use crate::interrupted::Scene;
use crate::support::{HasAll as _, PATIENCE, Place, example, heard, send_signal, tell};

const TALK: &str = r#"[{"role":"user","content":"We ship on Friday."},{"role":"assistant","content":"Noted: the risk is the database."}]"#;

/// The server as a program, spoken to line by line.
pub(crate) struct Spoken {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Spoken {
    pub(crate) fn start(place: &Place) -> Spoken {
        Spoken::started(place.command(&["mcp"]))
    }

    pub(crate) fn started(mut command: std::process::Command) -> Spoken {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Spoken {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Ends it with that signal, as the system does.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(signal, &self.child.id().to_string());
    }

    /// The next request or notification of that method.
    #[track_caller]
    pub(crate) fn asked(&self, method: &str) -> Value {
        loop {
            let message = self.next();
            if message["method"] == method {
                return message;
            }
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("nothing came")
    }

    /// The answer to a request, and the notifications before it.
    #[track_caller]
    pub(crate) fn ask(&mut self, id: u32, method: &str, params: Value) -> (Value, Vec<Value>) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(id)
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: u32) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// Shakes hands as clients of the revision before do.
    #[track_caller]
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        self.initialize_as(version, json!({}))
    }

    /// Starts it and shakes hands.
    #[track_caller]
    pub(crate) fn greeted(command: std::process::Command) -> Spoken {
        let mut server = Spoken::started(command);
        server.initialize("2025-11-25");
        server
    }

    /// The same for a client that can do that.
    #[track_caller]
    pub(crate) fn initialize_as(&mut self, version: &str, able: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": version, "capabilities": able, "clientInfo": client});
        let (answer, _) = self.ask(1, "initialize", params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer["result"].clone()
    }

    /// Closes its input; the time at which that happened.
    pub(crate) fn close(&mut self) -> Instant {
        self.input.take();
        Instant::now()
    }

    #[track_caller]
    pub(crate) fn end(mut self) {
        self.input.take();
        let status = thread::spawn(move || self.child.wait().unwrap())
            .join()
            .unwrap();
        assert!(status.success());
    }
}

/// What every request of the current revision carries.
pub(crate) fn current(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn imported(place: &Place) -> String {
    place.write("talk.json", TALK);
    place.call(&["import", "talk.json"]).expect(0);
    let sessions = place.json(&["sessions", "list"]);
    sessions[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_line_that_is_no_message_does_not_end_the_server() {
    for bridged in [false, true] {
        let place = Place::new();
        let daemon = bridged.then(|| Daemon::start(&place));
        let mut client = Spoken::start(&place);
        client.initialize("2025-06-18");
        let mut bad = b"\xff\n".to_vec();
        bad.resize((33 << 20) + 2, b'x');
        bad.extend_from_slice(b"\n{bad\n");
        client.input.as_mut().unwrap().write_all(&bad).unwrap();
        let (answer, before) = client.ask(2, "tools/list", json!({}));
        assert!(answer["result"]["tools"].is_array(), "{answer}");
        let codes: Vec<_> = before.iter().map(|said| &said["error"]["code"]).collect();
        assert_eq!(codes, [-32700, -32600, -32700]);
        let (answer, _) = client.ask(3, "ping", json!(5));
        assert_eq!(answer["error"]["code"], -32_600, "{answer}");
        // The answer has the id of its request, with every character.
        let id = "a \u{2067}b\u{2069} c\u{7f}";
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(client.next()["id"], id);
        client.end();
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}

#[test]
fn the_revision_before_is_served_with_a_handshake() {
    let place = Place::new();
    let session = imported(&place);
    let mut server = Spoken::start(&place);
    let info = server.initialize("2025-11-25");
    assert_eq!(info["protocolVersion"], "2025-11-25");
    assert_eq!(info["serverInfo"]["name"], "unisono");
    for (id, list) in [(20, "tools/list"), (21, "resources/templates/list")] {
        let (further, _) = server.ask(id, list, json!({"cursor": "x"}));
        assert_eq!(further["error"]["code"], -32602, "{further}");
    }
    let (tools, _) = server.ask(2, "tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "ask", "delegate", "compact", "wait", "recall", "search", "sessions"
        ]
    );
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
    }
    let call = json!({
        "name": "ask", "_meta": {"progressToken": "p"},
        "arguments": {"session": session, "task": "What is the risk?", "agents": ["risks"]},
    });
    let (answer, reply) = server.ask(3, "tools/call", call);
    let result = &answer["result"];
    assert_ne!(result["isError"], true, "{answer}");
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("database"),
        "{answer}"
    );
    let turn = &result["structuredContent"]["turn"];
    assert_eq!(turn["state"], "answered");
    assert_eq!(turn["runs"].as_array().unwrap().len(), 2);
    let reply: Vec<&Value> = reply
        .iter()
        .filter(|m| m["method"] == "notifications/progress")
        .collect();
    let lines: Vec<_> = reply.iter().map(|m| &m["params"]["message"]).collect();
    for line in ["risks: running", "risks: done"] {
        assert!(lines.iter().any(|told| **told == line), "{lines:?}");
    }
    let steps: Vec<f64> = reply
        .iter()
        .map(|m| m["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
    assert!(reply.iter().all(|m| m["params"]["progressToken"] == "p"));
    let turn = turn["turn"].as_str().unwrap().to_owned();
    let uri = format!("unisono://sessions/{session}/snapshots/{turn}");
    let (read, _) = server.ask(4, "resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("snapshot ") && text.contains("[#1 user]\nWe ship on Friday."),
        "{text}"
    );
    assert!(
        !text.contains("What does it mean"),
        "the snapshot ends with what was frozen"
    );
    server.end();
}

#[test]
fn where_a_daemon_has_the_store_messages_are_passed_on_to_it() {
    let place = Place::new();
    let session = imported(&place);
    let daemon = Daemon::start(&place);
    let mut server = Spoken::start(&place);
    let info = server.initialize("2025-11-25");
    assert_eq!(info["protocolVersion"], "2025-11-25");
    let call = json!({
        "name": "ask", "_meta": {"progressToken": "p"},
        "arguments": {"session": session, "task": "What is the risk?", "agents": ["risks"]},
    });
    let (answer, reply) = server.ask(2, "tools/call", call);
    let turn = &answer["result"]["structuredContent"]["turn"];
    assert_eq!(turn["state"], "answered", "{answer}");
    let reply = reply
        .iter()
        .filter(|m| m["method"] == "notifications/progress");
    assert!(reply.count() > 0, "nothing was told of the progress");
    let path = format!(
        "/v1/sessions/{session}/turns/{}",
        turn["turn"].as_str().unwrap()
    );
    daemon.get(&path).expect(200);
    // The current revision over the same lines, and what is no message.
    let arguments =
        json!({"name": "recall", "arguments": {"session": session, "query": "database"}});
    let (recalled, _) = server.ask(3, "tools/call", current(arguments));
    assert_eq!(
        recalled["result"]["structuredContent"]["messages"][0]["ordinal"], 2,
        "{recalled}"
    );
    let (unknown, _) = server.ask(4, "tools/nothing", json!({}));
    assert!(unknown["error"]["code"].is_i64(), "{unknown}");
    server
        .input
        .as_mut()
        .unwrap()
        .write_all(b"no message\n")
        .unwrap();
    assert_eq!(server.next()["error"]["code"], -32_700);
    server.end();
    daemon.stop();
}

#[test]
fn a_client_is_told_when_the_daemon_is_gone() {
    let place = Place::new();
    imported(&place);
    let daemon = Daemon::start(&place);
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    server.ask(1, "tools/list", json!({}));
    daemon.stop();
    let (answer, _) = server.ask(2, "tools/list", json!({}));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("cannot be reached"), "{answer}");
    assert_eq!(server.child.wait().unwrap().code(), Some(3));
}

#[test]
fn the_current_revision_is_served_without_one() {
    let place = Place::new();
    let session = imported(&place);
    let daemon = Daemon::start(&place);
    let call = |method: &str, name: Option<&str>, params: Value| -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": current(params)});
        let mut headers = vec![
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        daemon.request_with("POST", "/mcp", &headers, Some(&body))
    };
    let found = call("server/discover", None, json!({})).expect(200).json();
    assert!(
        found["result"]["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{found}"
    );
    let arguments =
        json!({"name": "recall", "arguments": {"session": session, "query": "database"}});
    let recalled = call("tools/call", Some("recall"), arguments)
        .expect(200)
        .json();
    assert_eq!(
        recalled["result"]["structuredContent"]["messages"][0]["ordinal"], 2,
        "{recalled}"
    );
    let listed = call("resources/list", None, json!({})).expect(200).json();
    assert_eq!(
        listed["result"]["resources"][0]["uri"],
        format!("unisono://sessions/{session}")
    );
    let arguments = json!({"name": "search", "arguments": {"query": "friday"}});
    let searched = call("tools/call", Some("search"), arguments)
        .expect(200)
        .json();
    assert_eq!(
        searched["result"]["structuredContent"]["found"][0]["session"], session,
        "{searched}"
    );
    daemon.stop();
}

#[test]
fn the_revision_before_is_served_over_http_without_a_session() {
    let place = Place::new();
    let session = imported(&place);
    let daemon = Daemon::start(&place);
    let headers = [("Accept", "application/json, text/event-stream")];
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}});
    let hello = daemon
        .request_with("POST", "/mcp", &headers, Some(&hello))
        .expect(200)
        .json();
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let headers = [headers[0], ("MCP-Protocol-Version", "2025-11-25")];
    // With a token for progress the answer comes as a stream.
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "delegate", "_meta": {"progressToken": 9},
        "arguments": {"session": session, "tasks": [{"agent": "risks", "task": "Which risk?"}, {"agent": "facts", "task": "Which day?"}]}}});
    let reply = daemon
        .request_with("POST", "/mcp", &headers, Some(&call))
        .expect(200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let messages: Vec<Value> = reply
        .events()
        .filter_map(|event| serde_json::from_str(&event.data).ok())
        .collect();
    let last = messages.last().unwrap();
    assert!(
        messages
            .iter()
            .any(|m| m["method"] == "notifications/progress"),
        "{messages:#?}"
    );
    let text = last["result"]["content"][0]["text"].as_str().unwrap();
    text.has_all(&["## risks", "## facts", "## Joined"]);
    daemon.stop();
}

/// What a tool came back with.
#[track_caller]
fn called(server: &mut Spoken, id: u32, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    let (answer, _) = server.ask(id, "tools/call", params);
    let result = answer["result"].clone();
    assert_ne!(result["isError"], true, "{answer}");
    result
}

#[test]
fn all_that_are_named_work_though_their_lead_could_choose() {
    let place = Place::with_config("[turn]\nlead = \"coordinator\"\n");
    let session = imported(&place);
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let arguments = json!({"session": session, "task": "What is the risk?",
        "tasks": [{"agent": "risks"}, {"agent": "facts", "task": "Which day?"}]});
    let delegated = called(&mut server, 2, "delegate", arguments);
    let runs = delegated["structuredContent"]["turn"]["runs"]
        .as_array()
        .unwrap();
    let of =
        |key: &str| -> Vec<&str> { runs.iter().map(|run| run[key].as_str().unwrap()).collect() };
    assert_eq!(of("agent"), ["risks", "facts", "coordinator"]);
    assert_eq!(of("role"), ["delegate", "delegate", "lead"]);
    server.end();
}

#[test]
fn a_session_is_compacted_on_request() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let imported = place.json(&["import", &example()]);
    let session = imported["session"].as_str().unwrap().to_owned();
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let compacted = called(&mut server, 2, "compact", json!({"session": session}));
    let text = compacted["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("compacted: checkpoint "), "{text}");
    let turn = &compacted["structuredContent"]["turn"];
    assert_eq!(turn["state"], "compacted", "{turn}");
    assert_eq!(turn["checkpoints"].as_array().unwrap().len(), 1, "{turn}");
    // Nothing is left that could be summarised.
    let again = called(&mut server, 3, "compact", json!({"session": session}));
    let text = again["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("nothing to summarise"), "{text}");
    server.end();
    let shown = place.json(&["checkpoints", "list"]);
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn a_compaction_keeps_as_much_as_it_is_told_to() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let imported = place.json(&["import", &example()]);
    let session = imported["session"].as_str().unwrap().to_owned();
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let arguments = json!({"session": session, "keep_messages": 40});
    called(&mut server, 2, "compact", arguments);
    let arguments = json!({"session": session, "large_messages": true, "over_tokens": 64});
    called(&mut server, 3, "compact", arguments);
    server.end();
    let shown = place.json(&["checkpoints", "list"]);
    let messages = shown[0]["messages"].as_u64().unwrap();
    assert!((100..=119).contains(&messages), "{shown}");
    let cut = place.events(&session).into_iter();
    let mut cut = cut.filter(|event| matches!(event.fact, unisono_session::Fact::Altered { .. }));
    assert!(cut.next().is_some(), "no message was cut");
}

#[test]
fn bad_calls_are_told_and_leave_nothing_behind() {
    let place = Place::new();
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let absent = "01a20000-0000-7000-8000-000000000000";
    let rows = json!([
        ["ask", {}, "missing field `task`"],
        ["ask", {"task": " "}, "`task` is empty"],
        ["ask", {"task": "x", "sesion": "y"}, "unknown field `sesion`"],
        ["ask", {"task": "x", "agents": ["nobody"]}, "unknown agent `nobody`"],
        ["ask", {"task": "x", "session": "nowhere"}, "not the id of a session"],
        ["delegate", {"tasks": []}, "name at least one agent"],
        ["delegate", {"tasks": [{"agent": "risks"}]}, "the request has no task"],
        ["compact", {"session": absent}, "does not exist"],
        ["compact", {"session": absent, "keep_messages": 2, "keep_tokens": 9}, "contradicts keep_tokens"],
        ["compact", {"session": absent, "topic": 1, "attention": true}, "contradict each other"],
        ["compact", {"session": absent, "over_tokens": 100}, "over_tokens is for large_messages"],
        ["search", {"query": "x", "session": "y"}, "unknown field `session`"],
        ["search", {"query": "x session:nowhere"}, "no id of a session begins or ends with \"nowhere\""],
        ["search", {"query": ""}, "nothing to search for"],
    ]);
    for (id, row) in (10..).zip(rows.as_array().unwrap()) {
        let call = json!({"name": row[0], "arguments": row[1]});
        let (answer, _) = server.ask(id, "tools/call", call);
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(row[2].as_str().unwrap()), "{row}: {text}");
    }
    let unknown = json!({"name": "erase", "arguments": {}});
    let (unknown, _) = server.ask(88, "tools/call", unknown);
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    for params in [json!({"name": "ask", "arguments": "x"}), json!({})] {
        let (wrong, _) = server.ask(86, "tools/call", params);
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        let said = wrong["error"]["message"].as_str().unwrap();
        assert!(
            said.starts_with("invalid parameters of tools/call: "),
            "{said}"
        );
    }
    let (nothing, _) = server.ask(85, "no/such", json!({}));
    assert_eq!(
        nothing["error"]["message"],
        "there is no method \"no/such\""
    );
    let (prompts, _) = server.ask(89, "prompts/list", json!({}));
    assert_eq!(prompts["error"]["code"], -32601, "{prompts}");
    let params = json!({"ref": {"type": "ref/resource", "uri": "unisono://sessions/{session}"},
                        "argument": {"name": "session", "value": "0"}});
    let (complete, _) = server.ask(87, "completion/complete", params);
    assert_eq!(complete["error"]["code"], -32601, "{complete}");
    let (read, _) = server.ask(90, "resources/read", json!({"uri": "file:///etc/passwd"}));
    assert!(
        read["error"]["message"]
            .as_str()
            .unwrap()
            .contains("there is no resource"),
        "{read}"
    );
    let (listed, _) = server.ask(
        91,
        "tools/call",
        json!({"name": "sessions", "arguments": {}}),
    );
    assert_eq!(
        listed["result"]["structuredContent"]["sessions"],
        json!([]),
        "no session was begun"
    );
    server.end();
}

#[test]
fn a_task_that_cannot_begin_leaves_no_session_behind() {
    let place = Place::with_config(
        "[agents.clerk]\ndescription = \"keeps the books\"\nmcp_servers = [\"files\"]\n\
         [mcp.files]\ncommand = \"/nowhere/at-all\"\n",
    );
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let calls = [
        (
            "ask",
            json!({"task": "Look.", "lead": "clerk", "agents": []}),
        ),
        (
            "delegate",
            json!({"task": "Look.", "tasks": [{"agent": "clerk"}]}),
        ),
    ];
    for (id, (name, arguments)) in (10..).zip(calls) {
        let call = json!({"name": name, "arguments": arguments});
        let (answer, _) = server.ask(id, "tools/call", call);
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("tool server `files`"), "{text}");
    }
    let listed = called(&mut server, 20, "sessions", json!({}));
    assert_eq!(listed["structuredContent"]["sessions"], json!([]));
    server.end();
}

#[test]
fn a_call_that_is_taken_back_cancels_its_turn() {
    let scene = Scene::new();
    let mut server = Spoken::greeted(scene.place.command(&["mcp"]));
    let call =
        json!({"name": "ask", "arguments": {"task": "Which word?", "lead": "waits", "agents": []}});
    server.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}));
    heard(&scene.started);
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}),
    );
    // One after the other on its branch: the next turn of the session begins when that one is over.
    let (listed, _) = server.ask(
        6,
        "tools/call",
        json!({"name": "sessions", "arguments": {}}),
    );
    let session = listed["result"]["structuredContent"]["sessions"][0]["session"].clone();
    let call = json!({"name": "ask", "arguments": {"session": session, "task": "And now?", "lead": "waits", "agents": []}});
    server.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}));
    heard(&scene.started);
    tell(&scene.word, "teapot");
    let (answer, _) = server.answer(7);
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("teapot"),
        "{answer}"
    );
    server.end();
    let events = scene.place.events(session.as_str().unwrap());
    let outcomes = events.iter().filter_map(|event| match &event.fact {
        unisono_session::Fact::TurnEnded { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let outcomes: Vec<_> = outcomes.collect();
    assert!(
        matches!(outcomes[0], unisono_session::event::Outcome::Cancelled),
        "{outcomes:?}"
    );
}

/// Sends a message over HTTP.
pub(crate) fn posted(daemon: &Daemon, headers: &[(&str, &str)], message: &Value) -> Reply {
    let accept = ("Accept", "application/json, text/event-stream");
    let headers = [&[accept][..], headers].concat();
    daemon.request_with("POST", "/mcp", &headers, Some(message))
}

/// The id that a client over HTTP gets.
pub(crate) fn client_id(daemon: &Daemon, headers: &[(&str, &str)]) -> String {
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}});
    let greeted = posted(daemon, headers, &greeting).expect(200);
    greeted.header("mcp-session-id").unwrap().to_owned()
}

/// A call with the number 5. With progress its response begins before the answer.
pub(crate) fn call_5(arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "name": "ask", "_meta": {"progressToken": 5}, "arguments": arguments}})
}

/// Takes the call with the number 5 back.
pub(crate) fn take_back_5(daemon: &Daemon, headers: &[(&str, &str)]) {
    let withdrawn = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": 5}});
    posted(daemon, headers, &withdrawn).expect(202);
}

#[test]
fn a_call_over_http_that_is_taken_back_cancels_its_turn() {
    // More callers than those whose routes are kept.
    const OTHERS: usize = 256;
    let scene = Scene::new();
    let settings = scene.place.config() + "[server]\ntrusted_user_header = \"X-User\"\n";
    scene.place.set_config(settings);
    let daemon = Daemon::start(&scene.place);
    let user = ("X-User", "ada");
    let client = client_id(&daemon, &[user]);
    let client = [user, ("Mcp-Session-Id", client.as_str())];
    let call = call_5(&json!({"task": "Which word?", "lead": "waits", "agents": []}));
    let reply = posted(&daemon, &client, &call).expect(200);
    heard(&scene.started);
    for n in 0..OTHERS {
        let other = format!("user-{n}");
        let other = [("X-User", other.as_str())];
        let listed = daemon.request_with("GET", "/v1/sessions", &other, None);
        listed.expect(200);
    }
    take_back_5(&daemon, &client);
    let messages: Vec<String> = reply.events().map(|event| event.data).collect();
    assert!(!messages.concat().contains("\"result\""), "{messages:?}");
    let sessions = daemon.json("/v1/sessions");
    let session = sessions["items"][0]["session"].as_str().unwrap();
    let turns = format!("/v1/sessions/{session}/turns");
    daemon.awaited(&turns, |all| all["items"][0]["state"] == "cancelled");
    daemon.stop();
}

#[test]
fn a_wait_that_is_taken_back_leaves_the_turn_alone() {
    let scene = Scene::new();
    let mut server = Spoken::greeted(scene.place.command(&["mcp"]));
    let call =
        json!({"name": "ask", "arguments": {"task": "Which word?", "lead": "waits", "agents": []}});
    server.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}));
    heard(&scene.started);
    let listed = called(&mut server, 6, "sessions", json!({}));
    let session = listed["structuredContent"]["sessions"][0]["session"].clone();
    let uri = format!("unisono://sessions/{}", session.as_str().unwrap());
    let (read, _) = server.ask(7, "resources/read", json!({"uri": uri}));
    let read: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    let turn = read["open_turns"]["items"][0].clone();
    let wait = json!({"name": "wait", "arguments": {"session": session, "turn": turn}});
    server.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": wait}));
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}}),
    );
    called(&mut server, 9, "sessions", json!({}));
    tell(&scene.word, "teapot");
    let (answer, _) = server.answer(5);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("teapot"), "{answer}");
    server.end();
}

#[test]
fn a_call_is_answered_with_its_progress_after_the_end_of_the_input() {
    let scene = Scene::new();
    let mut server = Spoken::greeted(scene.place.command(&["mcp"]));
    let call = json!({"name": "ask", "_meta": {"progressToken": 1},
        "arguments": {"task": "Which word?", "lead": "waits", "agents": []}});
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    heard(&scene.started);
    server.close();
    tell(&scene.word, "teapot");
    let (answer, before) = server.answer(2);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("teapot"), "{answer}");
    let is_progress = |message: &Value| message["method"] == "notifications/progress";
    assert!(before.iter().any(is_progress), "{before:?}");
    server.end();
}

#[test]
fn the_guard_stands_before_it() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let accept = ("Accept", "application/json, text/event-stream");
    let foreign = [accept, ("Origin", "https://evil.example")];
    daemon
        .request_with("POST", "/mcp", &foreign, Some(&list))
        .expect(403);
    let host = ("Host", daemon.address.as_str());
    let json = ("Content-Type", "application/json");
    let body = list.to_string();
    let bare = crate::http::head("POST", "/mcp", &[host, accept, json], body.len());
    daemon.send(&bare, body.as_bytes()).expect(401);
    let other = crate::http::head(
        "POST",
        "/mcp",
        &[("Host", "evil.example"), accept, json],
        body.len(),
    );
    daemon.send(&other, body.as_bytes()).expect(403);
    daemon.stop();
}

#[test]
fn a_body_that_is_no_message_is_an_error_of_the_protocol() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let headers = [
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    for (body, code) in [
        ("{bad", -32700),
        ("", -32700),
        ("[]", -32600),
        ("{\"id\":1,\"method\":\"ping\"}", -32600),
    ] {
        let reply = daemon.send_as(&daemon.token, "POST", "/mcp", &headers, body.as_bytes());
        let reply = reply.expect(400).json();
        assert_eq!(reply["error"]["code"], code, "{body}: {reply}");
        assert_eq!(reply["jsonrpc"], "2.0");
    }
    let send = |message: &Value| {
        let body = message.to_string();
        daemon.send_as(&daemon.token, "POST", "/mcp", &headers, body.as_bytes())
    };
    for (id, mut message) in [
        (Value::Null, json!({"id": {}, "method": "ping"})),
        (Value::Null, json!({"id": null, "method": "ping"})),
        (json!(7), json!({"id": 7, "method": 5})),
        (
            json!("a"),
            json!({"id": "a", "method": "ping", "params": 5}),
        ),
    ] {
        message["jsonrpc"] = "2.0".into();
        let reply = send(&message).expect(400).json();
        assert_eq!(reply["error"]["code"], -32_600, "{message}: {reply}");
        assert_eq!(reply["id"], id, "{message}: {reply}");
    }
    let told = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": 5});
    send(&told).expect(202);
    let send_as = |kind: &str, body: &str| {
        let headers = [headers[0], ("Content-Type", kind)];
        daemon.send_as(&daemon.token, "POST", "/mcp", &headers, body.as_bytes())
    };
    let reply = send_as("Application/JSON; charset=utf-8", "{bad").expect(400);
    assert_eq!(reply.json()["error"]["code"], -32_700);
    // Another type is not read, so it is not taken for a message with an invalid part.
    for kind in ["application/json-rpc", "application/jsonl"] {
        send_as(kind, &told.to_string()).expect(415);
    }
    daemon.stop();
}

#[test]
fn a_client_of_the_official_kind_works_unchanged() {
    let place = Place::new();
    let session = imported(&place);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut command = tokio::process::Command::from(place.command(&["mcp"]));
    command.stdin(Stdio::piped());
    runtime.block_on(async {
        let mut child = command.spawn().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = tokio::time::timeout(PATIENCE, ().serve(pipes))
            .await
            .unwrap()
            .unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 7);
        let arguments = json!({"session": session, "from": 1, "to": 2})
            .as_object()
            .cloned();
        let mut call = CallToolRequestParams::new("recall");
        call.arguments = arguments;
        let result = client.call_tool(call).await.unwrap();
        let text = serde_json::to_value(&result).unwrap().to_string();
        assert!(text.contains("We ship on Friday."), "{text}");
        let read = ReadResourceRequestParams::new(format!("unisono://sessions/{session}"));
        let read = serde_json::to_value(client.read_resource(read).await.unwrap()).unwrap();
        assert!(read.to_string().contains("branches"), "{read}");
        client.cancel().await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, child.wait())
            .await
            .unwrap()
            .unwrap();
        assert!(ended.success());
    });
}
