//! Calls that a tool server works on as tasks, over the death of the daemon.

use serde_json::{Value, json};
use unisono_fake_provider::tools::CurrentServer;

use crate::http::Daemon;
use crate::tools::Scene;

/// A project whose lead makes one call of a server that works on it as a task.
fn scene(contract: &str) -> (CurrentServer, tempfile::TempDir, Scene) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    std::fs::write(&log, "").unwrap();
    let server = CurrentServer::start(&log).unwrap();
    let settings = format!(
        "url = \"http://{}/mcp\"\ncontracts = {{ slow = \"{contract}\" }}\n",
        server.address
    );
    let call = ("files__slow", json!({"text": "the ledger"}));
    let mut scene = Scene::new(&[&[call]], &settings, "");
    scene.log = log;
    (server, directory, scene)
}

/// Begins the turn and waits until the task of its call is on disk; the session and the turn.
fn begun(daemon: &Daemon) -> (String, String) {
    let session = daemon.session(&json!({}));
    let path = format!("/v1/sessions/{session}");
    let task = json!({"task": "Do it.", "wait": false});
    let turn = daemon.post(&format!("{path}/turns"), &task).json();
    let turn = turn["turn"].as_str().unwrap().to_owned();
    let mut events = daemon.get(&format!("{path}/events?after=0")).events();
    let begun = events.find(|event| event.name == "tool_task_started");
    let begun: Value = serde_json::from_str(&begun.expect("a task").data).unwrap();
    assert!(
        begun["text"].as_str().unwrap().contains("task-1"),
        "{begun}"
    );
    (session, turn)
}

/// The turn once it has ended.
fn ended(daemon: &Daemon, (session, turn): &(String, String)) -> Value {
    let path = format!("/v1/sessions/{session}/turns/{turn}/events?after=0");
    let last = daemon.get(&path).events().last().unwrap();
    assert_eq!(last.name, "ended");
    serde_json::from_str(&last.data).unwrap()
}

#[test]
fn after_a_kill_the_task_is_polled_and_the_call_is_not_made_again() {
    for contract in ["at_most_once", "idempotent", "pure"] {
        let (server, _log, scene) = scene(contract);
        let daemon = Daemon::keyed(&scene.place);
        let turn = begun(&daemon);
        scene.logged("poll task-1", 1);
        daemon.kill();
        let polls = scene.count("poll task-1");

        let daemon = Daemon::keyed(&scene.place);
        scene.logged("poll task-1", polls + 1);
        assert_eq!(daemon.get("/v1/approvals").json()["items"], json!([]));
        server.release();
        let end = ended(&daemon, &turn);
        assert_eq!(
            end["turn"]["answer"], "Told: slow: the ledger",
            "{contract}"
        );
        assert_eq!(scene.count("call slow "), 1, "{contract}");
        assert_eq!(
            scene.count("cancel"),
            0,
            "a program that stops cancels nothing"
        );
        daemon.stop();
    }
}

#[test]
fn a_forgotten_task_is_in_doubt_or_its_call_is_made_again_by_its_contract() {
    let (server, _log, scene) = scene("at_most_once");
    let daemon = Daemon::keyed(&scene.place);
    let turn = begun(&daemon);
    daemon.kill();
    server.forget();
    let daemon = Daemon::keyed(&scene.place);
    let path = format!("/v1/sessions/{}/events?after=0", turn.0);
    let doubt = daemon
        .get(&path)
        .events()
        .find(|event| event.name == "tool_in_doubt");
    assert!(doubt.is_some());
    let waiting = daemon.get("/v1/approvals").json();
    assert_eq!(waiting["items"][0]["kind"], "in_doubt");
    let call = waiting["items"][0]["call"].as_str().unwrap();
    assert_eq!(scene.count("call slow "), 1, "not made again by itself");
    // A person lets it be made again: as another task.
    server.release();
    let decision = json!({"decision": "repeat"});
    daemon
        .post(&format!("/v1/approvals/{call}"), &decision)
        .expect(200);
    let end = ended(&daemon, &turn);
    assert_eq!(end["turn"]["answer"], "Told: slow: the ledger");
    assert_eq!(scene.count("call slow "), 2);
    assert!(scene.count("poll task-2") > 0);
    daemon.stop();

    let (server, _log, scene) = self::scene("idempotent");
    let daemon = Daemon::keyed(&scene.place);
    let turn = begun(&daemon);
    daemon.kill();
    server.forget();
    server.release();
    let daemon = Daemon::keyed(&scene.place);
    let end = ended(&daemon, &turn);
    assert_eq!(end["turn"]["answer"], "Told: slow: the ledger");
    let log = std::fs::read_to_string(&scene.log).unwrap();
    let calls: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("call "))
        .collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], calls[1], "under the same key");
    daemon.stop();
}

#[test]
fn a_server_that_answers_polls_with_nonsense_ends_the_call() {
    let about = |task: &str, status: &str| {
        json!({"resultType": "complete", "taskId": task, "status": status, "ttlMs": null,
            "createdAt": "2026-11-26T10:00:00Z", "lastUpdatedAt": "2026-11-26T10:00:00Z"})
    };
    let mut no_result = about("task-1", "completed");
    no_result["result"] = json!({"content": 7});
    for (result, reason) in [
        (json!({"nonsense": [1, 2]}), "no state of task"),
        (about("task-1", "singing"), "no state of task"),
        (about("task-2", "working"), "the state of another task"),
        (no_result, "not one of a tool"),
    ] {
        let (server, _log, scene) = scene("pure");
        server.answer_polls(result);
        let daemon = Daemon::keyed(&scene.place);
        let turn = begun(&daemon);
        let end = ended(&daemon, &turn);
        let answer = end["turn"]["answer"].as_str().unwrap();
        assert!(answer.contains("[failed: "), "{answer}");
        assert!(answer.contains(reason), "{answer}");
        assert!(answer.contains(", 3 times in succession"), "{answer}");
        assert_eq!(scene.count("poll task-1"), 3);
        daemon.stop();
    }
}

#[test]
fn a_cancelled_turn_cancels_the_task() {
    let (_server, _log, scene) = scene("at_most_once");
    let daemon = Daemon::keyed(&scene.place);
    let (session, turn) = begun(&daemon);
    let path = format!("/v1/sessions/{session}/turns/{turn}/cancel");
    daemon.post(&path, &json!({})).expect(200);
    scene.logged("cancel task-1", 1);
    daemon.stop();
}
