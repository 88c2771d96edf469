//! Editors: `unisono acp`, spoken to in lines of JSON.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, Stop, Usage, block_on};

use crate::http::Daemon;
use crate::support::{Place, example};

/// An editor that has started the program.
pub(crate) struct Editor {
    program: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
    /// What came besides answers.
    pub(crate) updates: Vec<Value>,
    /// Which option is chosen where a person is asked; empty: none yet.
    pub(crate) choice: &'static str,
    pub(crate) permissions: Vec<Value>,
    /// The ids of requests that the program has withdrawn.
    pub(crate) withdrawn: Vec<Value>,
}

impl Editor {
    pub(crate) fn start(place: &Place) -> Editor {
        Editor::spawn(place.command(&["acp"]))
    }

    pub(crate) fn spawn(command: Command) -> Editor {
        let mut editor = Editor::uninitialized(command);
        let params = json!({"protocolVersion": 1, "clientCapabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let made = editor.ask("initialize", &params).unwrap();
        assert_eq!(made["protocolVersion"], 1);
        assert_eq!(made["agentInfo"]["name"], "unisono");
        assert_eq!(made["agentCapabilities"]["loadSession"], true);
        editor
    }

    fn uninitialized(mut command: Command) -> Editor {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let output = BufReader::new(program.stdout.take().unwrap()).lines();
        Editor {
            input: program.stdin.take(),
            program,
            output,
            asked: 0,
            updates: Vec::new(),
            choice: "approve",
            permissions: Vec::new(),
            withdrawn: Vec::new(),
        }
    }

    fn send(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    fn line(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(b"\n");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message; requests of the program are answered.
    pub(crate) fn next(&mut self) -> Value {
        let line = self.output.next().expect("the program goes on").unwrap();
        let message: Value = serde_json::from_str(&line).expect("a line of JSON");
        match message["method"].as_str() {
            Some("session/update") => self.updates.push(message["params"].clone()),
            Some("session/request_permission") => {
                self.permissions.push(message["params"].clone());
                if self.choice.is_empty() {
                    return message;
                }
                let outcome = json!({"outcome": "selected", "optionId": self.choice});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"],
                    "result": {"outcome": outcome}}));
            }
            Some("$/cancel_request") => {
                self.withdrawn.push(message["params"]["requestId"].clone());
            }
            Some(other) => panic!("it asks for {other}"),
            None => {}
        }
        message
    }

    pub(crate) fn end(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.next();
            if message.get("method").is_none() && message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.end(id)
    }

    pub(crate) fn new_session(&mut self) -> String {
        let params = json!({"cwd": "/work/harbour", "mcpServers": []});
        let made = self.ask("session/new", &params).unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Result<Value, Value> {
        self.ask("session/prompt", &prompt(session, text))
    }

    pub(crate) fn texts_at(&self, kind: &str, place: &str) -> Vec<String> {
        let of_kind = |update: &&Value| update["update"]["sessionUpdate"] == kind;
        let all = self.updates.iter().filter(of_kind);
        let texts =
            all.filter_map(|update| Some(update["update"].pointer(place)?.as_str()?.into()));
        texts.collect()
    }

    pub(crate) fn said(&self) -> String {
        self.texts_at("agent_message_chunk", "/content/text")
            .concat()
    }

    pub(crate) fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
    }

    /// The program is killed while it works.
    pub(crate) fn kill(mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }

    /// Leaves; the program ends by itself.
    pub(crate) fn leave(mut self) {
        drop(self.input.take());
        assert!(self.program.wait().unwrap().success());
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

#[test]
fn an_editor_asks_lists_loads_and_resumes_sessions() {
    // A configuration with a warning: the key has no effect.
    let place = Place::with_config(
        "[agents.far]\ndescription = \"Far\"\nkind = \"http\"\nurl = \"http://127.0.0.1:9\"\n\
         temperature = 0.5\n",
    );
    let mut editor = Editor::start(&place);
    let session = editor.new_session();
    let done = editor.prompt(&session, "The move is on Friday 6 March. When is the move?");
    assert_eq!(done.unwrap()["stopReason"], "end_turn");
    assert!(editor.said().contains("6 March"), "{}", editor.said());
    let sizes = editor
        .updates
        .iter()
        .filter(|u| u["update"]["sessionUpdate"] == "usage_update");
    assert!(
        sizes
            .clone()
            .all(|u| u["update"]["size"].as_u64() > u["update"]["used"].as_u64())
    );
    assert!(sizes.count() > 0);
    editor.leave();

    let mut editor = Editor::start(&place);
    let listed = editor.ask("session/list", &json!({})).unwrap();
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    assert_eq!(listed["sessions"][0]["cwd"], "/work/harbour");
    let elsewhere = editor
        .ask("session/list", &json!({"cwd": "/elsewhere"}))
        .unwrap();
    assert_eq!(elsewhere["sessions"], json!([]));
    let params = json!({"sessionId": session, "cwd": "/work/harbour", "mcpServers": []});
    let loaded = editor.ask("session/load", &params).unwrap();
    assert_eq!(loaded["configOptions"][0]["currentValue"], "lead");
    let shown = editor.texts_at("user_message_chunk", "/content/text");
    assert_eq!(shown, ["The move is on Friday 6 March. When is the move?"]);
    assert!(editor.said().contains("6 March"));
    editor.updates.clear();
    editor.ask("session/resume", &params).unwrap();
    assert_eq!(editor.said(), "", "nothing is said again");

    let set = json!({"sessionId": session, "configId": "lead", "value": "facts"});
    let set = editor.ask("session/set_config_option", &set).unwrap();
    assert_eq!(set["configOptions"][0]["currentValue"], "facts");
    let unknown = json!({"sessionId": session, "configId": "lead", "value": "nobody"});
    let refused = editor
        .ask("session/set_config_option", &unknown)
        .unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("`nobody`"), "{message}");
    assert!(!message.contains("warning"), "{message}");
    editor.prompt(&session, "When?").unwrap();
    let shown = place.json(&["sessions", "show", &session]);
    assert!(shown.to_string().contains("facts"), "{shown}");
    editor.leave();
}

#[test]
fn an_editor_finds_the_sessions_of_a_directory_behind_many_others() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    let first = editor.new_session();
    for _ in 0..51 {
        let params = json!({"cwd": "/work/yard/", "mcpServers": []});
        editor.ask("session/new", &params).unwrap();
    }
    let here = json!({"cwd": "/work/harbour/"});
    let listed = editor.ask("session/list", &here).unwrap();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{listed}");
    assert_eq!(sessions[0]["sessionId"], first.as_str());
    assert_eq!(listed.get("nextCursor"), None);
    // A page at a time.
    let mut found = Vec::new();
    let mut asked = json!({"cwd": "/work/yard"});
    loop {
        let listed = editor.ask("session/list", &asked).unwrap();
        found.push(listed["sessions"].as_array().unwrap().len());
        match listed.get("nextCursor") {
            Some(next) => asked["cursor"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(found, [50, 1]);
    editor.leave();
}

#[test]
fn an_editor_of_a_daemon_sees_who_works_on_what() {
    let place = Place::with_config("[turn]\nagents = [\"risks\", \"facts\"]\n");
    let daemon = Daemon::start(&place);
    let id = place.json(&["import", &example()])["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut editor = Editor::start(&place);
    editor.prompt(&id, "What could still go wrong?").unwrap();
    let mut calls = editor.texts_at("tool_call", "/title");
    calls.retain(|title| !title.starts_with("Compacting"));
    assert_eq!(calls, ["risks", "facts"]);
    let ended = editor.texts_at("tool_call_update", "/status");
    assert_eq!(
        ended.iter().filter(|status| *status == "completed").count(),
        2
    );
    let mut plans = editor
        .updates
        .iter()
        .filter(|u| u["update"]["sessionUpdate"] == "plan");
    let last = plans.next_back().unwrap()["update"]["entries"]
        .as_array()
        .unwrap();
    assert_eq!(last.len(), 3);
    assert!(
        last.iter().all(|entry| entry["status"] == "completed"),
        "{last:?}"
    );
    assert!(!editor.said().is_empty());
    editor.leave();
    // The daemon has it, as any other turn.
    let turns = daemon.get(&format!("/v1/sessions/{id}/turns")).json();
    assert_eq!(turns["items"][0]["state"], "answered");
    daemon.stop();
}

/// No session has this id.
const UNKNOWN: &str = "01a00000-0000-7000-8000-000000000000";
/// The id of another agent's session, as long as one of unisono.
const FOREIGN: &str = "01a00000_0000_7000_8000_000000000000";

#[test]
fn what_is_wrong_is_an_error_of_the_protocol_and_the_next_request_is_answered() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    let session = editor.new_session();
    let image = json!({"sessionId": session,
        "prompt": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]});
    let rows = rows! {
        ("session/prompt", image, -32602, "type of the file is not supported"),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), -32602, "no text"),
        ("session/prompt", json!({"sessionId": session}), -32602, ""),
        ("session/prompt", prompt(UNKNOWN, "?"), -32002, "session"),
        ("session/load", json!({"sessionId": UNKNOWN, "cwd": "/w", "mcpServers": []}), -32002, "session"),
        ("session/resume", json!({"sessionId": UNKNOWN, "cwd": "/w", "mcpServers": []}), -32002, "session"),
        ("session/prompt", prompt(FOREIGN, "?"), -32002, FOREIGN),
        ("session/prompt", prompt("nothing", "?"), -32002, "nothing"),
        ("session/load", json!({"sessionId": "nothing", "cwd": "/w", "mcpServers": []}), -32002, "nothing"),
        ("session/resume", json!({"sessionId": "nothing", "cwd": "/w", "mcpServers": []}), -32002, "nothing"),
        (
            "session/set_config_option",
            json!({"sessionId": "nothing", "configId": "lead", "value": "lead"}),
            -32002,
            "nothing",
        ),
        ("session/new", json!({"cwd": "w", "mcpServers": []}), -32602, "absolute"),
        (
            "session/load",
            json!({"sessionId": session, "cwd": "w", "mcpServers": []}),
            -32602,
            "absolute",
        ),
        (
            "session/resume",
            json!({"sessionId": session, "cwd": "../w", "mcpServers": []}),
            -32602,
            "absolute",
        ),
        ("session/resume", json!({"sessionId": session}), -32602, "cwd"),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "lead", "value": "nobody"}),
            -32602,
            "nobody",
        ),
        ("session/list", json!({"cursor": "?"}), -32602, ""),
        ("session/list", json!({"cwd": "w"}), -32602, "absolute"),
        ("no/such", json!({}), -32601, ""),
    };
    for (method, params, code, words) in rows {
        let error = editor.ask(method, &params).unwrap_err();
        assert_eq!(error["code"], code, "{method}: {error}");
        assert!(error.to_string().contains(words), "{method}: {error}");
    }
    editor.line("{\"jsonrpc\": \"2.0\", \"id\": 77, ");
    assert_eq!(editor.next()["error"]["code"], -32700);
    assert!(
        editor
            .prompt(&session, "The move is on Friday. When?")
            .is_ok()
    );
    editor.leave();
}

#[test]
fn a_line_that_is_no_message_is_refused_and_the_next_request_is_answered() {
    let place = Place::new();
    let mut editor = Editor::uninitialized(place.command(&["acp"]));
    let early = editor.ask("session/list", &json!({})).unwrap_err();
    assert_eq!(early["code"], -32600);
    let early = early["message"].as_str().unwrap();
    assert!(early.contains("initialize"), "{early}");
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    editor.ask("initialize", &params).unwrap();

    editor.bytes(b"{\"jsonrpc\": \"2.0\", \"method\": \"\xff\"}\n");
    assert_eq!(editor.next()["error"]["code"], -32700);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..33 {
        editor.bytes(&piece);
    }
    editor.line("");
    let refused = editor.next();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(refused["id"], Value::Null);
    for wrong in [
        json!({"id": 5, "method": "session/list"}),
        json!({"jsonrpc": "1.0", "id": 5, "method": "session/list"}),
        json!({"jsonrpc": "2.0", "id": {"a": 1}, "method": "session/list"}),
        json!([{"jsonrpc": "2.0", "id": 5, "method": "session/list"}]),
    ] {
        editor.send(&wrong);
        let refused = editor.next();
        assert_eq!(refused["error"]["code"], -32600, "{wrong}: {refused}");
    }
    // A request whose id is null is answered under that id.
    editor.send(&json!({"jsonrpc": "2.0", "id": null, "method": "session/list"}));
    let next = editor.begin("session/list", &json!({}));
    let answered = editor.next();
    assert_eq!(answered["id"], Value::Null, "{answered}");
    assert!(answered["result"].is_object(), "{answered}");
    assert!(editor.end(next).is_ok());
    editor.leave();
}

/// A model that is asked in place of the offline one.
pub(crate) fn provider(script: Script) -> (FakeProvider, Place) {
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_openai(
        &provider,
        "[models]\ndefault = \"openai/gpt-4o-mini\"\n[turn]\nagents = []\n\
         [approvals]\nrequire = [\"skill\"]\n",
    );
    place.write(
        "skills/notes/SKILL.md",
        "---\nname: notes\ndescription: Notes.\n---\nBe brief.\n",
    );
    (provider, place)
}

pub(crate) fn start_with_key(place: &Place) -> Editor {
    Editor::spawn(place.keyed_command(&["acp"]))
}

#[test]
fn a_prompt_is_cancelled_and_the_session_goes_on() {
    cancelled(|editor, session, _| editor.cancel(session));
}

#[test]
fn a_prompt_is_cancelled_by_the_id_of_its_request() {
    cancelled(|editor, session, id| {
        let cancel = |params: Value| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params});
        for other in [
            json!({"requestId": id + 7}),
            json!({"requestId": null}),
            json!({}),
        ] {
            editor.send(&cancel(other));
        }
        // The prompt is worked on.
        let listed = editor.ask("session/list", &json!({})).unwrap();
        assert_eq!(listed["sessions"][0]["sessionId"], session);
        editor.send(&cancel(json!({"requestId": id})));
    });
}

/// A prompt that is cancelled while its model works, and the next one.
fn cancelled(cancel: impl FnOnce(&mut Editor, &str, u64)) {
    let gate = Gate::new();
    let held = Act::from(Answer::text("Too late.")).hold(&gate);
    let (provider, place) = provider(Script::sequence([held, Act::answer(Answer::text("Well."))]));
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let id = editor.begin("session/prompt", &prompt(&session, "Wait."));
    block_on(provider.wait_for(1));
    cancel(&mut editor, &session, id);
    assert_eq!(editor.end(id).unwrap()["stopReason"], "cancelled");
    gate.open();
    let next = editor.prompt(&session, "And now?").unwrap();
    assert_eq!(next["stopReason"], "end_turn");
    assert!(editor.said().ends_with("Well."), "{}", editor.said());
    editor.leave();
}

#[test]
fn an_editor_learns_that_an_answer_was_cut_or_declined() {
    let cut = Answer::text("The move is on").stop(Stop::CutOff);
    let declined = Answer::text("I cannot help.").stop(Stop::Refused);
    let script = Script::sequence([cut, declined, Answer::text("Well.")]);
    let (_provider, place) = provider(script);
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let rows = [
        ("max_tokens", "The move is on"),
        ("refusal", "declined to answer: I cannot help."),
        ("end_turn", "Well."),
    ];
    for (reason, text) in rows {
        editor.updates.clear();
        let done = editor.prompt(&session, "When is the move?").unwrap();
        assert_eq!(done["stopReason"], reason);
        assert!(editor.said().ends_with(text), "{}", editor.said());
    }
    editor.leave();
}

#[test]
fn the_cost_that_an_editor_shows_is_that_of_the_session() {
    let used = Usage::new(1_000, 100);
    let answer = Answer::text("Well.").usage(used);
    let (_provider, place) = provider(Script::always(Act::answer(answer)));
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let mut costs = Vec::new();
    for text in ["One?", "Two?"] {
        editor.updates.clear();
        editor.prompt(&session, text).unwrap();
        let mut updates = editor.updates.iter().rev();
        let cost = updates.find_map(|one| one["update"]["cost"]["amount"].as_f64());
        costs.push(cost.unwrap());
    }
    assert!(costs[0] > 0.0);
    assert!((costs[1] - 2.0 * costs[0]).abs() < 1e-9, "{costs:?}");
    editor.leave();
}

#[test]
fn a_call_that_waits_is_decided_by_the_editors_person() {
    for (choice, result) in [("approve", "Be brief."), ("deny", "denied")] {
        let calls = Answer::text("I look.").and_call("skill", json!({"name": "notes"}).to_string());
        let (provider, place) = provider(Script::sequence([calls, Answer::text("Brief it is.")]));
        let mut editor = start_with_key(&place);
        editor.choice = choice;
        let session = editor.new_session();
        let done = editor.prompt(&session, "Write.").unwrap();
        assert_eq!(done["stopReason"], "end_turn");
        assert_eq!(editor.permissions.len(), 1);
        assert_eq!(
            editor.permissions[0]["toolCall"]["rawInput"]["name"],
            "notes"
        );
        // What is said before a call is told while it is said, to whoever follows by then.
        let said = editor.said();
        assert!(
            ["I look.Brief it is.", "Brief it is."].contains(&&*said),
            "{said}"
        );
        let reply = editor.texts_at("tool_call_update", "/content/0/content/text");
        assert!(
            reply.iter().any(|text| text.contains(result)),
            "{choice}: {reply:?}"
        );
        let second = &provider.requests()[1];
        let second = String::from_utf8_lossy(&second.body).into_owned();
        assert!(second.contains(if choice == "approve" {
            "Be brief."
        } else {
            "not"
        }));
        editor.leave();
    }
}

#[test]
fn a_session_has_the_instructions_of_its_own_project() {
    let (provider, place) = provider(Script::by(|_| Act::answer(Answer::text("Well."))));
    place.write("AGENTS.md", "Of the process.");
    place.write("harbour/.git/HEAD", "");
    place.write("harbour/AGENTS.md", "Amounts are in francs.");
    place.write("harbour/docs/AGENTS.md", "Name the owner.");
    place.write("mill/.git/HEAD", "");
    place.write("mill/AGENTS.md", "Amounts are in euros.");
    let mut editor = start_with_key(&place);
    let mut sessions = Vec::new();
    for directory in ["harbour/docs", "mill"] {
        let params = json!({"cwd": place.path(directory), "mcpServers": []});
        let made = editor.ask("session/new", &params).unwrap();
        let session = made["sessionId"].as_str().unwrap().to_owned();
        editor.prompt(&session, "What is due?").unwrap();
        sessions.push(session);
    }
    let systems: Vec<String> = (provider.requests().iter())
        .map(|request| request.json()["messages"][0]["content"].to_string())
        .collect();
    assert_eq!(systems.len(), 2);
    for (system, said) in [
        (&systems[0], ["in francs.", "Name the owner."].as_slice()),
        (&systems[1], ["in euros."].as_slice()),
    ] {
        for text in said {
            assert!(system.contains(text), "{system}");
        }
        assert!(!system.contains("Of the process."), "{system}");
    }
    assert!(!systems[1].contains("in francs."), "{}", systems[1]);
    // Another command on the session sees the same, and another turn is frozen with the new text.
    let snapshot = |session: &str| {
        let runs = place.json(&["runs", "list", "--session", session]);
        runs[0]["snapshot"].as_str().unwrap().to_owned()
    };
    let context = place.json(&["context", &sessions[0]]);
    let system = context["system"].as_str().unwrap();
    assert!(system.contains("Name the owner."), "{system}");
    let before = snapshot(&sessions[0]);
    place.write("harbour/docs/AGENTS.md", "Name the date.");
    editor.prompt(&sessions[0], "What is due?").unwrap();
    assert_ne!(snapshot(&sessions[0]), before);
    let system = provider.requests()[2].json()["messages"][0]["content"].to_string();
    assert!(system.contains("Name the date."), "{system}");
    editor.leave();
}

#[test]
fn a_turn_goes_on_when_the_editor_is_killed() {
    let gate = Gate::new();
    let held = Act::from(Answer::text("The answer.")).hold(&gate);
    let (provider, place) = provider(Script::sequence([
        held,
        Act::answer(Answer::text("The answer.")),
    ]));
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    editor.begin("session/prompt", &prompt(&session, "Wait."));
    block_on(provider.wait_for(1));
    editor.program.kill().unwrap();
    editor.program.wait().unwrap();
    gate.open();
    place.keyed(&["resume"]).expect(0);
    let mut editor = start_with_key(&place);
    let params = json!({"sessionId": session, "cwd": "/work/harbour", "mcpServers": []});
    editor.ask("session/load", &params).unwrap();
    assert_eq!(editor.said(), "The answer.");
    editor.leave();
}

#[test]
fn a_prompt_is_finished_when_the_program_is_told_to_stop() {
    let gate = Gate::new();
    let held = Act::from(Answer::text("In time.")).hold(&gate);
    let (provider, place) = provider(Script::sequence([held]));
    let mut editor = start_with_key(&place);
    let session = editor.new_session();
    let id = editor.begin("session/prompt", &prompt(&session, "Wait."));
    block_on(provider.wait_for(1));
    let program = rustix::process::Pid::from_child(&editor.program);
    rustix::process::kill_process(program, rustix::process::Signal::TERM).unwrap();
    gate.open();
    assert_eq!(editor.end(id).unwrap()["stopReason"], "end_turn");
    assert!(editor.said().contains("In time."));
    // It ends though its input is open.
    assert!(editor.program.wait().unwrap().success());
}

#[test]
fn an_idle_program_that_is_told_to_stop_ends() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    let program = rustix::process::Pid::from_child(&editor.program);
    rustix::process::kill_process(program, rustix::process::Signal::TERM).unwrap();
    assert!(editor.program.wait().unwrap().success());
}

#[test]
fn an_editor_that_does_not_read_keeps_no_program_that_is_told_to_stop() {
    let place = Place::with_config("[server]\ndrain_seconds = 1\n");
    let mut editor = Editor::start(&place);
    // More answers than the queue and the pipe hold; fewer requests than they and its input do.
    for _ in 0..1_400 {
        editor.begin("no/such", &json!({}));
    }
    let program = rustix::process::Pid::from_child(&editor.program);
    rustix::process::kill_process(program, rustix::process::Signal::TERM).unwrap();
    assert!(editor.program.wait().unwrap().success());
}
