//! A lead that delegates by itself, on providers that speak the real wire formats on loopback; and
//! a person who does.

use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Recorded, Script, block_on};

use crate::providers;
use crate::support::{Going, Place, example, is_of};

pub(crate) fn text(request: &Recorded) -> String {
    String::from_utf8_lossy(&request.body).into_owned()
}

/// The coordinator gives two tasks away with its first reply and joins what comes back.
fn script() -> Script {
    let asked = AtomicUsize::new(0);
    Script::by(move |request| {
        let answer = if is_of("risks", request) {
            Answer::text("The cutover has no rollback.")
        } else if is_of("facts", request) {
            Answer::text("It takes 40 minutes.")
        } else if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let risks = r#"{"agent":"risks","task":"What can go wrong on the day?"}"#;
            let facts = r#"{"agent":"facts","task":"How long does it take?"}"#;
            Answer::call("delegate", risks).and_call("delegate", facts)
        } else {
            Answer::text("Forty minutes, and no way back.")
        };
        Act::answer(answer)
    })
}

#[test]
fn a_coordinator_asks_two_agents_over_http_and_joins_their_answers() {
    let file = example();
    for (kind, model) in providers::MODELS {
        let provider = FakeProvider::play_on_thread(script());
        let place = providers::place(kind, &provider);
        let args = [
            "run",
            &file,
            "--compact-above",
            "8k",
            "--model",
            model,
            "--lead",
            "coordinator",
            "--agents",
            "risks,facts",
            "--json",
        ];
        let report = place.keyed(&args).expect(0).json();
        assert_eq!(
            report["answer"], "Forty minutes, and no way back.",
            "{model}"
        );
        let runs = report["runs"].as_array().unwrap().iter();
        let mut agents: Vec<&str> = runs.map(|run| run["agent"].as_str().unwrap()).collect();
        agents.sort_unstable();
        assert_eq!(agents, ["coordinator", "facts", "risks"], "{model}");

        let requests = block_on(provider.wait_for(4));
        assert_eq!(requests.len(), 4, "{model}");
        let first = text(&requests[0]);
        assert!(
            first.contains("You may delegate to these agents"),
            "{model}"
        );
        let joining = requests.iter().rfind(|r| is_of("coordinator", r));
        let joining = text(joining.unwrap());
        let at = |said: &str| {
            joining
                .rfind(said)
                .unwrap_or_else(|| panic!("{said}: {model}"))
        };
        assert!(
            at("The cutover has no rollback.") < at("It takes 40 minutes."),
            "{model}"
        );
        // A child knows its task, and nothing of its sibling's.
        let child = requests
            .iter()
            .find(|r| is_of("facts", r))
            .map(text)
            .unwrap();
        assert!(child.contains("How long does it take?"), "{model}");
        assert!(!child.contains("What can go wrong on the day?"), "{model}");
    }
}

#[test]
fn a_lead_that_waits_for_its_delegates_is_shown_as_waiting() {
    let (gate, held) = (Gate::new(), AtomicUsize::new(0));
    let script = Script::by({
        let gate = gate.clone();
        move |request| {
            if is_of("risks", request) {
                Act::answer(Answer::text("None.")).hold(&gate)
            } else if held.fetch_add(1, Ordering::SeqCst) == 0 {
                let task = r#"{"agent":"risks","task":"What can go wrong?"}"#;
                Act::answer(Answer::call("delegate", task))
            } else {
                Act::answer(Answer::text("Nothing can."))
            }
        }
    });
    let provider = FakeProvider::play_on_thread(script);
    let place = providers::place("openai", &provider);
    let file = example();
    let args = [
        "run",
        &file,
        "--model",
        "openai/gpt-4o",
        "--lead",
        "coordinator",
    ];
    let args = [&args[..], &["--agents", "risks"]].concat();
    let mut going = Going::start(place.keyed_command(&args));
    going.wait_for(&["coordinator", "waiting", "for its delegates"]);
    going.wait_for(&["risks", "running"]);
    block_on(provider.wait_for(2));
    going.signal("INT");
    going.finish().expect(130);

    let shown = place.json(&["sessions", "show"]);
    let states: Vec<_> = shown["open_runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            (
                run["agent"].as_str().unwrap(),
                run["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(states, [("coordinator", "waiting"), ("risks", "running")]);
    for verb in ["show", "tree"] {
        let text = place.call(&["sessions", verb]).expect(0).stdout;
        let (lead, child) = ("    coordinator  waiting\n", "      risks        running\n");
        assert!(text.contains(&format!("{lead}{child}")), "{text}");
    }
    let tree = place.json(&["sessions", "tree"]);
    assert_eq!(tree["open_runs"], shown["open_runs"]);

    gate.open();
    let mut going = Going::start(place.keyed_command(&["resume"]));
    going.wait_for(&["risks", "done"]);
    going.wait_for(&["coordinator", "running"]);
    going.wait_for(&["coordinator", "done"]);
    going.finish().expect(0);
}

#[test]
fn a_person_delegates_to_agents_of_their_choice_without_a_daemon() {
    let place = Place::with_config(
        "[agents.broken]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"false\"\nretries = 0\n",
    );
    place.call(&["import", &example()]).expect(0);
    let delegate = |agents: &[&str], task: &str| {
        let args = [&["delegate", "latest"], agents, &["--task", task, "--json"]].concat();
        place.call(&args)
    };
    let ours = ["risks=What can go wrong?", "broken"];
    // Something is missing.
    let reply = delegate(&ours, "What was decided?").expect(4).json();
    assert_eq!(reply["state"], "answered");
    let missing = reply["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0]["agent"], "broken");
    assert_eq!(missing[0]["state"], "failed");
    let reason = missing[0]["reason"].as_str().unwrap();
    assert!(reason.contains("status"), "{reason}");
    let runs = reply["runs"].as_array().unwrap().iter();
    let agents: Vec<&str> = runs.map(|run| run["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["risks", "broken", "lead"]);
    assert_eq!(reply["snapshot_agents"], 3, "one snapshot");
    // The common task is the input; the call of an agent does not repeat it.
    let calls = place.call(&["export", "latest"]).expect(0).stdout;
    assert!(calls.contains(r#"{"agent":"broken"}"#), "{calls}");
    assert!(calls.contains(r#""task":"What can go wrong?""#), "{calls}");

    let nobody = delegate(&["nobody"], "What was decided?").expect(2);
    nobody.says(&["unknown agent `nobody`", "known are: "]);
    let unnamed = delegate(&["=What can go wrong?"], "What was decided?").expect(2);
    unnamed.says(&["is not AGENT or AGENT=TASK"]);
    delegate(&ours, " ").expect(2).says(&["--task is empty"]);
    let runs = place.json(&["runs", "list"]);
    assert_eq!(runs.as_array().unwrap().len(), 3, "nothing more began");
}
