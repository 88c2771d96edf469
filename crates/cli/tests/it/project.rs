//! What a project tells every agent: its `AGENTS.md` files.

use serde_json::Value;
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::support::{HasAll as _, Place, example, words};

/// What was sent to each agent as its system text.
fn systems(provider: &FakeProvider) -> Vec<String> {
    let requests = provider.requests().into_iter();
    let systems = requests.map(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let first = &body["messages"][0];
        assert_eq!(first["role"], "system");
        first["content"].to_string()
    });
    systems.collect()
}

#[test]
fn every_agent_is_told_what_the_project_says_and_the_turn_is_replayed_with_it() {
    let provider =
        FakeProvider::play_on_thread(Script::by(|_| Act::answer(Answer::text("All is well."))));
    let place = Place::with_openai(&provider, "[models]\ndefault = \"openai/gpt-4o-mini\"\n");
    place.write("AGENTS.md", "Amounts are in Swiss francs.\n");
    let file = example();
    let call = |args: &[&str]| place.keyed(args).expect(0);
    let asked = [
        "run",
        &file,
        "--agents",
        "facts",
        "-t",
        "What is due?",
        "--json",
    ];
    let first = call(&asked).json();
    let reply = systems(&provider);
    assert_eq!(reply.len(), 2, "a delegate and the lead");
    for system in &reply {
        system.has_all(&["# Instructions of this project (AGENTS.md)"]);
        assert!(system.contains("Amounts are in Swiss francs."), "{system}");
    }
    let context = place.json(&["context", "latest"]);
    assert!(
        context["system"]
            .as_str()
            .unwrap()
            .ends_with("Amounts are in Swiss francs.")
    );

    // What it says now counts for the next turn, and for no turn before.
    place.write("AGENTS.md", "Amounts are in euros.\n");
    let second = call(&["delegate", "latest", "facts", "-t", "And now?", "--json"]).json();
    let reply = systems(&provider);
    assert!(
        reply[2..].iter().all(|system| system.contains("euros")),
        "{reply:?}"
    );
    let replayed = place.call(&["replay", first["turn"].as_str().unwrap()]);
    assert!(replayed.expect(0).stdout.contains("checks hold"));
    assert_ne!(first["snapshot"], second["snapshot"]);

    let off = words("delegate latest facts -t And? --set turn.agents_md_bytes=0");
    call(&off);
    let reply = systems(&provider);
    assert!(
        !reply
            .last()
            .unwrap()
            .contains("Instructions of this project")
    );
}
