//! Calls that wait for a person while a client of the Model Context Protocol waits for an answer.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::mcp::{Spoken, current};
use crate::support::PATIENCE;
use crate::tools::{Scene, program};

/// A clerk who sends an invoice, which a rule holds.
fn held() -> Scene {
    let send = ("files__send", json!({"text": "the invoice"}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), "")
}

fn ask() -> Value {
    json!({"name": "ask", "arguments": {"task": "Do it."}})
}

/// A wait for the turn of a reply.
fn wait(reply: &Value) -> Value {
    let turn = &reply["turn"];
    let turn = json!({"session": turn["session"], "turn": turn["turn"]});
    json!({"name": "wait", "arguments": turn})
}

#[track_caller]
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_client_that_can_ask_nobody_is_told_of_the_call_and_the_turn_stays() {
    let scene = held();
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let (answer, _) = server.ask(2, "tools/call", ask());
    let reply = &answer["result"]["structuredContent"];
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    let call = reply["waiting"][0]["call"].as_str().unwrap();
    assert_eq!(reply["waiting"][0]["kind"], "approval");
    assert!(text(&answer).contains(&format!("unisono approvals approve {call}")));
    let wait = wait(reply);
    let (still, _) = server.ask(3, "tools/call", wait.clone());
    assert_eq!(
        still["result"]["structuredContent"]["waiting"][0]["call"], call,
        "{still}"
    );
    server.end();
    // The turn is there for the next process, in which it is decided and ends.
    let daemon = Daemon::start(&scene.place);
    let at = format!("/v1/approvals/{call}");
    daemon
        .post(&at, &json!({"decision": "approve"}))
        .expect(200);
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let (answer, _) = server.ask(2, "tools/call", wait);
    assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
    server.end();
    daemon.stop();
    assert_eq!(scene.count("call send "), 1);
}

#[test]
fn a_client_that_shows_no_forms_is_told_of_the_call() {
    for bridged in [false, true] {
        let scene = held();
        let daemon = bridged.then(|| Daemon::keyed(&scene.place));
        let mut server = Spoken::started(scene.command(&["mcp"]));
        server.initialize_as("2025-11-25", json!({"elicitation": {"url": {}}}));
        let (answer, _) = server.ask(2, "tools/call", ask());
        assert!(
            text(&answer).contains("unisono approvals approve"),
            "{answer}"
        );
        server.end();
        daemon.into_iter().for_each(Daemon::stop);
    }
}

#[test]
fn a_client_of_the_revision_before_asks_while_it_waits() {
    for bridged in [false, true] {
        let accepted = json!({"action": "accept", "content": {"approve": true}});
        for (reply, response, made) in [
            (accepted, "Told: send: the invoice", 1),
            (json!({"action": "decline"}), "did not allow this call", 0),
            (json!({"action": "cancel"}), "waits for a person", 0),
        ] {
            let scene = held();
            let daemon = bridged.then(|| Daemon::keyed(&scene.place));
            let mut server = Spoken::started(scene.command(&["mcp"]));
            server.initialize_as("2025-11-25", json!({"elicitation": {}}));
            let question = asked(&mut server, ask());
            assert!(question["params"].to_string().contains("the invoice"));
            server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": reply}));
            let (answer, _) = server.answer(2);
            assert!(text(&answer).contains(response), "{answer}");
            server.end();
            daemon.into_iter().for_each(Daemon::stop);
            assert_eq!(scene.count("call send "), made);
        }
    }
}

#[test]
fn the_progress_of_a_call_grows_across_its_question() {
    for bridged in [false, true] {
        let scene = held();
        let daemon = bridged.then(|| Daemon::keyed(&scene.place));
        let mut server = Spoken::started(scene.command(&["mcp"]));
        server.initialize_as("2025-11-25", json!({"elicitation": {}}));
        let mut call = ask();
        call["_meta"] = json!({"progressToken": "p"});
        server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
        let mut said = vec![server.next()];
        while said[said.len() - 1]["method"] != "elicitation/create" {
            said.push(server.next());
        }
        let question = &said[said.len() - 1]["id"];
        let accepted = json!({"action": "accept", "content": {"approve": true}});
        server.send(&json!({"jsonrpc": "2.0", "id": question, "result": accepted}));
        let (answer, after) = server.answer(2);
        assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
        said.extend(after);
        let progress = said
            .iter()
            .filter_map(|message| message["params"]["progress"].as_f64());
        let progress: Vec<f64> = progress.collect();
        assert!(progress.len() > 1, "{said:?}");
        assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
        server.end();
        daemon.into_iter().for_each(Daemon::stop);
    }
}

#[test]
fn a_client_of_the_current_revision_asks_and_comes_again() {
    let scene = held();
    let mut server = Spoken::started(scene.command(&["mcp"]));
    let able = |mut params: Value| {
        params = current(params);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        params
    };
    let (asks, _) = server.ask(1, "tools/call", able(ask()));
    let asks = &asks["result"];
    assert_eq!(asks["resultType"], "input_required", "{asks}");
    assert_eq!(
        asks["inputRequests"]["approve"]["method"],
        "elicitation/create"
    );
    let mut again = ask();
    again["requestState"] = asks["requestState"].clone();
    // Without the answer the question comes again; a question that nobody answers leaves the call.
    let (repeated, _) = server.ask(3, "tools/call", able(again.clone()));
    let repeated = &repeated["result"]["inputRequests"];
    assert_eq!(*repeated, asks["inputRequests"]);
    again["inputResponses"] = json!({"approve": {"action": "cancel"}});
    let (left, _) = server.ask(4, "tools/call", able(again.clone()));
    assert!(text(&left).contains("unisono approvals approve"), "{left}");
    again["inputResponses"] =
        json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let (answer, _) = server.ask(2, "tools/call", able(again));
    assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
    server.end();
    assert_eq!(scene.count("call send "), 1);
}

/// Sends a call of a tool, and gives the question about a call of the agent's that it comes to.
#[track_caller]
fn asked(server: &mut Spoken, call: Value) -> Value {
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    let question = server.asked("elicitation/create");
    let text = question["params"]["message"].as_str().unwrap();
    assert!(
        text.contains("clerk wants to call files__send"),
        "{question}"
    );
    question
}

#[test]
fn the_command_that_is_printed_works_while_the_client_is_connected() {
    let scene = held();
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let (answer, _) = server.ask(2, "tools/call", ask());
    let reply = &answer["result"]["structuredContent"];
    let call = reply["waiting"][0]["call"].as_str().unwrap();
    assert_eq!(scene.waiting()[0]["call"], call);
    let printed = text(&answer).split('`');
    let printed: Vec<&str> = printed
        .filter(|part| part.starts_with("unisono approvals approve"))
        .flat_map(|part| part.split(' ').skip(1))
        .collect();
    assert_eq!(printed, ["approvals", "approve", call]);
    let done = scene.call(&printed).expect(0);
    done.says(&["approved: files__send"]);
    let wait = wait(reply);
    let (answer, _) = server.ask(3, "tools/call", wait);
    assert_eq!(text(&answer), "Told: send: the invoice", "{answer}");
    server.end();
    assert_eq!(scene.count("call send "), 1);
    // Nobody is found there any more, and the store is free.
    assert!(!scene.place.path("data/unisono/daemon.json").exists());
    assert_eq!(scene.waiting(), json!([]));
}

#[test]
fn wait_tells_what_each_agent_of_a_delegation_found() {
    let send = ("files__send", json!({"text": "the invoice"}));
    let sender = "\n[agents.sender]\ndescription = \"sends\"\nmcp_servers = [\"files\"]\n\
                  approve = [\"files__send\"]\n";
    let scene = Scene::new(&[&[send]], &program(""), sender);
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let tasks = json!([{"agent": "sender", "task": "Send it."}]);
    let delegate = json!({"name": "delegate", "arguments": {"tasks": tasks}});
    let (answer, _) = server.ask(2, "tools/call", delegate);
    let reply = &answer["result"]["structuredContent"];
    let call = reply["waiting"][0]["call"].as_str().unwrap();
    scene.call(&["approvals", "approve", call]).expect(0);
    let wait = wait(reply);
    let (answer, _) = server.ask(3, "tools/call", wait);
    let said = text(&answer);
    assert!(
        said.starts_with("## sender\n\nTold: send: the invoice\n\n## Joined"),
        "{said}"
    );
    server.end();
}

#[test]
fn an_answer_after_a_question_has_the_form_of_the_tool_that_was_called() {
    for bridged in [false, true] {
        let send = ("files__send", json!({"text": "the invoice"}));
        let sender = "\n[agents.sender]\ndescription = \"sends\"\nmcp_servers = [\"files\"]\n\
                      approve = [\"files__send\"]\n";
        let scene = Scene::new(&[&[send]], &program(""), sender);
        let daemon = bridged.then(|| Daemon::keyed(&scene.place));
        let mut server = Spoken::started(scene.command(&["mcp"]));
        server.initialize_as("2025-11-25", json!({"elicitation": {}}));
        let arguments = json!({"task": "Send it.", "agents": ["sender"]});
        let call = json!({"name": "ask", "arguments": arguments});
        server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
        let question = server.asked("elicitation/create");
        let accepted = json!({"action": "accept", "content": {"approve": true}});
        server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted}));
        let (answer, _) = server.answer(2);
        let turn = &answer["result"]["structuredContent"]["turn"];
        assert_eq!(turn["answer"], text(&answer), "{answer}");
        server.end();
        daemon.into_iter().for_each(Daemon::stop);
    }
}

#[test]
fn a_question_is_taken_back_when_its_call_is_settled_elsewhere() {
    for bridged in [false, true] {
        for in_time in [false, true] {
            let settings = match in_time {
                true => "",
                false => "\n[approvals]\ntimeout = \"1s\"\n",
            };
            let send = ("files__send", json!({"text": "the invoice"}));
            let rule = program("approve = [\"send\"]");
            let scene = Scene::new(&[&[send]], &rule, settings);
            let daemon = bridged.then(|| Daemon::keyed(&scene.place));
            let mut server = Spoken::started(scene.command(&["mcp"]));
            server.initialize_as("2025-11-25", json!({"elicitation": {}}));
            let question = asked(&mut server, ask());
            if in_time {
                let waiting = scene.waiting();
                let call = waiting[0]["call"].as_str().unwrap();
                scene.call(&["approvals", "approve", call]).expect(0);
            }
            let taken_back = server.asked("notifications/cancelled");
            assert_eq!(taken_back["params"]["requestId"], question["id"]);
            let (answer, _) = server.answer(2);
            let expected = if in_time {
                "Told: send: the invoice"
            } else {
                "denied"
            };
            assert!(text(&answer).contains(expected), "{answer}");
            server.end();
            assert_eq!(scene.count("call send "), usize::from(in_time));
            daemon.into_iter().for_each(Daemon::stop);
        }
    }
}

#[test]
fn where_a_daemon_has_the_store_a_call_that_is_taken_back_cancels_its_turn_and_its_question() {
    let scene = held();
    let daemon = Daemon::keyed(&scene.place);
    let mut server = Spoken::started(scene.command(&["mcp"]));
    server.initialize_as("2025-11-25", json!({"elicitation": {}}));
    let question = asked(&mut server, ask());
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    let taken_back = server.asked("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    server.end();
    assert_eq!(scene.waiting(), json!([]));
    daemon.stop();
}

#[test]
fn the_end_of_the_input_ends_the_program_though_a_daemon_gives_no_answer() {
    let waits = "\n[agents.waits]\ndescription = \"waits\"\nkind = \"command\"\ncommand = \"sleep\"\n\
                 args = [\"100\"]\n[server]\ndrain_seconds = 1\n";
    let scene = Scene::new(&[], &program(""), waits);
    let daemon = Daemon::keyed(&scene.place);
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let arguments = json!({"task": "Wait.", "lead": "waits", "agents": []});
    let ask = json!({"name": "ask", "arguments": arguments});
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ask}));
    let ended = server.close();
    let (answer, _) = server.answer(2);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("server.drain_seconds"), "{answer}");
    server.end();
    assert!(ended.elapsed() < PATIENCE);
    daemon.stop();
}

#[test]
fn a_call_behind_a_turn_that_waits_is_refused_and_begins_no_turn() {
    for bridged in [false, true] {
        let scene = held();
        let daemon = bridged.then(|| Daemon::keyed(&scene.place));
        let mut server = Spoken::greeted(scene.command(&["mcp"]));
        let (answer, _) = server.ask(2, "tools/call", ask());
        let reply = &answer["result"]["structuredContent"];
        let waiting = reply["waiting"][0]["call"].as_str().unwrap();
        let session = &reply["turn"]["session"];
        let tasks = json!([{"agent": "facts", "task": "Which?"}]);
        let calls = [
            ("ask", json!({"session": session, "task": "And this."})),
            ("delegate", json!({"session": session, "tasks": tasks})),
            ("compact", json!({"session": session})),
        ];
        for (id, (tool, arguments)) in (3..).zip(calls) {
            let call = json!({"name": tool, "arguments": arguments});
            let (refused, _) = server.ask(id, "tools/call", call);
            assert_eq!(refused["result"]["isError"], json!(true), "{refused}");
            for says in [
                "waits for a person",
                &format!("unisono approvals approve {waiting}"),
                "No other turn was begun",
            ] {
                assert!(text(&refused).contains(says), "{says}: {refused}");
            }
        }
        scene.call(&["approvals", "deny", waiting]).expect(0);
        let wait = wait(reply);
        let (ended, _) = server.ask(9, "tools/call", wait);
        assert!(text(&ended).contains("did not allow"), "{ended}");
        server.end();
        daemon.into_iter().for_each(Daemon::stop);
    }
}

#[test]
fn wait_for_a_queued_turn_names_the_call_of_the_turn_before_it() {
    let scene = held();
    let daemon = Daemon::keyed(&scene.place);
    let mut server = Spoken::greeted(scene.command(&["mcp"]));
    let (answer, _) = server.ask(2, "tools/call", ask());
    let reply = &answer["result"]["structuredContent"];
    let waiting = reply["waiting"][0]["call"].as_str().unwrap();
    let session = reply["turn"]["session"].as_str().unwrap();
    let task = json!({"task": "And this.", "wait": false});
    let turns = format!("/v1/sessions/{session}/turns");
    let queued = daemon.post(&turns, &task).expect(202).json();
    let wait = json!({"session": session, "turn": queued["turn"]});
    let wait = json!({"name": "wait", "arguments": wait});
    let (told, _) = server.ask(3, "tools/call", wait);
    let content = &told["result"]["structuredContent"];
    assert_eq!(content["turn"]["turn"], queued["turn"], "{told}");
    assert_eq!(content["waiting"][0]["call"], waiting, "{told}");
    let ahead = reply["turn"]["turn"].as_str().unwrap();
    let says = format!("waits for turn {ahead}, which waits for a person");
    assert!(text(&told).contains(&says), "{told}");
    server.end();
    daemon.stop();
}
