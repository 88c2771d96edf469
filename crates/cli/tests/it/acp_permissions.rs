//! Coding agents that ask for permission: every door shows the call, and a person decides about it.

use serde_json::{Value, json};

use crate::a2a::{Client, says};
use crate::acp::{Editor, prompt};
use crate::acp_agents::coder;
use crate::http::Daemon;
use crate::mcp::Spoken;
use crate::support::{Going, Place, finish, is_alive, until};

/// An agent that asks whether it may remove a directory, and withdraws that when there is a file
/// `withdraw`. It leaves its process id, and each answer.
const AGENT: &str = r#"
import json, os, sys, threading, time
def send(**message):
    print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
def withdraw():
    while not os.path.exists("withdraw"): time.sleep(0.01)
    send(method="$/cancel_request", params=dict(requestId="q"))
prompt = None
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize": send(id=id, result=dict(protocolVersion=1))
    elif method == "session/new": send(id=id, result=dict(sessionId="s"))
    elif method == "session/prompt":
        prompt = id
        open("pid", "w").write(str(os.getpid()))
        options = [dict(optionId=o, name=o, kind=o) for o in ("allow_once", "reject_once")]
        call = dict(toolCallId="c", title="Clean up", kind="execute", rawInput=dict(command="rm -r build"))
        send(id="q", method="session/request_permission",
             params=dict(sessionId="s", toolCall=call, options=options))
        threading.Thread(target=withdraw, daemon=True).start()
    elif id == "q":
        outcome = message.get("result", {}).get("outcome") or dict(outcome=str(message["error"]["code"]))
        said = outcome.get("optionId", outcome["outcome"])
        open("answers", "a").write(said + "\n")
        text = dict(type="text", text="The answer is %s." % said)
        send(method="session/update", params=dict(sessionId="s",
             update=dict(sessionUpdate="agent_message_chunk", content=text)))
        send(id=prompt, result=dict(stopReason="cancelled" if said == "cancelled" else "end_turn"))
"#;

const TASK: &str = "Clean up.";
const ASK: [&str; 5] = ["run", "talk.json", "--task", TASK, "--json"];

/// A place whose agent `coder` asks, and whose rule lets a person decide.
fn scene(more: &str) -> Place {
    let place = Place::new();
    place.write("agent.py", AGENT);
    place.write("code/a", "one");
    place.set_config(format!(
        "[models]\ndefault = \"extractive\"\n[turn]\nagents = [\"coder\"]\n\
             [agents.coder]\ndescription = \"Codes\"\nkind = \"acp\"\ncommand = \"python3\"\n\
             args = [{:?}]\ncwd = {:?}\ntimeout = \"10m\"\nretries = 0\n\
             approve = [\"execute(input.command=rm *)\"]\n{more}",
        place.path("agent.py"),
        place.path("code"),
    ));
    place.talk();
    place
}

fn answers(place: &Place) -> String {
    std::fs::read_to_string(place.path("code/answers")).unwrap_or_default()
}

/// The only call that waits, as the command line lists it.
fn waiting(place: &Place) -> Value {
    let waiting = place.json(&["approvals", "list"]);
    assert_eq!(waiting.as_array().map(Vec::len), Some(1), "{waiting}");
    waiting[0].clone()
}

/// A daemon in a [`scene`] whose agent asks for permission, the running program, and the waiting call.
fn waiting_call(more: &str) -> (Place, Daemon, Going, Value) {
    let place = scene(more);
    let daemon = Daemon::start(&place);
    let mut going = Going::start(place.command(&ASK));
    going.wait_for(&["unisono approvals approve"]);
    let call = waiting(&place);
    (place, daemon, going, call)
}

#[test]
fn a_permission_waits_in_a_daemon_like_the_call_of_a_tool() {
    for (verb, option) in [("approve", "allow_once"), ("deny", "reject_once")] {
        let (place, daemon, going, call) = waiting_call("");
        assert_eq!(
            (&call["kind"], &call["agent"], &call["tool"]),
            (&json!("approval"), &json!("coder"), &json!("execute")),
            "{call}"
        );
        assert_eq!(
            call["arguments"],
            json!({"title": "Clean up", "input": {"command": "rm -r build"}})
        );
        let id = call["call"].as_str().unwrap();
        let listed = daemon.get("/v1/approvals").expect(200).json();
        assert_eq!(listed["items"][0]["call"], id, "{listed}");
        let page = daemon.get("/approvals").expect(200).text();
        assert!(page.contains(id) && page.contains("rm -r build"), "{page}");
        place.call(&["approvals", verb, id]).expect(0);
        let report = going.finish().expect(0).json();
        assert_eq!(answers(&place), format!("{option}\n"));
        let run = coder(&report);
        assert_eq!(run["text"], format!("The answer is {option}."), "{report}");
        daemon.stop();
        let session = report["session"].as_str().unwrap();
        let events = format!("{:?}", place.events(session));
        assert!(events.contains("ToolDecided") && !events.contains("ToolStarted"));
        let replayed = place.json(&["replay"]);
        assert_eq!(replayed["mismatches"], 0, "{replayed}");
    }
}

#[test]
fn the_person_of_an_editor_decides_about_a_permission() {
    let place = scene("");
    let mut editor = Editor::start(&place);
    let session = editor.new_session();
    let done = editor.prompt(&session, TASK).unwrap();
    assert_eq!(done["stopReason"], "end_turn");
    let asked = &editor.permissions[0]["toolCall"];
    assert_eq!(asked["title"], "coder: execute", "{asked}");
    assert_eq!(asked["rawInput"]["input"]["command"], "rm -r build");
    assert_eq!(answers(&place), "allow_once\n");
    editor.leave();
}

#[test]
fn a_question_that_was_answered_elsewhere_is_withdrawn_from_the_editor() {
    let place = scene("");
    let daemon = Daemon::start(&place);
    let mut editor = Editor::start(&place);
    editor.choice = "";
    let session = editor.new_session();
    let id = editor.begin("session/prompt", &prompt(&session, TASK));
    let question = loop {
        let message = editor.next();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    let call = waiting(&place);
    let call = call["call"].as_str().unwrap();
    place.call(&["approvals", "approve", call]).expect(0);
    assert_eq!(editor.end(id).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.withdrawn, [question]);
    assert_eq!(answers(&place), "allow_once\n");
    editor.leave();
    daemon.stop();
}

#[test]
fn an_answer_that_was_not_offered_decides_nothing_and_the_editor_shows_it() {
    let place = scene("");
    let daemon = Daemon::start(&place);
    let mut editor = Editor::start(&place);
    editor.choice = "allow_once";
    let session = editor.new_session();
    let id = editor.begin("session/prompt", &prompt(&session, TASK));
    let text = loop {
        let texts = editor.texts_at("tool_call_update", "/content/0/content/text");
        if let Some(text) = texts.into_iter().find(|text| text.contains("nobody")) {
            break text;
        }
        editor.next();
    };
    let call = waiting(&place);
    let call = call["call"].as_str().unwrap();
    assert!(text.contains("\"allow_once\" was not offered"), "{text}");
    assert!(text.contains(call), "{text}");
    assert_eq!(answers(&place), "");
    place.call(&["approvals", "approve", call]).expect(0);
    assert_eq!(editor.end(id).unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.permissions.len(), 1);
    assert_eq!(answers(&place), "allow_once\n");
    editor.leave();
    daemon.stop();
}

#[test]
fn a_client_of_the_model_context_protocol_asks_about_a_permission() {
    let place = scene("");
    let mut server = Spoken::started(place.command(&["mcp"]));
    server.initialize_as("2025-11-25", json!({"elicitation": {}}));
    let ask = json!({"name": "ask", "arguments": {"task": TASK}});
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ask}));
    let question = server.asked("elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("rm -r build"), "{message}");
    let reply = json!({"action": "accept", "content": {"approve": true}});
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": reply}));
    server.answer(2);
    assert_eq!(answers(&place), "allow_once\n");
    server.end();
}

#[test]
fn a_task_of_a_remote_client_waits_for_a_permission() {
    let place = scene("");
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let task = team.send(&says("m1", TASK));
    assert_eq!(
        task["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{task}"
    );
    let call = &task["status"]["message"]["parts"][1]["data"]["calls"][0];
    assert_eq!(call["tool"], "execute", "{task}");
    let mut decision = says("m2", "approve");
    decision["taskId"] = task["id"].clone();
    let done = team.send(&decision);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(answers(&place), "allow_once\n");
    daemon.stop();
}

#[test]
fn a_crash_while_a_permission_waits_leaves_the_contract_to_decide() {
    for contract in ["at_most_once", "idempotent"] {
        let (place, daemon, going, first) = waiting_call(&format!("contract = {contract:?}\n"));
        daemon.kill();
        going.signal("KILL");
        going.finish();
        let pid = std::fs::read_to_string(place.path("code/pid")).unwrap();
        until("the agent lives on", || !is_alive(&pid));
        if contract == "at_most_once" {
            let resumed = place.command(&["resume", "--json"]).spawn().unwrap();
            let report = finish(resumed, &["resume"]).json();
            let reason = coder(&report)["reason"].as_str().unwrap();
            assert!(reason.contains("nobody knows"), "{reason}");
            assert_eq!(place.json(&["approvals", "list"]), json!([]));
            assert_eq!(answers(&place), "");
            continue;
        }
        let daemon = Daemon::start(&place);
        let mut going = Going::start(place.command(&["resume", "--json"]));
        going.wait_for(&["unisono approvals approve"]);
        let again = waiting(&place);
        assert_ne!(first["call"], again["call"], "the program asks anew");
        let old = first["call"].as_str().unwrap();
        place.call(&["approvals", "approve", old]).expect(2);
        let id = again["call"].as_str().unwrap();
        place.call(&["approvals", "approve", id]).expect(0);
        let report = going.finish().expect(0).json();
        assert_eq!(coder(&report)["state"], "done", "{report}");
        assert_eq!(answers(&place), "allow_once\n");
        daemon.stop();
    }
}

#[test]
fn a_cancelled_turn_cancels_the_permission_that_waits() {
    let (place, daemon, going, call) = waiting_call("");
    let text = |name: &str| call[name].as_str().unwrap().to_owned();
    let path = format!(
        "/v1/sessions/{}/turns/{}/cancel",
        text("session"),
        text("turn")
    );
    daemon.post(&path, &json!({})).expect(200);
    let pid = std::fs::read_to_string(place.path("code/pid")).unwrap();
    until("the agent lives on", || !is_alive(&pid));
    assert_eq!(answers(&place), "cancelled\n");
    going.finish();
    assert_eq!(place.json(&["approvals", "list"]), json!([]));
    daemon.stop();
}

#[test]
fn a_permission_that_its_agent_withdraws_waits_for_nobody() {
    let (place, daemon, going, call) = waiting_call("");
    place.write("code/withdraw", "");
    let report = going.finish().expect(0).json();
    assert_eq!(answers(&place), "-32800\n");
    assert_eq!(coder(&report)["state"], "done", "{report}");
    assert_eq!(place.json(&["approvals", "list"]), json!([]));
    let id = call["call"].as_str().unwrap();
    place.call(&["approvals", "approve", id]).expect(2);
    daemon.stop();
}

#[test]
fn what_a_definition_denies_waits_for_nobody() {
    let place = scene("allow = [\"execute\"]\ndeny = [\"execute\"]\n");
    let report = place.call(&ASK).expect(0).json();
    assert_eq!(coder(&report)["text"], "The answer is reject_once.");
    let run = coder(&report)["run"].as_str().unwrap();
    let shown = place.json(&["runs", "show", run]);
    let decided = &shown["decisions"][0];
    assert_eq!(
        (&decided["tool"], &decided["decision"]),
        (&json!("execute"), &json!("refused")),
        "{shown}"
    );
    let shown = place.json(&["agents", "show", "coder"]);
    assert_eq!(shown["acp"]["deny"], json!(["execute"]), "{shown}");
}
