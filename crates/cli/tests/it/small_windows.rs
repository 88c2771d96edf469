//! Models with small windows: a session goes on however full its context is, and a request has the
//! input once.

use serde_json::json;
use unisono_fake_provider::{Answer, FakeProvider, Script, Usage};
use unisono_session::Fact;
use unisono_session::event::Outcome;

use crate::support::{Place, example};

fn window(place: &Place, window: u64, max_output: u64) {
    let catalogue =
        format!("[models.\"extractive/extractive\"]\nwindow={window}\nmax_output={max_output}\n");
    place.write("m.toml", &catalogue);
}

#[test]
fn a_context_just_under_what_is_usable_does_not_strand_the_session() {
    let place = Place::new();
    // The preset compacts only when the window is full; the conversation fills it to 98 %.
    window(&place, 24_300, 4_096);
    let file = example();
    let run = ["run", &file, "--agents", "", "--preset", "retention"];
    let with = ["--set", "models.catalogue=m.toml", "-t", "What is open?"];
    for _ in 0..4 {
        let done = place.call(&[&run[..], &with[..]].concat()).expect(0);
        assert!(!done.stdout.trim().is_empty(), "{done:#?}");
    }
}

#[test]
fn a_context_above_what_is_usable_says_what_the_next_turn_does() {
    let place = Place::new();
    let call = |n: u32| {
        let text = format!("crane {n} lifts ").repeat(400);
        let call = json!({"id": format!("c{n}"), "type": "function",
            "function": {"name": "read", "arguments": "{}"}});
        [
            json!({"role": "user", "content": format!("Read {n}")}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": text}),
        ]
    };
    let talk: Vec<_> = (0..20).flat_map(call).collect();
    place.write("talk.json", json!(talk).to_string());
    place.json(&["import", "talk.json"]);
    window(&place, 12_000, 1_024);
    let with = ["--set", "models.catalogue=m.toml"];
    let shown = place.call(&[&["context"], &with[..]].concat()).expect(0);
    let dry = place.json(&[&["compact", "--dry-run"], &with[..]].concat());
    let step = dry["next_turn"]["steps"][0].as_str().unwrap();
    assert!(step.starts_with("mask the tool results of "), "{dry}");
    assert!(step.contains(" messages from #3 to #"), "{dry}");
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("next turn frees at least "), "{words}");
    assert!(words.contains(step), "{words}");
}

#[test]
fn a_lead_is_handed_what_fits_of_what_its_delegates_brought() {
    for size in [21_500, 23_500, 26_000] {
        let place = Place::new();
        window(&place, size, 1_024);
        let file = example();
        let run = ["run", &file, "--preset", "retention"];
        let with = ["--set", "models.catalogue=m.toml", "-t", "What is open?"];
        let report = place.json(&[&run[..], &with[..]].concat());
        assert_eq!(report["state"], "answered", "{size}: {report}");
        let events = place.events(report["session"].as_str().unwrap());
        let failed = events.iter().filter(|event| {
            matches!(
                &event.fact,
                Fact::TurnEnded {
                    outcome: Outcome::Failed { .. },
                    ..
                }
            )
        });
        assert_eq!(failed.count(), 0);
    }
}

#[test]
fn a_request_has_the_input_once() {
    let place = Place::new();
    let file = example();
    let asked = "Which xylophone is still open?";
    let report = place.json(&["run", &file, "--agents", "facts,risks", "-t", asked]);
    let events = place.events(report["session"].as_str().unwrap());
    let runs = events.iter().filter_map(|event| match &event.fact {
        Fact::RunOpened { run } => Some(run),
        _ => None,
    });
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let why = place.call(&["why", &run.id.to_string(), "--raw"]).expect(0);
        let said = why.stdout.matches(asked).count();
        assert_eq!(said, 1, "{}: {}", run.agent, why.stdout);
    }
    place
        .call(&["replay", report["turn"].as_str().unwrap()])
        .expect(0);

    // Nor does a later turn, which has the calls of the first one's delegates in its context.
    let session = report["session"].as_str().unwrap();
    let next = [
        "run",
        "--session",
        session,
        "--agents",
        "facts",
        "-t",
        "And the risks?",
    ];
    let next = place.json(&next);
    for run in next["runs"].as_array().unwrap() {
        let id = run["run"].as_str().unwrap();
        let why = place.call(&["why", id, "--raw"]).expect(0);
        let escaped = format!("task\\\":\\\"{asked}");
        let quoted = why.stdout.matches(&format!("\"task\":\"{asked}")).count();
        let escaped = why.stdout.matches(&escaped).count();
        assert_eq!(quoted + escaped, 0, "{}", why.stdout);
    }
}

#[test]
fn presets_keep_a_third_of_a_small_window_at_least() {
    for preset in ["checkpoint", "retention"] {
        let place = Place::new();
        window(&place, 16_384, 2_048);
        let file = example();
        let run = ["run", &file, "--agents", "", "--preset", preset];
        let with = ["--set", "models.catalogue=m.toml", "-t", "What is open?"];
        let report = place.json(&[&run[..], &with[..]].concat());
        let tokens = |key: &str| report[key].as_u64().unwrap();
        let (after, usable) = (tokens("tokens_after"), tokens("usable_tokens"));
        assert!(after * 3 >= usable, "{preset}: {after} of {usable}");
        assert!(after * 5 <= usable * 4, "{preset}: {after} of {usable}");
    }
}

#[test]
fn why_that_much_is_usable_is_said_with_the_agent_that_leaves_least() {
    let place = Place::new();
    window(&place, 32_768, 2_048);
    let persona = "You count every word that was ever said. ".repeat(400);
    place.write(
        "agents/wordy.md",
        format!("---\ndescription: counts words\nmodel: extractive\n---\n{persona}"),
    );
    let file = example();
    let with = ["--set", "models.catalogue=m.toml", "--set"];
    let chooses = "---\ndescription: chooses\nmodel: extractive\ntools: [delegate]\n---\nChoose.\n";
    place.write("agents/boss.md", chooses);
    let context = |(lead, agents): (&str, &str), more: &[&str]| {
        let (lead, agents) = (format!("turn.lead={lead}"), format!("turn.agents={agents}"));
        let team = [agents.as_str(), "--set", lead.as_str()];
        let args = [&["context", "latest"], &with[..], &team, more].concat();
        place.call(&args).expect(0)
    };
    place.call(&["import", &file]).expect(0);
    for (team, named) in [
        (("lead", ""), None),
        (("lead", "wordy"), Some("wordy")),
        // An agent to which the lead may give tasks.
        (("boss", "wordy"), Some("wordy")),
    ] {
        let output = context(team, &["--json"]).json();
        let shares = output["usable"].as_array().unwrap();
        assert_eq!(shares.len(), 1, "{output}");
        let tokens = |key: &str| shares[0][key].as_i64().unwrap();
        let reserved = [
            "reply_tokens",
            "safety_tokens",
            "preamble_tokens",
            "assignment_tokens",
            "results_tokens",
        ];
        let reserved: i64 = reserved.into_iter().map(tokens).sum();
        let left = 32_768 - reserved + tokens("calibration_tokens");
        assert_eq!(left, tokens("usable_tokens"), "{output}");
        assert_eq!(
            shares[0]["usable_tokens"], output["usable_tokens"],
            "{output}"
        );
        assert_eq!(shares[0]["lead"], named.is_none(), "{output}");
        let shown = context(team, &[]).stdout;
        assert!(shown.contains("window 32,768 − reply 2,048"), "{shown}");
        let says = |name| shown.contains(&format!("by agent {name}, which leaves least"));
        assert_eq!(says("wordy"), named.is_some(), "{shown}");
    }
}

#[test]
fn what_the_next_turn_does_is_told_as_it_does_it_without_room_for_results() {
    let mut answered = 0;
    for size in (21_000..26_000).step_by(1_000) {
        let place = Place::new();
        window(&place, size, 1_024);
        place.json(&["import", &example()]);
        let with = ["--set", "models.catalogue=m.toml", "--set"];
        let team = ["turn.agents=facts,risks", "--set", "compaction.preset=off"];
        let dry = place.json(&[&["compact", "--dry-run"], &with[..], &team].concat());
        let run = ["run", "--session", "latest", "-t", "Why?"];
        let done = place.call(&[&run[..], &with[..], &team].concat());
        if done.code == Some(0) {
            answered += 1;
            let problem = &dry["next_turn"]["problem"];
            assert!(problem.is_null(), "{size}: {problem}");
        }
    }
    assert!((1..5).contains(&answered), "{answered}");
}

#[test]
fn a_provider_that_reports_few_tokens_makes_no_window_larger() {
    // As servers do that report only what was not in their cache.
    let used = Usage::new(10, 5);
    let provider = FakeProvider::play_on_thread(Script::always(Answer::text("Well.").usage(used)));
    let place = Place::with_config(&format!(
        "[providers.openai-compatible]\nbase_url = \"{}/v1\"\n\
         [compaction]\nsummarisers = [\"extractive\"]\n[models]\ncatalogue = \"m.toml\"\n",
        provider.url()
    ));
    let entry = "[models.\"openai-compatible/qwen3\"]\nwindow=12_000\nmax_output=1_000\n";
    place.write("m.toml", entry);
    let (file, model) = (example(), "openai-compatible/qwen3");
    for task in ["What is open?", "And now?", "Who said so?", "Since when?"] {
        let run = ["run", &file, "--model", model, "--agents", "", "-t", task];
        let report = place.json(&run);
        let tokens = |key: &str| report[key].as_u64().unwrap();
        assert!(tokens("usable_tokens") < 11_000, "{task}: {report}");
        assert!(tokens("tokens_after") < 11_000, "{task}: {report}");
    }
}
