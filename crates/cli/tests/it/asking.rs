//! A person at a terminal who is asked about calls of tools.

use serde_json::{Value, json};

use crate::support::finish;
use crate::terminal::Talking;
use crate::tools::{Scene, program};

const RUN: [&str; 4] = ["run", "talk.json", "--task", "Do it."];
const CHAT: [&str; 3] = ["chat", "--agents", ""];
const QUESTION: &str = "may it be made? [y]es, [n]o REASON:";

/// A clerk who sends an invoice, which a rule holds.
fn held() -> Scene {
    let send: (&str, Value) = ("files__send", json!({"text": "the invoice"}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), "")
}

#[test]
fn a_run_asks_at_the_terminal_and_does_as_it_is_told() {
    for (answer, reply, made) in [
        ("yes\r", "Told: send: the invoice", 1),
        ("n not today\r", "They said: not", 0),
    ] {
        let scene = held();
        let mut talking = Talking::at_a_terminal(scene.command(&RUN));
        talking.sees("clerk calls files__send {\"text\":\"the invoice\"}");
        talking.sees(QUESTION);
        // Its line says so, too.
        talking.sees("clerk  waits for you");
        // What is no answer is asked again.
        talking.say("maybe\r");
        talking.sees(QUESTION);
        assert_eq!(scene.count("call send "), 0);
        talking.say(answer);
        talking.sees(reply);
        talking.ends();
        assert_eq!(scene.count("call send "), made);
    }
}

#[test]
fn a_question_names_one_of_several_calls() {
    let send = |text: &str| ("files__send", json!({"text": text}));
    let calls = [send("the invoice"), send("the reminder")];
    let scene = Scene::new(&[&calls], &program("approve = [\"send\"]"), "");
    let mut talking = Talking::at_a_terminal(scene.command(&RUN));
    talking.sees("files__send {\"text\":\"the invoice\"}: may it be made?");
    talking.sees("REASON:");
    talking.say("n\r");
    talking.sees(QUESTION);
    talking.say("y\r");
    talking.sees("send: the reminder");
    talking.ends();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let scene = held();
    let mut talking = Talking::at_a_terminal(scene.command(&RUN));
    talking.say("yes\r");
    talking.sees("what was typed before this question is dropped");
    talking.sees(QUESTION);
    talking.say("n not today\r");
    talking.sees("They said: not");
    talking.ends();
    assert_eq!(scene.count("call send "), 0);
}

#[test]
fn what_became_of_a_call_in_doubt_is_asked_where_its_turn_goes_on() {
    let until = json!({"text": "the invoice", "until": "/nowhere/at/all"});
    let scene = Scene::new(&[&[("files__send", until)]], &program(""), "");
    scene.killed_at("call send ");
    let mut talking = Talking::at_a_terminal(scene.command(&["resume"]));
    talking.sees("the outcome of this call is unknown");
    talking.sees("was it done? [d]one TEXT, [f]ailed TEXT, [r]epeat:");
    talking.say("d it is in the outbox\r");
    talking.sees("Told: it is in the outbox");
    talking.ends();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_chat_asks_between_its_lines() {
    let scene = held();
    let mut talking = Talking::at_a_terminal(scene.command(&CHAT));
    talking.sees("main 0 % >");
    talking.say("Do it.\r");
    talking.sees("`files__send` requires approval");
    talking.sees(QUESTION);
    assert!(!talking.seen().contains("unisono approvals"));
    talking.say("perhaps\r");
    talking.sees(QUESTION);
    talking.say("y\r");
    talking.sees("Told: send: the invoice");
    talking.sees(" % >");
    // An answer is no message: the arrow goes back to the message.
    talking.say("\u{1b}[A");
    talking.sees("Do it.");
    talking.say("\u{15}/quit\r");
    talking.ends();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_terminal_that_cannot_redraw_lines_has_a_prompt_and_questions() {
    let scene = held();
    let mut run = Talking::at_a_terminal_of("dumb", scene.command(&RUN));
    run.sees(QUESTION);
    run.say("n not today\r");
    run.sees("They said: not");
    run.ends();
    let mut chat = Talking::at_a_terminal_of("dumb", scene.command(&CHAT));
    chat.sees("main 0 % >");
    chat.interrupt();
    chat.sees("/quit or Ctrl-D ends the chat");
    chat.say("Do it.\r");
    chat.sees(QUESTION);
    chat.say("y\r");
    chat.sees("Told: send: the invoice");
    chat.sees(" % >");
    chat.say("/quit\r");
    chat.ends();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_question_that_is_broken_off_cancels_the_turn_and_not_the_chat() {
    for key in ["\u{3}", "\u{4}"] {
        let scene = held();
        let mut talking = Talking::at_a_terminal(scene.command(&CHAT));
        talking.sees("main 0 % >");
        talking.say("Do it.\r");
        talking.sees(QUESTION);
        talking.say(key);
        talking.sees("cancelled");
        talking.sees(" % >");
        talking.say("Do it now.\r");
        talking.sees(QUESTION);
        talking.say("n\r");
        talking.sees("a person did not allow this call");
        talking.sees(" % >");
        talking.say("/quit\r");
        talking.ends();
        assert_eq!(scene.count("call send "), 0);
    }
}

#[test]
fn the_end_of_the_input_at_a_question_leaves_the_turn_open() {
    let scene = held();
    let mut talking = Talking::at_a_terminal(scene.command(&RUN));
    talking.sees(QUESTION);
    talking.say("\u{4}");
    talking.sees("interrupted: `unisono resume");
    talking.all();
    assert_eq!(scene.waiting().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_question_that_another_answers_leaves_the_line_to_the_chat() {
    let scene = held();
    let daemon = crate::http::Daemon::start(&scene.place);
    let mut talking = Talking::at_a_terminal(scene.command(&CHAT));
    talking.sees("main 0 % >");
    talking.say("Do it.\r");
    talking.sees(QUESTION);
    let waiting = scene.waiting();
    let call = waiting[0]["call"].as_str().unwrap();
    let runs = |state: &str| daemon.json(&format!("/v1/runs?state={state}"))["items"].clone();
    assert_eq!(runs("running"), serde_json::json!([]));
    assert_eq!(runs("waiting")[0]["waits_for"], "person");
    scene.call(&["approvals", "approve", call]).expect(0);
    talking.sees("Told: send: the invoice");
    let waited = &runs("done")[0];
    assert!(
        waited["waited_ms"].as_u64() <= waited["duration_ms"].as_u64(),
        "{waited}"
    );
    assert!(
        waited["waited_ms"].is_u64() && waited.get("waits_for").is_none(),
        "{waited}"
    );
    talking.sees("the next line is a message");
    talking.say("/history 1\r");
    talking.sees("clerk");
    talking.sees(" % >");
    talking.say("/quit\r");
    talking.ends();
    daemon.stop();
}

#[test]
fn a_decision_that_is_refused_ends_the_command_with_the_reason() {
    let scene = held();
    let daemon = crate::http::Daemon::keyed(&scene.place);
    let id = daemon.session(&json!({}));
    let task = json!({"task": "Do it.", "wait": false});
    let turns = format!("/v1/sessions/{id}/turns");
    daemon.post(&turns, &task).expect(202);
    daemon.awaited("/v1/approvals", |all| all["items"][0].is_object());
    let reader = json!({"name": "reader", "scope": "read"});
    let reader = daemon.post("/v1/tokens", &reader).expect(201).json();
    let secret = reader["secret"].as_str().unwrap();
    scene.place.write("settings/unisono/token", secret);
    let mut talking = Talking::at_a_terminal(scene.command(&["resume"]));
    talking.sees(QUESTION);
    talking.say("y\r");
    talking.sees("this requires `approve`");
    talking.all();
    let waiting = daemon.get("/v1/approvals").expect(200).json();
    assert!(waiting["items"][0].is_object(), "{waiting}");
    daemon.stop();
}

#[test]
fn lines_of_a_file_are_messages_and_answer_nothing() {
    let send: (&str, Value) = ("files__send", json!({"text": "the invoice"}));
    let rule = program("approve = [\"send\"]");
    let scene = Scene::new(&[&[send]], &rule, "[approvals]\ntimeout = \"300ms\"");
    scene.place.write("lines", "Do it.\ny\n");
    let mut command = scene.command(&CHAT);
    command.stdin(std::fs::File::open(scene.place.path("lines")).unwrap());
    let done = finish(command.spawn().unwrap(), &CHAT).expect(0);
    let denied = done.stdout.matches("nobody allowed this call in time");
    assert_eq!(denied.count(), 2, "{done:#?}");
    assert_eq!(scene.count("call send "), 0);
}

#[test]
fn a_quiet_run_at_a_terminal_asks() {
    let scene = held();
    let run = [&RUN[..], &["--quiet"]].concat();
    let mut talking = Talking::at_a_terminal(scene.command(&run));
    talking.sees("warning: clerk calls files__send");
    talking.sees(QUESTION);
    assert!(!talking.before().contains("unisono approvals"));
    talking.say("y\r");
    talking.sees("Told: send: the invoice");
    talking.ends();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_quiet_run_says_why_it_waits() {
    let send: (&str, Value) = ("files__send", json!({"text": "the invoice"}));
    let rule = program("approve = [\"send\"]");
    let scene = Scene::new(&[&[send]], &rule, "[approvals]\ntimeout = \"300ms\"");
    let done = scene.call(&[&RUN[..], &["--quiet"]].concat()).expect(0);
    done.says(&[
        "warning: clerk calls files__send",
        "`files__send` requires approval",
        "unisono approvals approve",
    ]);
}
