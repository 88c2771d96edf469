//! An expired token: every door refuses it in its own form, and streams that it opened end.

use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use unisono_fake_provider::{Gate, Script, block_on};

use crate::a2a::{held, says, scripted};
use crate::http::{Daemon, Reply};
use crate::people::{Caller, caller};
use crate::support::{PATIENCE, Place};

/// The method, path, headers and body of a request.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<Value>);

const A2A: [(&str, &str); 1] = [("A2A-Version", "1.0")];

fn message(n: usize) -> Value {
    json!({"message": says(&format!("m{n}"), "When?")})
}

fn completion(stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": "When?"}]);
    json!({"model": "team", "messages": messages, "stream": stream})
}

fn chat() -> Value {
    let parts = json!([{"type": "text", "text": "When?"}]);
    json!({"messages": [{"id": "c1", "role": "user", "parts": parts}], "agents": []})
}

fn called(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[test]
fn every_door_refuses_an_expired_token_and_says_why() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let new = json!({"name": "brief", "scope": "admin", "expires_seconds": 1});
    let brief = caller(&daemon, &new);
    let session = daemon.session(&json!({}));
    let at = format!("/v1/sessions/{session}");
    while brief.get("/v1/sessions").status == 200 {
        thread::yield_now();
    }
    let of_mcp = [
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let task = json!({"task": "When?", "agents": []});
    let responses = json!({"model": "team", "input": "When?"});
    let events = format!("{at}/events?after=0");
    let (turns, chats) = (format!("{at}/turns"), format!("{at}/chat"));
    let rows: [Row<'_>; 14] = [
        ("GET", "/v1/sessions", &[], None),
        ("GET", &events, &[], None),
        ("GET", "/v1/archive", &[], None),
        ("POST", &turns, &[], Some(task)),
        ("POST", &chats, &[], Some(chat())),
        ("GET", "/openai/v1/models", &[], None),
        (
            "POST",
            "/openai/v1/chat/completions",
            &[],
            Some(completion(false)),
        ),
        (
            "POST",
            "/openai/v1/chat/completions",
            &[],
            Some(completion(true)),
        ),
        ("POST", "/openai/v1/responses", &[], Some(responses)),
        (
            "POST",
            "/mcp",
            &of_mcp,
            Some(called("tools/list", &json!({}))),
        ),
        (
            "POST",
            "/a2a",
            &A2A,
            Some(called("SendMessage", &message(1))),
        ),
        (
            "POST",
            "/a2a",
            &A2A,
            Some(called("SendStreamingMessage", &message(2))),
        ),
        ("POST", "/a2a/message:send", &A2A, Some(message(3))),
        ("GET", "/a2a/tasks", &A2A, None),
    ];
    for (method, path, headers, body) in &rows {
        let refused = brief.send(method, path, headers, body.as_ref());
        let text = refused.expect(401).text();
        assert!(
            text.contains("the token brief has expired"),
            "{path}: {text}"
        );
        if path.starts_with("/openai/") {
            let error = serde_json::from_str::<Value>(&text).unwrap()["error"].take();
            assert_eq!(error["type"], "authentication_error", "{path}: {error}");
        }
    }
    let listed = daemon.get(&turns).expect(200).json();
    assert_eq!(listed["items"], json!([]), "nothing was begun");
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["items"].as_array().map(Vec::len), Some(1));
    daemon.stop();
}

/// Opens the streams of all doors; none if the token has expired meanwhile.
fn streams(brief: &Caller<'_>) -> Option<Vec<Reply>> {
    let made = brief.post("/v1/sessions", &json!({}));
    if made.status == 401 {
        return None;
    }
    let session = made.expect(201).json()["session"].take();
    let at = format!("/v1/sessions/{}", session.as_str().unwrap());
    let streamed = called("SendStreamingMessage", &message(1));
    let opened = vec![
        brief.get(&format!("{at}/events?after=0")),
        brief.post("/openai/v1/chat/completions", &completion(true)),
        brief.post(&format!("{at}/chat"), &chat()),
        brief.send("POST", "/a2a", &A2A, Some(&streamed)),
    ];
    if opened.iter().any(|reply| reply.status == 401) {
        return None;
    }
    Some(opened.into_iter().map(|reply| reply.expect(200)).collect())
}

#[test]
fn the_streams_of_every_door_end_when_their_token_expires() {
    let gate = Gate::new();
    let (provider, place) = scripted(Script::always(held(&gate, "On Friday.")), "");
    let daemon = Daemon::keyed(&place);
    let opened = [2, 8, 32].iter().find_map(|seconds| {
        let name = format!("brief-{seconds}");
        let new = json!({"name": name, "scope": "ask", "owner": "ada",
            "expires_seconds": seconds});
        streams(&caller(&daemon, &new))
    });
    let opened = opened.expect("the token expires too early");
    block_on(provider.wait_for(1));
    let count = opened.len();
    let (tell, ended) = mpsc::channel();
    for (n, reply) in opened.into_iter().enumerate() {
        let tell = tell.clone();
        thread::spawn(move || {
            let mut events = reply.events();
            while events.next().is_some() {}
            tell.send(n).unwrap();
        });
    }
    let mut all: Vec<usize> = (0..count)
        .map(|_| ended.recv_timeout(PATIENCE).expect("a stream goes on"))
        .collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    // The model has not answered yet: nothing else ended the streams.
    gate.open();
    daemon.stop();
}
