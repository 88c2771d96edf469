//! `/metrics`: what Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::http::{Daemon, head};
use crate::support::Place;

/// Samples by name and labels, once everything about the text is right.
#[track_caller]
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with('\n'));
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name), "{name} is described twice");
            assert!(help.ends_with('.'), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "{name} has no help before its type");
            assert!(matches!(kind, "counter" | "gauge"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            kinds.insert(name, kind);
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            assert!(kinds.contains_key(name), "{name} has no type");
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(plain), "{name}");
            if let Some(labels) = key.strip_prefix(name).filter(|rest| !rest.is_empty()) {
                let labels = labels
                    .strip_prefix('{')
                    .and_then(|l| l.strip_suffix('}'))
                    .unwrap();
                for label in labels.split(',') {
                    let (name, value) = label.split_once("=\"").unwrap();
                    assert!(name.chars().all(plain) && value.ends_with('"'), "{line}");
                }
            }
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0, "{line}");
            assert!(
                samples.insert(key.to_owned(), value).is_none(),
                "{key} is told twice"
            );
        }
    }
    let named: BTreeSet<&str> = samples
        .keys()
        .map(|key| key.split('{').next().unwrap())
        .collect();
    for name in kinds.keys() {
        let empty_at_first = *name == "unisono_runs_ended_total";
        assert!(
            named.contains(name) || empty_at_first,
            "{name} has no sample"
        );
    }
    samples
}

#[test]
fn the_text_is_right_and_counts_what_happens() {
    let place = Place::with_config(
        "[agents.broken]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"false\"\nretries = 0\n",
    );
    let daemon = Daemon::start(&place);
    let before = samples(&daemon.get("/metrics").expect(200).text());
    assert_eq!(before["unisono_turns_accepted_total"], 0.0);
    assert_eq!(before["unisono_store_writable"], 1.0);
    assert!(before["process_resident_memory_bytes"] > 1e6);
    let talk =
        json!({"title": "Talk", "messages": [{"role": "user", "content": "We ship on Friday."}]});
    let session = daemon.post("/v1/sessions", &talk).expect(201).json();
    let turns = format!(
        "/v1/sessions/{}/turns",
        session["session"].as_str().unwrap()
    );
    let turn = json!({"task": "When?", "agents": ["facts", "broken"]});
    daemon.post(&turns, &turn).expect(200);
    daemon.get("/v1/nowhere").expect(404);
    let reply = daemon.get("/metrics").expect(200);
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = reply.text();
    let after = samples(&text);
    for (key, value) in [
        ("unisono_sessions_created_total", 1.0),
        ("unisono_turns_accepted_total", 1.0),
        ("unisono_turns_ended_total{outcome=\"answered\"}", 1.0),
        ("unisono_runs_opened_total", 3.0),
        (
            "unisono_runs_ended_total{state=\"finished\",cause=\"\"}",
            2.0,
        ),
        (
            "unisono_runs_ended_total{state=\"failed\",cause=\"exit_failure\"}",
            1.0,
        ),
        ("unisono_attempts{state=\"working\"}", 0.0),
        ("unisono_attempts{state=\"waiting\"}", 0.0),
        ("unisono_cost_usd_total{by=\"agents\"}", 0.0),
        ("unisono_http_responses_total{class=\"4xx\"}", 1.0),
    ] {
        assert_eq!(after.get(key), Some(&value), "{key}: {text}");
    }
    for key in [
        "unisono_model_calls_total{by=\"agents\"}",
        "unisono_store_events_total",
        "unisono_store_appends_total",
    ] {
        assert!(after[key] > before[key], "{key}: {text}");
    }
    // No text of a person, no id and no agent is a label.
    for never in [
        "broken",
        "facts",
        "Talk",
        session["session"].as_str().unwrap(),
    ] {
        assert!(!text.contains(never), "{never}");
    }
    daemon.stop();
}

#[test]
fn nobody_without_the_token_is_told() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let host = ("Host", daemon.address.as_str());
    let bare = head("GET", "/metrics", &[host], 0);
    daemon.send(&bare, b"").expect(401).problem("unauthorized");
    daemon.stop();
}

#[test]
fn what_is_logged_of_a_run_names_session_turn_and_run() {
    let place = Place::with_config(
        "[log]\nlevel = \"debug\"\nformat = \"json\"\n[providers.openai-compatible]\nbase_url = \"http://127.0.0.1:9/v1\"\nattempts = 1\n[agent_defaults]\nretries = 0\n[compaction]\nsummarisers = [\"extractive\"]\n",
    );
    place.write(
        "talk.json",
        r#"[{"role":"user","content":"We ship on Friday."}]"#,
    );
    let args = [
        "run",
        "talk.json",
        "--model",
        "openai-compatible/none",
        "--agents",
        "",
        "--json",
    ];
    let done = place.call(&args).expect(1);
    let report = done.json();
    let lines = done
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let spans = |line: &serde_json::Value| line["spans"].as_array().cloned().unwrap_or_default();
    let of_run: Vec<_> = lines
        .flat_map(|line| spans(&line))
        .filter(|span| span["name"] == "run")
        .collect();
    assert!(!of_run.is_empty(), "{}", done.stderr);
    for span in of_run {
        assert_eq!(span["session"], report["session"], "{span}");
        assert_eq!(span["turn"], report["turn"], "{span}");
        assert_eq!(span["agent"], "lead");
        assert!(
            span["run"].as_str().is_some_and(|id| id.len() == 36),
            "{span}"
        );
    }
}
