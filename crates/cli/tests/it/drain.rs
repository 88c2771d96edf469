//! A daemon that is told to stop: it takes nothing new, leaves in time what does not end, and goes
//! on with it at its next start.

use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use serde_json::json;

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{Going, PATIENCE, Place, heard, tell};

#[test]
fn a_stopping_daemon_exits_in_time_and_its_open_turn_goes_on_later() {
    let scene = Scene::new();
    let config = scene.place.path("config/unisono.toml");
    let agents = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{agents}[server]\ndrain_seconds = 1\n")).unwrap();
    let daemon = Daemon::start(&scene.place);
    let made = daemon
        .post("/v1/sessions", &json!({"title": "a talk"}))
        .expect(201)
        .json();
    let id = made["session"].as_str().unwrap();
    let task = json!({"task": "Which word?", "agents": ["waits"], "wait": false});
    let accepted = daemon
        .post(&format!("/v1/sessions/{id}/turns"), &task)
        .expect(202);
    let path = accepted.header("location").unwrap().to_owned();
    let agent = heard(&scene.started);

    let Daemon { going, address, .. } = daemon;
    let told = Instant::now();
    going.signal("TERM");
    going.finish().expect(0).says(&["stopped"]);
    assert!(told.elapsed() < PATIENCE / 2, "{:?}", told.elapsed());
    assert!(TcpStream::connect(&address).is_err(), "nobody listens");
    let alive = std::path::Path::new(&format!("/proc/{agent}")).exists();
    assert!(!alive, "its program still runs");

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    tell(&scene.word, "later");
    let events = format!("/v1/sessions/{id}/events?after=0");
    let mut events = daemon.request("GET", &events, None).expect(200).events();
    assert!(events.any(|event| event.name == "turn_ended"));
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["state"], "answered", "{turn}");
    daemon.stop();
}

#[test]
fn a_stopping_daemon_finishes_the_streams_of_answers_that_it_began() {
    let chat = json!({"model": "waits", "stream": true,
                      "messages": [{"role": "user", "content": "Which word?"}]});
    let task = json!({"task": "Which word?", "lead": "waits", "agents": []});
    let scene = Scene::new();
    for (path, body) in [("turns", task), ("/openai/v1/chat/completions", chat)] {
        let daemon = Daemon::start(&scene.place);
        let made = daemon.post("/v1/sessions", &json!({"title": "a talk"}));
        let made = made.expect(201).json();
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/v1/sessions/{}/{path}", made["session"].as_str().unwrap()),
        };
        let accept = [("Accept", "text/event-stream")];
        let stream = daemon.request_with("POST", &path, &accept, Some(&body));
        heard(&scene.started);
        let Daemon { going, address, .. } = daemon;
        going.signal("TERM");
        // It has begun to stop once nobody listens any more.
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&address).is_ok() {
            assert!(Instant::now() < deadline, "it goes on listening");
            std::thread::yield_now();
        }
        tell(&scene.word, "later");
        let events: Vec<_> = stream.expect(200).events().collect();
        let last = events.last().unwrap();
        assert!(last.name == "turn" || last.data == "[DONE]", "{last:?}");
        let said: String = events.into_iter().map(|event| event.data).collect();
        assert!(said.contains("The word is later."), "{said}");
        going.finish().expect(0).says(&["stopped"]);
    }
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut said = [0; 128];
        let length = manager.recv(&mut said).unwrap();
        String::from_utf8(said[..length].to_vec()).unwrap()
    };
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let mut daemon = Going::start(command);
    daemon.wait_for(&["listening"]);
    assert!(told().contains("READY=1"));
    daemon.signal("TERM");
    assert!(told().contains("STOPPING=1"));
    daemon.finish().expect(0);
}

#[test]
fn the_daemon_is_started_by_its_other_name() {
    let place = Place::new();
    let mut daemon = Going::start(place.command(&["up", "--bind", "127.0.0.1:0"]));
    daemon.wait_for(&["listening"]);
    daemon.signal("TERM");
    daemon.finish().expect(0).says(&["stopped"]);
}
