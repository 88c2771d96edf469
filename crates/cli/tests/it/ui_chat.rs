//! A chat of AI SDK UI that goes on behind an answer that failed, was cancelled, or is being written.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, Gate, Script, block_on};

use crate::client_tools::Scene;
use crate::http::{Daemon, Events};
use crate::summaries;
use crate::support::{HasAll as _, example, until};
use crate::tools;

fn asks(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}

fn answer(turn: &Value) -> Value {
    json!({"id": turn, "role": "assistant", "parts": []})
}

/// Sends the messages of a chat; its answer as it comes.
fn chat(daemon: &Daemon, session: &str, messages: &[&Value]) -> Events {
    let path = format!("/v1/sessions/{session}/chat");
    let request = daemon.post(&path, &json!({"messages": messages}));
    request.expect(200).events()
}

/// The next part of an answer.
fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().unwrap().data).unwrap()
}

/// The parts of an answer up to its end.
fn rest(events: Events) -> Vec<Value> {
    let parts = events.map(|event| event.data);
    let parts = parts.take_while(|data| data != "[DONE]");
    parts
        .map(|data| serde_json::from_str(&data).unwrap())
        .collect()
}

fn text(parts: &[Value]) -> String {
    let texts = parts.iter().filter_map(|part| part["delta"].as_str());
    texts.collect()
}

#[test]
fn a_chat_goes_on_after_an_answer_that_failed_or_was_cancelled() {
    let gate = Gate::new();
    let held = gate.clone();
    let scene = Scene::scripted(Script::by(move |request| {
        let body = request.json().to_string();
        let refusal = r#"{"error": {"message": "no", "type": "invalid_request_error"}}"#;
        match body {
            body if body.contains("Where, then?") => Act::answer(Answer::text("Three.")),
            body if body.contains("And where?") => Act::from(Answer::text("Two.")).hold(&held),
            body if body.contains("And which hour?") => Act::answer(Answer::text("One.")),
            _ => Act::json(400, refusal),
        }
    }));
    let daemon = Daemon::start(&scene.place);
    let session = daemon.session(&json!({}));
    let first = asks("m1", "Which day?");
    let failed = rest(chat(&daemon, &session, &[&first]));
    assert_eq!(failed.last().unwrap()["type"], "error", "{failed:?}");
    let failed = answer(&failed[0]["messageId"]);

    let second = asks("m2", "And which hour?");
    let answered = rest(chat(&daemon, &session, &[&first, &failed, &second]));
    assert_eq!(text(&answered), "One.", "{answered:?}");
    assert_eq!(answered[0]["messageMetadata"]["branch"], "main");
    let sent = scene.sent().pop().unwrap().to_string();
    sent.has_all(&["Which day?", "And which hour?"]);

    let answered = answer(&answered[0]["messageId"]);
    let third = asks("m3", "And where?");
    let mut open = chat(
        &daemon,
        &session,
        &[&first, &failed, &second, &answered, &third],
    );
    let turn = next(&mut open)["messageId"].clone();
    let path = format!(
        "/v1/sessions/{session}/turns/{}/cancel",
        turn.as_str().unwrap()
    );
    daemon.post(&path, &json!({})).expect(200);
    assert_eq!(rest(open).last().unwrap()["type"], "abort");
    gate.open();
    let (cancelled, fourth) = (answer(&turn), asks("m4", "Where, then?"));
    let last = [
        &first, &failed, &second, &answered, &third, &cancelled, &fourth,
    ];
    let last = rest(chat(&daemon, &session, &last));
    assert_eq!(last[0]["messageMetadata"]["branch"], "main");
    assert_eq!(text(&last), "Three.", "{last:?}");
    daemon.stop();
}

#[test]
fn a_message_waits_for_the_answer_before_it_that_is_being_written() {
    let gate = Gate::new();
    let scene = Scene::scripted(Script::sequence([
        Act::from(Answer::text("One.")).hold(&gate),
        Act::answer(Answer::text("Two.")),
    ]));
    let daemon = Daemon::start(&scene.place);
    let session = daemon.session(&json!({}));
    let first = asks("m1", "Which day?");
    let mut open = chat(&daemon, &session, &[&first]);
    let turn = next(&mut open)["messageId"].clone();
    // The page stops to read the answer.
    drop(open);
    let (left, second) = (answer(&turn), asks("m2", "And which hour?"));
    let mut waiting = chat(&daemon, &session, &[&first, &left, &second]);
    assert_ne!(next(&mut waiting)["messageId"], turn);
    gate.open();
    assert_eq!(text(&rest(waiting)), "Two.");
    let sent = scene.sent().pop().unwrap().to_string();
    sent.has_all(&["One.", "And which hour?"]);

    // A turn of nowhere is no answer of this session.
    let nowhere = answer(&json!("01921111-0000-7000-8000-000000000002"));
    let path = format!("/v1/sessions/{session}/chat");
    let messages = json!({"messages": [first, nowhere, asks("m3", "Who?")]});
    let refused = daemon.post(&path, &messages).expect(409);
    assert!(refused.problem("conflict").contains("is not known"));
    daemon.stop();
}

/// The values of a field of the parts of this type.
fn of_kind<'p>(parts: &'p [Value], kind: &str, field: &str) -> Vec<&'p Value> {
    let parts = parts.iter().filter(|part| part["type"] == kind);
    parts.map(|part| &part[field]).collect()
}

#[test]
fn an_answer_that_comes_again_has_its_earlier_calls_and_asks_about_none_of_them() {
    let call = |text: &str| ("files__send", json!({"text": text}));
    let rules = tools::program("approve = [\"send\"]");
    let scene = tools::Scene::new(&[&[call("one")], &[call("two")]], &rules, "");
    let daemon = Daemon::keyed(&scene.place);
    let session = daemon.session(&json!({}));
    let asked = asks("m1", "Do it.");
    let first = rest(chat(&daemon, &session, &[&asked]));
    let [one] = of_kind(&first, "tool-approval-request", "approvalId")[..] else {
        panic!("{first:?}");
    };
    let decision = format!("/v1/approvals/{}", one.as_str().unwrap());
    daemon
        .post(&decision, &json!({"decision": "approve"}))
        .expect(200);
    let waits = || daemon.json("/v1/approvals")["items"][0]["call"].clone();
    until("the second call waits", || {
        let waits = waits();
        waits.is_string() && waits != *one
    });
    let two = waits();
    let again = daemon.get(&format!("/v1/sessions/{session}/chat/any/stream"));
    let again = rest(again.expect(200).events());
    let sent_again = rest(chat(&daemon, &session, &[&asked]));
    for parts in [again, sent_again] {
        let of_kind = |kind: &str| of_kind(&parts, kind, "toolCallId");
        assert_eq!(of_kind("tool-input-available"), [one, &two], "{parts:?}");
        assert_eq!(of_kind("tool-output-available"), [one], "{parts:?}");
        assert_eq!(of_kind("tool-approval-request"), [&two], "{parts:?}");
    }
    let turn = first[0]["messageId"].as_str().unwrap();
    let cancel = format!("/v1/sessions/{session}/turns/{turn}/cancel");
    daemon.post(&cancel, &json!({})).expect(200);
    daemon.stop();
}

#[test]
fn a_call_of_the_answer_before_is_no_part_of_an_answer_that_comes_again() {
    let call: (&str, Value) = ("files__send", json!({"text": "one"}));
    let rules = tools::program("approve = [\"send\"]");
    let scene = tools::Scene::new(&[&[call]], &rules, "");
    let daemon = Daemon::keyed(&scene.place);
    let session = daemon.session(&json!({}));
    let (first, second) = (asks("m1", "Do it."), asks("m2", "Do it again."));
    let asked = rest(chat(&daemon, &session, &[&first]));
    let before = answer(&asked[0]["messageId"]);
    // The second turn waits for the first one, and asks about its call.
    let queued = rest(chat(&daemon, &session, &[&first, &before, &second]));
    let [one] = of_kind(&queued, "tool-approval-request", "approvalId")[..] else {
        panic!("{queued:?}");
    };
    let decision = format!("/v1/approvals/{}", one.as_str().unwrap());
    daemon
        .post(&decision, &json!({"decision": "approve"}))
        .expect(200);
    let waits = || daemon.json("/v1/approvals")["items"][0]["call"].clone();
    until("the call of the second turn waits", || {
        let waits = waits();
        waits.is_string() && waits != *one
    });
    let again = daemon.get(&format!("/v1/sessions/{session}/chat/any/stream"));
    let again = rest(again.expect(200).events());
    let calls = of_kind(&again, "tool-input-available", "toolCallId");
    assert_eq!(calls, [&waits()], "{again:?}");
    let turn = queued[0]["messageId"].as_str().unwrap();
    let cancel = format!("/v1/sessions/{session}/turns/{turn}/cancel");
    daemon.post(&cancel, &json!({})).expect(200);
    daemon.stop();
}

#[test]
fn an_open_compaction_is_no_answer_that_comes_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let summary = move || Act::from(Answer::text(summaries::SUMMARY)).hold(&held);
    let (place, provider) = summaries::place(summary);
    let imported = place.keyed_json(&["import", &example(), "--json"]);
    let daemon = Daemon::keyed(&place);
    let path = format!("/v1/sessions/{}", imported["session"].as_str().unwrap());
    daemon.post(&format!("{path}/compactions"), &json!({"wait": false}));
    block_on(provider.wait_for(1));
    daemon.get(&format!("{path}/chat/any/stream")).expect(204);
    gate.open();
    daemon.stop();
}
