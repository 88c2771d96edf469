//! A daemon that has the store open: other calls of the program use it.

use serde_json::json;

use crate::http::Daemon;
use crate::support::{Place, example};

#[test]
fn what_looks_and_run_go_through_the_daemon() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let daemon = Daemon::start(&place);
    place.says(&["sessions", "list"], &["no sessions yet"]);
    let file = example();
    let args = [
        "run",
        &file,
        "--agents",
        "risks,facts",
        "--task",
        "Which dates?",
        "--json",
    ];
    let done = place.says(&args, &["daemon", "imported", "risks", "done"]);
    let report = done.json();
    assert_eq!(report["state"], "answered", "{report}");
    assert_eq!(report["runs"].as_array().unwrap().len(), 3);
    assert!(
        report["answer"]
            .as_str()
            .is_some_and(|answer| !answer.is_empty())
    );
    let again = place.call(&args).expect(0).says(&["continues"]).json();
    assert_eq!(
        again["session"], report["session"],
        "the same bytes continue their session"
    );
    let session = report["session"].as_str().unwrap();
    let listed = place.json(&["sessions", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["session"], session);
    let here = place.json(&["context", session]);
    let there = daemon.json(&format!("/v1/sessions/{session}/context"));
    assert_eq!(here["snapshot"], there["snapshot"]);
    assert_eq!(here["used_tokens"], there["used_tokens"]);
    assert_eq!(place.json(&["runs", "list"]).as_array().unwrap().len(), 6);
    let run = report["runs"][0]["agent"].as_str().unwrap().to_owned();
    assert_eq!(
        place
            .json(&["runs", "list", "--agent", &run])
            .as_array()
            .unwrap()
            .len(),
        2
    );
    place.call(&["sessions", "show", "latest"]).expect(0);
    place.call(&["sessions", "tree", "latest"]).expect(0);
    place.call(&["checkpoints", "list", "latest"]).expect(0);
    let found = place.json(&["sessions", "search", "rollback"]);
    assert!(!found.to_string().is_empty());
    assert_eq!(place.json(&["usage"])["total"], daemon_usage(&daemon));
    let turn = report["turn"].as_str().unwrap();
    place.call(&["replay", turn]).expect(0);
    daemon.stop();
    assert!(!place.path("data/unisono/daemon.json").exists());
    // What the daemon wrote is what a call without one finds.
    assert_eq!(
        place.json(&["context", session])["snapshot"],
        here["snapshot"]
    );
}

fn daemon_usage(daemon: &Daemon) -> serde_json::Value {
    let usage = daemon.get("/v1/usage").expect(200).json();
    usage["total"].clone()
}

#[test]
fn what_does_not_go_through_it_says_so() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let talk = json!({"messages": [{"role": "user", "content": "We ship on Friday."}]});
    daemon.post("/v1/sessions", &talk).expect(201);
    let url = format!("http://{}", daemon.address);
    let started = ["--set", "server.bind=127.0.0.1:1"];
    place
        .call(&[&["run", "--session", "latest"], &started[..]].concat())
        .expect(2)
        .says(&["`server.bind` cannot be set for one request"]);
    place.call(&["doctor", "--repair"]).expect(1).says(&[
        "a closed store",
        &url,
        "stop the daemon",
    ]);
    place
        .call(&["run", "--session", "latest", "--agents", "nobody"])
        .expect(2)
        .says(&["unknown agent `nobody`"]);
    place.refuses(&["run", "--session", "0000"], &["no session `0000`"]);
    daemon.stop();
}

#[test]
fn a_file_that_a_killed_daemon_left_is_not_believed() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    daemon.kill();
    assert!(place.path("data/unisono/daemon.json").exists());
    // Only a daemon could know this model.
    let file = example();
    let run = ["run", &file, "--model", "nobody/model"];
    place.call(&run).expect(2).says(&["provider `nobody`"]);
    let going = place.held();
    let pid = format!("is held by pid {}", going.id());
    place.call(&["sessions", "list"]).expect(1).says(&[&pid]);
    going.signal("TERM");
    going.finish().expect(130);
}
