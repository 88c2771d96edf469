//! Commands and clients whose turn waits for a person's decision about a call: they do not wait as
//! long as the turn.

use std::slice;

use serde_json::json;

use crate::a2a::{Client, says};
use crate::hooks::hook;
use crate::http::Daemon;
use crate::people::{Caller, of_owner};
use crate::support::{Going, awaited, until};
use crate::tools::{Scene, program};

/// A call that a person must approve, and the answer after it, with further settings.
fn scene(more: &str) -> Scene {
    let send = ("files__send", json!({"text": "the invoice"}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), more)
}

#[test]
fn the_time_of_a_command_ends_a_turn_that_waits_for_approval() {
    let file = ["run", "talk.json", "--task", "Do it."];
    let session = ["delegate", "latest", "facts", "--task", "Do it."];
    let timeout = ["--timeout", "2s", "--json"];
    let scene = scene("");
    for command in [&file[..], &session] {
        let report = scene.call(&[command, &timeout].concat()).expect(124).json();
        assert_eq!(report["state"], "timeout", "{report}");
        assert_eq!(scene.waiting(), json!([]), "the call is withdrawn");
    }
    assert_eq!(scene.count("call send "), 0);
}

#[test]
fn a_client_of_openai_learns_that_its_turn_waits_and_finds_the_answer_later() {
    // A call may also begin to wait when its hook has let it through.
    let silent = hook("before_tool_call", "exit 0", "");
    let cases = [(false, ""), (true, ""), (false, &*silent), (true, &*silent)];
    for (stream, more) in cases {
        let scene = scene(more);
        let daemon = Daemon::keyed(&scene.place);
        let messages = json!([{"role": "user", "content": "Do it."}]);
        let request = json!({"model": "clerk", "messages": messages, "stream": stream});
        let reply = daemon.post("/openai/v1/chat/completions", &request);
        let said = match stream {
            true => reply.expect(200).text(),
            false => reply.expect(422).text(),
        };
        let waiting = daemon.get("/v1/approvals").expect(200).json()["items"][0].clone();
        let call = waiting["call"].as_str().unwrap();
        for says in [
            "waits for a person",
            &format!("unisono approvals approve {call}"),
            "\"code\":\"refused\"",
        ] {
            assert!(said.contains(says), "{says}: {said}");
        }
        let at = format!("/v1/approvals/{call}");
        daemon
            .post(&at, &json!({"decision": "approve"}))
            .expect(200);
        let id = |key: &str| waiting[key].as_str().unwrap().to_owned();
        let turn = format!("/v1/sessions/{}/turns/{}", id("session"), id("turn"));
        assert!(said.contains(&turn), "{said}");
        daemon.get(&format!("{turn}/events")).expect(200).text();
        let ended = daemon.get(&turn).expect(200).json();
        assert_eq!(ended["answer"], "Told: send: the invoice", "{ended}");
        daemon.stop();
    }
}

/// Begins a turn whose call waits for approval: the session's turns, and the call.
fn held_turn(daemon: &Daemon) -> (String, String) {
    let id = daemon.session(&json!({}));
    let turns = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Do it.", "wait": false});
    daemon.post(&turns, &task).expect(202);
    let waiting = daemon.awaited("/v1/approvals", |all| all["items"][0].is_object());
    let call = waiting["items"][0]["call"].as_str().unwrap();
    (turns, call.to_owned())
}

#[test]
fn a_request_of_openai_behind_a_turn_that_waits_begins_no_turn() {
    let scene = scene("");
    let daemon = Daemon::keyed(&scene.place);
    let (turns, call) = held_turn(&daemon);
    let session = turns.split('/').nth(3).unwrap();
    let first = json!({"role": "user", "content": "Do it."});
    let next = json!({"role": "user", "content": "And this."});
    for messages in [json!([next]), json!([first, next])] {
        for stream in [false, true] {
            let request = json!({"model": "clerk", "messages": messages, "stream": stream,
                                 "metadata": {"session": session}});
            let reply = daemon.post("/openai/v1/chat/completions", &request);
            let said = reply.expect(422).text();
            for says in [
                "waits for a person",
                &format!("unisono approvals approve {call}"),
                "No other turn was begun",
                "\"code\":\"refused\"",
            ] {
                assert!(said.contains(says), "{says}: {said}");
            }
        }
    }
    let all = daemon.get(&turns).expect(200).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all}");
    daemon.stop();
}

#[test]
fn a_queued_turn_tells_of_the_call_that_it_waits_for() {
    let scene = scene("");
    let daemon = Daemon::keyed(&scene.place);
    let (turns, call) = held_turn(&daemon);
    let session = turns.split('/').nth(3).unwrap();
    // On the command line.
    let args = ["delegate", session, "facts", "--task", "And this."];
    let mut going = Going::start(scene.command(&args));
    going.wait_for(&["an earlier turn of this branch"]);
    going.wait_for(&["clerk calls files__send"]);
    going.wait_for(&["unisono approvals approve"]);
    // For programs: from the beginning, and from now on.
    let task = json!({"task": "And that.", "wait": false});
    let queued = daemon.post(&turns, &task).expect(202).json();
    let queued = format!("{turns}/{}", queued["turn"].as_str().unwrap());
    for after in ["?after=0", ""] {
        let events = daemon.get(&format!("{queued}/events{after}"));
        let mut events = events.expect(200).events();
        let told = events.find(|event| event.data.contains(&call)).unwrap();
        let expected = if after.is_empty() { "state" } else { "waiting" };
        assert_eq!(told.name, expected, "{told:?}");
        assert!(told.id.is_some(), "{told:?}");
    }
    // For agents of other programs, which wait for an answer.
    let mut message = says("m1", "And more.");
    message["contextId"] = json!(session);
    let team = Client::of(&daemon);
    let task = team.rpc("SendMessage", &json!({"message": message}))["task"].clone();
    assert_eq!(
        task["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{task}"
    );
    assert!(task["status"].to_string().contains(&call), "{task}");
    let query = json!({"contextId": session, "status": "TASK_STATE_INPUT_REQUIRED"});
    let listed = team.rpc("ListTasks", &query)["tasks"].to_string();
    assert!(listed.contains(task["id"].as_str().unwrap()), "{listed}");
    let events = daemon.get(&format!("{queued}/events?after=0"));
    let mut events = events.expect(200).events();
    let at = format!("/v1/approvals/{call}");
    daemon.post(&at, &json!({"decision": "deny"})).expect(200);
    let told = events.find(|event| event.name == "decided").unwrap();
    assert!(
        told.data.contains(&call) && told.data.contains("denied"),
        "{told:?}"
    );
    // The daemon would wait for the end of a turn that somebody follows.
    drop(events);
    going.signal("KILL");
    daemon.stop();
}

/// Waits until the head of the pages that a caller sees has this number of waiting calls.
fn counts(caller: &Caller<'_>, calls: &str) {
    awaited(|| {
        let page = caller.get("/approvals/count").expect(200).text();
        let shown = page.split_once("<span class=\"you\">");
        let shown = shown.and_then(|(_, rest)| rest.split_once('<'));
        match shown.map_or("", |(number, _)| number) == calls {
            true => Ok(()),
            false => Err(format!("{calls:?}: {page}")),
        }
    });
}

#[test]
fn the_head_of_a_page_counts_the_waiting_calls_that_its_viewer_sees() {
    let scene = scene("");
    let daemon = Daemon::start(&scene.place);
    let ada = of_owner(&daemon, "ada", "approve");
    let bob = of_owner(&daemon, "bob", "approve");
    let (of_ada, of_bob) = (ada.token.clone(), bob.token.clone());
    counts(&ada, "");
    let id = ada.session(&json!({}));
    let turns = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "Do it.", "wait": false});
    ada.post(&turns, &task).expect(202);
    counts(&ada, "1");
    counts(&bob, "");
    // It is in every page, and waits over a restart.
    let number = "<span class=\"you\">1</span>";
    until("another page has no number", || {
        ada.get("/usage").expect(200).text().contains(number)
    });
    // The list of sessions marks the one with the call, for those who see it.
    let badge = format!("href=\"/sessions/{id}#waiting\"");
    let marks = |caller: &Caller<'_>| caller.get("/").expect(200).text().contains(&badge);
    until("the session is not marked", || marks(&ada));
    assert!(!marks(&bob));
    daemon.stop();
    let daemon = Daemon::start(&scene.place);
    let caller = |token: &str| Caller::new(&daemon, token);
    let (ada, bob) = (caller(&of_ada), caller(&of_bob));
    let whole = caller(&daemon.token);
    for (caller, calls) in [(&bob, ""), (&whole, "1"), (&ada, "1")] {
        counts(caller, calls);
    }
    let waiting = ada.get("/v1/approvals").expect(200).json();
    let call = waiting["items"][0]["call"].as_str().unwrap();
    ada.post(
        &format!("/v1/approvals/{call}"),
        &json!({"decision": "deny"}),
    )
    .expect(200);
    for caller in [&ada, &whole] {
        counts(caller, "");
        assert!(!marks(caller));
    }
    daemon.stop();
}

#[test]
fn the_list_has_the_waiting_calls_of_all_sessions_that_its_reader_sees() {
    let scene = scene("");
    let daemon = Daemon::start(&scene.place);
    let ada = of_owner(&daemon, "ada", "approve");
    let bob = of_owner(&daemon, "bob", "approve");
    let hold = |caller: &Caller<'_>| {
        let made = caller.post("/v1/sessions", &json!({})).expect(201).json();
        let session = made["session"].as_str().unwrap().to_owned();
        let turns = format!("/v1/sessions/{session}/turns");
        let task = json!({"task": "Do it.", "wait": false});
        caller.post(&turns, &task).expect(202);
        let own = format!("/v1/approvals?session={session}");
        until("no call waits", || {
            caller.get(&own).expect(200).json()["items"] != json!([])
        });
        session
    };
    let list = |caller: &Caller<'_>| {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/approvals?limit=1{cursor}");
            let page = caller.get(&path).expect(200).json();
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    };
    let sessions = |items: &[serde_json::Value]| -> Vec<String> {
        let each = items.iter();
        each.map(|call| call["session"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(list(&ada).is_empty());
    let (first, of_bob, last) = (hold(&ada), hold(&bob), hold(&ada));
    let of_ada = list(&ada);
    assert_eq!(sessions(&of_ada), [first.clone(), last.clone()]);
    assert_eq!(sessions(&list(&bob)), slice::from_ref(&of_bob));
    let deny = json!({"decision": "deny"});
    let at = format!("/v1/approvals/{}", of_ada[0]["call"].as_str().unwrap());
    bob.post(&at, &deny).expect(404);
    ada.post(&at, &deny).expect(200);
    assert_eq!(sessions(&list(&ada)), slice::from_ref(&last));
    let whole = Caller::new(&daemon, &daemon.token);
    assert_eq!(sessions(&list(&whole)), [of_bob, last]);
    daemon.stop();
}
