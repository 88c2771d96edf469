//! The tools of MCP that look: the list of sessions, filters of `search`, who said it and when.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::mcp::Spoken;
use crate::support::Place;

/// Imports a conversation of two messages, said that day in 2026.
fn imported(place: &Place, name: &str, month: u32) -> String {
    let at = |minute: u32| format!("2026-{month:02}-02T09:{minute:02}:00Z");
    let lines = [
        json!({"type": "session", "unisono": 1, "title": name}),
        json!({"type": "message", "role": "user", "author": "zoe", "at": at(14),
               "parts": [{"type": "text", "text": format!("The heron of {name} is purple.")}]}),
        json!({"type": "message", "role": "assistant", "author": "clerk", "at": at(15),
               "parts": [{"type": "text", "text": format!("Noted: a heron of {name}.")}]}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let file = format!("{name}.jsonl");
    place.write(&file, lines.join("\n"));
    place.call(&["import", &file]).expect(0);
    let sessions = place.json(&["sessions", "list"]);
    sessions[0]["session"].as_str().unwrap().to_owned()
}

fn called(server: &mut Spoken, name: &str, arguments: Value) -> Value {
    let call = json!({"name": name, "arguments": arguments});
    let (answer, _) = server.ask(7, "tools/call", call);
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    answer["result"].clone()
}

#[test]
fn sessions_are_listed_from_the_newest_on() {
    let place = Place::new();
    let all: Vec<String> = (1..=3)
        .rev()
        .map(|n| imported(&place, &format!("shop{n}"), n))
        .collect();
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let (mut listed, mut cursor) = (Vec::new(), json!({"limit": 2}));
    for left in [1, 0] {
        let reply = called(&mut server, "sessions", cursor.clone())["structuredContent"].clone();
        let sessions = reply["sessions"].as_array().unwrap().iter();
        let ids = sessions.map(|one| one["session"].as_str().unwrap().to_owned());
        listed.extend(ids);
        assert_eq!(reply["next"].is_null(), left == 0, "{reply}");
        cursor["cursor"] = reply["next"].clone();
    }
    let newest: Vec<String> = all.into_iter().rev().collect();
    assert_eq!(listed, newest);
    server.end();
}

#[test]
fn a_search_keeps_to_a_session_and_to_dates() {
    let place = Place::new();
    let old = imported(&place, "lake", 2);
    let new = imported(&place, "sea", 9);
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let mut found = |query: String| {
        let reply = called(&mut server, "search", json!({"query": query}));
        let reply = reply["structuredContent"].clone();
        assert_eq!(reply["notes"], json!([]), "{query}: {reply}");
        let mut ids: Vec<String> = reply["found"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["session"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let (old, new) = (old.as_str(), new.as_str());
    assert_eq!(found("heron".into()), [old, new]);
    for session in [old, new] {
        assert_eq!(found(format!("heron session:{session}")), [session]);
        // The end tells them apart: both were made in the same moment.
        let (_, end) = session.rsplit_once('-').unwrap();
        assert_eq!(found(format!("heron session:{end}")), [session]);
    }
    for key in ["after", "since"] {
        assert_eq!(found(format!("heron {key}:2026-06-01")), [new]);
        assert_eq!(found(format!("heron {key}:2026-09-02")), [new]);
        assert_eq!(found(format!("heron {key}:2026-09-03")), [""; 0]);
    }
    for key in ["before", "until"] {
        assert_eq!(found(format!("heron {key}:2026-06-01")), [old]);
    }
    let both = format!("heron session:{old} after:2026-06-01");
    assert_eq!(found(both), [""; 0]);
    let wrong = called(&mut server, "search", json!({"query": "heron after:soon"}));
    let text = wrong["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("after:soon is left out"), "{text}");
    server.end();
}

#[test]
fn sessions_are_listed_by_their_labels() {
    let place = Place::new();
    let other = imported(&place, "lake", 2);
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    let asked = called(&mut server, "ask", json!({"task": "Hello.", "agents": []}));
    let made = asked["structuredContent"]["turn"]["session"].clone();
    assert_ne!(made, other);
    for label in ["channel=mcp", "channel"] {
        let reply = called(&mut server, "sessions", json!({"label": label}));
        let reply = &reply["structuredContent"]["sessions"];
        assert_eq!(reply.as_array().unwrap().len(), 1, "{reply}");
        assert_eq!(reply[0]["session"], made);
    }
    let none = called(&mut server, "sessions", json!({"label": "channel=irc"}));
    assert_eq!(none["structuredContent"]["sessions"], json!([]));
    server.end();
}

#[test]
fn a_long_title_or_label_does_not_flood_a_model() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let long = "heron ".repeat(20_000);
    let new = json!({"title": long, "labels": {"team": "shop", "note": long},
        "messages": [{"role": "user", "content": "The heron is purple."}]});
    daemon.session(&new);
    daemon.stop();
    let mut server = Spoken::start(&place);
    server.initialize("2025-11-25");
    for (tool, arguments, within) in [
        ("search", json!({"query": "purple"}), "found"),
        ("sessions", json!({"label": "team=shop"}), "sessions"),
    ] {
        let reply = called(&mut server, tool, arguments);
        let one = &reply["structuredContent"][within][0];
        assert!(
            one["title"].as_str().unwrap().starts_with("heron heron"),
            "{one}"
        );
        assert!(reply.to_string().len() < 5_000, "{tool}");
    }
    server.end();
}

#[test]
fn nothing_is_recalled_of_a_session_without_messages() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let made = daemon
        .post("/v1/sessions", &json!({"title": "Empty"}))
        .expect(201);
    let session = made.json()["session"].clone();
    daemon.stop();
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    for asked in [json!({"query": "heron"}), json!({"from": 1})] {
        let mut arguments = asked.clone();
        arguments["session"] = session.clone();
        let reply = called(&mut server, "recall", arguments);
        assert_eq!(
            reply["structuredContent"]["messages"],
            json!([]),
            "{asked}: {reply}"
        );
        let text = reply["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, "there are no messages yet", "{asked}");
    }
    server.end();
}

#[test]
fn what_is_found_says_who_said_it_and_when() {
    let place = Place::new();
    let session = imported(&place, "lake", 2);
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    for (tool, arguments, list) in rows! {
        ("search", json!({"query": "heron purple role:user"}), "found"),
        ("recall", json!({"session": session, "query": "heron purple", "limit": 1}), "messages"),
        ("recall", json!({"session": session, "from": 1}), "messages"),
    } {
        let reply = called(&mut server, tool, arguments);
        let one = &reply["structuredContent"][list][0];
        assert_eq!(one["author"], "zoe", "{reply}");
        assert_eq!(one["at"], "2026-02-02T09:14:00.000Z", "{reply}");
        assert_eq!((&one["ordinal"], &one["role"]), (&json!(1), &json!("user")));
        let text = reply["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("1 user zoe 2026-02-02"), "{tool}: {text}");
    }
    server.end();
}

#[test]
fn as_many_messages_are_recalled_as_are_wanted_up_to_twenty() {
    let place = Place::new();
    let said = (0..25).map(|n| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": format!("Heron {n} stands in the lake.")})
    });
    place.write("herons.json", said.collect::<Value>().to_string());
    place.call(&["import", "herons.json"]).expect(0);
    let sessions = place.json(&["sessions", "list"]);
    let session = &sessions[0]["session"];
    let mut server = Spoken::greeted(place.command(&["mcp"]));
    for (limit, count) in [(3, 3), (20, 20), (50, 20)] {
        let arguments = json!({"session": session, "query": "heron", "limit": limit});
        let reply = called(&mut server, "recall", arguments);
        let messages = reply["structuredContent"]["messages"].as_array().unwrap();
        assert_eq!(messages.len(), count, "{limit}: {reply}");
    }
    server.end();
}
