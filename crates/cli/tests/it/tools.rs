//! Tools of real servers, called by the real program: their faults, its deaths, and people who
//! are asked.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use unisono_fake_provider::tools::{LOG, MANNER, serve_http, serve_if_asked};
use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Script};

use crate::http::Daemon;
use crate::people::{Caller, caller};
use crate::support::{Done, Going, HasAll as _, KEY, Place, awaited, finish, is_alive, until};

/// This binary as a server of tools.
#[test]
fn tool_server() {
    serve_if_asked();
}

/// A project whose lead has the tools of one server, and a model that calls what it is told to.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) provider: FakeProvider,
    /// Where the server tells what it is asked for.
    pub(crate) log: PathBuf,
}

/// The results that a model was sent last.
fn results(request: &Recorded) -> Option<Vec<String>> {
    let body = request.json();
    let messages = body["messages"].as_array()?;
    let last = messages.iter().rev();
    let last = last.take_while(|message| message["role"] == "tool");
    let mut texts: Vec<String> = last
        .filter_map(|message| Some(message["content"].as_str()?.to_owned()))
        .collect();
    texts.reverse();
    (!texts.is_empty()).then_some(texts)
}

impl Scene {
    /// A model that calls these tools with one reply each, then says what they came back with.
    pub(crate) fn new(replies: &[&[(&str, Value)]], server: &str, more: &str) -> Scene {
        let replies: Vec<Vec<(String, String)>> = replies
            .iter()
            .map(|calls| {
                let calls = calls.iter();
                calls
                    .map(|(tool, arguments)| ((*tool).to_owned(), arguments.to_string()))
                    .collect()
            })
            .collect();
        let script = Script::by(move |request| {
            let body = request.json();
            let said = body["messages"].as_array().unwrap().iter();
            let done = said
                .filter(|message| message["tool_calls"].is_array())
                .count();
            let Some(calls) = replies.get(done) else {
                let said = results(request).unwrap_or_default().join(" | ");
                return Act::answer(Answer::text(format!("Told: {said}")));
            };
            let mut answer = Answer::empty();
            for (n, (tool, arguments)) in calls.iter().enumerate() {
                answer = answer
                    .and_call(tool, arguments)
                    .call_id(format!("call_{done}_{n}"));
            }
            Act::answer(answer)
        });
        let provider = FakeProvider::play_on_thread(script);
        let base = provider.url();
        let place = Place::with_config("");
        let exe = std::env::current_exe().unwrap();
        let (log, key) = (place.path("log"), place.path("key"));
        place.write("key", KEY);
        let server = server
            .replace("{EXE}", exe.to_str().unwrap())
            .replace("{LOG}", log.to_str().unwrap());
        place.set_config(format!(
                "[models]\ndefault = \"openai/gpt-4o\"\n\
                 [providers.openai]\nbase_url = \"{base}/v1\"\napi_key_env = \"TEST_KEY\"\napi_key_file = {key:?}\n\
                 [turn]\nlead = \"clerk\"\nagents = []\n[compaction]\nsummarisers = [\"extractive\"]\n\
                 [agents.clerk]\ndescription = \"keeps the books\"\nmcp_servers = [\"files\"]\n\
                 {more}\n[mcp.files]\n{server}"
            ),
        );
        place.talk();
        place.write("log", "");
        Scene {
            place,
            provider,
            log,
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> std::process::Command {
        self.place.keyed_command(args)
    }

    pub(crate) fn call(&self, args: &[&str]) -> Done {
        self.place.keyed(args)
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.call(&[args, &["--json"]].concat()).expect(0).json()
    }

    pub(crate) fn answer(&self) -> String {
        let report = self.json(&["run", "talk.json", "--task", "Do it."]);
        report["answer"].as_str().unwrap().to_owned()
    }

    /// Runs it until the log says that, then kills it.
    pub(crate) fn killed_at(&self, line: &str) {
        let args = ["run", "talk.json", "--task", "Do it.", "--json"];
        let going = Going::start(self.command(&args));
        self.logged(line, 1);
        going.kill();
    }

    /// Runs it until it says that a call waits, then kills it.
    fn killed_while_it_waits(&self) {
        let args = ["run", "talk.json", "--task", "Do it.", "--json"];
        let mut going = Going::start(self.command(&args));
        going.wait_for(&["clerk calls files__"]);
        going.kill();
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.log()
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }

    /// Waits until the log has that many lines that begin so.
    #[track_caller]
    pub(crate) fn logged(&self, start: &str, times: usize) {
        awaited(|| match self.count(start) < times {
            true => Err(format!("{start:?}: {:?}", self.log())),
            false => Ok(()),
        });
    }

    pub(crate) fn waiting(&self) -> Value {
        self.json(&["approvals", "list"])
    }

    /// The tools in the first request to the model.
    fn tool_names(&self) -> Vec<String> {
        let body = self.provider.requests()[0].json();
        let tools = body["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The server as a program: this binary.
pub(crate) fn program(more: &str) -> String {
    format!(
        "command = \"{{EXE}}\"\nargs = [\"tools::tool_server\", \"--exact\", \"--nocapture\"]\n\
         timeout = \"3s\"\n{more}\n[mcp.files.env]\n{LOG} = \"{{LOG}}\"\n"
    )
}

#[test]
fn an_agent_calls_tools_of_a_program_in_order_and_is_told_what_is_wrong() {
    let call = |tool: &str, text: Value| (tool.to_owned(), text);
    let calls = [
        call("files__send", json!({"text": "first"})),
        call("files__put", json!({"text": "second"})),
        call("files__read", json!({"text": 7})),
        call("files__die", json!({})),
        call("files__nothing", json!({})),
        call("files__variable", json!({"text": "TEST_KEY"})),
        call("files__read", json!({"text": "last"})),
    ];
    let calls: Vec<(&str, Value)> = calls.iter().map(|(t, a)| (&**t, a.clone())).collect();
    let deny = "deny_tools = [\"files__die\"]";
    let scene = Scene::new(&[&calls], &program("tools = [\"*\", \"!flood\"]"), deny);
    insta::assert_snapshot!(scene.answer(), @r#"
    Told: send: first | put: second | [tool error]
    the arguments of files__read do not fit its schema: /text: 7 is not of type "string" | [tool error]
    tool `files__die` does not exist; it may call: files__fork, files__garbage, files__grow, files__never, files__put, files__read, files__send, files__show, files__variable, read_message, recall | [tool error]
    tool `files__nothing` does not exist; it may call: files__fork, files__garbage, files__grow, files__never, files__put, files__read, files__send, files__show, files__variable, read_message, recall | not set | read: last
    "#);
    let reply = scene.tool_names();
    assert!(reply.is_sorted(), "{reply:?}");
    assert!(
        reply.contains(&"files__read".to_owned()) && !reply.contains(&"files__flood".to_owned())
    );
    // The context counts the tools in the requests.
    let context = scene.json(&["context", "latest"]);
    let shown = context["tools"].as_array().unwrap().iter();
    let shown: Vec<&str> = shown.filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(shown, reply);
    // Effects are made in the order of the reply, under keys; reading needs none.
    let log = scene.log();
    let at = |start: &str| log.iter().position(|line| line.starts_with(start)).unwrap();
    assert!(at("call send ") < at("call put "));
    assert!(!log[at("call put ")].starts_with("call put - "));
    assert!(log[at("call read ")].starts_with("call read - "));
    assert_eq!(scene.count("start "), 1, "one process for all calls");
}

/// A run whose replies have one call each. The model gets the expected text for each call, and continues.
fn tried(calls: &[[(&str, Value); 1]], server: &str, expected: &[&str]) -> Scene {
    let replies: Vec<&[(&str, Value)]> = calls.iter().map(|calls| &calls[..]).collect();
    let scene = Scene::new(&replies, server, "max_model_calls = 12");
    assert_eq!(scene.answer(), "Told: read: x");
    let requests = scene.provider.requests();
    let told = requests.iter().filter_map(results);
    for (told, says) in told.zip(expected) {
        assert!(told.concat().contains(says), "{says}: {told:?}");
    }
    scene
}

#[test]
fn whatever_a_server_does_the_model_is_told_and_the_run_goes_on() {
    let one = |tool: &'static str| (tool, json!({"text": "x"}));
    let calls = [
        [one("files__die")],
        [one("files__garbage")],
        [one("files__flood")],
        [one("files__never")],
        [(
            "files__show",
            json!({"text": "x", "parts": [{"type": "unheard of"}]}),
        )],
        [one("files__read")],
    ];
    let expected = [
        "tool server `files` ended with exit status: 9",
        "tool server `files` sent a line that is not JSON-RPC",
        "tool server `files` sent a message of more than 8 MiB",
        "tool server `files` gave no answer within 3.0 s",
        "the call was made, but its result cannot be read",
        "read: x",
    ];
    let scene = tried(&calls, &program(""), &expected);
    assert_eq!(scene.count("start "), 4, "started again after each death");
    assert_eq!(scene.count("cancelled"), 1, "told that nobody waits");
}

#[test]
fn a_call_that_may_be_made_once_is_in_doubt_after_a_kill_and_never_repeated() {
    let until = json!({"text": "the invoice", "until": "/nowhere/at/all"});
    let scene = Scene::new(&[&[("files__send", until)]], &program(""), "");
    scene.killed_at("call send ");
    let waiting = scene.waiting();
    assert_eq!(waiting[0]["kind"], "in_doubt");
    assert_eq!(waiting[0]["contract"], "at_most_once");
    assert_eq!(waiting[0]["arguments"]["text"], "the invoice");
    let id = waiting[0]["call"].as_str().unwrap();
    scene
        .call(&["approvals", "approve", id])
        .expect(2)
        .says(&["it is in doubt", "done, failed, or must be repeated"]);
    // Whoever goes on without an answer waits, and makes nothing.
    let mut going = Going::start(scene.command(&["resume"]));
    going.wait_for(&["the outcome of this call is unknown"]);
    going.signal("INT");
    going.finish();
    let settled = scene.json(&["approvals", "settle", id, "--done", "it is in the outbox"]);
    assert_eq!(settled["decision"], "done");
    let again = scene.call(&["approvals", "settle", id, "--repeat"]);
    again.expect(2).says(&["call that waits for a person"]);
    let report = scene.json(&["resume"]);
    let report = report.as_array().map_or(&report, |all| &all[0]);
    assert_eq!(report["answer"], "Told: it is in the outbox");
    assert_eq!(scene.count("call send "), 1);
    assert_eq!(
        scene.provider.requests().len(),
        2,
        "no model call is repeated"
    );
}

#[test]
fn a_call_that_may_be_repeated_is_made_again_under_its_key_after_a_kill() {
    let scene = Scene::new(
        &[&[("files__put", json!({"text": "x", "until": "go"}))]],
        &program(""),
        "",
    );
    scene.killed_at("call put ");
    assert_eq!(scene.waiting(), json!([]));
    scene.place.write("go", "");
    let report = scene.json(&["resume"]);
    let report = report.as_array().map_or(&report, |all| &all[0]);
    assert_eq!(report["answer"], "Told: put: x");
    let calls: Vec<String> = scene
        .log()
        .into_iter()
        .filter(|line| line.starts_with("call put "))
        .collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], calls[1], "the same key");
}

#[test]
fn a_call_waits_for_a_person_over_a_kill_and_is_denied_or_made_as_they_say() {
    let send = ("files__send", json!({"text": "the invoice"}));
    let rule = "approve = [\"send(text=*invoice*)\"]";
    for (decision, answer, made) in [
        (vec!["approve"], "Told: send: the invoice", 1),
        (
            vec!["deny", "--reason", "ask legal first"],
            "Told: [tool error]\n[denied: a person did not allow this call; it was not made. They said: ask legal first]",
            0,
        ),
    ] {
        let scene = Scene::new(&[std::slice::from_ref(&send)], &program(rule), "");
        scene.killed_while_it_waits();
        let waiting = scene.waiting();
        assert_eq!(waiting[0]["kind"], "approval");
        assert_eq!(waiting[0]["rule"], "files__send(text=*invoice*)");
        assert_eq!(scene.count("call send "), 0);
        let id = waiting[0]["call"].as_str().unwrap();
        let decide = [&["approvals", decision[0], id], &decision[1..]].concat();
        scene.call(&decide).expect(0);
        assert_eq!(scene.waiting(), json!([]));
        let report = scene.json(&["resume"]);
        let report = report.as_array().map_or(&report, |all| &all[0]);
        assert_eq!(report["answer"], answer);
        assert_eq!(scene.count("call send "), made);
    }
}

#[test]
fn a_call_that_waits_in_a_daemon_is_decided_from_the_command_line() {
    let send = ("files__send", json!({"text": "the invoice"}));
    let scene = Scene::new(&[&[send]], &program("approve = [\"send\"]"), "");
    let daemon = Daemon::start(&scene.place);
    let args = ["run", "talk.json", "--task", "Do it.", "--json"];
    let mut going = Going::start(scene.command(&args));
    let how = going.wait_for(&["unisono approvals approve"]);
    assert!(!how.contains("ctrl-c"), "{how}");
    let waiting = scene.waiting();
    assert_eq!(waiting[0]["kind"], "approval", "{waiting}");
    let id = waiting[0]["call"].as_str().unwrap();
    let wrong = scene.call(&["approvals", "settle", id, "--repeat"]);
    wrong.expect(2).says(&["approvals"]);
    let done = scene.call(&["approvals", "approve", id]).expect(0);
    done.says(&["approved", "the daemon continues the turn"]);
    let report = going.finish().expect(0).json();
    assert_eq!(report["answer"], "Told: send: the invoice");
    scene
        .call(&["approvals", "approve", id])
        .expect(2)
        .says(&["no call that waits"]);
    assert_eq!(scene.count("call send "), 1);
    daemon.stop();
}

#[test]
fn two_clients_that_answer_one_call_are_told_who_was_first() {
    let send = ("files__send", json!({"text": "x"}));
    let scene = Scene::new(&[&[send]], &program("approve = [\"send\"]"), "");
    let imported = scene.place.json(&["import", "talk.json"]);
    let id = imported["session"].as_str().unwrap().to_owned();
    let daemon = Daemon::start(&scene.place);
    let task = json!({"task": "Do it.", "wait": false});
    let turn = daemon.post(&format!("/v1/sessions/{id}/turns"), &task);
    let turn = turn.expect(202).json()["turn"].as_str().unwrap().to_owned();
    let waiting = daemon.awaited("/v1/approvals", |all| all["items"][0].is_object());
    let waiting = waiting["items"].clone();
    assert_eq!(waiting[0]["session"], id.as_str());
    assert_eq!(waiting[0]["tool"], "files__send");
    let at = format!("/v1/approvals/{}", waiting[0]["call"].as_str().unwrap());
    let answer = |decision: &str| daemon.post(&at, &json!({"decision": decision}));
    assert_eq!(answer("repeat").expect(409).json()["code"], "conflict");
    assert_eq!(answer("done").expect(400).json()["code"], "invalid_request");
    assert_eq!(answer("approve").expect(200).json()["decision"], "approved");
    let path = format!("/v1/sessions/{id}/turns/{turn}");
    let ended = daemon.awaited(&path, |turn| turn["state"] == "answered");
    assert_eq!(ended["answer"], "Told: send: x");
    // Also once its turn has ended.
    assert_eq!(answer("deny").expect(409).json()["code"], "conflict");
    let nobody = "/v1/approvals/01920000-0000-7000-8000-000000000001";
    let unknown = daemon.post(nobody, &json!({"decision": "approve"}));
    assert_eq!(unknown.expect(404).json()["code"], "not_found");
    assert_eq!(scene.count("call send "), 1);
    daemon.stop();
}

#[test]
fn who_decided_about_a_call_is_shown_with_its_run() {
    let send = |text: &str| ("files__send", json!({"text": text}));
    let replies = [&[send("one"), send("two")][..]];
    let scene = Scene::new(&replies, &program("approve = [\"send\"]"), "");
    let imported = scene.place.json(&["import", "talk.json"]);
    let id = imported["session"].as_str().unwrap().to_owned();
    let daemon = Daemon::start(&scene.place);
    let task = json!({"task": "Do it.", "wait": false});
    let turn = daemon.post(&format!("/v1/sessions/{id}/turns"), &task);
    let turn = turn.expect(202).json()["turn"].as_str().unwrap().to_owned();
    let waiting = daemon.awaited("/v1/approvals", |all| all["items"][1].is_object());
    let waiting = waiting["items"].clone();
    let ada = caller(&daemon, &json!({"name": "ada", "scope": "approve"}));
    let whole = Caller::new(&daemon, &daemon.token);
    for (caller, call, decision) in [(&ada, 0, "approve"), (&whole, 1, "deny")] {
        let call = waiting[call]["call"].as_str().unwrap();
        let decision = json!({"decision": decision});
        caller
            .post(&format!("/v1/approvals/{call}"), &decision)
            .expect(200);
    }
    daemon.text(&format!("/v1/sessions/{id}/turns/{turn}/events?after=0"));
    let run = scene.json(&["runs", "show", &turn]);
    let decided = run["decisions"].as_array().unwrap();
    let decided: Vec<_> = decided
        .iter()
        .map(|one| [&one["tool"], &one["decision"], &one["by"]].map(Value::as_str))
        .collect();
    let tool = Some("files__send");
    let expected = [
        [tool, Some("approved"), Some("ada")],
        [tool, Some("denied"), None],
    ];
    assert_eq!(decided, expected);
    for verb in [&["runs", "show", &turn][..], &["why", &turn]] {
        let said = scene.call(verb).expect(0).stdout;
        for says in ["files__send was approved by ada", "files__send was denied"] {
            assert!(said.contains(says), "{verb:?}: {said}");
        }
    }
    let times = daemon.json(&format!("/v1/sessions/{id}/turns/{turn}/timeline"));
    let spans = times["runs"][0]["spans"].as_array().unwrap();
    let mut people: Vec<_> = spans
        .iter()
        .filter(|span| span["kind"] == "person")
        .map(|span| (span["decision"].as_str().unwrap(), span["by"].as_str()))
        .collect();
    people.sort_unstable();
    assert_eq!(people, [("approved", Some("ada")), ("denied", None)]);
    let page = format!("/sessions/{id}/turns/{turn}");
    let page = daemon.get(&page).expect(200).text();
    assert!(page.contains("files__send was approved by ada"), "{page}");
    daemon.stop();
}

#[test]
fn an_agents_own_rule_holds_for_it_and_nobody_in_time_is_a_denial() {
    let send = ("files__send", json!({"text": "x"}));
    let more = "approve = [\"files__*\"]\n[approvals]\ntimeout = \"300ms\"";
    let scene = Scene::new(&[&[send]], &program(""), more);
    let answer = scene.answer();
    answer.has_all(&["nobody allowed this call in time"]);
    assert_eq!(scene.count("call "), 0);
}

#[test]
fn a_server_at_an_address_is_spoken_to_by_http() {
    let calls = [
        ("files__put", json!({"text": "x"})),
        ("files__never", json!({"text": "x"})),
    ];
    let server = "url = \"http://{ADDRESS}/mcp\"\ntoken_env = \"FILES_TOKEN\"\ntimeout = \"1s\"\n";
    let log = tempfile::NamedTempFile::new().unwrap();
    let address = serve_http(log.path()).unwrap();
    let server = server.replace("{ADDRESS}", &address.to_string());
    let scene = Scene::new(&[&calls], &server, "");
    let args = ["run", "talk.json", "--task", "Do it.", "--json"];
    // Only a turn with agents of the server needs its token.
    let missing = scene.call(&["run", "talk.json", "--task", "Do it."]);
    missing
        .expect(1)
        .says(&["tool server `files` cannot be used: the variable FILES_TOKEN is not set"]);
    let checked = scene.call(&["config", "check"]).expect(0);
    for words in ["unisono.toml:", "warning", "FILES_TOKEN is not set"] {
        assert!(checked.stdout.contains(words), "{}", checked.stdout);
    }
    let listed = scene.call(&["sessions", "list"]).expect(0);
    listed.says(&["FILES_TOKEN is not set"]);
    let mut command = scene.command(&args);
    command.env("FILES_TOKEN", "tok-1234");
    let report = finish(command.spawn().unwrap(), &args).expect(0).json();
    let answer = report["answer"].as_str().unwrap();
    assert!(
        answer.starts_with(
            "Told: put: x | [tool error]\n[failed: tool server `files` gave no answer"
        ),
        "{answer}"
    );
    let log = fs::read_to_string(log.path()).unwrap();
    log.has_all(&["token bearer tok-1234", "call put 0"]);
}

#[test]
fn whatever_a_server_at_an_address_does_the_model_is_told_and_the_run_goes_on() {
    let one = |tool: &'static str| [(tool, json!({"text": "x"}))];
    let calls = [
        one("files__garbage"),
        one("files__flood"),
        one("files__never"),
        one("files__read"),
    ];
    let log = tempfile::NamedTempFile::new().unwrap();
    let address = serve_http(log.path()).unwrap();
    let server = format!("url = \"http://{address}/mcp\"\ntimeout = \"3s\"\n");
    let expected = [
        "tool server `files` did not answer: unexpected server response: could not parse JSON",
        "exceeded the maximum size of 16777216 bytes",
        "tool server `files` gave no answer within 3.0 s",
        "read: x",
    ];
    tried(&calls, &server, &expected);
}

#[test]
fn a_server_that_cannot_be_had_refuses_the_turn_by_name() {
    for (server, says) in [
        (
            "command = \"no-such-program-at-all\"\n".to_owned(),
            "could not start `no-such-program-at-all`",
        ),
        (
            "url = \"http://127.0.0.1:9/mcp\"\n".to_owned(),
            "tool server `files` did not complete the handshake",
        ),
        (
            program("start_timeout = \"1s\"") + &format!("{MANNER} = \"mute\"\n"),
            "did not answer within 1.0 s of its start",
        ),
    ] {
        let scene = Scene::new(&[], &server, "");
        let done = scene.call(&["run", "talk.json", "--task", "Do it."]);
        done.expect(1).says(&[says, "[mcp.*]"]);
        assert_eq!(scene.provider.requests().len(), 0);
    }
}

#[test]
fn a_server_of_the_revision_before_that_takes_no_question_is_asked_the_old_way() {
    let read = ("files__read", json!({"text": "x"}));
    let server = program("") + &format!("{MANNER} = \"old\"\n");
    let scene = Scene::new(&[&[read]], &server, "");
    assert_eq!(scene.answer(), "Told: read: x");
}

#[test]
fn a_server_that_changes_its_tools_changes_no_turn_under_way() {
    let call = |tool: &'static str| [(tool, json!({"text": "x"}))];
    let (grow, put, new) = (call("files__grow"), call("files__put"), call("files__new"));
    let scene = Scene::new(&[&grow, &put, &new], &program(""), "");
    let answer = scene.answer();
    answer.has_all(&["tool `files__new` does not exist"]);
    let requests = scene.provider.requests();
    let tools = |n: usize| requests[n].json()["tools"].clone();
    assert_eq!(tools(0), tools(3), "the list that was frozen");
}

#[test]
fn what_a_server_starts_ends_with_the_program() {
    let scene = Scene::new(
        &[&[("files__fork", json!({"text": "x"}))]],
        &program(""),
        "",
    );
    let answer = scene.answer();
    let child = answer.trim_start_matches("Told: ");
    assert!(child.parse::<u32>().is_ok(), "{answer}");
    let server = scene.log()[0].trim_start_matches("start ").to_owned();
    for process in [child, &server] {
        until(&format!("{process} goes on"), || !is_alive(process));
    }
}
