//! What the provider's cache was good for, told wherever a run is, and what was learnt of a
//! model's tokens, kept while the daemon runs.

use std::time::Instant;

use serde_json::json;
use unisono_fake_provider::{Answer, FakeProvider, Script, Usage};

use crate::http::Daemon;
use crate::serve_page::Browser;
use crate::support::{HasAll as _, PATIENCE, Place, example};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const MISSED: &str = "(missed)";
const UNCACHED: Usage = Usage::new(12_000, 7);

/// A place whose provider reports this usage with each reply.
pub(crate) fn place(used: Usage) -> (Place, FakeProvider) {
    let provider = FakeProvider::play_on_thread(Script::always(Answer::text("Well.").usage(used)));
    let more =
        format!("[models]\ndefault = \"{MODEL}\"\n[compaction]\nsummarisers = [\"extractive\"]\n");
    let place = Place::with_key_file("anthropic", &provider, &more);
    (place, provider)
}

#[test]
fn a_hit_that_was_expected_and_missed_is_flagged_everywhere() {
    let (place, _provider) = place(UNCACHED);
    let file = example();
    let args = ["run", &file, "--agents", "risks,facts"];
    let report = place.json(&args);
    let missed = |run: &serde_json::Value| run["cache_missed"] == true;
    let runs = report["runs"].as_array().unwrap();
    // The first wrote it, as far as one can tell.
    assert_eq!(
        runs.iter().filter(|run| missed(run)).count(),
        2,
        "{report:#}"
    );
    assert_eq!(report["usage"]["cache_missed"], true, "{report:#}");

    let usage = place.call(&["usage"]).expect(0).stdout;
    usage.has_all(&["WRITTEN", MISSED]);
    let listed = place.json(&["runs", "list"]);
    let run_of = |agent: &str| {
        let runs = listed.as_array().unwrap().iter();
        let mut own = runs.filter(|run| run["agent"] == agent);
        own.next().unwrap()["run"].as_str().unwrap().to_owned()
    };
    let (session, lead) = (report["session"].as_str().unwrap(), run_of("lead"));
    let shown = place.call(&["runs", "show", &lead]).expect(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("cache"));
    assert!(line.unwrap().contains("read 0 of ") && line.unwrap().ends_with(MISSED));
    let whole = place.json(&["runs", "show", &lead]);
    assert_eq!(whole["usage"]["cache_missed"], true, "{whole}");

    let daemon = Daemon::start(&place);
    let own = daemon.json(&format!("/v1/sessions/{session}/runs/{lead}"));
    assert_eq!(own["usage"]["cache_missed"], true, "{own}");
    let page = format!("/sessions/{session}/runs/{lead}");
    let page = Browser::enter(&daemon).get(&page).expect(200).text();
    assert!(page.contains(MISSED), "{page}");
    let new = json!({"task": "And now?", "agents": [{"agent": "risks"}]});
    let given = daemon.posted(&format!("/v1/sessions/{session}/delegations"), &new);
    let used = &given["usage"];
    assert_eq!(used["input_tokens"], 24_000, "the lead's too: {given}");
    assert_eq!(used["cost_usd"], given["cost_usd"]);
    assert!(
        used["cache_expected_tokens"].as_u64().unwrap() > 0,
        "{given}"
    );
    assert_eq!(used["cache_missed"], true, "{given}");
    daemon.stop();
}

#[test]
fn what_was_learnt_is_kept_while_the_daemon_runs() {
    let (place, _provider) = place(UNCACHED);
    let daemon = Daemon::start(&place);
    let session = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let id = session["session"].as_str().unwrap();
    let new = json!({"task": "May we ship on Friday?", "wait": false});
    let turns = format!("/v1/sessions/{id}/turns");
    daemon.post(&turns, &new).expect(202);
    let start = Instant::now();
    loop {
        let models = place.json(&["models", "claude-sonnet-4-5"]);
        if models[0]["calibration"]["replies"].as_u64() > Some(0) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{models}");
    }
    daemon.stop();
}
