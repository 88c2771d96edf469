//! The daemon with more clients than it has room for, and clients that do not read.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};

use crate::http::{Daemon, head, json_head, send_to};
use crate::support::{PATIENCE, Place};

/// Resident memory of a daemon, in MiB.
fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.going.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}

#[test]
fn clients_that_stop_reading_hold_nothing_up_and_take_no_memory() {
    const MESSAGES: usize = 30_000;
    const CLIENTS: usize = 8;
    let place = Place::with_config("[compaction]\npreset = \"off\"\n");
    let mut talk = String::new();
    for n in 0..MESSAGES {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let said = "They went on about it. ".repeat(4);
        writeln!(talk, r#"{{"role":"{role}","content":"{n}: {said}"}}"#).unwrap();
    }
    place.write("talk.jsonl", &talk);
    let imported = place.json(&["import", "talk.jsonl"]);
    let id = imported["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let session = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    let events = session["events"].as_u64().unwrap();
    assert!(events > MESSAGES as u64);

    let before = resident(&daemon);
    let path = format!("/v1/sessions/{id}/events?after=0");
    let bearer = format!("Bearer {}", daemon.token);
    let headers = [
        ("Host", daemon.address.as_str()),
        ("Authorization", &bearer),
    ];
    let mut silent = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(&daemon.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(head("GET", &path, &headers, 0).as_bytes())
            .unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"HTTP/1.1 200");
        silent.push(stream);
    }
    // Another client reads all of it meanwhile, and one more has something done.
    let read = daemon.get(&path).expect(200).events();
    let mut all = read.filter_map(|event| event.id);
    assert!((1..=events).eq(all.by_ref().take(events as usize)));
    let small = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let other = daemon.session(&small);
    let turns = format!("/v1/sessions/{other}/turns");
    let task = json!({"task": "Who said hello?", "agents": []});
    let turn = daemon.post(&turns, &task).expect(200).json();
    assert_eq!(turn["state"], "answered", "{turn}");
    daemon.get("/healthz").expect(200);
    // The state of the session and the tokenizer are there once, however many follow it.
    let grown = resident(&daemon).saturating_sub(before);
    assert!(
        grown < 200,
        "{grown} MiB more for {CLIENTS} that do not read"
    );
    // It ends in time though they still hold their connections.
    daemon.stop();
    drop(silent);
}

#[test]
fn ten_times_the_allowed_load_is_turned_away_and_comes_back() {
    const ALLOWED: usize = 4;
    let place = Place::with_config(&format!(
        "[server]\nrequests = {ALLOWED}\n[compaction]\nsummarisers = [\"extractive\"]\n"
    ));
    let daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "We ship on Friday."}]});
    let made: Vec<String> = (0..ALLOWED)
        .map(|_| {
            let made = daemon.post("/v1/sessions", &new).expect(201).json();
            made["session"].as_str().unwrap().to_owned()
        })
        .collect();
    let task = json!({"task": "When do we ship?", "agents": ["facts"]});
    let (address, bearer) = (daemon.address.as_str(), format!("Bearer {}", daemon.token));
    let body = task.to_string();
    let ask = |id: &str| {
        let headers = [
            ("Host", address),
            ("Authorization", &bearer),
            ("Content-Type", "application/json"),
        ];
        let path = format!("/v1/sessions/{id}/turns");
        let head = head("POST", &path, &headers, body.len());
        send_to(address, &head, body.as_bytes())
    };
    for id in &made {
        ask(id).expect(200);
    }
    let before = resident(&daemon);
    let tried: Vec<(u32, Value)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..10 * ALLOWED)
            .map(|n| {
                let (id, ask) = (&made[n % ALLOWED], &ask);
                scope.spawn(move || {
                    let mut refused = 0;
                    loop {
                        let reply = ask(id);
                        if reply.status == 200 {
                            return (refused, reply.json());
                        }
                        let reply = reply.expect(429);
                        let after = reply.header("retry-after").unwrap().parse::<u64>().unwrap();
                        assert!((1..=60).contains(&after), "{after}");
                        reply.problem("busy");
                        refused += 1;
                        assert!(refused < 100_000, "it never has room again");
                    }
                })
            })
            .collect();
        // Whoever watches over it is answered all the while.
        while clients.iter().any(|client| !client.is_finished()) {
            daemon.get("/healthz").expect(200);
            daemon.get("/readyz").expect(200);
        }
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    assert!(
        tried.iter().any(|(refused, _)| *refused > 0),
        "it was never too much"
    );
    assert!(tried.iter().all(|(_, turn)| turn["state"] == "answered"));
    let grown = resident(&daemon).saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more");
    let turns: usize = made
        .iter()
        .map(|id| {
            let all = daemon.json(&format!("/v1/sessions/{id}/turns?limit=500"));
            all["items"].as_array().unwrap().len()
        })
        .sum();
    assert_eq!(
        turns,
        ALLOWED + 10 * ALLOWED,
        "what was turned away was not begun"
    );
    daemon.stop();
}

#[test]
fn a_cursor_from_before_a_vacuum_goes_on_where_it_was() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let daemon = Daemon::start(&place);
    let said = "What was said is long. ".repeat(200);
    let new = json!({"messages": [{"role": "user", "content": said}]});
    let session = || daemon.session(&new);
    let gone: Vec<String> = (0..8).map(|_| session()).collect();
    let kept = session();
    let task = json!({"task": "What was said?", "agents": ["facts"]});
    daemon
        .post(&format!("/v1/sessions/{kept}/turns"), &task)
        .expect(200);
    let events_between = |daemon: &Daemon, after: u64, upto: u64| -> Vec<(u64, String)> {
        let path = format!("/v1/sessions/{kept}/events");
        let after = after.to_string();
        let headers = [("Last-Event-ID", after.as_str())];
        let events = daemon
            .request_with("GET", &path, &headers, None)
            .expect(200)
            .events();
        let events = events.filter_map(|event| Some((event.id?, event.data)));
        let mut all = Vec::new();
        for event in events {
            let id = event.0;
            all.push(event);
            if id == upto {
                break;
            }
        }
        all
    };
    let whole = daemon.get(&format!("/v1/sessions/{kept}")).json();
    let now = whole["events"].as_u64().unwrap();
    let before = events_between(&daemon, 0, now);
    for id in &gone {
        daemon.delete(&format!("/v1/sessions/{id}")).expect(204);
    }
    daemon.stop();
    let shrunk = place.json(&["vacuum"]);
    assert!(
        shrunk["after_bytes"].as_u64() <= shrunk["before_bytes"].as_u64(),
        "{shrunk}"
    );

    let daemon = Daemon::start(&place);
    let half = now / 2;
    assert_eq!(
        events_between(&daemon, half, now),
        before[half as usize..],
        "no gap, nothing twice"
    );
    daemon
        .post(&format!("/v1/sessions/{kept}/turns"), &task)
        .expect(200);
    let later = daemon.get(&format!("/v1/sessions/{kept}")).json();
    let later = later["events"].as_u64().unwrap();
    let rest = events_between(&daemon, now, later);
    assert!((now + 1..=later).eq(rest.iter().map(|(id, _)| *id)));
    let headers = [("Last-Event-ID", "3")];
    let path = format!("/v1/sessions/{}/events", gone[0]);
    let none = daemon
        .request_with("GET", &path, &headers, None)
        .expect(404);
    none.problem("not_found");
    daemon.stop();
}

/// Opens a connection and sends that; what comes back until the other side ends it.
fn raw(address: &str, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A connection that is cut says what it has to say before.
    stream.read_to_end(&mut said).ok();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_client_that_waits_to_send_a_body_learns_first_that_it_is_too_large() {
    let place = Place::with_config("[server]\nbody_limit_bytes = 4_096\n");
    let daemon = Daemon::start(&place);
    let bearer = format!("Bearer {}", daemon.token);
    let headers = [
        ("Host", daemon.address.as_str()),
        ("Authorization", &bearer),
        ("Content-Type", "application/json"),
        ("A2A-Version", "1.0"),
        ("Expect", "100-continue"),
    ];
    for path in [
        "/v1/sessions",
        "/v1/imports?name=a.txt",
        "/v1/triggers/none",
        "/openai/v1/chat/completions",
        "/a2a",
        "/a2a/message:send",
        "/mcp",
        "/settings",
    ] {
        let head = head("POST", path, &headers, 4_097);
        let answer = rest(raw(&daemon.address, &head));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
    }
    // One that is not too large is asked for.
    let body = "{\"title\":\"A\"}";
    let head = head("POST", "/v1/sessions", &headers, body.len());
    let mut stream = raw(&daemon.address, &head);
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    daemon.stop();
}

#[test]
fn a_body_in_pieces_that_is_too_large_is_refused_as_a_problem() {
    let place = Place::with_config("[server]\nbody_limit_bytes = 4_096\n");
    let daemon = Daemon::start(&place);
    let to = (daemon.address.as_str(), daemon.token.as_str());
    let pieces = format!("1388\r\n{}\r\n0\r\n\r\n", " ".repeat(5_000));
    for path in ["/v1/sessions", "/v1/blobs", "/v1/imports?name=a.txt"] {
        let head = json_head(to, "POST", path, &[("Transfer-Encoding", "chunked")], 0);
        let refused = send_to(&daemon.address, &head, pieces.as_bytes()).expect(413);
        let detail = refused.problem("too_large");
        assert!(
            detail.contains("server.body_limit_bytes"),
            "{path}: {detail}"
        );
    }
    daemon.stop();
}

#[test]
fn with_all_connections_taken_it_still_says_that_it_lives() {
    const ALLOWED: usize = 3;
    let place = Place::with_config(&format!("[server]\nconnections = {ALLOWED}\n"));
    let daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let id = daemon.session(&new);
    let path = format!("/v1/sessions/{id}/events");
    let listen = || {
        let reply = daemon.get(&path);
        (reply.status == 200).then_some(reply)
    };
    // A connection of before may still be on its way out.
    let mut held = Vec::new();
    for _ in 0..10_000 {
        held.extend(listen());
        if held.len() == ALLOWED {
            break;
        }
    }
    assert_eq!(held.len(), ALLOWED);
    for _ in 0..100 {
        daemon.get("/healthz").expect(200);
        daemon.get("/readyz").expect(200);
    }
    let refused = daemon.get("/v1/sessions").expect(429);
    assert!(refused.header("retry-after").is_some());
    assert!(refused.problem("busy").contains("server.connections"));
    daemon.request("GET", "/nowhere", None).expect(429);
    held.pop();
    let again = (0..10_000).find(|_| daemon.get("/v1/sessions").status == 200);
    assert!(again.is_some(), "its place is free again");
    drop(held);
    daemon.stop();
}

#[test]
fn more_requests_than_allowed_in_a_second_are_told_to_come_back() {
    let place = Place::with_config("[server]\nrequests_per_second = 2\n");
    let daemon = Daemon::start(&place);
    let refused = (0..1_000).find_map(|_| {
        let reply = daemon.get("/v1/agents");
        (reply.status != 200).then_some(reply)
    });
    let refused = refused
        .expect("two a second were never exceeded")
        .expect(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(
        refused
            .problem("busy")
            .contains("server.requests_per_second")
    );
    let wrong = head(
        "GET",
        "/v1/agents",
        &[("Host", &daemon.address), ("Authorization", "Bearer x")],
        0,
    );
    let guessed = (0..1_000).any(|_| daemon.send(&wrong, b"").status == 429);
    assert!(guessed, "guesses at the token count");
    for _ in 0..20 {
        daemon.get("/healthz").expect(200);
    }
    daemon.stop();
}

#[test]
fn who_neither_sends_nor_takes_loses_the_connection() {
    let place = Place::with_config("[server]\nstall_seconds = 1\nrequests = 3\n");
    let daemon = Daemon::start(&place);
    let address = daemon.address.as_str();
    let bearer = format!("Bearer {}", daemon.token);
    let json = [
        ("Host", address),
        ("Authorization", &bearer),
        ("Content-Type", "application/json"),
    ];
    let half_a_head = "GET /v1/sessions HTTP/1.1\r\nHost: ";
    let half_a_body = head("POST", "/v1/sessions", &json, 100) + "{\"title\":";
    let heads = raw(address, half_a_head);
    let bodies = [raw(address, &half_a_body), raw(address, &half_a_body)];
    // Nobody reads what these are sent, and it is more than the system takes for them.
    let page =
        head("GET", "/static/page.css", &[("Host", address)], 0).replace("close", "keep-alive");
    let mut unread = TcpStream::connect(address).unwrap();
    unread.set_write_timeout(Some(PATIENCE)).unwrap();
    let cut = (0..1_000_000).any(|_| unread.write_all(page.as_bytes()).is_err());
    assert!(cut, "it is sent answers for ever");
    assert!(!rest(heads).contains(" 200 "));
    for body in bodies {
        let said = rest(body);
        assert!(
            said.starts_with("HTTP/1.1 400") && said.contains("came for 1 s"),
            "{said}"
        );
    }
    daemon.get("/v1/sessions").expect(200);
    daemon.stop();
}

#[test]
fn heads_that_are_too_large_are_refused_and_cost_nothing() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let address = daemon.address.as_str();
    let bearer = format!("Bearer {}", daemon.token);
    let base = [("Host", address), ("Authorization", &bearer)];
    let long = "x".repeat(200_000);
    let mut large = base.to_vec();
    large.push(("X-Large", &long));
    let said = rest(raw(address, &head("GET", "/v1/agents", &large, 0)));
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let names: Vec<String> = (0..101).map(|n| format!("X-{n}")).collect();
    let mut many = base.to_vec();
    many.extend(names.iter().map(|name| (name.as_str(), "x")));
    let said = rest(raw(address, &head("GET", "/v1/agents", &many, 0)));
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let path = format!("/v1/agents?q={long}");
    let said = rest(raw(address, &head("GET", &path, &base, 0)));
    assert!(!said.contains(" 200 "), "{said}");
    daemon.get("/v1/agents").expect(200);
    daemon.stop();
}
