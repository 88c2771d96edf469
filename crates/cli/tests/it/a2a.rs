//! The Agent2Agent protocol: agents are found by their cards and given tasks.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};

use crate::attachments::{base64, png};
use crate::http::{Daemon, Event, Reply, head, json_head, send_to};
use crate::support::{HasAll as _, Place};
use crate::tools::{Scene, program};

const VERSION: (&str, &str) = ("A2A-Version", "1.0");

/// A client of the protocol, in either binding.
#[derive(Clone, Copy)]
pub(crate) struct Client<'d> {
    pub(crate) daemon: &'d Daemon,
    /// The address of the team, or of an agent.
    pub(crate) base: &'d str,
}

impl<'d> Client<'d> {
    pub(crate) fn of(daemon: &'d Daemon) -> Client<'d> {
        let base = "/a2a";
        Client { daemon, base }
    }

    /// The reply to a call by JSON-RPC.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let daemon = self.daemon;
        daemon.request_with("POST", self.base, &[VERSION], Some(&body))
    }

    /// The result of a call by JSON-RPC.
    #[track_caller]
    pub(crate) fn rpc(&self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params).expect(200).json();
        assert_eq!(
            (&answer["jsonrpc"], &answer["id"]),
            (&json!("2.0"), &json!(1))
        );
        let result = answer.get("result");
        result.unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// The error of a call by JSON-RPC.
    #[track_caller]
    pub(crate) fn error(&self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params).expect(200).json();
        let error = answer.get("error");
        error.unwrap_or_else(|| panic!("{answer}")).clone()
    }

    pub(crate) fn rest(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let path = format!("{}{path}", self.base);
        self.daemon.request_with(method, &path, &[VERSION], body)
    }

    /// The task of a message to which an answer is waited for.
    #[track_caller]
    pub(crate) fn send(&self, message: &Value) -> Value {
        self.rpc("SendMessage", &json!({"message": message}))["task"].clone()
    }

    /// The task of a message, as soon as there is one.
    #[track_caller]
    fn begin(&self, message: &Value) -> Value {
        let how = json!({"returnImmediately": true});
        let sent = json!({"message": message, "configuration": how});
        self.rpc("SendMessage", &sent)["task"].clone()
    }

    #[track_caller]
    pub(crate) fn task(&self, task: &Value) -> Value {
        self.rpc("GetTask", &json!({"id": task["id"]}))
    }
}

pub(crate) fn says(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// A message of this task, or of this context.
fn with(mut message: Value, field: &str, value: &Value) -> Value {
    message[field] = value.clone();
    message
}

fn state(task: &Value) -> &str {
    let state = task["status"]["state"].as_str().unwrap();
    state.strip_prefix("TASK_STATE_").unwrap()
}

fn artifact<'t>(task: &'t Value, id: &str) -> &'t str {
    let mut all = task["artifacts"].as_array().unwrap().iter();
    let found = all.find(|one| one["artifactId"] == id);
    found.unwrap_or_else(|| panic!("{task}"))["parts"][0]["text"]
        .as_str()
        .unwrap()
}

/// What events of a stream have, in either binding.
fn updates(events: impl Iterator<Item = Event>) -> Vec<Value> {
    let updates = events.map(|event| {
        let mut data: Value = serde_json::from_str(&event.data).unwrap();
        match data.get("jsonrpc") {
            Some(_) => data["result"].take(),
            None => data,
        }
    });
    updates.collect()
}

/// The answer that a client puts together from the events.
fn put_together(updates: &[Value]) -> String {
    let mut text = String::new();
    for update in updates {
        // What there was when it began to follow.
        for artifact in update["task"]["artifacts"].as_array().into_iter().flatten() {
            if artifact["artifactId"] == "answer" {
                text = artifact["parts"][0]["text"].as_str().unwrap().to_owned();
            }
        }
        let update = &update["artifactUpdate"];
        if update["artifact"]["artifactId"] != "answer" {
            continue;
        }
        if update["append"] != true {
            text.clear();
        }
        text += update["artifact"]["parts"][0]["text"].as_str().unwrap();
    }
    text
}

/// A model that is asked in place of the offline one.
pub(crate) fn scripted(script: Script, more: &str) -> (FakeProvider, Place) {
    let provider = FakeProvider::play_on_thread(script);
    let more = format!("[models]\ndefault = \"openai/gpt-4o-mini\"\n[turn]\nagents = []\n{more}");
    let place = Place::with_openai(&provider, &more);
    (provider, place)
}

pub(crate) fn held(gate: &Gate, text: &str) -> Act {
    Act::from(Answer::text(text)).hold(gate)
}

#[test]
fn agents_are_found_by_cards_that_everybody_may_read() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let host = daemon.address.clone();
    let public = |path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Host", host.as_str())], more].concat();
        daemon.send(&head("GET", path, &headers, 0), b"")
    };
    let reply = public("/.well-known/agent-card.json", &[]).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("public, max-age=60"));
    let tag = reply.header("etag").unwrap().to_owned();
    let card = reply.json();
    let url = format!("http://{host}/a2a");
    let interfaces = json!([
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ]);
    assert_eq!(card["supportedInterfaces"], interfaces);
    assert_eq!(card["capabilities"]["streaming"], true);
    let scheme = &card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"];
    assert_eq!(scheme, "Bearer");
    let needed = json!([{"schemes": {"bearer": {"list": []}}}]);
    assert_eq!(card["securityRequirements"], needed);
    let skills = card["skills"].as_array().unwrap();
    let facts = skills.iter().find(|skill| skill["id"] == "facts").unwrap();
    assert!(!facts["description"].as_str().unwrap().is_empty());
    assert!(!facts["tags"].as_array().unwrap().is_empty());
    let weak = format!("W/{tag}");
    for known in [&tag, &weak] {
        public("/.well-known/agent-card.json", &[("If-None-Match", known)]).expect(304);
    }

    let own = public("/a2a/agents/facts/.well-known/agent-card.json", &[]).expect(200);
    let own = own.json();
    assert_eq!(own["name"], "facts");
    assert_eq!(own["skills"], json!([facts]));
    let url = format!("http://{host}/a2a/agents/facts");
    assert_eq!(own["supportedInterfaces"][1]["url"], url);
    let none = public("/a2a/agents/nobody/.well-known/agent-card.json", &[]);
    assert_eq!(none.expect(404).json()["error"]["status"], "NOT_FOUND");
    daemon.stop();
}

#[test]
fn cards_have_the_address_by_which_others_reach_the_server() {
    let place = Place::with_config("[server]\npublic_url = \"https://agents.example.com/\"\n");
    let daemon = Daemon::start(&place);
    let card = daemon.json("/.well-known/agent-card.json");
    let url = &card["supportedInterfaces"][0]["url"];
    assert_eq!(url, "https://agents.example.com/a2a");
    daemon.stop();
}

#[test]
fn only_chosen_agents_have_cards_and_addresses() {
    let config = "[turn]\nagents = [\"risks\"]\n[server]\na2a_agents = [\"facts\"]\n";
    let place = Place::with_config(config);
    let daemon = Daemon::start(&place);
    let card = daemon.json("/.well-known/agent-card.json");
    let skills = card["skills"].as_array().unwrap();
    let names: Vec<&Value> = skills.iter().map(|skill| &skill["id"]).collect();
    assert_eq!(names, ["facts"]);
    daemon
        .get("/a2a/agents/facts/.well-known/agent-card.json")
        .expect(200);
    daemon
        .get("/a2a/agents/risks/.well-known/agent-card.json")
        .expect(404);
    let base = "/a2a/agents/risks";
    let hidden = Client {
        daemon: &daemon,
        base,
    };
    let sent = json!({"message": says("m1", "What is due?")});
    hidden
        .rest("POST", "/message:send", Some(&sent))
        .expect(404);
    // The team still has it.
    let done = Client::of(&daemon).send(&says("m2", "What is due?"));
    assert_eq!(state(&done), "COMPLETED", "{done}");
    daemon.stop();
}

#[test]
fn a_message_begins_a_task_that_is_the_same_after_the_program_was_killed() {
    let place = Place::with_config("[turn]\nagents = [\"risks\", \"facts\"]\n");
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let message = says("m1", "The move is on Friday 6 March. When is the move?");
    let task = team.send(&message);
    assert_eq!(state(&task), "COMPLETED", "{task}");
    assert!(artifact(&task, "answer").contains("6 March"), "{task}");
    let names = task["artifacts"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|one| &one["name"]).collect();
    assert_eq!(names, ["lead", "risks", "facts"]);
    let history = &task["history"][0];
    assert_eq!(history["parts"], message["parts"]);
    assert_eq!(history["messageId"], message["messageId"]);
    assert_eq!(
        (&history["role"], &history["taskId"]),
        (&json!("ROLE_USER"), &task["id"])
    );

    // The same message is the same task, in either binding; another text under its id is another one.
    assert_eq!(team.send(&message), task);
    let sent = team.rest("POST", "/message:send", Some(&json!({"message": message})));
    let sent = sent.expect(200);
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.json()["task"], task);
    let other = team.send(&says("m1", "Who?"));
    assert_ne!(other["id"], task["id"], "{other}");
    // Another agent is given it as another task.
    let facts = Client {
        base: "/a2a/agents/facts",
        ..team
    };
    let of_facts = facts.send(&message);
    assert_ne!(of_facts["contextId"], task["contextId"]);
    // Some clients end the address of JSON-RPC with a slash.
    for (base, known) in [("/a2a/", &task), ("/a2a/agents/facts/", &of_facts)] {
        let slashed = Client { base, ..team };
        assert_eq!(slashed.send(&message), *known);
    }
    let alone = of_facts["artifacts"].as_array().unwrap();
    assert_eq!((alone.len(), &alone[0]["name"]), (1, &json!("facts")));

    // The context goes on.
    let next = with(says("m2", "On which day?"), "contextId", &task["contextId"]);
    let next = facts.send(&next);
    assert_eq!(next["contextId"], task["contextId"]);
    assert_ne!(next["id"], task["id"]);
    let short = team.rpc("GetTask", &json!({"id": task["id"], "historyLength": 0}));
    assert_eq!(short.get("history"), None);
    assert_eq!(short["artifacts"], task["artifacts"]);

    daemon.kill();
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    assert_eq!(team.task(&task), task);
    let path = format!("/tasks/{}", task["id"].as_str().unwrap());
    assert_eq!(team.rest("GET", &path, None).expect(200).json(), task);
    assert_eq!(team.send(&message), task, "it is known after the restart");
    let listed = place.json(&["sessions", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 3, "{listed}");
    daemon.stop();
}

#[test]
fn the_history_of_a_task_has_the_parts_of_its_message() {
    let place = Place::with_config("[turn]\nagents = []\n");
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let image = png(640, 480, b"cat");
    let parts = json!([
        {"text": "We move on Friday 6 March.", "mediaType": "text/markdown"},
        {"raw": base64(&image), "filename": "cat.png", "mediaType": "image/png"},
        {"data": {"rooms": [1, 2]}, "metadata": {"source": "plan"}},
        {"text": "When do we move?\n\n"},
        {"raw": base64(&png(10, 20, b"dog"))},
    ]);
    let message = json!({"messageId": "m1", "role": "ROLE_USER", "parts": parts,
        "metadata": {"trace": 7}, "extensions": ["https://example.com/trace"]});
    let task = team.send(&message);
    assert_eq!(state(&task), "COMPLETED", "{task}");
    for field in ["messageId", "metadata", "extensions"] {
        assert_eq!(task["history"][0][field], message[field], "{field}");
    }
    let mut shown = task["history"][0]["parts"].clone();
    let address = |part: &mut Value| {
        let url = part.as_object_mut().unwrap().remove("url").unwrap();
        let origin = format!("http://{}", daemon.address);
        url.as_str()
            .unwrap()
            .strip_prefix(&origin)
            .unwrap()
            .to_owned()
    };
    let (cat, dog) = (address(&mut shown[1]), address(&mut shown[4]));
    let content = daemon.get(&cat).expect(200);
    assert_eq!(content.header("content-type"), Some("image/png"));
    let length = image.len().to_string();
    assert_eq!(content.header("content-length"), Some(length.as_str()));
    assert_ne!(cat, dog);
    assert_eq!(
        shown[1],
        json!({"filename": "cat.png", "mediaType": "image/png"})
    );
    assert_eq!(shown[4], json!({"mediaType": "image/png"}));
    for text in [0, 2, 3] {
        assert_eq!(shown[text], parts[text]);
    }
    assert_eq!(shown.as_array().unwrap().len(), 5);
    assert_eq!(team.task(&task), task);

    // A message of files alone, and a turn of another client.
    let file = json!([{"raw": base64(&image), "filename": "cat.png"}]);
    let message = json!({"messageId": "m2", "role": "ROLE_USER", "parts": file,
        "contextId": task["contextId"]});
    let alone = team.send(&message);
    let shown = &alone["history"][0]["parts"];
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown[0]["filename"], "cat.png");
    let session = task["contextId"].as_str().unwrap();
    let new = json!({"task": "Which room?", "attachments": [{"data": base64(&image)}]});
    let turn = daemon.posted(&format!("/v1/sessions/{session}/turns"), &new);
    let id = format!("{session}.{}", turn["turn"].as_str().unwrap());
    let shown = team.task(&json!({"id": id}))["history"][0]["parts"].clone();
    assert_eq!(shown[0], json!({"text": "Which room?"}));
    assert!(shown[1]["url"].as_str().unwrap().ends_with(&cat), "{shown}");
    daemon.stop();
}

#[test]
fn a_message_brings_the_results_of_the_tasks_to_which_it_refers() {
    let answers = ["The boat is blue.", "It is red.", "It is green."];
    let acts = answers.map(|answer| Act::answer(Answer::text(answer)));
    let (provider, place) = scripted(Script::sequence(acts), "");
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let asked = |request: usize| provider.requests()[request].json().to_string();
    let first = team.send(&says("m1", "Paint a boat."));
    let refers =
        |id: &str, text: &str| with(says(id, text), "referenceTaskIds", &json!([first["id"]]));
    let message = refers("m2", "Make it red.");
    let second = team.send(&message);
    assert_ne!(second["contextId"], first["contextId"]);
    let referenced = "[referenced task 1: Paint a boat.]";
    let result = format!("{referenced}\\nThe boat is blue.");
    assert!(asked(1).contains(&result), "{}", asked(1));
    let history = &second["history"][0];
    assert_eq!(history["parts"], message["parts"]);
    assert_eq!(history["referenceTaskIds"], message["referenceTaskIds"]);

    // The answer of a task of the same context is in the conversation already.
    let within = with(
        refers("m3", "Make it green."),
        "contextId",
        &first["contextId"],
    );
    let third = team.send(&within);
    assert_eq!(third["contextId"], first["contextId"]);
    let named = format!("{referenced}\\nIt stands above in this conversation.");
    assert!(asked(2).contains(&named), "{}", asked(2));
    assert_eq!(asked(2).matches("The boat is blue.").count(), 1);

    // A message that was sent before is its task, also without the task to which it refers.
    let path = format!("/v1/sessions/{}", first["contextId"].as_str().unwrap());
    daemon.delete(&path).expect(204);
    assert_eq!(team.send(&message), second);
    let unknown = refers("m4", "Make it white.");
    let unknown = json!({"message": unknown});
    let error = team.error("SendMessage", &unknown);
    assert_eq!(error["code"], -32001, "{error}");
    let about = &error["data"][0]["metadata"];
    assert_eq!(about["taskId"], first["id"]);
    assert_eq!(about["field"], "message.referenceTaskIds");
    let refused = team.rest("POST", "/message:stream", Some(&unknown));
    refused.expect(404);
    assert_eq!(team.rpc("ListTasks", &json!({}))["totalSize"], 1);
    assert_eq!(provider.request_count(), 3);
    daemon.stop();
}

#[test]
fn a_task_that_was_open_when_the_program_was_killed_goes_on() {
    let gate = Gate::new();
    let acts = [
        held(&gate, "Lost."),
        Act::answer(Answer::text("The answer.")),
    ];
    let (provider, place) = scripted(Script::sequence(acts), "");
    let daemon = Daemon::keyed(&place);
    let task = Client::of(&daemon).begin(&says("m1", "Wait."));
    assert!(["SUBMITTED", "WORKING"].contains(&state(&task)), "{task}");
    block_on(provider.wait_for(1));
    assert_eq!(state(&Client::of(&daemon).task(&task)), "WORKING");
    daemon.kill();
    let daemon = Daemon::keyed(&place);
    let same = Client::of(&daemon).send(&says("m1", "Wait."));
    assert_eq!((&same["id"], state(&same)), (&task["id"], "COMPLETED"));
    assert_eq!(artifact(&same, "answer"), "The answer.");
    gate.open();
    daemon.stop();
}

#[test]
fn a_message_that_many_send_at_once_begins_one_task() {
    let (provider, place) = scripted(Script::by(|_| Act::answer(Answer::text("Yes."))), "");
    let daemon = Daemon::keyed(&place);
    let address = daemon.address.as_str();
    let body = json!({"message": says("m1", "Is it so?")}).to_string();
    let to = (address, daemon.token.as_str());
    let head = json_head(to, "POST", "/a2a/message:send", &[VERSION], body.len());
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let send = || send_to(address, &head, body.as_bytes()).expect(200).json();
        let all: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
        let all = all.into_iter();
        all.map(|one| one.join().unwrap()["task"]["id"].clone())
            .collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(provider.requests().len(), 1);
    daemon.stop();
}

#[test]
fn a_task_is_streamed_to_whoever_began_it_and_to_others() {
    let (first, gate) = (Gate::new(), Gate::new());
    let answer = || Act::from(Answer::pieces(["The move ", "is on ", "Friday."]));
    let script = Script::sequence([answer().hold(&first), answer().hold(&gate)]);
    let (provider, place) = scripted(script, "");
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let sent = json!({"message": says("m1", "When?")});
    let reply = team
        .rest("POST", "/message:stream", Some(&sent))
        .expect(200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    first.open();
    let response = updates(reply.events());
    let task = &response[0]["task"];
    assert_eq!(put_together(&response), "The move is on Friday.");
    let last = &response.last().unwrap()["statusUpdate"];
    assert_eq!((state(last), &last["taskId"]), ("COMPLETED", &task["id"]));
    let chunks = response
        .iter()
        .filter(|one| one["artifactUpdate"]["lastChunk"] == true);
    assert_eq!(chunks.count(), 1);
    // Sent again, it is told as it is.
    let again = updates(
        team.call("SendStreamingMessage", &sent)
            .expect(200)
            .events(),
    );
    assert_eq!(again, [json!({"task": team.task(task)})]);
    let short = json!({"message": sent["message"], "configuration": {"historyLength": 0}});
    let short = updates(
        team.call("SendStreamingMessage", &short)
            .expect(200)
            .events(),
    );
    assert_eq!(short[0]["task"].get("history"), None);

    let begun = team.begin(&with(says("m2", "Sure?"), "contextId", &task["contextId"]));
    block_on(provider.wait_for(2));
    let by_rpc = team
        .call("SubscribeToTask", &json!({"id": begun["id"]}))
        .expect(200);
    let path = format!("/tasks/{}:subscribe", begun["id"].as_str().unwrap());
    let by_post = team.rest("POST", &path, None).expect(200);
    let by_get = team.rest("GET", &path, None).expect(200);
    gate.open();
    for reply in [by_rpc, by_post, by_get] {
        let response = updates(reply.events());
        assert_eq!(response[0]["task"]["id"], begun["id"]);
        assert_eq!(put_together(&response), "The move is on Friday.");
        assert_eq!(
            state(&response.last().unwrap()["statusUpdate"]),
            "COMPLETED"
        );
    }
    daemon.stop();
}

#[test]
fn a_task_is_cancelled_and_takes_nothing_any_more() {
    let gate = Gate::new();
    let (provider, place) = scripted(Script::sequence([held(&gate, "Too late.")]), "");
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let task = team.begin(&says("m1", "Wait."));
    block_on(provider.wait_for(1));
    let queued = team.begin(&with(
        says("m2", "And then?"),
        "contextId",
        &task["contextId"],
    ));
    assert_eq!(state(&queued), "SUBMITTED");
    let busy = team.error(
        "SendMessage",
        &json!({"message": with(says("m3", "?"), "taskId", &task["id"])}),
    );
    assert_eq!(busy["code"], -32004, "{busy}");
    let path = format!("/tasks/{}:cancel", queued["id"].as_str().unwrap());
    let cancelled = team.rest("POST", &path, None).expect(200).json();
    assert_eq!(state(&cancelled), "CANCELED");
    let subscribed = team
        .call("SubscribeToTask", &json!({"id": task["id"]}))
        .expect(200);
    let cancelled = team.rpc("CancelTask", &json!({"id": task["id"]}));
    assert_eq!(state(&cancelled), "CANCELED", "{cancelled}");
    let reply = updates(subscribed.events());
    assert_eq!(state(&reply.last().unwrap()["statusUpdate"]), "CANCELED");
    gate.open();

    let again = team.error("CancelTask", &json!({"id": task["id"]}));
    assert_eq!(
        (&again["code"], &again["data"][0]["reason"]),
        (&json!(-32002), &json!("TASK_NOT_CANCELABLE"))
    );
    let refused = team
        .rest("POST", &path, Some(&json!({})))
        .expect(400)
        .json();
    assert_eq!(
        refused["error"]["details"][0]["reason"],
        "TASK_NOT_CANCELABLE"
    );
    let late = with(says("m4", "And now?"), "taskId", &task["id"]);
    for (method, params) in [
        ("SendMessage", json!({"message": late})),
        ("SendStreamingMessage", json!({"message": late})),
        ("SubscribeToTask", json!({"id": task["id"]})),
    ] {
        let error = team.error(method, &params);
        assert_eq!(error["code"], -32004, "{method}: {error}");
        assert_eq!(error["data"][0]["metadata"]["taskId"], task["id"]);
    }
    daemon.stop();
}

#[test]
fn a_task_that_failed_says_why() {
    let refusal = Act::json(
        401,
        r#"{"error": {"message": "no such key", "type": "invalid_request_error"}}"#,
    );
    let (_provider, place) = scripted(Script::sequence([refusal]), "");
    let daemon = Daemon::keyed(&place);
    let task = Client::of(&daemon).send(&says("m1", "Why?"));
    assert_eq!(state(&task), "FAILED", "{task}");
    let message = &task["status"]["message"];
    assert_eq!(message["role"], "ROLE_AGENT");
    let text = message["parts"][0]["text"].as_str().unwrap();
    assert!(text.contains("no such key"), "{text}");
    daemon.stop();
}

#[test]
fn a_task_that_a_hook_denies_is_rejected() {
    let place = Place::with_config(
        r#"
        [hooks.guard]
        on = ["turn_accepted"]
        command = "sh"
        args = ["-c", "echo '{\"decision\":\"deny\",\"reason\":\"Not today.\"}'"]
        "#,
    );
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let task = team.send(&says("m1", "Why?"));
    assert_eq!(state(&task), "REJECTED", "{task}");
    let text = task["status"]["message"]["parts"][0]["text"].as_str();
    assert!(text.unwrap().contains("Not today."), "{task}");
    let listed = team.rpc("ListTasks", &json!({"status": "TASK_STATE_REJECTED"}));
    assert_eq!(listed["totalSize"], 1, "{listed}");
    daemon.stop();
}

#[test]
fn a_call_that_waits_is_decided_by_a_message_to_its_task() {
    let send = ("files__send", json!({"text": "the invoice"}));
    let rows = rows! {
        (json!([{"text": "approve"}]), "Told: send: the invoice", 1),
        (json!([{"data": {"decision": "deny", "text": "too dear"}}]), "too dear", 0),
    };
    for (parts, answer, made) in rows {
        let scene = Scene::new(
            &[std::slice::from_ref(&send)],
            &program("approve = [\"send\"]"),
            "",
        );
        let daemon = Daemon::keyed(&scene.place);
        let team = Client::of(&daemon);
        let task = team.send(&says("m1", "Do it."));
        assert_eq!(state(&task), "INPUT_REQUIRED", "{task}");
        let asked = task["status"]["message"]["parts"].as_array().unwrap();
        let text = asked[0]["text"].as_str().unwrap();
        text.has_all(&["files__send", "approve"]);
        let call = &asked[1]["data"]["calls"][0];
        assert_eq!(
            (&call["tool"], &call["arguments"]["text"]),
            (&json!("files__send"), &json!("the invoice"))
        );
        let waits = team.rpc("ListTasks", &json!({"status": "TASK_STATE_INPUT_REQUIRED"}));
        assert_eq!(waits["tasks"][0]["id"], task["id"], "{waits}");

        let unclear = with(says("m2", "Well, perhaps"), "taskId", &task["id"]);
        let unclear = team.error("SendMessage", &json!({"message": unclear}));
        assert_eq!(unclear["code"], -32602, "{unclear}");
        let elsewhere = with(
            with(says("m3", "approve"), "taskId", &task["id"]),
            "contextId",
            &json!("x"),
        );
        let elsewhere = team.error("SendMessage", &json!({"message": elsewhere}));
        assert!(
            elsewhere["message"]
                .as_str()
                .unwrap()
                .starts_with("message.contextId")
        );

        let decision = with(
            json!({"messageId": "m4", "role": "ROLE_USER", "parts": parts}),
            "taskId",
            &task["id"],
        );
        let reply = team.call("SendStreamingMessage", &json!({"message": decision}));
        let response = updates(reply.expect(200).events());
        assert_eq!(response[0]["task"]["id"], task["id"]);
        let said = put_together(&response);
        assert!(said.contains(answer), "{said}");
        // Where the turn had ended before, its task is all that there is to tell.
        let last = response.last().unwrap();
        let last = ["statusUpdate", "task"].map(|kind| &last[kind]);
        let last = last
            .into_iter()
            .find(|response| !response.is_null())
            .unwrap();
        assert_eq!(state(last), "COMPLETED");
        assert_eq!(scene.count("call send "), made);
        daemon.stop();
    }
}

#[test]
fn an_answer_that_is_sent_again_decides_about_no_other_call() {
    let call = |text: &str| ("files__send", json!({"text": text}));
    let rules = program("approve = [\"send\"]");
    let scene = Scene::new(&[&[call("one")], &[call("two")]], &rules, "");
    let daemon = Daemon::keyed(&scene.place);
    let team = Client::of(&daemon);
    let task = team.send(&says("m1", "Do it."));
    let answer = |id: &str, text: &str| with(says(id, text), "taskId", &task["id"]);
    let second = team.send(&answer("m2", "approve"));
    assert_eq!(state(&second), "INPUT_REQUIRED", "{second}");
    assert_eq!(
        team.send(&answer("m2", "approve"))["status"],
        second["status"]
    );
    assert_eq!(scene.count("call send "), 1);
    // Another client may have seen the first call only.
    let unnamed = json!({"message": answer("m3", "approve")});
    let refused = team.error("SendMessage", &unnamed)["message"].to_string();
    let waiting = daemon.get("/v1/approvals").expect(200).json();
    let call = waiting["items"][0]["call"].as_str().unwrap();
    refused.has_all(&["has asked before", call]);
    assert_eq!(scene.count("call send "), 1);
    let named = answer("m4", &format!("approve {call}"));
    let done = team.send(&named);
    assert_eq!(state(&done), "COMPLETED", "{done}");
    assert_eq!(team.send(&named)["status"], done["status"]);
    assert_eq!(scene.count("call send "), 2);
    daemon.stop();
}

#[test]
fn tasks_are_listed_by_their_last_change_a_part_at_a_time() {
    let place = Place::with_config("[turn]\nagents = []\n");
    place.talk();
    let elsewhere = place.json(&["import", "talk.json"])["session"].clone();
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let empty = team.rpc("ListTasks", &json!({}));
    assert_eq!(
        empty,
        json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    );
    let first = team.send(&says("m1", "We ship on Friday. When?"));
    let second = team.send(&says("m2", "The box is red. Which colour?"));
    let third = team.send(&with(
        says("m3", "What ships?"),
        "contextId",
        &first["contextId"],
    ));
    let other = team.send(&with(
        says("m4", "When do we ship?"),
        "contextId",
        &elsewhere,
    ));

    let mut reply = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("/tasks?pageSize=2&pageToken={token}");
        let part = team.rest("GET", &path, None).expect(200).json();
        assert_eq!(
            (&part["pageSize"], &part["totalSize"]),
            (&json!(2), &json!(3))
        );
        let tasks = part["tasks"].as_array().unwrap();
        assert!(tasks.iter().all(|task| task.get("artifacts").is_none()));
        reply.extend(tasks.iter().map(|task| task["id"].clone()));
        token = part["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(
        reply,
        [&third, &second, &first].map(|task| task["id"].clone())
    );
    let listed = |params: Value| {
        let listed = team.rpc("ListTasks", &params);
        let tasks = listed["tasks"].as_array().unwrap().iter();
        let ids: Vec<Value> = tasks.map(|task| task["id"].clone()).collect();
        assert_eq!(listed["totalSize"], ids.len(), "{listed}");
        ids
    };
    let ids = |tasks: &[&Value]| {
        tasks
            .iter()
            .map(|task| task["id"].clone())
            .collect::<Vec<_>>()
    };
    let context = &first["contextId"];
    assert_eq!(
        listed(json!({"contextId": context})),
        ids(&[&third, &first])
    );
    // A session that was begun elsewhere is listed by its name.
    assert_eq!(listed(json!({"contextId": elsewhere})), ids(&[&other]));
    // A context that does not exist has no tasks.
    for unknown in ["mine", "00000000-0000-7000-8000-000000000000"] {
        assert_eq!(listed(json!({"contextId": unknown})), ids(&[]));
    }
    let since = &third["status"]["timestamp"];
    assert_eq!(
        listed(json!({"statusTimestampAfter": since})),
        ids(&[&third])
    );
    // A time between two milliseconds is after the first one.
    let later = since.as_str().unwrap().strip_suffix('Z').unwrap();
    let later = match later.contains('.') {
        true => format!("{later}4Z"),
        false => format!("{later}.0004Z"),
    };
    assert_eq!(listed(json!({"statusTimestampAfter": later})), ids(&[]));
    assert_eq!(listed(json!({"status": "TASK_STATE_FAILED"})), ids(&[]));
    assert_eq!(
        listed(json!({"status": "TASK_STATE_AUTH_REQUIRED"})),
        ids(&[])
    );
    let whole = team.rest("GET", "/tasks?includeArtifacts=true&historyLength=0", None);
    let whole = whole.expect(200).json();
    assert_eq!(whole["tasks"][0]["artifacts"], third["artifacts"]);
    assert_eq!(whole["tasks"][0].get("history"), None);
    // What is deleted is gone.
    let path = format!("/v1/sessions/{}", context.as_str().unwrap());
    daemon.delete(&path).expect(204);
    assert_eq!(listed(json!({})), ids(&[&second]));
    let gone = team.error("GetTask", &json!({"id": first["id"]}));
    assert_eq!(gone["code"], -32001);
    daemon.stop();
}
