//! A request that is made again under the same key: also after the daemon was killed it is told what
//! came of the first one, and nothing is done twice.

use serde_json::{Value, json};

use crate::http::{Daemon, Reply};
use crate::interrupted::Scene;
use crate::support::{Place, heard, send_signal, tell};

fn session(daemon: &Daemon) -> String {
    let messages = json!([{"role": "user", "content": "We ship on Friday 6 March."}]);
    let made = daemon.post("/v1/sessions", &json!({"messages": messages}));
    made.expect(201).json()["session"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn keyed(daemon: &Daemon, path: &str, key: &str, body: &Value) -> Reply {
    daemon.request_with("POST", path, &[("Idempotency-Key", key)], Some(body))
}

#[test]
fn a_turn_is_not_begun_twice_though_the_daemon_was_killed() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Which word?", "agents": ["marks", "waits"], "wait": false});
    let first = keyed(&daemon, &path, "order-17", &task).expect(202).json();
    let events = format!("/v1/sessions/{id}/events?after=0");
    let followed = daemon.get(&events).expect(200).events();
    let agent = heard(&scene.started);
    // The agent that leaves a mark has ended, and that is on disk.
    let mut ended = followed.filter(|event| event.name == "run_ended");
    assert!(ended.next().is_some());
    send_signal("KILL", &daemon.going.id().to_string());
    drop(daemon);
    send_signal("KILL", &agent);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    let again = keyed(&daemon, &path, "order-17", &task).expect(202).json();
    assert_eq!(again["turn"], first["turn"], "{again}");
    assert_eq!(again["state"], "working");
    let other = json!({"task": "Which colour?", "agents": ["marks"], "wait": false});
    let refused = keyed(&daemon, &path, "order-17", &other).expect(422);
    let detail = refused.problem("key_reused");
    assert!(detail.contains("order-17"), "{detail}");
    assert!(
        daemon
            .get("/problems/key_reused")
            .expect(200)
            .text()
            .contains("422")
    );

    tell(&scene.word, "unison");
    // How it is told is not what is asked for.
    let waits = json!({"task": "Which word?", "agents": ["marks", "waits"]});
    let ended = keyed(&daemon, &path, "order-17", &waits).expect(200).json();
    assert_eq!(ended["turn"], first["turn"]);
    assert_eq!(ended["state"], "answered", "{ended}");
    assert_eq!(scene.marks(), 1);
    let whole = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert_eq!(whole["ended_turns"].as_array().unwrap().len(), 1, "{whole}");
    assert_eq!(whole["open_turns"], json!([]));
    daemon.stop();
}

#[test]
fn a_turn_that_has_ended_is_told_again_with_all_of_its_events() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "When do we ship?", "agents": ["facts"]});
    let first = keyed(&daemon, &path, "a", &task).expect(200).json();
    assert_eq!(keyed(&daemon, &path, "a", &task).expect(200).json(), first);
    let another = keyed(&daemon, &path, "b", &task).expect(200).json();
    assert_ne!(another["turn"], first["turn"], "another key, another turn");
    let headers = [("Idempotency-Key", "a"), ("Accept", "text/event-stream")];
    let streamed = daemon.request_with("POST", &path, &headers, Some(&task));
    let streamed: Vec<_> = streamed.expect(200).events().collect();
    assert_eq!(streamed[0].name, "turn_accepted");
    let last: Value = serde_json::from_str(&streamed.last().unwrap().data).unwrap();
    assert_eq!(last, first);

    let given = format!("/v1/sessions/{id}/delegations");
    let new = json!({"task": "When?", "agents": [{"agent": "facts"}]});
    let once = keyed(&daemon, &given, "c", &new).expect(200).json();
    assert_eq!(keyed(&daemon, &given, "c", &new).expect(200).json(), once);
    keyed(&daemon, &given, "a", &new)
        .expect(422)
        .problem("key_reused");
    for wrong in ["", &"k".repeat(300)] {
        keyed(&daemon, &path, wrong, &task)
            .expect(400)
            .problem("invalid_request");
    }
    // What was refused is not kept under its key.
    let empty = json!({"task": " "});
    keyed(&daemon, &path, "d", &empty)
        .expect(422)
        .problem("refused");
    keyed(&daemon, &path, "d", &task).expect(200);
    daemon.stop();
}

#[test]
fn what_was_done_is_told_again_though_its_agents_are_gone() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Which word?", "agents": ["marks"]});
    let first = keyed(&daemon, &path, "order-17", &task).expect(200).json();
    send_signal("KILL", &daemon.going.id().to_string());
    drop(daemon);

    scene.place.write("config/unisono.toml", "");
    let daemon = Daemon::start(&scene.place);
    let refused = keyed(&daemon, &path, "order-18", &task).expect(422);
    assert!(refused.text().contains("marks"));
    let again = keyed(&daemon, &path, "order-17", &task).expect(200).json();
    assert_eq!(again["turn"], first["turn"], "{again}");
    assert_eq!(again["answer"], first["answer"]);
    let other = json!({"task": "Which colour?", "agents": ["marks"]});
    keyed(&daemon, &path, "order-17", &other)
        .expect(422)
        .problem("key_reused");
    assert_eq!(scene.marks(), 1);
    daemon.stop();
}
