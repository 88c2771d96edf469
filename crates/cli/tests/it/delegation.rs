//! A lead that delegates by itself, on providers that speak the real wire formats on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Script, block_on};

use crate::support::{Place, example, finish};

fn text(request: &Recorded) -> String {
    String::from_utf8_lossy(&request.body).into_owned()
}

fn is_of(agent: &str, request: &Recorded) -> bool {
    text(request).contains(&format!("You are the agent \\\"{agent}\\\""))
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
    for (kind, model) in [
        ("openai", "openai/gpt-4o"),
        ("openai", "openai/gpt-5-mini"),
        ("anthropic", "anthropic/claude-sonnet-4-5"),
        ("gemini", "gemini/gemini-2.5-flash"),
    ] {
        let provider = FakeProvider::builder().script(script()).start_on_thread();
        let base = provider.url();
        let version = if kind == "openai" { "/v1" } else { "" };
        let place = Place::with_config(&format!(
            "[providers.{kind}]\nbase_url = \"{base}{version}\"\napi_key_env = \"TEST_KEY\"\n\
             attempts = 1\n[compaction]\nsummarisers = [\"extractive\"]\n"
        ));
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
        let mut command = place.command(&args);
        command.env("TEST_KEY", "sk-test-4c1f9a77e2d04b61");
        let report = finish(command.spawn().unwrap(), &args).expect(0).json();
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
