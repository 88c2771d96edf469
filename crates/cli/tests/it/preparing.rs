//! Summaries that a daemon writes ahead, over the wire: used by the next turn, shown, and lost.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};

use crate::http::Daemon;
use crate::support::{HasAll as _, Place, asks_for_a_summary};

const SUMMARY: &str = "## Context\n- Parts go to depots (#1).";

/// A place with a fake OpenAI; its first request for a summary waits at the gate.
fn place(gate: Option<Gate>) -> (Place, FakeProvider) {
    let first = std::sync::Mutex::new(gate);
    let script = Script::by(move |request| match asks_for_a_summary(request) {
        true => {
            let act = Act::answer(Answer::text(SUMMARY));
            match first.lock().unwrap().take() {
                Some(gate) => act.hold(&gate),
                None => act,
            }
        }
        false => Act::answer(Answer::text("All is well.")),
    });
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_openai(
        &provider,
        "[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nagents = []\n\
         [compaction]\ntrigger_tokens = 2500\nkeep_messages = 4\nprepare = \"on\"\n",
    );
    (place, provider)
}

fn long_input(n: usize) -> String {
    let lines =
        (0..60).map(|line| format!(" Part {line} of round {n} goes to depot {}.", line * n));
    format!("Round {n} begins here.{}", lines.collect::<String>())
}

fn turn(daemon: &Daemon, session: &str, n: usize) {
    let task = json!({"task": long_input(n), "wait": true});
    let path = format!("/v1/sessions/{session}/turns");
    let ended = daemon.post(&path, &task).expect(200).json();
    assert_eq!(ended["state"], "answered", "{ended}");
}

/// A session whose next turn compacts.
fn near(daemon: &Daemon) -> String {
    let messages = json!([{"role": "user", "content": "We begin."}]);
    let made = daemon.post("/v1/sessions", &json!({"messages": messages}));
    let session = made.expect(201).json()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    (1..=3).for_each(|n| turn(daemon, &session, n));
    session
}

/// The first event of this name.
fn event(daemon: &Daemon, session: &str, name: &str) -> Value {
    let found = daemon.events(session).find(|event| event.name == name);
    serde_json::from_str(&found.expect(name).data).unwrap()
}

fn call(place: &Place, args: &[&str]) -> String {
    place.keyed(args).expect(0).stdout
}

fn summaries(provider: &FakeProvider) -> usize {
    let requests = provider.requests().into_iter();
    requests.filter(asks_for_a_summary).count()
}

#[test]
fn a_summary_is_written_after_a_turn_shown_and_used_by_the_next_turn() {
    let (place, provider) = place(None);
    let daemon = Daemon::keyed(&place);
    let session = near(&daemon);
    event(&daemon, &session, "summary_prepared");
    let context = format!("/v1/sessions/{session}/context");
    let prepared = daemon.get(&context).expect(200).json()["prepared"].clone();
    assert_eq!(prepared["state"], "ready", "{prepared}");
    assert_eq!(prepared["model"], "openai/gpt-6-luna");
    let shown = call(&place, &["context"]);
    shown.has_all(&["is ready for the next compaction: "]);

    turn(&daemon, &session, 4);
    assert_eq!(
        summaries(&provider),
        1,
        "the turn did not wait for a summary"
    );
    let after = daemon.get(&context).expect(200).json();
    assert_eq!(after["prepared"], Value::Null);
    assert_eq!(after["summaries"].as_array().unwrap().len(), 1);
    let replayed = call(&place, &["replay", "latest"]);
    let line = "checkpoint 1 was written ahead, after an earlier turn";
    assert!(replayed.contains(line), "{replayed}");
    let metrics = daemon.get("/metrics").expect(200).text();
    for outcome in ["written", "used"] {
        let line = format!("unisono_prepared_summaries_total{{outcome=\"{outcome}\"}} 1\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn a_command_that_ends_with_its_turn_writes_nothing_ahead() {
    let (place, provider) = place(None);
    place.write("talk.json", r#"[{"role":"user","content":"We begin."}]"#);
    call(&place, &["import", "talk.json"]);
    for n in 1..=4 {
        call(
            &place,
            &["run", "--session", "latest", "--task", &long_input(n)],
        );
    }
    assert_eq!(summaries(&provider), 1, "the fourth turn compacts");
    let replayed = call(&place, &["replay", "latest"]);
    assert!(!replayed.contains("written ahead"), "{replayed}");
}

#[test]
fn a_daemon_that_was_killed_while_a_summary_was_written_requests_it_once_more() {
    let gate = Gate::new();
    let (place, provider) = place(Some(gate.clone()));
    let daemon = Daemon::keyed(&place);
    let session = near(&daemon);
    block_on(gate.reached(1));
    daemon.kill();
    gate.open();

    let daemon = Daemon::keyed(&place);
    let dropped = event(&daemon, &session, "preparation_dropped");
    let text = dropped["text"].as_str().unwrap();
    text.has_all(&["the program ended while it was written"]);
    turn(&daemon, &session, 4);
    assert_eq!(summaries(&provider), 2, "one was lost, one is used");
    let context = format!("/v1/sessions/{session}/context");
    let after = daemon.get(&context).expect(200).json();
    assert_eq!(after["summaries"].as_array().unwrap().len(), 1);
}
