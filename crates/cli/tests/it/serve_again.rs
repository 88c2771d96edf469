//! A request that is made again under the same key: also after the daemon was killed it is told what
//! came of the first one, and nothing is done twice.

use serde_json::{Value, json};
use unisono_fake_provider::tools::LOG;

use crate::http::{Daemon, Reply};
use crate::interrupted::Scene;
use crate::support::{Place, awaited, heard, send_signal, tell, until};
use crate::tools;

fn session(daemon: &Daemon) -> String {
    let messages = json!([{"role": "user", "content": "We ship on Friday 6 March."}]);
    daemon.session(&json!({"messages": messages}))
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
    let followed = daemon.events(&id);
    let agent = heard(&scene.started);
    // The agent that leaves a mark has ended, and that is on disk.
    let mut ended = followed.filter(|event| event.name == "run_ended");
    assert!(ended.next().is_some());
    daemon.kill();
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
    assert!(daemon.text("/problems/key_reused").contains("422"));

    tell(&scene.word, "unison");
    // How it is told is not what is asked for.
    let waits = json!({"task": "Which word?", "agents": ["marks", "waits"]});
    let ended = keyed(&daemon, &path, "order-17", &waits).expect(200).json();
    assert_eq!(ended["turn"], first["turn"]);
    assert_eq!(ended["state"], "answered", "{ended}");
    assert_eq!(scene.marks(), 1);
    let whole = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert_eq!(whole["ended_turns"]["count"], 1, "{whole}");
    assert_eq!(whole["open_turns"]["items"], json!([]));
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
    keyed(&daemon, &given, "a", &new).refused(422, "key_reused");
    for wrong in ["", &"k".repeat(300)] {
        keyed(&daemon, &path, wrong, &task).refused(400, "invalid_request");
    }
    // What was refused is not kept under its key.
    let empty = json!({"task": " "});
    keyed(&daemon, &path, "d", &empty).refused(422, "refused");
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
    daemon.kill();

    scene.place.set_config("");
    let daemon = Daemon::start(&scene.place);
    let refused = keyed(&daemon, &path, "order-18", &task).expect(422);
    assert!(refused.text().contains("marks"));
    let again = keyed(&daemon, &path, "order-17", &task).expect(200).json();
    assert_eq!(again["turn"], first["turn"], "{again}");
    assert_eq!(again["answer"], first["answer"]);
    let other = json!({"task": "Which colour?", "agents": ["marks"]});
    keyed(&daemon, &path, "order-17", &other).refused(422, "key_reused");
    assert_eq!(scene.marks(), 1);
    daemon.stop();
}

#[test]
fn what_was_refused_while_its_servers_were_down_is_done_when_asked_again() {
    let put = ("files__put", json!({"text": "the invoice"}));
    // It is down as long as there is nothing in its log.
    let server = format!(
        "command = \"sh\"\nargs = [\"-c\", \"test -s '{{LOG}}' && exec '{{EXE}}' \
         tools::tool_server --exact --nocapture\"]\ntimeout = \"3s\"\n\
         [mcp.files.env]\n{LOG} = \"{{LOG}}\"\n"
    );
    let scene = tools::Scene::new(&[&[put]], &server, "");
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Put it there."});
    for _ in 0..2 {
        let refused = keyed(&daemon, &path, "order-17", &task).expect(503);
        assert!(refused.header("retry-after").is_some());
        assert!(refused.problem("unavailable").contains("files"));
    }
    let none = daemon.get(&path).expect(200).json();
    assert_eq!(none["items"], json!([]), "what is refused is no turn");

    scene.place.write("log", "up\n");
    let first = awaited(|| {
        let reply = keyed(&daemon, &path, "order-17", &task);
        if reply.status == 200 {
            return Ok(reply.json());
        }
        // It may be left alone for a moment after it failed.
        reply.expect(503).problem("unavailable");
        Err("it is not taken")
    });
    assert_eq!(first["state"], "answered", "{first}");
    assert_eq!(scene.count("call put "), 1);
    daemon.stop();

    // It is down again, and has nothing to do with what was done.
    scene.place.write("log", "");
    let daemon = Daemon::start(&scene.place);
    keyed(&daemon, &path, "order-18", &task).expect(503);
    let again = keyed(&daemon, &path, "order-17", &task).expect(200).json();
    assert_eq!(again, first);
    assert_eq!(scene.count("call put "), 0, "not made again");
    daemon.stop();
}

#[test]
fn what_was_refused_by_a_full_pool_is_done_once_when_asked_again() {
    let scene = Scene::new();
    let config = scene.place.config();
    let bounds = "[runtime]\nqueue_per_agent = 1\n[agent_defaults]\nmax_concurrent = 1\n";
    scene.place.set_config(format!("{bounds}{config}"));
    let daemon = Daemon::start(&scene.place);
    let path = |id: &str| format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Which word?", "lead": "waits", "agents": [], "wait": false});
    let [works, waits, refused] = [(); 3].map(|()| path(&session(&daemon)));
    let one = keyed(&daemon, &works, "a", &task).expect(202).json();
    heard(&scene.started);
    let other = keyed(&daemon, &waits, "a", &task).expect(202).json();
    // Its run waits once its turn is on disk.
    let waiting = "unisono_attempts{state=\"waiting\"} 1";
    let queued = |metrics: &str| metrics.lines().any(|line| line == waiting);
    until("its run does not wait", || {
        queued(&daemon.get("/metrics").expect(200).text())
    });
    let full = keyed(&daemon, &refused, "a", &task).expect(429);
    assert!(full.header("retry-after").is_some());
    assert!(full.problem("busy").contains("waits"));
    let none = daemon.get(&refused).expect(200).json();
    assert_eq!(none["items"], json!([]), "what is refused is no turn");
    // Those that were taken are told again, however full it is.
    for (path, turn) in [(&works, &one), (&waits, &other)] {
        let again = keyed(&daemon, path, "a", &task).expect(202).json();
        assert_eq!(again["turn"], turn["turn"]);
    }
    tell(&scene.word, "unison");
    // The one that waited begins: there is a place again.
    heard(&scene.started);
    let taken = keyed(&daemon, &refused, "a", &task).expect(202).json();
    let again = keyed(&daemon, &refused, "a", &task).expect(202).json();
    assert_eq!(again["turn"], taken["turn"]);
    tell(&scene.word, "unison");
    heard(&scene.started);
    tell(&scene.word, "unison");
    let waited = json!({"task": "Which word?", "lead": "waits", "agents": []});
    let ended = keyed(&daemon, &refused, "a", &waited).expect(200).json();
    assert_eq!(ended["turn"], taken["turn"]);
    assert_eq!(ended["state"], "answered", "{ended}");
    let turns = daemon.get(&refused).expect(200).json();
    assert_eq!(turns["items"].as_array().unwrap().len(), 1);
    daemon.stop();
}
