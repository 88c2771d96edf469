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
    let begun = task::task("s.t", &begun, &[], Extent::all(""));
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
fn a_status_has_the_time_of_its_change() {
    let at = |state: &str, started: Option<u32>, asked: Option<u32>, resumed: Option<u32>| {
        let instant = |second: u32| format!("2026-05-07T00:00:{second:02}.000Z");
        let mut turn = turn(state, None, json!([]));
        turn["accepted_at"] = instant(10).into();
        turn["started_at"] = started.map(instant).into();
        turn["resumed_at"] = resumed.map(instant).into();
        turn["ended_at"] = (state == "cancelled").then(|| instant(40)).into();
        let waiting = asked.map(|asked| {
            let mut call = waits("c1");
            call["requested_at"] = instant(asked).into();
            serde_json::from_value(call).unwrap()
        });
        let waiting: Vec<Approval> = waiting.into_iter().collect();
        let turn = serde_json::from_value(turn).unwrap();
        let task = task::task("s.t", &turn, &waiting, Extent::all(""));
        task.status.timestamp.unwrap().timestamp() % 60
    };
    assert_eq!(at("queued", None, None, None), 10);
    // The turn before it waits for a call, which is decided.
    assert_eq!(at("queued", None, Some(5), None), 10);
    assert_eq!(at("queued", None, Some(15), None), 15);
    assert_eq!(at("queued", None, None, Some(18)), 18);
    assert_eq!(at("working", Some(20), None, Some(18)), 20);
    assert_eq!(at("working", Some(20), Some(30), None), 30);
    // Of two calls one is decided, then the other.
    assert_eq!(at("working", Some(20), Some(30), Some(35)), 35);
    assert_eq!(at("working", Some(20), None, Some(38)), 38);
    assert_eq!(at("cancelled", Some(20), None, Some(38)), 40);
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
    let rows: [(&[Value], &[&str]); 7] = rows! {
        (&[begun.clone(), says("It "), says("is."), stepped.clone(), answered("It is.")],
         &["answer=It ", "answer+is.", "answer+.", "COMPLETED"]),
        (&[answered("It is.")], &["answer=It is..", "COMPLETED"]),
        (&[begun.clone(), says("It "), missed, says("so!"), answered("It is so!")],
         &["answer=It ", "answer=It is so!.", "COMPLETED"]),
        (&[begun.clone(), says("It w"), retried, says("It is."), answered("It is.")],
         &["answer=It w", "answer=It is.", "answer+.", "COMPLETED"]),
        (&[begun.clone(), says("I look."), stepped.clone(), says("Blue."), stepped.clone(),
           answered("Blue.")],
         &["answer=I look.", "answer=Blue.", "answer+.", "COMPLETED"]),
        // A client that comes in the middle of a reply gets its further pieces, and the whole at the end.
        (&[begun.clone(), says("is."), stepped.clone(), answered("It is.")],
         &["answer=is.", "answer=It is..", "COMPLETED"]),
        (&[begun, says("ok."), stepped.clone(), says("Blue."), stepped, answered("Blue.")],
         &["answer=ok.", "answer=Blue.", "answer+.", "COMPLETED"]),
    };
    for (updates, expected) in rows {
        assert_eq!(lines("working", updates), expected);
    }
}

#[test]
fn a_compaction_that_keeps_less_than_requested_says_so() {
    let compacting = |tightened: Option<u64>| {
        json!({"kind": "compacting", "step": "drop #1–#9", "tokens_before": 9_000,
            "tightened": tightened, "quota_reached": null})
    };
    let updates = [
        compacting(None),
        compacting(Some(8_000)),
        ended("answered", None),
    ];
    let expected = [
        "WORKING: the conversation is compacted: drop #1–#9",
        "WORKING: the conversation is compacted: drop #1–#9; less is kept than requested: otherwise \
         the context would exceed 8,000 tokens",
    ];
    assert_eq!(lines("working", &updates)[..2], expected);
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
fn a_task_with_a_withdrawn_call_goes_on_or_ends_with_it() {
    let waiting = |calls: Value| json!({"kind": "waiting", "calls": calls});
    let gone = |call: &str| json!({"kind": "decided", "call": call, "decision": "withdrawn"});
    let runs =
        |state: &str| json!({"kind": "runs", "agents": [agent("lead", "lead", state, None)]});
    let delegate =
        |state: &str| json!({"kind": "runs", "agents": [agent("facts", "delegate", state, None)]});
    let asks = |call: &str| {
        format!("INPUT_REQUIRED: lead wants to call pay with {{\"eur\":9}} (call {call}). May it?")
    };
    let both = waiting(json!([waits("c1"), waits("c2")]));
    let one = waiting(json!([waits("c1")]));
    let rows: [(&[Value], &[String]); 6] = rows! {
        // Another agent works on, and the end of this one is the last event for now.
        (&[one.clone(), gone("c1"), delegate("failed")], &[asks("c1"), "WORKING".to_owned()]),
        (&[one, gone("c1"), delegate("cancelled")], &[asks("c1"), "WORKING".to_owned()]),
        (&[both.clone(), gone("c1"), delegate("failed")], &[asks("c1"), asks("c2")]),
        (&[both.clone(), gone("c1"), gone("c2"), runs("cancelled"), ended("cancelled", None)],
         &[asks("c1"), "CANCELED".to_owned()]),
        (&[both.clone(), gone("c1"), runs("running"), ended("cancelled", None)],
         &[asks("c1"), asks("c2"), "CANCELED".to_owned()]),
        (&[both, gone("c1"), gone("c2"), runs("running"), ended("cancelled", None)],
         &[asks("c1"), "WORKING".to_owned(), "CANCELED".to_owned()]),
    };
    for (updates, expected) in rows {
        assert_eq!(lines("working", updates), expected);
    }
    // The call of a turn before a queued one.
    let mut before = waits("c1");
    before["turn"] = "before".into();
    let decided = json!({"kind": "decided", "call": "c1", "decision": "approved"});
    let rows = [
        waiting(json!([before])),
        decided,
        runs("running"),
        ended("cancelled", None),
    ];
    let asked = asks("c1");
    let expected = [asked.as_str(), "SUBMITTED", "WORKING", "CANCELED"];
    assert_eq!(lines("queued", &rows), expected);
    // The turn before goes on without it, and the queued one has no event for a long time.
    let rows = [rows[0].clone(), gone("c1")];
    assert_eq!(lines("queued", &rows), [asked.as_str(), "SUBMITTED"]);
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
    let rows = rows! {
        (ended("failed", None), "FAILED: timeout: no answer in 5 s"),
        (failed("hook_denied"), "REJECTED: hook_denied: no answer in 5 s"),
        (of_lead("refused"), "REJECTED: lead_failed: no answer in 5 s"),
        (of_lead("timeout"), "FAILED: lead_failed: no answer in 5 s"),
        (ended("cancelled", None), "CANCELED"),
    };
    for (end, expected) in rows {
        assert_eq!(lines("working", &[end]), [expected]);
    }
}
