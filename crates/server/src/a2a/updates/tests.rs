//! The events of a task, from the events of its turn.

use serde_json::{Value, json};

use super::*;
use crate::a2a::task::Extent;

const NOW: &str = "2026-05-07T00:00:01Z";

fn turn(state: &str, answer: Option<&str>, runs: Value) -> Value {
    let ended = !matches!(state, "queued" | "working");
    let error =
        (state == "failed").then(|| json!({"code": "timeout", "reason": "no answer in 5 s"}));
    json!({"session": "s", "turn": "t", "branch": "main", "task": "Why?", "state": state,
        "error": error, "answer": answer, "snapshot": null, "snapshot_agents": 0,
        "checkpoints": [], "runs": runs, "cost_usd": null, "accepted_at": "2026-05-07T00:00:00Z",
        "ended_at": ended.then_some("2026-05-07T00:00:02Z")})
}

fn agent(run: &str, role: &str, state: &str, text: Option<&str>) -> Value {
    json!({"place": 0, "run": run, "agent": run, "role": role, "stage": null, "parent": null,
        "state": state, "attempt": 1, "text": text, "error": null, "usage": null,
        "duration_ms": null})
}

fn waits(call: &str) -> Value {
    json!({"call": call, "kind": "approval", "session": "s", "turn": "t", "run": "lead",
        "agent": "lead", "tool": "pay", "arguments": {"eur": 9}, "contract": "at_most_once",
        "rule": "pay", "requested_at": "2026-05-07T00:00:01Z", "expires_at": null})
}

fn ended(state: &str, answer: Option<&str>) -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": 2, "cache_expected_tokens": 0,
        "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null});
    json!({"kind": "ended", "turn": turn(state, answer, json!([])), "agents": [],
        "answer_message": 2, "tokens_before": null, "tokens_after": null, "usage": usage,
        "budgets": []})
}

/// The events of these updates, shortly.
fn lines(state: &str, updates: &[Value]) -> Vec<String> {
    let begun = serde_json::from_value(turn(state, None, json!([]))).unwrap();
    let begun = task::task("s.t", &begun, &[], Extent::ALL);
    let mut made = Updates::new(&begun, Vec::new());
    let mut all = Vec::new();
    for update in updates {
        let events = made.take(serde_json::from_value(update.clone()).unwrap(), NOW);
        all.extend(events.iter().map(short));
    }
    let is_over = updates.last().unwrap()["kind"] == "ended";
    assert_eq!(made.is_ended(), is_over);
    all
}

fn short(event: &StreamResponse) -> String {
    match event {
        StreamResponse::StatusUpdate(update) => {
            let state = serde_json::to_value(&update.status.state).unwrap();
            let state = state
                .as_str()
                .unwrap()
                .trim_start_matches("TASK_STATE_")
                .to_owned();
            let said = update.status.message.as_ref().and_then(|said| said.text());
            let said = said.map(|said| format!(": {}", said.lines().next().unwrap()));
            assert!(update.status.timestamp.is_some());
            format!("{state}{}", said.unwrap_or_default())
        }
        StreamResponse::ArtifactUpdate(update) => {
            let sign = match update.append {
                Some(true) => "+",
                _ => "=",
            };
            let end = match update.last_chunk {
                Some(true) => ".",
                _ => "",
            };
            let text = update.artifact.parts[0].as_text().unwrap();
            format!("{}{sign}{text}{end}", update.artifact.artifact_id)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_is_whole_whatever_was_missed_or_tried_again() {
    let begun = json!({"kind": "runs", "agents": [agent("lead", "lead", "running", None)]});
    let says = |text: &str| json!({"kind": "text", "run": "lead", "text": text});
    let stepped = json!({"kind": "run_stepped", "run": "lead"});
    let retried = json!({"kind": "run_retried", "reason": "cut",
        "agent": agent("lead", "lead", "running", None)});
    let missed = json!({"kind": "missed"});
    let answered = |text| ended("answered", Some(text));
    let rows: [(&[Value], &[&str]); 7] = [
        (
            &[
                begun.clone(),
                says("It "),
                says("is."),
                stepped.clone(),
                answered("It is."),
            ],
            &["answer=It ", "answer+is.", "answer+.", "COMPLETED"],
        ),
        (&[answered("It is.")], &["answer=It is..", "COMPLETED"]),
        (
            &[
                begun.clone(),
                says("It "),
                missed,
                says("so!"),
                answered("It is so!"),
            ],
            &["answer=It ", "answer=It is so!.", "COMPLETED"],
        ),
        (
            &[
                begun.clone(),
                says("It w"),
                retried,
                says("It is."),
                answered("It is."),
            ],
            &["answer=It w", "answer=It is.", "answer+.", "COMPLETED"],
        ),
        (
            &[
                begun.clone(),
                says("I look."),
                stepped.clone(),
                says("Blue."),
                stepped.clone(),
                answered("Blue."),
            ],
            &["answer=I look.", "answer=Blue.", "answer+.", "COMPLETED"],
        ),
        // A client that comes in the middle of a reply gets its further pieces, and the whole at the end.
        (
            &[
                begun.clone(),
                says("is."),
                stepped.clone(),
                answered("It is."),
            ],
            &["answer=is.", "answer=It is..", "COMPLETED"],
        ),
        (
            &[
                begun,
                says("ok."),
                stepped.clone(),
                says("Blue."),
                stepped,
                answered("Blue."),
            ],
            &["answer=ok.", "answer=Blue.", "answer+.", "COMPLETED"],
        ),
    ];
    for (updates, expected) in rows {
        assert_eq!(lines("working", updates), expected);
    }
}

#[test]
fn other_agents_results_are_artifacts_of_their_own_each_once() {
    let runs = |agents: Value| json!({"kind": "runs", "agents": agents});
    let rows = [
        runs(json!([agent("facts", "delegate", "running", None)])),
        json!({"kind": "progress", "run": "facts", "text": "reads"}),
        runs(json!([agent("facts", "delegate", "done", Some("Three."))])),
        runs(json!([agent("facts", "delegate", "done", Some("Three."))])),
        runs(json!([agent("risks", "delegate", "failed", Some("?"))])),
        ended("answered", Some("So.")),
    ];
    let expected = [
        "WORKING",
        "WORKING: facts: reads",
        "facts=Three..",
        "answer=So..",
        "COMPLETED",
    ];
    assert_eq!(lines("queued", &rows), expected);
}

#[test]
fn a_person_is_asked_about_all_calls_that_wait() {
    let decided = |call: &str| json!({"kind": "decided", "call": call, "decision": "approved"});
    let waiting = |calls: Value| json!({"kind": "waiting", "calls": calls});
    let rows = [
        waiting(json!([waits("c1")])),
        waiting(json!([waits("c1")])),
        waiting(json!([waits("c2")])),
        decided("c1"),
        decided("c9"),
        decided("c2"),
        ended("cancelled", None),
    ];
    let asks = |call: &str| {
        format!("INPUT_REQUIRED: lead wants to call pay with {{\"eur\":9}} (call {call}). May it?")
    };
    let expected = [
        asks("c1"),
        asks("c1"),
        asks("c2"),
        "WORKING".to_owned(),
        "CANCELED".to_owned(),
    ];
    assert_eq!(lines("working", &rows), expected);
}

#[test]
fn the_end_says_what_became_of_it() {
    let failed = |code: &str| {
        let mut end = ended("failed", None);
        end["turn"]["error"]["code"] = code.into();
        end
    };
    let of_lead = |code: &str| {
        let mut end = failed("lead_failed");
        let usage = end["usage"].clone();
        end["turn"]["runs"] = json!([{"run": "lead", "agent": "lead", "role": "lead",
            "state": "failed", "attempt": 1, "step_count": 0, "prefix": "p",
            "error": {"code": code, "reason": "no"}, "usage": usage, "opened_at": NOW}]);
        end
    };
    let rows = [
        (ended("failed", None), "FAILED: timeout: no answer in 5 s"),
        (
            failed("hook_denied"),
            "REJECTED: hook_denied: no answer in 5 s",
        ),
        (
            of_lead("refused"),
            "REJECTED: lead_failed: no answer in 5 s",
        ),
        (of_lead("timeout"), "FAILED: lead_failed: no answer in 5 s"),
        (ended("cancelled", None), "CANCELED"),
    ];
    for (end, expected) in rows {
        assert_eq!(lines("working", &[end]), [expected]);
    }
}
