//! Messages that other systems append without a turn, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{HasAll as _, Place, kill_if_alive};

/// The texts of `main`, oldest first.
fn texts(messages: &Value) -> Vec<&str> {
    let items = messages["items"].as_array().unwrap().iter();
    items
        .map(|message| message["parts"][0]["text"].as_str().unwrap_or_default())
        .collect()
}

/// An answer about a message, as it is where the message was appended before.
fn repeated(first: &Value) -> Value {
    let mut again = first.clone();
    again["repeated"] = true.into();
    again
}

#[test]
fn a_task_has_the_author_that_it_names() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let session = daemon.session(&json!({"title": "Two"}));
    let turns = format!("/v1/sessions/{session}/turns");
    let asked = json!({"task": "When do we ship?", "author": " Ben ", "agents": []});
    daemon.post(&turns, &asked).expect(200);
    let messages = format!("/v1/sessions/{session}/messages");
    let messages = daemon.get(&messages).expect(200).json();
    assert_eq!(messages["items"][0]["author"], "Ben", "{messages}");
    let refused = daemon.post(&turns, &json!({"task": "x", "author": " "}));
    refused.expect(400).problem("invalid_request");
    daemon.stop();
}

#[test]
fn a_conversation_is_kept_elsewhere_and_asked_about_here() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let made = daemon.post("/v1/sessions", &json!({"title": "Shop"}));
    let id = made.expect(201).json()["session"].clone();
    let id = id.as_str().unwrap();
    let path = format!("/v1/sessions/{id}/messages");

    // An empty conversation has an empty list, and takes its first message.
    let empty = daemon.get(&path).expect(200).json();
    assert_eq!(empty, json!({"items": [], "next": null}));
    let first = json!({"text": "The mascot of the shop is a purple heron.", "author": "Zoë",
                       "at": "2026-03-02T09:14:00Z"});
    let appended = daemon.post(&path, &first).expect(201).json();
    assert_eq!(appended["ordinal"], 1);
    assert_eq!(appended["state"], "appended");
    let calls = json!({"role": "assistant", "author": "helper", "parts": [
        {"type": "text", "text": "I look it up."},
        {"type": "tool_call", "id": "c1", "name": "stock", "arguments": "{\"item\":\"heron\"}"},
    ]});
    daemon.post(&path, &calls).expect(201);
    let result = json!({"role": "tool", "parts": [
        {"type": "tool_result", "call_id": "c1", "content": "Twelve herons are left."},
    ]});
    daemon.post(&path, &result).expect(201);

    // Under a key it is one message, and something else under it is refused.
    let key = [("Idempotency-Key", "irc-4711")];
    let said = json!({"text": "Twelve, then."});
    let first = daemon.request_with("POST", &path, &key, Some(&said));
    let first = first.expect(201).json();
    let again = daemon.request_with("POST", &path, &key, Some(&said));
    assert_eq!(again.expect(200).json(), repeated(&first));
    let other = daemon.request_with("POST", &path, &key, Some(&json!({"text": "Eleven."})));
    other.expect(422).problem("key_reused");
    // The key of a message is no turn's.
    let turns = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "What is the mascot?", "agents": []});
    let turn = daemon.request_with("POST", &turns, &key, Some(&task));
    turn.expect(422).problem("key_reused");

    // It is found, and asked about.
    let found = daemon.get("/v1/search?q=heron").expect(200).json();
    assert!(found.to_string().contains("purple"), "{found}");
    let turn = daemon.post(&turns, &task).expect(200).json();
    let answer = turn["answer"].as_str().unwrap();
    assert!(answer.contains("purple heron"), "{turn}");

    let messages = daemon.get(&path).expect(200).json();
    assert_eq!(messages["items"].as_array().unwrap().len(), 6);
    assert_eq!(messages["items"][0]["author"], "Zoë");
    assert_eq!(messages["items"][0]["at"], "2026-03-02T09:14:00.000Z");
    // The answer has what its run used.
    let usage = &messages["items"][5]["usage"];
    assert_eq!(
        usage["input_tokens"],
        turn["runs"][0]["usage"]["input_tokens"]
    );
    assert!(usage["output_tokens"].as_u64().unwrap() > 0, "{messages}");
    assert!(messages["items"][4].get("usage").is_none());

    let list = json!({"type": "tool_call", "id": "c9", "name": "look", "arguments": "[1]"});
    for (body, status) in [
        (json!({"role": "user"}), 422),
        (json!({"role": "bot", "text": "a"}), 400),
        (
            json!({"text": "a", "parts": [{"type": "text", "text": "b"}]}),
            422,
        ),
        (json!({"role": "assistant", "parts": [list]}), 422),
        (json!({"text": "a", "branch": "nope"}), 404),
        (json!({"text": "a", "colour": "red"}), 400),
        (result, 422),
    ] {
        let refused = daemon.post(&path, &body);
        let (reply, why) = (refused.status, refused.text());
        assert_eq!(reply, status, "{body}: {why}");
    }

    // All of it survives, and goes with an export.
    daemon.stop();
    let exported = place.call(&["export", id]).expect(0);
    exported.stdout.has_all(&["purple heron"]);
    assert!(exported.stdout.contains("\"usage\""), "{}", exported.stdout);
}

#[test]
fn the_same_verb_works_here_and_through_a_daemon() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let before = place.json(&["sessions", "show"])["messages"].clone();
    let before = before.as_u64().unwrap();
    let rain = ["append", "latest", "It rains.", "--key", "a"];
    let rain = [&rain[..], &["--author", "Zoë"]].concat();
    let here = place.json(&rain);
    assert_eq!(here["ordinal"], before + 1);
    let again = place.json(&rain);
    assert_eq!(again, repeated(&here));
    let daemon = Daemon::start(&place);
    // The daemon knows the key that was given to the verb without it.
    let there = place.json(&rain);
    assert_eq!(there, again);
    let reused = place.call(&["append", "latest", "It snows.", "--key", "a"]);
    reused.expect(2).says(&["use a new key"]);
    let piped = place.call_with(
        "It snows.\n",
        &["append", "latest", "-", "--role", "assistant"],
    );
    piped.expect(0).says(&["appended #"]);
    daemon.stop();
    let parts = r#"[{"type":"tool_result","call_id":"c9","content":"x"}]"#;
    let refused = place.call(&["append", "latest", "--role", "tool", "--parts", parts]);
    refused
        .expect(2)
        .says(&["no call \"c9\" waits for a result"]);
    let shown = place.json(&["sessions", "show"]);
    assert_eq!(shown["messages"], before + 2);
}

#[test]
fn behind_an_open_turn_a_message_waits_also_across_a_crash() {
    let scene = Scene::new();
    let (going, agent) = scene.run(&[]);
    going.kill();
    kill_if_alive(&agent);
    let waiting = scene
        .place
        .call(&["append", "latest", "By the way.", "--json"]);
    let waiting = waiting.expect(0).json();
    assert_eq!(waiting["state"], "waiting");
    assert_eq!(waiting["ordinal"], Value::Null);
    let context = scene.place.json(&["context", "latest"]);
    assert_eq!(context["pending_messages"], 1, "{context}");
    assert!(context["pending_tokens"].as_u64() > Some(3), "{context}");
    assert_eq!(context["skills_tokens"], 0);
    // An export has no open turns: the message waits for nothing where it is imported.
    for args in [
        &["export", "latest"][..],
        &["export", "latest", "--branch", "main"],
    ] {
        let other = Place::new();
        other.write("talk.jsonl", scene.place.call(args).expect(0).stdout);
        other.json(&["import", "talk.jsonl"]);
        let history = other.call(&["history", "latest"]).expect(0).stdout;
        assert_eq!(history.matches("By the way.").count(), 1, "{history}");
        assert!(history.trim_end().ends_with("By the way."), "{history}");
    }

    scene.resume().expect(0);
    let daemon = Daemon::start(&scene.place);
    let session = waiting["session"].as_str().unwrap();
    let messages = daemon.json(&format!("/v1/sessions/{session}/messages"));
    let texts = texts(&messages);
    assert_eq!(texts.last(), Some(&"By the way."), "{texts:?}");
    assert_eq!(
        texts.iter().filter(|text| **text == "By the way.").count(),
        1
    );
    daemon.stop();
}
