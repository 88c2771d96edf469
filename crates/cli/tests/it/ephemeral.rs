//! Clients that go, and those that stay: a session for one request goes with its client, and who
//! follows a session hears it also after it left memory.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, At, FakeProvider, Gate, Script};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{HasAll as _, Place, heard, is_alive, kill_if_alive, tell, until};

const CHAT: &str = "/openai/v1/chat/completions";

fn sessions(daemon: &Daemon) -> Vec<Value> {
    let listed = daemon.get("/v1/sessions").expect(200).json();
    listed["items"].as_array().unwrap().clone()
}

fn ask(model: &str, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": "Which word?"}]);
    json!({"model": model, "messages": messages, "stream": stream})
}

/// Sends a request and reads nothing.
fn sent(daemon: &Daemon, body: &Value) -> std::net::TcpStream {
    use std::io::Write;
    let (to, body) = ((&*daemon.address, &*daemon.token), body.to_string());
    let head = crate::http::json_head(to, "POST", CHAT, &[], body.len());
    let mut stream = std::net::TcpStream::connect(&daemon.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream
}

#[test]
fn a_client_that_goes_takes_its_session_and_its_turn_with_it() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let waiting = sent(&daemon, &ask("waits", false));
    let agent = heard(&scene.started);
    assert_eq!(sessions(&daemon).len(), 1);
    drop(waiting);
    until("its agent is stopped", || !is_alive(&agent));
    until("its session is removed", || sessions(&daemon).is_empty());

    let mut streamed = daemon.post(CHAT, &ask("waits", true)).expect(200).events();
    assert!(streamed.next().is_some());
    let agent = heard(&scene.started);
    drop(streamed);
    until("its agent is stopped", || !is_alive(&agent));
    until("its session is removed", || sessions(&daemon).is_empty());
    daemon.stop();
}

#[test]
fn what_a_session_used_is_told_when_it_is_gone() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let asked = json!({"model": "facts", "messages": [
        {"role": "user", "content": "We ship on Friday. Which day?"},
    ]});
    let used = |daemon: &Daemon| daemon.get("/v1/usage").expect(200).json();
    let first = daemon.post(CHAT, &asked).expect(200).json();
    until("its session is removed", || sessions(&daemon).is_empty());
    let input = first["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(input > 0, "{first}");
    let one = used(&daemon);
    assert_eq!(one["total"]["input_tokens"], input, "{one}");
    assert_eq!(one["rows"][0]["agent"], "facts", "{one}");
    assert_eq!(one["deleted"]["sessions"], 1, "{one}");
    assert_eq!(one["deleted"]["input_tokens"], input, "{one}");

    // One that a person deletes, and one that stays.
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    for stays in [false, true] {
        let made = daemon.post("/v1/sessions", &new).expect(201).json();
        let mut asked = asked.clone();
        asked["metadata"] = json!({"session": made["session"]});
        daemon.post(CHAT, &asked).expect(200);
        if !stays {
            let id = made["session"].as_str().unwrap();
            place.says(&["sessions", "delete", id, "--yes"], &["deleted"]);
        }
    }
    let three = used(&daemon);
    assert_eq!(three["deleted"]["sessions"], 2, "{three}");
    let total = three["total"]["input_tokens"].as_u64().unwrap();
    assert!(total > three["deleted"]["input_tokens"].as_u64().unwrap());
    let page = daemon.get("/usage").expect(200).text();
    assert!(page.contains("2 deleted sessions"), "{page}");
    daemon.kill();

    // Without a daemon it is the same, and a deletion without one as well.
    let output = place.json(&["usage"]);
    assert_eq!(output["total"], three["total"]);
    assert_eq!(output["deleted"], three["deleted"]);
    place
        .call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    let all = place.json(&["usage"]);
    assert_eq!(all["total"], three["total"]);
    assert_eq!(all["deleted"]["sessions"], 3, "{all}");
    assert_eq!(all["deleted"]["input_tokens"], total, "{all}");
    let shown = place.call(&["usage"]).expect(0).stdout;
    let deleted = shown.lines().find(|line| line.starts_with("of which"));
    let of = deleted.unwrap_or_default();
    assert!(of.contains("3 deleted sessions"), "{shown}");
}

#[test]
fn a_session_that_is_named_stays_when_its_client_goes() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let made = daemon.post("/v1/sessions", &new).expect(201).json();
    let mut asked = ask("waits", false);
    asked["metadata"] = json!({"session": made["session"]});
    let waiting = sent(&daemon, &asked);
    heard(&scene.started);
    drop(waiting);
    tell(&scene.word, "unison");
    let path = format!("/v1/sessions/{}", made["session"].as_str().unwrap());
    until("its turn ends", || {
        let whole = daemon.get(&path).expect(200).json();
        whole["ended_turns"]["count"] == 1
    });
    daemon.stop();
}

#[test]
fn a_request_whose_turn_is_cancelled_gets_a_status_that_clients_do_not_retry() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let id = daemon.session(&new);
    let mut asked = ask("waits", false);
    asked["metadata"] = json!({"session": id});
    let mut waiting = sent(&daemon, &asked);
    heard(&scene.started);
    let turns = format!("/v1/sessions/{id}/turns");
    let listed = daemon.get(&turns).expect(200).json();
    let turn = listed["items"][0]["turn"].as_str().unwrap();
    let cancel = format!("{turns}/{turn}/cancel");
    daemon.post(&cancel, &json!({})).expect(200);
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut waiting, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    assert!(answer.contains("the turn was cancelled"), "{answer}");
    daemon.stop();
}

#[test]
fn a_stream_that_has_no_place_leaves_no_session() {
    let place = Place::with_config("[server]\nstreams = 1\n");
    let daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let id: &str = &daemon.session(&new);
    let mut open = daemon.events(id);
    assert!(open.next().is_some());
    for _ in 0..3 {
        let refused = daemon.post(CHAT, &ask("facts", true)).expect(429).json();
        assert_eq!(refused["error"]["type"], "rate_limit_error", "{refused}");
    }
    assert_eq!(sessions(&daemon).len(), 1, "the one that is followed");
    drop(open);
    daemon.stop();
}

#[test]
fn what_a_killed_daemon_was_asked_is_removed_and_does_not_go_on() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let waiting = sent(&daemon, &ask("waits", false));
    let agent = heard(&scene.started);
    let ephemeral = sessions(&daemon).remove(0);
    let labels = ephemeral["labels"].clone();
    assert_eq!(labels["via"], "openai");
    assert_ne!(labels["unisono.ephemeral"], Value::Null);
    // Sessions of clients stay, whatever is said of them.
    let hello = json!([{"role": "user", "content": "Hello."}]);
    let mut kept = vec![];
    let own = json!({"via": "openai", "ephemeral": labels["unisono.ephemeral"]});
    let new = json!({"messages": hello, "labels": own});
    kept.push(daemon.post("/v1/sessions", &new).expect(201).json());
    // A copy of one that is passing is a session of whoever made it.
    let copied = [
        "export",
        ephemeral["session"].as_str().unwrap(),
        "--format",
        "unisono",
    ];
    let copy = scene.place.call(&copied).expect(0).stdout;
    assert!(!copy.contains("unisono.ephemeral"), "{copy}");
    scene.place.write("copy.jsonl", &copy);
    let imported = scene.place.json(&["import", "copy.jsonl", "--copy"]);
    kept.push(imported);
    // The mark itself comes in no way.
    let new = json!({"messages": hello, "labels": labels});
    let detail = daemon.post("/v1/sessions", &new).refused(422, "refused");
    detail.has_all(&["\"unisono.ephemeral\" is reserved"]);
    let (head, rest) = copy.split_once('\n').unwrap();
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["labels"] = labels.clone();
    head["id"] = json!("0192aaaa-0000-7000-8000-000000000001");
    let marked = format!("{head}\n{rest}");
    scene.place.write("marked.jsonl", &marked);
    let imports = "/v1/imports?name=marked.jsonl&format=unisono";
    let refused = daemon.post_bytes(imports, "application/octet-stream", marked.as_bytes());
    let refused = refused.expect(422);
    let detail = refused.problem("refused");
    detail.has_all(&["\"unisono.ephemeral\" is reserved"]);
    let done = scene.place.call(&["import", "marked.jsonl"]).expect(2);
    done.says(&["\"unisono.ephemeral\" is reserved"]);
    // What is said in `metadata` of a request is no label.
    let mut named = ask("marks", false);
    named["metadata"] = labels;
    named["metadata"]["session"] = kept[0]["session"].clone();
    daemon.post(CHAT, &named).expect(200);
    daemon.kill();
    drop(waiting);
    kill_if_alive(&agent);

    let daemon = Daemon::start(&scene.place);
    until("what was left is removed", || sessions(&daemon).len() == 2);
    for kept in &kept {
        let path = format!("/v1/sessions/{}", kept["session"].as_str().unwrap());
        daemon.get(&path).expect(200);
    }
    let runs = daemon.get("/v1/runs").expect(200).json();
    let [run] = &runs["items"].as_array().unwrap()[..] else {
        panic!("another one works: {runs}");
    };
    assert_eq!(run["session"], kept[0]["session"]);
    assert_eq!(run["state"], "done");
    daemon.stop();
}

#[test]
fn who_follows_a_session_hears_its_pieces_also_after_it_left_memory() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::by(move |_| {
        let words = ["Six ", "of ", "March."];
        Act::answer(Answer::pieces(words)).hold(&held)
    });
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_key_file(
        "openai",
        &provider,
        "[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nlead = \"clerk\"\nagents = []\n\
         [compaction]\nsummarisers = [\"extractive\"]\n\
         [runtime]\npassivate_after_seconds = 1\n[log]\nlevel = \"unisono_runtime=debug\"\n\
         [agents.clerk]\ndescription = \"keeps the books\"\n",
    );
    let mut daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "We ship on 6 March."}]});
    let id = daemon.session(&new);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let mut events = daemon.get(&at("/events?after=0")).expect(200).events();
    assert!(events.next().is_some());
    daemon.going.wait_for(&["a session leaves memory"]);

    let task = json!({"task": "When do we ship?", "wait": false});
    daemon.post(&at("/turns"), &task).expect(202);
    assert!(events.any(|event| event.name == "run_opened"));
    gate.open();
    let said: Vec<_> = events
        .take_while(|event| event.name != "turn_ended")
        .collect();
    let pieces = said.iter().filter(|event| event.name == "text_delta");
    let pieces = pieces.map(|event| {
        let piece: Value = serde_json::from_str(&event.data).unwrap();
        piece["text"].as_str().unwrap().to_owned()
    });
    assert_eq!(pieces.collect::<String>(), "Six of March.", "{said:?}");
    daemon.stop();
}

/// A model that says "Six of March." and waits before the last word, and a clerk that asks it.
fn telling(gate: &Gate) -> (FakeProvider, Place) {
    let answer = Act::answer(Answer::pieces(["Six ", "of ", "March."]));
    let script = Script::always(answer.hold_at(At::Event(3), gate));
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_config(&format!(
        "[providers.openai-compatible]\nbase_url = \"{}/v1\"\n\
         [models]\ndefault = \"openai-compatible/qwen3\"\n[turn]\nlead = \"clerk\"\nagents = []\n\
         [compaction]\nsummarisers = [\"extractive\"]\n\
         [agents.clerk]\ndescription = \"keeps the books\"\n",
        provider.url()
    ));
    (provider, place)
}

#[test]
fn who_follows_a_session_in_the_middle_of_a_reply_gets_its_text_so_far() {
    let gate = Gate::new();
    let (_provider, place) = telling(&gate);
    let daemon = Daemon::start(&place);
    let id = daemon.session(&json!({}));
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let text = |data: &str| -> String {
        let said: Value = serde_json::from_str(data).unwrap();
        said["text"].as_str().unwrap().to_owned()
    };
    let mut early = daemon.get(&at("/events?after=0")).expect(200).events();
    let task = json!({"task": "When do we ship?", "wait": false});
    daemon.post(&at("/turns"), &task).expect(202);
    let mut said = String::new();
    while said != "Six of " {
        let event = early.next().unwrap();
        if event.name == "text_delta" {
            said += &text(&event.data);
        }
    }
    let mut late = daemon.get(&at("/events")).expect(200).events();
    let begun = late.next().unwrap();
    assert_eq!(begun.name, "text_so_far");
    assert_eq!(text(&begun.data), said);
    gate.open();
    let later = late.take_while(|event| event.name != "run_ended");
    let pieces = later.filter(|event| event.name == "text_delta");
    let rest: String = pieces.map(|event| text(&event.data)).collect();
    assert_eq!(rest, "March.");
    daemon.stop();
}

#[test]
fn the_text_of_a_reply_is_kept_if_its_turn_is_cancelled() {
    let gate = Gate::new();
    let (_provider, place) = telling(&gate);
    let daemon = Daemon::start(&place);
    let id = daemon.session(&json!({}));
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let mut events = daemon.get(&at("/events?after=0")).expect(200).events();
    let task = json!({"task": "When do we ship?", "wait": false});
    let turn = daemon.post(&at("/turns"), &task).expect(202).json();
    let turn = turn["turn"].as_str().unwrap().to_owned();
    let mut said = String::new();
    while said != "Six of " {
        let event = events.next().unwrap();
        if event.name == "text_delta" {
            let piece: Value = serde_json::from_str(&event.data).unwrap();
            said += piece["text"].as_str().unwrap();
        }
    }
    let cancel = at(&format!("/turns/{turn}/cancel"));
    daemon.post(&cancel, &json!({})).expect(200);
    // The attempt ends after its run.
    assert!(events.any(|event| event.name == "late_output_received"));
    let seen = daemon.json(&at(&format!("/turns/{turn}")));
    let run = &seen["runs"][0];
    assert_eq!(
        (&seen["state"], &run["state"], &run["last_text"]),
        (&json!("cancelled"), &json!("cancelled"), &json!("Six of ")),
        "{seen:#}"
    );
    assert!(run["text"].is_null(), "{seen:#}");
    let run = run["run"].as_str().unwrap();
    for path in ["", &format!("/turns/{turn}"), &format!("/runs/{run}")] {
        let page = daemon.text(&format!("/sessions/{id}{path}"));
        assert!(page.contains("Six of"), "{path}: {page}");
    }
    gate.open();
    daemon.stop();
    let why = place.call(&["why", run]).expect(0).stdout;
    let said = "no answer; the last text of its model:\n  Six of\n";
    assert!(why.contains(said), "{why}");
}

#[test]
fn a_form_that_no_answer_can_have_is_refused_and_leaves_no_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let format = json!({"type": "json_object"});
    for (path, field, value) in [
        (CHAT, "n", json!(2)),
        (CHAT, "response_format", format.clone()),
        (CHAT, "max_tokens", json!(0)),
        (CHAT, "max_completion_tokens", json!(0)),
        (CHAT, "stop", json!(["a", ""])),
        ("/openai/v1/responses", "text", json!({"format": format})),
        ("/openai/v1/responses", "max_output_tokens", json!(0)),
    ] {
        let mut asked = ask("facts", false);
        asked["input"] = json!("Which word?");
        asked[field] = value;
        let refused = daemon.post(path, &asked).expect(400).json();
        assert_eq!(refused["error"]["param"], field, "{refused}");
        assert_eq!(refused["error"]["type"], "invalid_request_error");
    }
    let mut usual = ask("facts", false);
    usual["n"] = json!(1);
    usual["temperature"] = json!(0.2);
    usual["max_tokens"] = json!(1_000_000);
    usual["max_completion_tokens"] = json!(200);
    usual["response_format"] = json!({"type": "text"});
    daemon.post(CHAT, &usual).expect(200);
    assert_eq!(sessions(&daemon), Vec::<Value>::new());
    daemon.stop();
}
