//! Commands and clients whose turn waits for a person's decision about a call: they do not wait as
//! long as the turn.

use serde_json::json;

use crate::http::Daemon;
use crate::tools::{Scene, program};

/// A call that a person must approve, and the answer after it.
fn scene() -> Scene {
    let send = ("files__send", json!({"text": "the invoice"}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), "")
}

#[test]
fn the_time_of_a_command_ends_a_turn_that_waits_for_approval() {
    let file = ["run", "talk.json", "--task", "Do it."];
    let session = ["delegate", "latest", "facts", "--task", "Do it."];
    let timeout = ["--timeout", "2s", "--json"];
    let scene = scene();
    for command in [&file[..], &session] {
        let report = scene.call(&[command, &timeout].concat()).expect(124).json();
        assert_eq!(report["state"], "timeout", "{report}");
        assert_eq!(scene.waiting(), json!([]), "the call is withdrawn");
    }
    assert_eq!(scene.count("call send "), 0);
}

#[test]
fn a_client_of_openai_learns_that_its_turn_waits_and_finds_the_answer_later() {
    for stream in [false, true] {
        let scene = scene();
        let daemon = Daemon::of(
            &scene.place,
            scene.command(&["serve", "--bind", "127.0.0.1:0"]),
        );
        let messages = json!([{"role": "user", "content": "Do it."}]);
        let request = json!({"model": "clerk", "messages": messages, "stream": stream});
        let reply = daemon.post("/openai/v1/chat/completions", &request);
        let said = match stream {
            true => reply.expect(200).text(),
            false => reply.expect(422).text(),
        };
        let waiting = daemon.get("/v1/approvals").expect(200).json()["items"][0].clone();
        let call = waiting["call"].as_str().unwrap();
        for says in [
            "waits for a person",
            &format!("unisono approvals approve {call}"),
            "\"code\":\"refused\"",
        ] {
            assert!(said.contains(says), "{says}: {said}");
        }
        let at = format!("/v1/approvals/{call}");
        daemon
            .post(&at, &json!({"decision": "approve"}))
            .expect(200);
        let id = |key: &str| waiting[key].as_str().unwrap().to_owned();
        let turn = format!("/v1/sessions/{}/turns/{}", id("session"), id("turn"));
        assert!(said.contains(&turn), "{said}");
        daemon.get(&format!("{turn}/events")).expect(200).text();
        let ended = daemon.get(&turn).expect(200).json();
        assert_eq!(ended["answer"], "Told: send: the invoice", "{ended}");
        daemon.stop();
    }
}
