//! Tool servers that an editor brings with a session, and its slash commands.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use unisono_fake_provider::tools::{LOG, serve_http};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::acp::{Editor, prompt};
use crate::http::Daemon;
use crate::support::{Place, is_alive, until};

const SECRET: &str = "desk-token-91c7e2";

/// A place whose model calls a tool in each turn, then says what it came back with.
fn scene(calls: &'static [(&'static str, &'static str)], more: &str) -> (FakeProvider, Place) {
    let script = Script::by(move |request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        if last["role"] == "tool" {
            let said = last["content"].as_str().unwrap();
            return Act::answer(Answer::text(format!("Told: {said}")));
        }
        let task = last["content"].to_string();
        match calls.iter().find(|(word, _)| task.contains(word)) {
            Some((_, tool)) => {
                let arguments = json!({"text": "the invoice"}).to_string();
                Act::answer(Answer::empty().and_call(*tool, arguments))
            }
            None => Act::answer(Answer::text("Nothing to do.")),
        }
    });
    let provider = FakeProvider::play_on_thread(script);
    let more = format!("[models]\ndefault = \"openai/gpt-4o-mini\"\n[turn]\nagents = []\n{more}");
    let place = Place::with_key_file("openai", &provider, &more);
    place.write("log", "");
    (provider, place)
}

/// This binary as the editor's server of tools, which writes a log.
fn desk(log: &Path) -> Value {
    let exe = std::env::current_exe().unwrap();
    json!({"name": "Desk", "command": exe,
        "args": ["tools::tool_server", "--exact", "--nocapture"],
        "env": [{"name": LOG, "value": log}, {"name": "DESK_TOKEN", "value": SECRET}]})
}

fn open(editor: &mut Editor, place: &Place, servers: Value) -> String {
    let params = json!({"cwd": place.path("."), "mcpServers": servers});
    let made = editor.ask("session/new", &params).unwrap();
    made["sessionId"].as_str().unwrap().to_owned()
}

/// The tools that the model was told of in a request.
fn tools(provider: &FakeProvider, request: usize) -> Vec<String> {
    let body = provider.requests()[request].json();
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.contains("__")).collect()
}

/// The process of the server, once its log names it.
fn server_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("start "));
    line.unwrap().to_owned()
}

fn ended(process: &str) {
    until("the server outlives its session", || !is_alive(process));
}

/// Whether a file below a directory contains a text.
fn contains(directory: &Path, text: &str) -> bool {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return contains(&path, text);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn the_servers_of_an_editor_serve_one_session_and_end_with_it() {
    let more = "[approvals]\nrequire = [\"desk__send\"]\n";
    let (provider, place) = scene(&[("Send", "desk__send")], more);
    let log = place.path("log");
    let mut editor = Editor::start(&place);
    let nowhere = json!({"name": "gone", "command": "/nowhere/at/all", "args": [], "env": []});
    let session = open(&mut editor, &place, json!([desk(&log), nowhere]));
    let done = editor.prompt(&session, "Send it.").unwrap();
    assert_eq!(done["stopReason"], "end_turn");
    assert_eq!(editor.permissions.len(), 1, "a person was asked");
    assert!(
        editor.said().contains("Told: send: the invoice"),
        "{}",
        editor.said()
    );
    let told = tools(&provider, 0);
    assert!(told.contains(&"desk__send".to_owned()), "{told:?}");

    // Another session has none of them.
    let other = open(&mut editor, &place, json!([]));
    editor.prompt(&other, "Look.").unwrap();
    assert_eq!(tools(&provider, 2), [""; 0]);

    let process = server_of(&log);
    assert!(is_alive(&process));
    editor
        .ask("session/close", &json!({"sessionId": session}))
        .unwrap();
    ended(&process);
    // Without them the session goes on, once it is open again.
    let lead = json!({"sessionId": session, "configId": "lead", "value": "lead"});
    for (method, params) in [
        ("session/prompt", prompt(&session, "Look.")),
        ("session/set_config_option", lead),
    ] {
        let refused = editor.ask(method, &params).unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
        let says = refused["message"].as_str().unwrap();
        assert!(says.contains("is closed") && says.contains("session/resume"));
    }
    let resumed = json!({"sessionId": session, "cwd": place.path("."), "mcpServers": []});
    editor.ask("session/resume", &resumed).unwrap();
    editor.prompt(&session, "Look.").unwrap();
    assert_eq!(tools(&provider, 3), [""; 0]);
    editor.leave();
    assert!(!contains(&place.path("."), SECRET), "the token is on disk");
}

#[test]
fn beside_a_daemon_the_servers_end_when_the_editor_leaves() {
    let contracts = "[approvals.contracts]\n\"desk__read\" = \"pure\"\n";
    let (provider, place) = scene(&[("Read", "desk__read")], contracts);
    let log = place.path("log");
    let daemon = Daemon::start(&place);
    let mut first = Editor::start(&place);
    let session = open(&mut first, &place, json!([desk(&log)]));
    first.prompt(&session, "Read it.").unwrap();
    assert!(
        first.said().contains("Told: read: the invoice"),
        "{}",
        first.said()
    );
    let process = server_of(&log);
    first.leave();
    ended(&process);

    // Another editor brings a server by HTTP, and the same session has that one.
    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join("log");
    let address = serve_http(&log).unwrap();
    let remote = json!({"type": "http", "name": "desk", "url": format!("http://{address}/mcp"),
        "headers": [{"name": "Authorization", "value": format!("Bearer {SECRET}")}]});
    let mut second = Editor::start(&place);
    let params = json!({"sessionId": session, "cwd": place.path("."), "mcpServers": [remote]});
    second.ask("session/load", &params).unwrap();
    second.updates.clear();
    second.prompt(&session, "Read it.").unwrap();
    assert!(
        second.said().contains("Told: read: the invoice"),
        "{}",
        second.said()
    );
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains(&format!("token bearer {SECRET}")), "{log}");
    assert_eq!(provider.requests().len(), 4);
    second.leave();
    daemon.stop();
    assert!(!contains(&place.path("."), SECRET), "the token is on disk");
}

#[test]
fn servers_that_cannot_be_are_errors_and_no_session_is_made() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    let one = |server: Value| json!({"cwd": "/work", "mcpServers": [server]});
    let many: Vec<Value> = (0..17)
        .map(|n| json!({"name": n.to_string(), "command": "a"}))
        .collect();
    for (params, says) in rows! {
        (one(json!({"type": "sse", "name": "old", "url": "http://a"})), "old"),
        (one(json!({"name": "neither"})), "neither"),
        (one(json!({"type": "http", "name": "both", "url": "http://a", "command": "a"})), "both"),
        (one(json!({"command": "a"})), "name"),
        (json!({"cwd": "/work", "mcpServers": many}), "16"),
        (
            json!({"cwd": "/work", "mcpServers": [
                {"name": "good", "command": "a"},
                {"type": "http", "name": "keyed", "url": "https://a/mcp?key=1"}]}),
            "\\\"keyed\\\"",
        ),
    } {
        let error = editor.ask("session/new", &params).unwrap_err();
        assert_eq!(error["code"], -32602);
        assert!(error.to_string().contains(says), "{error}");
    }
    let listed = editor.ask("session/list", &json!({})).unwrap();
    assert_eq!(listed["sessions"], json!([]));
    let made = editor.ask("session/new", &json!({"cwd": "/work", "mcpServers": []}));
    let keyed = json!({"type": "http", "name": "keyed", "url": "https://a/mcp?key=1"});
    let resumed = json!({"sessionId": made.unwrap()["sessionId"], "cwd": "/work",
        "mcpServers": [keyed]});
    let error = editor.ask("session/resume", &resumed).unwrap_err();
    assert!(error.to_string().contains("keyed"), "{error}");
    editor.leave();
}

#[test]
fn slash_commands_are_offered_and_carried_out() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    let session = open(&mut editor, &place, json!([]));
    let facts = "The shop moves on Friday 6 March. ".repeat(200);
    editor
        .prompt(&session, &format!("{facts} When does it move?"))
        .unwrap();
    editor.prompt(&session, "And who moves it?").unwrap();
    let commands = editor.updates.iter().find_map(|update| {
        let update = &update["update"];
        (update["sessionUpdate"] == "available_commands_update")
            .then(|| update["availableCommands"].clone())
    });
    let commands = commands.expect("the commands are offered");
    let names: Vec<&str> = commands
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(names, ["compact", "context", "agents"]);

    let mut ids = Vec::new();
    let mut said = |text: &str| {
        editor.updates.clear();
        let done = editor.prompt(&session, text).unwrap();
        assert_eq!(done["stopReason"], "end_turn", "{text}");
        ids.extend(editor.texts_at("agent_message_chunk", "/messageId"));
        editor.said()
    };
    let context = said("/context");
    assert!(context.contains("tokens are used"), "{context}");
    assert_eq!(said("/context"), context);
    let agents = said("/agents");
    assert!(agents.contains("- lead (lead)"), "{agents}");
    let compacted = said("/compact keep the day");
    assert!(compacted.contains("tokens instead of"), "{compacted}");
    assert_eq!(
        said("/compact"),
        "Nothing was compacted: there is nothing to summarise."
    );
    // What is no command is a task.
    assert!(said("/etc/hosts: when does the shop move?").contains("6 March"));
    // Each text is a message of its own.
    let commands: std::collections::BTreeSet<&String> = ids[..3].iter().collect();
    assert_eq!(commands.len(), 3, "{ids:?}");
    editor.leave();
}
