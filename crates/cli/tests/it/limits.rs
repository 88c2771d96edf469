//! How long a turn may take: as its request says, wherever it is worked on, also after a restart.

use serde_json::json;

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::heard;

fn session(daemon: &Daemon) -> String {
    let messages = json!([{"role": "user", "content": "We ship on Friday 6 March."}]);
    daemon.session(&json!({"messages": messages}))
}

#[test]
fn a_turn_fails_at_the_limit_of_its_own_request() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let path = format!("/v1/sessions/{}/turns", session(&daemon));
    let limit = json!({"turn.timeout_seconds": 1});
    let task = json!({"task": "Which word?", "agents": ["waits"], "settings": limit});
    let turn = daemon.post(&path, &task).expect(200).json();
    assert_eq!(turn["state"], "failed", "{turn}");
    assert_eq!(turn["error"]["code"], "timeout", "{turn}");
    let reason = turn["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("longer than 1 s"), "{reason}");
    assert!(reason.contains("turn.timeout_seconds"), "{reason}");
    daemon.stop();
}

#[test]
fn a_turn_has_its_limit_also_after_the_daemon_was_killed() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let limit = json!({"turn.timeout_seconds": 3});
    let task =
        json!({"task": "Which word?", "agents": ["waits"], "settings": limit, "wait": false});
    let accepted = daemon.post(&format!("/v1/sessions/{id}/turns"), &task);
    let path = accepted.expect(202).header("location").unwrap().to_owned();
    heard(&scene.started);
    daemon.kill();

    let daemon = Daemon::start(&scene.place);
    assert!(daemon.events(&id).any(|event| event.name == "turn_ended"));
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["error"]["code"], "timeout", "{turn}");
    daemon.stop();
}

#[test]
fn a_call_through_a_daemon_has_the_limit_of_its_own() {
    let scene = Scene::new();
    let agents = scene.place.config();
    let slow = "[agents.slow]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
                args = [\"-c\", \"sleep 2; echo Done.\"]\n[turn]\ntimeout_seconds = 1\n";
    scene.place.set_config(agents + slow);
    let daemon = Daemon::start(&scene.place);
    let run = ["run", "talk.json", "--json", "--task", "Which word?"];
    let own = ["--agents", "slow", "--timeout", "1h"];
    let done = scene.place.call(&[&run[..], &own].concat()).expect(0);
    assert_eq!(done.json()["state"], "answered", "{done:?}");

    let done = scene
        .place
        .call(&[&run[..], &["--agents", "waits"]].concat());
    let done = done.expect(124).says(&["timeout: "]);
    assert_eq!(done.json()["state"], "timeout");
    daemon.stop();
}
