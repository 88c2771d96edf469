//! A daemon that must stop: it takes nothing new, leaves in time what does not end, and goes
//! on with it at its next start.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::json;

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::mcp::Spoken;
use crate::support::{Going, PATIENCE, Place, heard, send_signal, tell, until, wait};

#[test]
fn a_stopping_daemon_exits_in_time_and_its_open_turn_goes_on_later() {
    let scene = Scene::new();
    let agents = scene.place.config();
    scene
        .place
        .set_config(format!("{agents}[server]\ndrain_seconds = 1\n"));
    let daemon = Daemon::start(&scene.place);
    let id: &str = &daemon.session(&json!({"title": "a talk"}));
    let task = json!({"task": "Which word?", "agents": ["waits"], "wait": false});
    let accepted = daemon
        .post(&format!("/v1/sessions/{id}/turns"), &task)
        .expect(202);
    let path = accepted.header("location").unwrap().to_owned();
    let agent = heard(&scene.started);

    let Daemon { going, address, .. } = daemon;
    let reply = Instant::now();
    going.signal("TERM");
    going.finish().expect(0).says(&["stopped"]);
    assert!(reply.elapsed() < PATIENCE / 2, "{:?}", reply.elapsed());
    assert!(TcpStream::connect(&address).is_err(), "nobody listens");
    let alive = Path::new(&format!("/proc/{agent}")).exists();
    assert!(!alive, "its program still runs");

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    tell(&scene.word, "later");
    assert!(daemon.events(id).any(|event| event.name == "turn_ended"));
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["state"], "answered", "{turn}");
    daemon.stop();
}

/// A daemon whose parent left SIGHUP so, whatever the parent of the tests did.
#[cfg(target_os = "linux")]
fn with_hangup(place: &Place, disposition: &str) -> Daemon {
    let own = env!("CARGO_BIN_EXE_unisono");
    let args = [disposition, own, "serve", "--bind", "127.0.0.1:0"];
    Daemon::of(place, place.command_of(Path::new("env"), &args))
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_whose_terminal_closes_finishes_what_it_began() {
    let scene = Scene::new();
    let daemon = with_hangup(&scene.place, "--default-signal=HUP");
    let (run, _) = scene.run(&[]);
    let Daemon { going, address, .. } = daemon;
    going.signal("HUP");
    not_heard(&address);
    tell(&scene.word, "later");
    let report = run.finish().expect(0).json();
    assert_eq!(report["state"], "answered", "{report}");
    going.finish().expect(0).says(&["stopped"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_that_outlives_its_terminal_ignores_its_end() {
    let place = Place::new();
    let daemon = with_hangup(&place, "--ignore-signal=HUP");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.going.id())).unwrap();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(ignored & 1, 1, "{status}");
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
        let id = daemon.session(&json!({"title": "a talk"}));
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/v1/sessions/{id}/{path}"),
        };
        let accept = [("Accept", "text/event-stream")];
        let stream = daemon.request_with("POST", &path, &accept, Some(&body));
        heard(&scene.started);
        let Daemon { going, address, .. } = daemon;
        going.signal("TERM");
        not_heard(&address);
        tell(&scene.word, "later");
        let events: Vec<_> = stream.expect(200).events().collect();
        let last = events.last().unwrap();
        assert!(last.name == "turn" || last.data == "[DONE]", "{last:?}");
        let said: String = events.into_iter().map(|event| event.data).collect();
        assert!(said.contains("The word is later."), "{said}");
        going.finish().expect(0).says(&["stopped"]);
    }
}

/// Waits until nobody listens there any more: who listened has begun to stop.
fn not_heard(address: &str) {
    until("it goes on listening", || {
        TcpStream::connect(address).is_err()
    });
}

/// A call of the tool `ask` to an agent that waits for a word.
fn ask() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "ask",
           "arguments": {"task": "Which word?", "lead": "waits", "agents": []}}})
}

#[test]
fn a_stopping_daemon_finishes_calls_of_its_tools() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let headers = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let address = daemon.address.clone();
    let token = daemon.token.clone();
    let asking = std::thread::spawn(move || {
        let body = ask().to_string();
        let to = (address.as_str(), token.as_str());
        let head = crate::http::json_head(to, "POST", "/mcp", &headers, body.len());
        let reply = crate::http::send_to(&address, &head, body.as_bytes());
        reply.expect(200).text()
    });
    heard(&scene.started);
    let Daemon { going, address, .. } = daemon;
    going.signal("TERM");
    not_heard(&address);
    tell(&scene.word, "later");
    let answer = asking.join().unwrap();
    assert!(answer.contains("The word is later."), "{answer}");
    going.finish().expect(0).says(&["stopped"]);
}

#[test]
fn a_stopping_mcp_server_finishes_what_its_client_asked() {
    let scene = Scene::new();
    let mut server = Spoken::greeted(scene.place.command(&["mcp"]));
    server.send(&ask());
    heard(&scene.started);
    let announced = std::fs::read(scene.place.path("data/unisono/daemon.json")).unwrap();
    let announced: serde_json::Value = serde_json::from_slice(&announced).unwrap();
    let (_, address) = announced["url"].as_str().unwrap().split_once("//").unwrap();
    server.signal("TERM");
    not_heard(address);
    tell(&scene.word, "later");
    let (answer, _) = server.answer(5);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "The word is later.", "{answer}");
    server.end();
}

#[test]
fn a_call_of_a_tool_that_does_not_end_in_time_is_told_so() {
    let scene = Scene::new();
    let agents = scene.place.config();
    scene
        .place
        .set_config(format!("{agents}[server]\ndrain_seconds = 1\n"));
    let mut server = Spoken::greeted(scene.place.command(&["mcp"]));
    server.send(&ask());
    heard(&scene.started);
    server.signal("TERM");
    let (answer, _) = server.answer(5);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the program is stopping; turn "), "{answer}");
    server.end();
}

#[test]
fn a_run_through_a_stopping_daemon_has_its_answer() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let (run, _) = scene.run(&[]);
    let Daemon { going, address, .. } = daemon;
    going.signal("TERM");
    // It has begun to stop once nobody listens any more.
    until("it goes on listening", || {
        TcpStream::connect(&address).is_err()
    });
    tell(&scene.word, "later");
    let report = run.finish().expect(0).json();
    assert_eq!(report["state"], "answered", "{report}");
    let waits = &report["runs"][1];
    assert_eq!(waits["text"], "The word is later.", "{report}");
    going.finish().expect(0).says(&["stopped"]);
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let notified = || {
        let mut said = [0; 128];
        let length = manager.recv(&mut said).unwrap();
        String::from_utf8(said[..length].to_vec()).unwrap()
    };
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let mut daemon = Going::start(command);
    daemon.wait_for(&["listening"]);
    assert!(notified().contains("READY=1"));
    daemon.signal("TERM");
    assert!(notified().contains("STOPPING=1"));
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

#[test]
fn a_daemon_whose_messages_nobody_reads_stops() {
    let place = Place::new();
    let (_unread, mut messages) = io::pipe().unwrap();
    fcntl_setfl(&messages, OFlags::NONBLOCK).unwrap();
    while messages.write_all(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&messages, OFlags::empty()).unwrap();
    let mut command = place.command(&["serve", "--json", "--bind", "127.0.0.1:0"]);
    let mut daemon = command.stderr(messages).spawn().unwrap();
    let mut ready = String::new();
    let mut data = BufReader::new(daemon.stdout.take().unwrap());
    data.read_line(&mut ready).unwrap();
    assert!(ready.contains("token_file"), "{ready}");
    send_signal("TERM", &daemon.id().to_string());
    let ended = wait(&mut daemon);
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
