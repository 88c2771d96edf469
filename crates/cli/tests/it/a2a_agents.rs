//! Agents of another program, asked over the Agent2Agent protocol: the other program is this one.

use serde_json::Value;
use unisono_fake_provider::{Act, Answer, Gate, Script, block_on};

use crate::a2a::{Client, scripted};
use crate::http::Daemon;
use crate::support::{Going, Place, finish, until};

/// A place with an agent `far` that is one of a daemon's.
fn asking(daemon: &Daemon, more: &str) -> Place {
    let place = Place::with_config(&format!(
        "[models]\ndefault = \"extractive\"\n[turn]\nagents = [\"far\"]\n\
         [agents.far]\ndescription = \"Far\"\nkind = \"a2a\"\nurl = \"http://{}/a2a/agents/facts\"\n\
         headers = {{ Authorization = \"Bearer ${{FAR_TOKEN}}\" }}\n{more}",
        daemon.address
    ));
    place.talk();
    place
}

const ASK: [&str; 5] = ["run", "talk.json", "--task", "When do we ship?", "--json"];

/// Asks with that token; `code` is how the call ends.
fn run(place: &Place, token: &str, code: i32) -> Value {
    let mut command = place.command(&ASK);
    command.env("FAR_TOKEN", token);
    finish(command.spawn().unwrap(), &ASK).expect(code).json()
}

fn far(report: &Value) -> &Value {
    let mut runs = report["runs"].as_array().unwrap().iter();
    runs.find(|run| run["agent"] == "far").unwrap()
}

#[test]
fn a_remote_agent_works_for_a_turn_as_any_other_does() {
    let remote = Place::new();
    let daemon = Daemon::start(&remote);
    let place = asking(&daemon, "");
    let report = run(&place, &daemon.token, 0);
    let answered = far(&report);
    assert_eq!(answered["state"], "done", "{report}");
    assert!(
        answered["text"].as_str().unwrap().contains("Friday"),
        "{report}"
    );
    // There it is one task, with the conversation as this program's agents see it.
    let tasks =
        Client::of(&daemon).rpc("ListTasks", &serde_json::json!({"includeArtifacts": true}));
    assert_eq!(tasks["totalSize"], 1);
    assert_eq!(
        tasks["tasks"][0]["artifacts"][0]["parts"][0]["text"],
        answered["text"]
    );
    let parts = &tasks["tasks"][0]["history"][0]["parts"];
    assert_eq!(parts[0]["text"], "When do we ship?");
    let context = parts[1]["data"].to_string();
    assert!(context.contains("We ship on Friday."), "{context}");

    // The token is in the requests and nowhere else.
    let session = report["session"].as_str().unwrap();
    let events = format!("{:?}", place.events(session));
    assert!(events.contains("Bearer ${FAR_TOKEN}") && !events.contains(&daemon.token));
    let shown = place.json(&["agents", "show", "far"]);
    assert_eq!(shown["a2a"]["contract"], "at_most_once", "{shown}");
    // What was sent is made again from the journal, and nothing is asked.
    let replayed = place.json(&["replay"]);
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
    let after = Client::of(&daemon).rpc("ListTasks", &serde_json::json!({}));
    assert_eq!(after["totalSize"], 1);

    let refused = run(&place, "wrong", 4);
    assert_eq!(far(&refused)["cause"], "provider_rejected", "{refused}");
    daemon.stop();
}

#[test]
fn a_card_that_is_another_one_is_not_asked_and_says_which_it_is() {
    let remote = Place::new();
    let daemon = Daemon::start(&remote);
    let place = asking(&daemon, &format!("card_digest = \"{}\"\n", "0".repeat(64)));
    let report = run(&place, &daemon.token, 4);
    let reason = far(&report)["reason"].as_str().unwrap().to_owned();
    let (_, digest) = reason.split_once("it is ").unwrap();
    let digest = &digest[..64];
    let place = asking(&daemon, &format!("card_digest = \"{digest}\"\n"));
    assert_eq!(far(&run(&place, &daemon.token, 0))["state"], "done");
    daemon.stop();
}

#[test]
fn a_remote_task_is_found_again_after_the_program_was_killed() {
    let gate = Gate::new();
    let held = Act::from(Answer::text("On Friday.")).hold(&gate);
    let (provider, remote) = scripted(Script::sequence([held]), "");
    let daemon = Daemon::keyed(&remote);
    // Whether the task was journaled by then or not, it is the same.
    let place = asking(&daemon, "contract = \"idempotent\"\n");
    let mut command = place.command(&ASK);
    command.env("FAR_TOKEN", &daemon.token);
    let going = Going::start(command);
    block_on(provider.wait_for(1));
    going.kill();
    gate.open();
    let mut command = place.command(&["resume", "--json"]);
    command.env("FAR_TOKEN", &daemon.token);
    let resumed = finish(command.spawn().unwrap(), &["resume"]);
    assert!(resumed.stdout.contains("On Friday."), "{resumed:#?}");
    let tasks = Client::of(&daemon).rpc("ListTasks", &serde_json::json!({}));
    assert_eq!(tasks["totalSize"], 1, "it was not given twice");
    daemon.stop();
}

#[test]
fn a_turn_that_is_cancelled_has_its_remote_task_cancelled() {
    let gate = Gate::new();
    let held = Act::from(Answer::text("Too late.")).hold(&gate);
    let (provider, remote) = scripted(Script::sequence([held]), "");
    let there = Daemon::keyed(&remote);
    let place = asking(&there, "");
    let session = place.json(&["import", "talk.json"])["session"].clone();
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("FAR_TOKEN", &there.token);
    let here = Daemon::of(&place, command);
    let turns = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
    let task = serde_json::json!({"task": "When?", "wait": false});
    let turn = here.post(&turns, &task).expect(202).json();
    block_on(provider.wait_for(1));
    let remote = Client::of(&there);
    let id = remote.rpc("ListTasks", &serde_json::json!({}))["tasks"][0]["id"].clone();
    let subscribed = remote
        .call("SubscribeToTask", &serde_json::json!({"id": id}))
        .expect(200);
    let cancel = format!("{turns}/{}/cancel", turn["turn"].as_str().unwrap());
    here.post(&cancel, &serde_json::json!({})).expect(200);
    // The stream ends with the task.
    let last = subscribed.events().last().unwrap().data;
    assert!(last.contains("TASK_STATE_CANCELED"), "{last}");
    gate.open();
    here.stop();
    there.stop();
}

#[test]
fn a_remote_task_that_never_ends_is_cancelled_at_the_time_limit() {
    let gate = Gate::new();
    let held = Act::from(Answer::text("Too late.")).hold(&gate);
    let (_provider, remote) = scripted(Script::sequence([held]), "");
    let there = Daemon::keyed(&remote);
    let place = asking(&there, "timeout = \"5s\"\nretries = 0\n");
    let session = place.json(&["import", "talk.json"])["session"].clone();
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("FAR_TOKEN", &there.token);
    let here = Daemon::of(&place, command);
    let turns = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
    let task = serde_json::json!({"task": "When?"});
    let turn = here.post(&turns, &task).expect(200).json();
    assert_eq!(far(&turn)["error"]["code"], "timeout", "{turn}");
    let cancelled = serde_json::json!({"status": "TASK_STATE_CANCELED"});
    let remote = Client::of(&there);
    until("the remote task goes on", || {
        remote.rpc("ListTasks", &cancelled)["totalSize"] == 1
    });
    gate.open();
    here.stop();
    there.stop();
}
