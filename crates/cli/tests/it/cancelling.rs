//! A turn that is cancelled while a tool works: its server hears of it.

use std::time::{Duration, Instant};

use serde_json::json;
use unisono_fake_provider::tools::serve_http;

use crate::http::Daemon;
use crate::tools::{Scene, program};

/// How soon whoever works for a turn is told that it is cancelled.
const SOON: Duration = Duration::from_secs(1);

/// Cancels a turn whose tool does not answer, and gives how long that took to reach the server.
fn reached(scene: &Scene) -> Duration {
    let imported = scene.place.json(&["import", "talk.json"]);
    let session = imported["session"].as_str().unwrap().to_owned();
    let daemon = Daemon::start(&scene.place);
    let task = json!({"task": "Do it.", "wait": false});
    let turns = format!("/v1/sessions/{session}/turns");
    let turn = daemon.post(&turns, &task).expect(202).json();
    let path = format!("{turns}/{}", turn["turn"].as_str().unwrap());
    scene.logged("call never", 1);

    let asked = Instant::now();
    daemon
        .post(&format!("{path}/cancel"), &json!({}))
        .expect(200);
    let ended = daemon.get(&path).expect(200).json();
    assert_eq!(ended["state"], "cancelled", "{ended}");
    scene.logged("cancelled", 1);
    let reached = asked.elapsed();
    assert_eq!(scene.count("call "), 1);
    daemon.stop();
    reached
}

fn never() -> [(&'static str, serde_json::Value); 1] {
    [("files__never", json!({"text": "x"}))]
}

#[test]
fn a_program_whose_call_is_cancelled_hears_of_it_at_once() {
    let server = program("").replace("\"3s\"", "\"300s\"");
    let scene = Scene::new(&[&never()], &server, "");
    let reached = reached(&scene);
    assert!(reached < SOON, "{reached:?}");
}

#[test]
fn a_server_at_an_address_whose_call_is_cancelled_hears_of_it_at_once() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let address = serve_http(log.path()).unwrap();
    let server = format!("url = \"http://{address}/mcp\"\ntimeout = \"300s\"\n");
    let mut scene = Scene::new(&[&never()], &server, "");
    scene.log = log.path().to_owned();
    let reached = reached(&scene);
    assert!(reached < SOON, "{reached:?}");
}
