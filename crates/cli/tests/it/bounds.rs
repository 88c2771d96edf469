//! Requests of clients are bounded, and an error names the exceeded limit.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Refusal, Script};

use crate::http::{Daemon, head, json_head, send_to};
use crate::support::{Going, PATIENCE, Place, example, until};

fn hello() -> Value {
    json!({"messages": [{"role": "user", "content": "Hello."}]})
}

/// A line of `/proc/<pid>/status` as a number.
fn status(daemon: &Daemon, name: &str) -> u64 {
    let path = format!("/proc/{}/status", daemon.going.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_query_that_is_too_large_is_refused_on_every_way_in() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    place.json(&["import", &example()]);
    let (long, many) = ("ferryman ".repeat(500), "ab ".repeat(200));
    let too_large = [
        (long.trim(), "bytes, but the limit is 4096"),
        (many.trim(), "terms, but the limit is 128"),
    ];
    let asked = |query: &str, what: &str| {
        place.refuses(&["sessions", "search", query], &[what]);
    };
    for (query, what) in too_large {
        asked(query, what);
    }
    let daemon = Daemon::start(&place);
    let listed = daemon.get("/v1/sessions").expect(200).json();
    let id = listed["items"][0]["session"].as_str().unwrap();
    for (query, what) in too_large {
        asked(query, what);
        let words = query.replace(' ', "+");
        for path in ["/v1/search".to_owned(), format!("/v1/sessions/{id}/search")] {
            let refused = daemon.get(&format!("{path}?q={words}")).expect(422);
            assert!(refused.problem("refused").contains(what));
        }
        let page = daemon.get(&format!("/sessions/{id}/history?q={words}"));
        assert!(page.expect(422).text().contains(what));
        let pasted = query.repeat(1_000);
        for (tool, arguments) in [
            ("search", json!({"query": pasted})),
            ("recall", json!({"session": id, "query": pasted})),
        ] {
            let text = called(&daemon, tool, &arguments);
            assert!(
                text.contains("bytes, but the limit is 4096"),
                "{tool}: {text}"
            );
        }
    }
    daemon.get("/v1/search?q=ferryman").expect(200);
    daemon.stop();
}

/// The headers of a call of a tool over HTTP.
const CALL_HEADERS: [(&str, &str); 2] = [
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2025-11-25"),
];

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
           "params": {"name": tool, "arguments": arguments}})
}

/// What a tool that is called over HTTP has to say against it.
fn called(daemon: &Daemon, tool: &str, arguments: &Value) -> String {
    let call = call(tool, arguments);
    let reply = daemon.request_with("POST", "/mcp", &CALL_HEADERS, Some(&call));
    let reply = reply.expect(200).json();
    assert_eq!(reply["result"]["isError"], true, "{reply}");
    let text = reply["result"]["content"][0]["text"].as_str();
    text.unwrap().to_owned()
}

#[test]
fn bodies_take_no_more_memory_together_than_they_may() {
    const BODY: usize = 60_000;
    let place = Place::with_config("[server]\nbody_limit_bytes = 65_536\nbodies_bytes = 131_072\n");
    let daemon = Daemon::start(&place);
    let to = (daemon.address.as_str(), daemon.token.as_str());
    // Two that are never finished, and a third that does not fit. One that comes while the others
    // are still being read may take their room: then they are sent again.
    let unfinished = || {
        let mut stream = TcpStream::connect(&daemon.address).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let head = json_head(to, "POST", "/v1/sessions", &[], BODY);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b' '; BODY - 1]).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut held = [unfinished(), unfinished()];
    let large = json!({"title": "x".repeat(40_000)});
    let refused = (0..10_000)
        .map(|_| {
            for stream in &mut held {
                let answered = stream.peek(&mut [0]).is_ok();
                if answered {
                    *stream = unfinished();
                }
            }
            daemon.post("/v1/sessions", &large)
        })
        .find(|reply| reply.status != 201)
        .expect("what is unfinished counts")
        .expect(503);
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert!(
        refused
            .problem("unavailable")
            .contains("server.bodies_bytes")
    );
    daemon
        .post("/v1/sessions", &json!({"title": "small"}))
        .expect(201);
    // One that does not say how long it is counts as it comes.
    let chunked = format!(
        "{}9C40\r\n{}\r\n0\r\n\r\n",
        json_head(
            to,
            "POST",
            "/v1/sessions",
            &[("Transfer-Encoding", "chunked")],
            0
        ),
        " ".repeat(40_000),
    );
    send_to(&daemon.address, &chunked, b"").expect(503);
    drop(held);
    let again = (0..10_000).find(|_| daemon.post("/v1/sessions", &large).status == 201);
    assert!(again.is_some(), "their room is free again");
    daemon.stop();
}

/// Two requests with large bodies begin turns in sessions and wait for them. A third body has room.
/// `request` is the path and the body of a request with a session and its task.
fn leave_room(headers: &[(&str, &str)], request: impl Fn(&str, &str) -> (String, Value) + Sync) {
    let gate = Gate::new();
    let held = Act::from(Answer::text("On Friday.")).hold(&gate);
    let provider = FakeProvider::play_on_thread(Script::always(held));
    let limits = "[server]\nbody_limit_bytes = 65_536\nbodies_bytes = 131_072\n";
    let config = format!("[models]\ndefault = \"openai/gpt-4o\"\n{limits}");
    let place = Place::with_openai(&provider, &config);
    let daemon = Daemon::keyed(&place);
    let sessions = [daemon.session(&hello()), daemon.session(&hello())];
    let to = (daemon.address.as_str(), daemon.token.as_str());
    let ask = |session: &str| {
        let (path, body) = request(session, &"When? ".repeat(8_000));
        let body = body.to_string();
        let head = json_head(to, "POST", &path, headers, body.len());
        let said = send_to(to.0, &head, body.as_bytes()).expect(200).text();
        assert!(said.contains("On Friday."), "{said}");
    };
    let large = json!({"title": "x".repeat(40_000)});
    thread::scope(|scope| {
        for session in &sessions {
            let ask = &ask;
            scope.spawn(move || ask(session));
        }
        until("both turns wait", || provider.request_count() >= 2);
        until("a body has room", || {
            daemon.post("/v1/sessions", &large).status == 201
        });
        gate.open();
    });
    daemon.stop();
}

#[test]
fn a_response_that_waits_for_its_turn_leaves_the_room_of_its_body_to_others() {
    leave_room(&[], |session, task| {
        let body = json!({"task": task, "lead": "facts", "agents": []});
        (format!("/v1/sessions/{session}/turns"), body)
    });
}

#[test]
fn a_call_that_waits_for_its_turn_leaves_the_room_of_its_body_to_others() {
    leave_room(&CALL_HEADERS, |session, task| {
        let arguments = json!({"session": session, "task": task, "lead": "facts", "agents": []});
        ("/mcp".to_owned(), call("ask", &arguments))
    });
}

#[test]
fn health_is_answered_however_few_files_may_be_open() {
    let place = Place::new();
    place.write(
        "serve.sh",
        "ulimit -n 256\nexec \"$1\" serve --bind 127.0.0.1:0\n",
    );
    let program = env!("CARGO_BIN_EXE_unisono");
    let script = place.path("serve.sh");
    let mut command: Command = place.command_of("sh".as_ref(), &[script.to_str().unwrap()]);
    command.args([program]);
    let mut going = Going::start(command);
    let reply = going.wait_for(&["allows fewer connections"]);
    assert!(reply.contains("connections=96"), "{reply}");
    let line = going.wait_for(&["listening"]);
    let address = line.split_once("http://").unwrap().1.trim().to_owned();
    // Nobody says anything on these.
    let silent: Vec<_> = (0..240)
        .filter_map(|_| TcpStream::connect(&address).ok())
        .collect();
    assert_eq!(silent.len(), 240);
    for _ in 0..20 {
        let asked = head("GET", "/healthz", &[("Host", &address)], 0);
        send_to(&address, &asked, b"").expect(200);
    }
    drop(silent);
    going.signal("TERM");
    going.finish().expect(0);
}

#[test]
fn many_who_follow_and_never_read_take_no_thread_and_little_memory_each() {
    const CLIENTS: usize = 512;
    const EACH_KB: u64 = 64;
    let place = Place::with_config(&format!(
        "[server]\nstreams = {CLIENTS}\nrequests_per_second = 0\n"
    ));
    let daemon = Daemon::start(&place);
    let made = daemon.session(&hello());
    let at = |rest: &str| format!("/v1/sessions/{made}{rest}");
    let follow = || daemon.get(&at("/events?after=0"));
    let task = json!({"task": "Who said hello?", "agents": ["facts", "risks"]});
    let ask = || {
        let turn = daemon.post(&at("/turns"), &task).expect(200).json();
        assert_eq!(turn["state"], "answered", "{turn}");
    };
    ask();
    let (threads, memory) = (status(&daemon, "Threads:"), status(&daemon, "VmRSS:"));
    let mut silent: Vec<_> = (0..CLIENTS).map(|_| follow().expect(200)).collect();
    let refused = follow().expect(429);
    assert!(refused.header("retry-after").is_some());
    assert!(refused.problem("busy").contains("server.streams"));
    for _ in 0..6 {
        ask();
        daemon.get("/healthz").expect(200);
    }
    // The threads that read the store and write it may have come meanwhile.
    let more = status(&daemon, "Threads:").saturating_sub(threads);
    assert!(more <= 24, "{more} threads more for {CLIENTS} who follow");
    let grown = status(&daemon, "VmRSS:").saturating_sub(memory);
    let most = EACH_KB * CLIENTS as u64;
    assert!(grown <= most, "{grown} kB more for {CLIENTS} who follow");
    // Those who read at last have missed nothing.
    let events = daemon.get(&at("")).expect(200).json();
    let events = events["events"].as_u64().unwrap();
    for reply in [silent.pop().unwrap(), silent.swap_remove(0)] {
        let ids = reply.events().filter_map(|event| event.id);
        assert!((1..=events).eq(ids.take(usize::try_from(events).unwrap())));
    }
    let again = (0..10_000).find(|_| follow().status == 200);
    assert!(again.is_some(), "their place is free again");
    drop(silent);
    daemon.stop();
}

#[test]
fn sessions_that_come_and_go_leave_nothing_in_memory() {
    const SESSIONS: usize = 600;
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let new = hello();
    let round = |n: usize| {
        for _ in 0..n {
            let id = daemon.session(&new);
            let path = format!("/v1/sessions/{id}");
            daemon.delete(&path).expect(204);
        }
    };
    round(SESSIONS / 4);
    let before = status(&daemon, "VmRSS:");
    round(SESSIONS);
    let grown = status(&daemon, "VmRSS:").saturating_sub(before);
    // Kept for a while, each took some 60 kB.
    assert!(grown < 18_000, "{grown} kB more after {SESSIONS} sessions");
    daemon.stop();
}

#[test]
fn what_agents_start_keeps_the_limit_of_open_files_that_the_daemon_had() {
    let place = Place::with_config(
        "[agents.limit]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
         args = [\"-c\", \"cat > /dev/null; ulimit -Sn\"]\n",
    );
    let start = "ulimit -Sn 512 && exec \"$0\" serve --bind 127.0.0.1:0";
    let mut command = place.command_of("sh".as_ref(), &["-c", start]);
    command.arg(env!("CARGO_BIN_EXE_unisono"));
    let daemon = Daemon::of(&place, command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.going.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = files.unwrap().split_whitespace().nth(3).unwrap();
    assert_ne!(soft, "512", "the daemon's own is raised");
    let made = daemon.session(&hello());
    let turns = format!("/v1/sessions/{made}/turns");
    let turn = daemon.post(
        &turns,
        &json!({"task": "How many?", "lead": "limit", "agents": []}),
    );
    let turn = turn.json();
    assert_eq!(turn["answer"], "512", "{turn}");
    daemon.stop();
}

#[test]
fn a_conversation_that_is_imported_has_a_bounded_number_of_messages() {
    let place = Place::with_config("[server]\nimport_messages = 3\n");
    let daemon = Daemon::start(&place);
    let said = |messages: usize| vec![json!({"role": "user", "content": "x"}); messages];
    let made = daemon.post("/v1/sessions", &json!({"messages": said(3)}));
    assert_eq!(made.expect(201).json()["messages"], 3);
    for path in ["/v1/sessions", "/v1/imports?name=long.json"] {
        let refused = daemon.post(path, &json!({"messages": said(4)})).expect(422);
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("more than 3 messages"), "{path}: {detail}");
        assert!(
            detail.contains("server.import_messages"),
            "{path}: {detail}"
        );
    }
    daemon.stop();
}

#[test]
fn a_session_without_messages_is_empty_and_one_that_is_gone_is_not() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id: &str = &daemon.session(&json!({"title": "later"}));
    let messages = daemon.get(&format!("/v1/sessions/{id}/messages"));
    assert_eq!(
        messages.expect(200).json(),
        json!({"items": [], "next": null})
    );
    for (list, of) in [
        ("context", "messages"),
        ("topics", "items"),
        ("pins", "pinned"),
    ] {
        let path = format!("/v1/sessions/{id}/{list}");
        let empty = daemon.get(&path).expect(200).json();
        assert_eq!(empty[of], json!([]), "{path}: {empty}");
        let other = daemon.get(&format!("{path}?branch=other")).expect(404);
        other.problem("not_found");
    }
    let seen = daemon.json(&format!("/v1/sessions/{id}/context"));
    assert_eq!(seen["used_tokens"], 0);
    let here = place.json(&["context", id]);
    assert_eq!(
        (&here["messages"], &here["snapshot"]),
        (&json!([]), &seen["snapshot"])
    );
    place.call(&["context", id]).expect(0);
    let copy = place.call(&["export", id]).expect(0).stdout;
    place.write("copy.jsonl", &copy);
    let imported = place.json(&["import", "copy.jsonl", "--copy"]);
    assert_eq!(
        (&imported["messages"], &imported["title"]),
        (&json!(0), &json!("later"))
    );
    for path in [
        format!("/v1/sessions/{id}/messages?limit=0"),
        "/v1/sessions?limit=0".to_owned(),
        "/v1/search?q=x&limit=0".to_owned(),
        format!("/v1/sessions/{id}/tree?limit=0"),
        format!("/v1/sessions/{id}/tree/messages?limit=0"),
        format!("/v1/sessions/{id}/ended-turns?limit=0"),
        "/v1/runs?limit=0".to_owned(),
        "/v1/approvals?limit=0".to_owned(),
        format!("/v1/sessions/{id}/turns?limit=0"),
    ] {
        let refused = daemon.get(&path).expect(400);
        refused.problem("invalid_request");
    }
    let export = format!("/v1/sessions/{id}/export");
    daemon.get(&export).expect(200);
    let unknown = daemon.get(&format!("{export}?format=pdf")).expect(400);
    unknown.problem("invalid_request");
    daemon.delete(&format!("/v1/sessions/{id}")).expect(204);
    daemon.get(&export).expect(404).problem("not_found");
    daemon.stop();
}

#[test]
fn a_provider_that_refuses_its_key_is_no_fault_that_clients_ask_again_after() {
    let provider = FakeProvider::play_on_thread(Script::always(Act::refuse(Refusal::Unauthorised)));
    let place = Place::with_openai(&provider, "[models]\ndefault = \"openai/gpt-4o\"\n");
    let daemon = Daemon::keyed(&place);
    let asked = json!({"model": "facts", "input": "Which word?",
                       "messages": [{"role": "user", "content": "Which word?"}]});
    for path in ["/openai/v1/chat/completions", "/openai/v1/responses"] {
        let refused = daemon.post(path, &asked).expect(424).json();
        let error = &refused["error"];
        assert_eq!(error["code"], "provider_rejected", "{refused}");
        assert_eq!(error["type"], "invalid_request_error", "{refused}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("TEST_KEY"), "{refused}");
    }
    let page = daemon.get("/problems/provider_rejected").expect(200).text();
    assert!(page.contains("424"), "{page}");
    daemon.stop();
}

#[test]
fn a_budget_that_is_used_up_is_no_fault_that_clients_ask_again_after() {
    let place = Place::with_config("[budget.turn]\nmax_tokens = 1\n");
    let daemon = Daemon::start(&place);
    let asked = json!({"model": "facts", "input": "Which word?",
                       "messages": [{"role": "user", "content": "Which word?"}]});
    for path in ["/openai/v1/chat/completions", "/openai/v1/responses"] {
        let refused = daemon.post(path, &asked).expect(402).json();
        let error = &refused["error"];
        assert_eq!(error["code"], "budget_exceeded", "{refused}");
        assert_eq!(error["type"], "insufficient_quota", "{refused}");
    }
    let page = daemon.get("/problems/budget_exceeded").expect(200).text();
    assert!(page.contains("402"), "{page}");
    daemon.stop();
}
