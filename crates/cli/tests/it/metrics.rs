//! `/metrics`: what Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::http::{Daemon, head};
use crate::support::{HasAll as _, Place};

/// A line of the text: a name, labels, a value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads a line as the format (0.0.4) has it and as no other.
fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = match after.strip_prefix(',') {
                Some(next) if !next.starts_with('}') => next,
                Some(_) => return Err("a comma before the end".to_owned()),
                None if after.starts_with('}') => after,
                None => return Err("no comma between labels".to_owned()),
            };
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    if value.is_empty() || value.contains(' ') {
        return Err("a value and nothing else has to follow".to_owned());
    }
    let value = match value {
        "NaN" | "+Inf" | "-Inf" => return Err(format!("{value} says nothing")),
        number => number.parse().map_err(|_| "no number".to_owned())?,
    };
    let name = name.to_owned();
    Ok(Sample {
        name,
        labels,
        value,
    })
}

/// The value of a label and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('\\' | '"'))) => value.push(c),
                other => return Err(format!("an unknown escape {other:?}")),
            },
            c => value.push(c),
        }
    }
    Err("a label's value does not end".to_owned())
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// What is wrong with a family by the rules of Prometheus's linter.
fn lint(name: &str, kind: &str, help: &str) -> Vec<&'static str> {
    let words: Vec<&str> = name.split('_').collect();
    let has = |all: &[&str]| words.iter().any(|word| all.contains(word));
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let rules = rows! {
        (!is_name(name), "the name is none"),
        (help.is_empty() || !help.ends_with('.'), "the help is no sentence"),
        (help.contains('\\') || help.contains(name), "the help says nothing more"),
        (!matches!(kind, "counter" | "gauge" | "histogram"), "the type is unknown"),
        ((kind == "counter") != name.ends_with("_total"), "_total is for counters"),
        (has(&["counter", "gauge", "histogram"]), "the type is in the name"),
        (ends(&["_count", "_sum", "_bucket"]), "that ending is a histogram's"),
        (
            has(&[
                "ms",
                "milliseconds",
                "minutes",
                "hours",
                "kb",
                "kib",
                "mb",
                "mib",
                "kilobytes",
                "megabytes",
                "percent",
                "cents",
            ]),
            "the unit is no base unit",
        ),
    };
    let broken = rules.into_iter().filter(|(broken, _)| *broken);
    broken.map(|(_, rule)| rule).collect()
}

/// Samples by name and labels, once everything about the text is right.
#[track_caller]
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with('\n') && !text.contains("\r") && !text.contains("\n\n"));
    let mut families = BTreeSet::new();
    let mut samples = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
            .unwrap_or_else(|| panic!("a family begins with its help: {line}"));
        assert!(
            families.insert(name),
            "{name} is told twice, or in two places"
        );
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
        let kind = kind.and_then(|rest| rest.strip_prefix(name)?.strip_prefix(' '));
        let kind = kind.unwrap_or_else(|| panic!("{name} has no type after its help"));
        assert_eq!(lint(name, kind, help), Vec::<&str>::new(), "{name}");
        let mut labels: Option<Vec<String>> = None;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let found = sample(line).unwrap_or_else(|why| panic!("{why}: {line}"));
            assert!(found.value >= 0.0, "{line}");
            if kind == "histogram" {
                let part = found.name.strip_prefix(name).unwrap_or_default();
                let labels: Vec<&str> = found.labels.iter().map(|(name, _)| &**name).collect();
                let known: &[&str] = if part == "_bucket" { &["le"] } else { &[] };
                assert!(["_bucket", "_sum", "_count"].contains(&part), "{line}");
                assert_eq!(labels, known, "{line}");
                let key = line.rsplit_once(' ').unwrap().0.to_owned();
                assert!(samples.insert(key, found.value).is_none(), "{line}");
                continue;
            }
            assert_eq!(found.name, name, "{line}");
            let names: Vec<String> = found.labels.iter().map(|(name, _)| name.clone()).collect();
            let unique: BTreeSet<&String> = names.iter().collect();
            let good =
                |name: &&String| is_name(name) && !matches!(name.as_str(), "le" | "quantile");
            assert!(
                unique.len() == names.len() && names.iter().all(|name| good(&name)),
                "{line}"
            );
            let same = labels.get_or_insert_with(|| names.clone());
            assert_eq!(
                *same, names,
                "the samples of a family have the same labels: {line}"
            );
            let key = line.rsplit_once(' ').unwrap().0.to_owned();
            assert!(
                samples.insert(key, found.value).is_none(),
                "{line} is told twice"
            );
        }
        let empty_at_first = name == "unisono_runs_ended_total";
        assert!(
            labels.is_some() || empty_at_first || kind == "histogram",
            "{name} has no sample"
        );
    }
    samples
}

#[test]
fn the_checks_of_the_text_find_what_is_wrong() {
    let good = sample(r#"a_total{x="1",y="a\"b\\c\nd,}"} 3.5"#).unwrap();
    assert_eq!((good.name.as_str(), good.value), ("a_total", 3.5));
    assert_eq!(good.labels[1], ("y".to_owned(), "a\"b\\c\nd,}".to_owned()));
    assert!(sample("a 1").unwrap().labels.is_empty());
    for bad in [
        "a",
        "a  1",
        "a 1 2",
        "a one",
        "a NaN",
        "a{x=1} 1",
        "a{x=\"1\"}1",
        "a{x=\"1\",} 1",
        "a{x=\"1\" y=\"2\"} 1",
        "a{x=\"\\q\"} 1",
        "a{x=\"1} 1",
    ] {
        assert!(sample(bad).is_err(), "{bad}");
    }
    assert!(lint("a_seconds_total", "counter", "Some seconds.").is_empty());
    for (name, kind, help) in [
        ("a_ms_total", "counter", "Some."),
        ("a_total", "gauge", "Some."),
        ("a", "counter", "Some."),
        ("a_gauge", "gauge", "Some."),
        ("a_count", "gauge", "Some."),
        ("A", "gauge", "Some."),
        ("a", "gauge", ""),
        ("a", "summary", "Some."),
    ] {
        assert!(!lint(name, kind, help).is_empty(), "{name} {kind} {help}");
    }
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
    for (key, value) in rows! {
        ("unisono_sessions_created_total", 1.0),
        ("unisono_turns_accepted_total", 1.0),
        ("unisono_turns_ended_total{outcome=\"answered\"}", 1.0),
        ("unisono_runs_opened_total", 3.0),
        ("unisono_runs_ended_total{state=\"finished\",cause=\"\"}", 2.0),
        ("unisono_runs_ended_total{state=\"failed\",cause=\"exit_failure\"}", 1.0),
        ("unisono_attempts{state=\"working\"}", 0.0),
        ("unisono_attempts{state=\"waiting\"}", 0.0),
        ("unisono_cost_usd_total{by=\"agents\"}", 0.0),
        ("unisono_http_responses_total{class=\"4xx\"}", 1.0),
    } {
        assert_eq!(after.get(key), Some(&value), "{key}: {text}");
    }
    for key in [
        "unisono_model_calls_total{by=\"agents\"}",
        "unisono_store_events_total",
        "unisono_store_appends_total",
        "unisono_store_append_seconds_count",
        "unisono_store_append_seconds_bucket{le=\"+Inf\"}",
        "unisono_store_append_seconds_sum",
    ] {
        assert!(after[key] > before[key], "{key}: {text}");
    }
    // No text of a person, no id and no agent is a label.
    text.has_none(&[
        "broken",
        "facts",
        "Talk",
        session["session"].as_str().unwrap(),
    ]);
    daemon.stop();
}

/// The rows of the reference: the metrics of a daemon, and those with a database.
#[test]
fn the_book_has_every_metric() {
    let page = include_str!("../../../../docs/src/reference/metrics.md");
    let name = |line: &'static str| line.strip_prefix("| `")?.split('`').next();
    let listed: BTreeSet<&str> = page.lines().filter_map(name).collect();
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let text = daemon.get("/metrics").expect(200).text();
    daemon.stop();
    let families = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families: BTreeSet<&str> = families.collect();
    let of_database = listed
        .iter()
        .filter(|name| name.starts_with("unisono_cluster_"));
    let of_database: BTreeSet<&str> = of_database.copied().collect();
    let of_directory: BTreeSet<&str> = listed.difference(&of_database).copied().collect();
    assert_eq!(families, of_directory);
    assert_eq!(of_database.len(), 7);
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
    place.talk();
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

/// Prometheus's own check of the text, where `PROMTOOL` names the program.
#[test]
fn promtool_accepts_what_is_told() {
    let Some(promtool) = std::env::var_os("PROMTOOL") else {
        println!("skipped: the variable PROMTOOL names no program");
        return;
    };
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "We ship on Friday."}]});
    let id = daemon.session(&new);
    let turns = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "When do we ship?", "agents": ["facts"]});
    daemon.post(&turns, &task).expect(200);
    let reply = daemon.get("/metrics").expect(200).text();
    daemon.stop();
    let mut checking = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = checking.stdin.take().unwrap();
    input.write_all(reply.as_bytes()).unwrap();
    drop(input);
    let said = checking.wait_with_output().unwrap();
    let found = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.success() && found.is_empty(),
        "{found}\n{reply}"
    );
}
