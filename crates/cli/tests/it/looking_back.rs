//! What the journal tells of turns that have ended: when their parts happened, how large their context
//! was, what was used on which day; and what a task would use.

use serde_json::{Value, json};
use unisono_fake_provider::Usage;

use crate::cache::place;
use crate::http::Daemon;
use crate::support::example;

const CACHED: Usage = Usage::new(12_000, 7).cached(9_000, 0);

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn usage_is_told_by_day_agent_model_and_session_cached_against_not() {
    let (place, _provider) = place(CACHED);
    place.json(&["run", &example(), "--agents", "risks,facts"]);
    let total = place.json(&["usage"])["total"].clone();
    for by in ["day", "agent", "model", "session"] {
        let output = place.json(&["usage", "--by", by]);
        let groups = output["groups"].as_array().unwrap();
        assert_eq!(
            groups.len(),
            if by == "agent" { 3 } else { 1 },
            "{output:#}"
        );
        let sum = |key: &str| groups.iter().map(|group| number(&group[key])).sum::<u64>();
        assert_eq!(sum("input_tokens"), number(&total["input_tokens"]), "{by}");
        let uncached = number(&total["input_tokens"]) - number(&total["cache_read_tokens"]);
        assert_eq!(sum("uncached_tokens"), uncached, "{by}");
        assert_eq!((sum("jobs"), uncached), (3, 9_000), "{by}");
        let table = place.call(&["usage", "--by", by]).expect(0).stdout;
        assert!(table.starts_with(&by.to_uppercase()), "{table}");
    }
    let today = place.json(&["usage", "--by", "day"])["groups"][0]["key"].clone();
    let today = today.as_str().unwrap();
    let since = place.json(&["usage", "--from", today, "--to", today]);
    assert_eq!(since["total"], total);
    let never = place.json(&["usage", "--by", "day", "--to", "2001-01-01"]);
    assert_eq!(
        (&never["rows"], &never["groups"]),
        (&json!([]), &Value::Null)
    );
    // An agent's usage over time is its part of the total.
    let rows = since["rows"].as_array().unwrap();
    let of_one = |row: &Value| {
        let (agent, model) = (
            row["agent"].as_str().unwrap_or("(summaries)"),
            row["model"].as_str().unwrap(),
        );
        place.json(&["usage", "--by", "day", "--agent", agent, "--model", model])
    };
    assert!(rows.len() > 1);
    for row in rows {
        let used = of_one(row);
        assert_eq!(used["rows"], json!([row]));
        assert_eq!(used["groups"][0]["input_tokens"], row["input_tokens"]);
        assert_eq!(used["groups"].as_array().unwrap().len(), 1);
    }
    let nobody = place.call(&["usage", "--agent", "nobody"]).expect(0);
    nobody.says(&["no usage matches: choose other days, another agent or another model"]);
    place
        .call(&["usage", "--from", "soon"])
        .expect(2)
        .says(&["\"soon\" is not a day", "2026-03-06"]);

    // What deleted sessions used has no day.
    let daemon = Daemon::start(&place);
    let listed = daemon.get("/v1/sessions").expect(200).json();
    let id = listed["items"][0]["session"].as_str().unwrap();
    daemon.delete(&format!("/v1/sessions/{id}")).expect(204);
    let gone = daemon.get("/v1/usage?by=day").expect(200).json();
    assert_eq!(gone["total"], total);
    assert_eq!(gone["groups"], Value::Null, "{gone}");
    let by_agent = daemon.get("/v1/usage?by=agent").expect(200).json();
    assert_eq!(by_agent["groups"].as_array().unwrap().len(), 3);
    daemon
        .get("/v1/usage?from=2026-02-30")
        .expect(422)
        .problem("refused");
    daemon.stop();
}

#[test]
fn a_contexts_size_is_that_of_its_snapshot_and_a_timeline_is_in_order() {
    let (place, _provider) = place(CACHED);
    let report = place.json(&["run", &example(), "--agents", "risks,facts"]);
    let session = report["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let at = |rest: &str| format!("/v1/sessions/{session}{rest}");
    let compacted = daemon.post(&at("/compactions"), &json!({"keep_messages": 20}));
    compacted.expect(200);
    let asked = daemon.posted(&at("/turns"), &json!({"task": "And now?", "agents": []}));

    let history = daemon.get(&at("/context/history")).expect(200).json();
    let sizes = history["items"].as_array().unwrap();
    assert_eq!(sizes.len(), 3, "{history:#}");
    for size in [&sizes[0], &sizes[2]] {
        let turn = size["turn"].as_str().unwrap();
        let turn = daemon.json(&at(&format!("/turns/{turn}")));
        let snapshot = turn["snapshot"].as_str().unwrap();
        let frozen = daemon.json(&at(&format!("/snapshots/{snapshot}")));
        let sum = |key: &str| -> u64 {
            let parts = frozen[key].as_array().unwrap().iter();
            parts.map(|part| number(&part["tokens"])).sum()
        };
        assert_eq!(number(&size["summary_tokens"]), sum("summaries"));
        let tokens = sum("summaries") + sum("messages");
        assert_eq!(number(&size["tokens"]), tokens, "{size}");
        let messages = frozen["messages"].as_array().unwrap().len() as u64;
        assert_eq!(number(&size["messages"]), messages);
    }
    assert_eq!(sizes[1]["changed"], true);
    assert!(sizes[1]["tokens"].as_u64() < sizes[1]["tokens_before"].as_u64());
    daemon
        .get(&at("/context/history?branch=other"))
        .expect(404)
        .problem("not_found");
    daemon
        .get(&at("/context/history?cursor=x"))
        .expect(400)
        .problem("invalid_request");

    let turn = asked["turn"].as_str().unwrap();
    let times = daemon.json(&at(&format!("/turns/{turn}/timeline")));
    let run = &times["runs"][0];
    let instants = [
        &times["accepted_at"],
        &times["started_at"],
        &times["frozen_at"],
        &run["opened_at"],
        &run["started_at"],
        &run["first_token_at"],
        &run["ended_at"],
        &times["ended_at"],
        &times["now"],
    ];
    let instants: Vec<&str> = instants.iter().map(|at| at.as_str().unwrap()).collect();
    assert!(instants.is_sorted(), "{times:#}");
    let spans = run["spans"].as_array().unwrap();
    assert!(spans.iter().all(|span| span["to"].is_string()), "{run:#}");
    daemon.stop();
}

#[test]
fn an_estimate_is_near_what_is_counted_and_starts_nothing() {
    let (place, _provider) = place(CACHED);
    let imported = place.json(&["import", &example()]);
    let session = imported["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let at = |rest: &str| format!("/v1/sessions/{session}{rest}");
    let new = json!({"task": "What could go wrong?", "agents": ["risks", "facts=List the dates."]});
    let reply = daemon.post(&at("/turns/estimate"), &new).expect(200).json();
    let runs = reply["runs"].as_array().unwrap();
    let agents: Vec<&str> = runs
        .iter()
        .map(|run| run["agent"].as_str().unwrap())
        .collect();
    assert_eq!(agents, ["risks", "facts", "lead"]);
    let context = number(&reply["context_tokens_after"]);
    for run in runs {
        assert!(number(&run["input_tokens"]) > context, "{reply:#}");
        assert!(run["max_cost_usd"].as_f64() > run["input_cost_usd"].as_f64());
    }
    assert_eq!(number(&runs[0]["shared_tokens"]), 0);
    assert!(number(&runs[1]["shared_tokens"]) >= context);
    assert_eq!(reply["problem"], Value::Null);
    assert_eq!(
        daemon.get(&at("/turns")).expect(200).json()["items"],
        json!([])
    );
    assert_eq!(reply["warnings"], json!([]));
    let mut limited = new.clone();
    limited["settings"] = json!({"budget.turn.max_tokens": 5_000});
    let reply = daemon.posted(&at("/turns/estimate"), &limited);
    let warning = reply["warnings"][0].as_str().unwrap();
    let left = "the turn's budget has 5,000 tokens left, and this may need ";
    assert!(warning.starts_with(left), "{reply:#}");
    let wrong = json!({"task": "x", "agents": ["nobody"]});
    daemon.post(&at("/turns/estimate"), &wrong).expect(422);
    let elsewhere = json!({"task": "x", "branch": "other"});
    daemon.post(&at("/turns/estimate"), &elsewhere).expect(404);
    // Nothing was said yet.
    let empty = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let empty = empty["session"].as_str().unwrap();
    let first = daemon.post(
        &format!("/v1/sessions/{empty}/turns/estimate"),
        &json!({"task": "Hi"}),
    );
    assert_eq!(number(&first.expect(200).json()["context_tokens"]), 0);
    daemon.stop();
}

#[test]
fn an_estimate_says_that_a_task_larger_than_the_window_fails() {
    let (place, _provider) = place(CACHED);
    let imported = place.json(&["import", &example()]);
    let session = imported["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let empty = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let empty = empty["session"].as_str().unwrap();
    // No compaction makes room for it, with and without messages before it.
    let new = json!({"task": "z ".repeat(400_000), "agents": []});
    for session in [session, empty] {
        let at = format!("/v1/sessions/{session}/turns/estimate");
        let reply = daemon.post(&at, &new).expect(200).json();
        let problem = reply["problem"].as_str().unwrap();
        assert!(
            problem.starts_with("context overflow: the pending input"),
            "{problem}"
        );
        assert_eq!(reply["steps"], json!([]));
    }
    daemon.stop();
}
