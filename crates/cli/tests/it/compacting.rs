//! Compactions are announced before they happen, say where less is kept than requested, and make
//! single parts smaller on request.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Place, TIERED, example};
use crate::topics::transcript;

fn imported() -> Place {
    let place = Place::new();
    place.json(&["import", &example()]);
    place
}

fn next_turn(place: &Place, settings: &[&str]) -> Value {
    let mut args = vec!["compact", "--dry-run"];
    for setting in settings {
        args.extend(["--set", setting]);
    }
    place.json(&args)["next_turn"].clone()
}

#[test]
fn a_dry_run_says_what_each_preset_would_do_at_the_next_turn() {
    let place = imported();
    let presets = [
        "checkpoint",
        "retention",
        "progressive",
        "tiered",
        "truncate",
    ];
    let reply = presets.map(|preset| {
        let preset = format!("compaction.preset={preset}");
        let reply = next_turn(&place, &[&preset, "compaction.trigger_tokens=9000"]);
        assert!(!reply["steps"].as_array().unwrap().is_empty(), "{reply}");
        assert!(
            reply["estimated_tokens_after"].as_u64() <= Some(9_000),
            "{reply}"
        );
        reply
    });
    for (at, one) in reply.iter().enumerate() {
        for other in &reply[at + 1..] {
            assert_ne!(one["steps"], other["steps"]);
            assert_ne!(one["keeps"], other["keeps"]);
        }
    }
    let retention = "compaction.preset=retention";
    let kept = |tokens: &str| {
        let settings = [retention, "compaction.trigger_tokens=9000", tokens];
        next_turn(&place, &settings)["estimated_tokens_after"].clone()
    };
    let (less, more) = (
        kept("compaction.keep_tokens=1000"),
        kept("compaction.keep_tokens=4000"),
    );
    assert!(less.as_u64() < more.as_u64(), "{less} {more}");
    // So does a compaction on request.
    let requested = |tokens: &str| {
        let dry = place.json(&["compact", "--dry-run", "--keep-tokens", tokens]);
        dry["estimated_tokens_after"].as_u64().unwrap()
    };
    assert!(requested("500") < requested("4000"));

    let idle = next_turn(&place, &["compaction.preset=checkpoint"]);
    assert_eq!(idle["steps"].as_array().unwrap().len(), 0, "{idle}");
    assert_eq!(idle["starts_above_tokens"], 80_000);
    let shown = place.call(&["compact", "--dry-run"]).expect(0).stdout;
    let says = ["compacts above 80,000 tokens", "nothing to do at"];
    assert!(says.iter().all(|says| shown.contains(says)), "{shown}");
}

#[test]
fn what_a_dry_run_says_of_the_next_turn_is_what_that_does() {
    let place = imported();
    let above = "compaction.trigger_tokens=9000";
    let reply = next_turn(&place, &[above, "turn.agents="]);
    let (before, most) = (
        reply["tokens_before"].as_u64().unwrap(),
        reply["estimated_tokens_after"].as_u64().unwrap(),
    );
    let task = ["--agents", "", "--task", "What is open?"];
    let args = [&["run", "--session", "latest", "--set", above][..], &task].concat();
    let done = place.json(&args);
    let checkpoints = done["checkpoints"].as_array().unwrap().len() as u64;
    let steps = reply["steps"].as_array().unwrap().iter();
    let summaries = steps.filter(|step| step.as_str().unwrap().starts_with("summarise"));
    assert_eq!(checkpoints, summaries.count() as u64, "{reply}");
    // The input is not known before.
    let (was, is) = (&done["tokens_before"], &done["tokens_after"]);
    assert!(was.as_u64().unwrap() - before < 50, "{was} of {before}");
    assert!(is.as_u64().unwrap() <= most + 50, "{is} of {most}");
    let ratio = done["compression_ratio"].as_f64().unwrap();
    let expected = was.as_f64().unwrap() / is.as_f64().unwrap();
    assert!((ratio - expected).abs() < 0.01, "{ratio} {expected}");
}

/// A conversation whose lead got a long result of a delegate and answered.
fn with_long_result() -> Place {
    let rows: Vec<String> = (0..400).map(|row| format!("Row {row} is fine.")).collect();
    let call = json!({"id": "c", "type": "function",
        "function": {"name": "delegate", "arguments": "{\"agent\":\"facts\",\"task\":\"Look.\"}"}});
    let talk = json!([
        {"role": "user", "content": "Look the rows up."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": rows.join("\n")},
        {"role": "assistant", "content": "All rows are fine."},
    ]);
    let place = Place::new();
    place.write("talk.json", talk.to_string());
    place.json(&["import", "talk.json"]);
    place
}

#[test]
fn a_dry_run_foresees_that_the_results_of_delegates_are_masked() {
    let place = with_long_result();
    let reply = next_turn(&place, &["turn.agents="]);
    let steps = reply["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "{reply}");
    let step = steps[0].as_str().unwrap();
    assert!(step.starts_with("mask the tool results of #3"), "{step}");
    let (before, most) = (
        reply["tokens_before"].as_u64().unwrap(),
        reply["estimated_tokens_after"].as_u64().unwrap(),
    );
    assert!(most + 1_000 < before, "{reply}");
    let task = ["--agents", "", "--task", "Is that all?"];
    place.json(&[&["run", "--session", "latest"][..], &task].concat());
    let context = place.json(&["context", "latest"]);
    assert_eq!(context["messages"][2]["form"], "masked", "{context}");
    let again = next_turn(&place, &["turn.agents="]);
    assert_eq!(again["steps"].as_array().unwrap().len(), 0, "{again}");
}

#[test]
fn where_less_is_kept_than_was_asked_for_everybody_says_so() {
    let place = imported();
    let settings = [
        "--set",
        "compaction.preset=retention",
        "--set",
        "compaction.trigger_tokens=3000",
        "--set",
        "compaction.keep_tokens=2900",
    ];
    let ask = [
        "run",
        "--session",
        "latest",
        "--agents",
        "",
        "--task",
        "Go on.",
    ];
    let dry = place.stdout(&[&["compact", "--dry-run"], &settings[..]].concat());
    assert!(dry.contains(" : 1), less kept than requested:"), "{dry}");
    place
        .call(&[&ask[..], &settings].concat())
        .expect(0)
        .says(&["warning    less is kept than requested", " : 1"]);
    let listed = place.json(&["checkpoints", "list"]);
    assert_eq!(listed[0]["tightened"], true, "{listed}");
    let context = place.json(&["context"]);
    assert_eq!(context["summaries"][0]["tightened"], true);
    assert_eq!(context["summaries"][0]["tier"], "conversation");
    assert!(context["summaries"][0]["compression_ratio"].as_f64() > Some(1.0));
    for verb in [&["context"][..], &["checkpoints", "list"]] {
        let shown = place.call(verb).expect(0).stdout;
        let says = ["less kept than requested", "tightened"];
        assert!(says.iter().any(|says| shown.contains(says)), "{shown}");
    }

    // What fits is kept as it was asked for, and nothing is said.
    let place = imported();
    let settings = ["--set", "compaction.trigger_tokens=9000"];
    let quiet = place.call(&[&ask[..], &settings].concat()).expect(0);
    assert!(!quiet.stderr.contains("warning"), "{}", quiet.stderr);
    assert_eq!(place.json(&["checkpoints", "list"])[0]["tightened"], false);
}

#[test]
fn one_topic_the_current_one_and_large_messages_are_made_smaller_on_request() {
    let place = Place::with_config(TIERED);
    place.write("talk.jsonl", transcript(4));
    place.json(&["import", "talk.jsonl"]);
    let dry = place.json(&["compact", "--dry-run", "--topic", "9"]);
    assert_eq!(dry["messages_to_summarise"], 6, "{dry}");
    let done = place.json(&["compact", "--topic", "9", "--yes"]);
    assert_eq!(
        (&done["state"], &done["messages"]),
        (&"compacted".into(), &6.into())
    );
    assert!(done["compression_ratio"].as_f64() > Some(1.0), "{done}");
    let context = place.json(&["context"]);
    let topics = context["topics"]["items"].as_array().unwrap();
    let of = |n: usize| &topics[topics.len() - n];
    let second = of(2);
    assert_eq!(second["title"], "New topic: we plan the library number 1");
    assert_eq!(second["status"], "summarised");
    assert_eq!(second["summary"], done["checkpoint"]);
    assert!(second["sealed_at"].is_string());
    assert_eq!(second["started_at"], Value::Null, "the file has no times");
    assert_eq!(of(1)["summary"], Value::Null);
    assert_eq!(context["summaries"][0]["tier"], "topic");

    place
        .call(&["compact", "--topic", "7", "--yes"])
        .expect(0)
        .says(&["nothing to do", "the topic of #7 is already summarised"]);
    place
        .call(&["compact", "--topic", "24", "--yes"])
        .expect(0)
        .says(&["the topic of #24 is still open: seal it first"]);
    let left = place.json(&["compact", "--topic", "24", "--yes"]);
    assert_eq!(left["state"], "nothing_to_do", "{left}");
    assert_eq!(left["effect"], "nothing", "{left}");
    assert_eq!(
        left["no_change_reason"],
        "the topic of #24 is still open: seal it first"
    );
    what_does_nothing_says_why(&place, &left["session"]);
    place
        .call(&["compact", "--topic", "7", "--attention"])
        .expect(2);

    let done = place.json(&["compact", "--attention", "--yes"]);
    assert_eq!(done["state"], "compacted", "{done}");
    let context = place.json(&["context"]);
    assert_eq!(context["topics"]["items"][0]["status"], "partly_summarised");
    assert_eq!(context["summaries"].as_array().unwrap().len(), 2);
}

/// A compaction over HTTP that does nothing has the reason; one of a message that is not there is
/// refused.
fn what_does_nothing_says_why(place: &Place, session: &Value) {
    let daemon = Daemon::start(place);
    let path = format!("/v1/sessions/{}/compactions", session.as_str().unwrap());
    for (topic, why) in [
        (7, "the topic of #7 is already summarised"),
        (24, "the topic of #24 is still open: seal it first"),
    ] {
        let asked = json!({"topic": topic});
        let done = daemon.post(&path, &asked).expect(200).json();
        assert_eq!(done["state"], "compacted", "{done}");
        assert_eq!(done["tokens_saved"], 0, "{done}");
        assert_eq!(done["no_change_reason"], why, "{done}");
    }
    for topic in [0, 9_999] {
        for path in [&path, &format!("{path}/dry-run")] {
            let refused = daemon.post(path, &json!({"topic": topic})).expect(422);
            let detail = refused.problem("refused");
            let said = format!("the branch has no message #{topic}");
            assert!(detail.contains(&said), "{detail}");
        }
    }
    let topic = ["compact", "--topic", "9999", "--yes"];
    place.call(&topic).expect(2).says(&["no message #9999"]);
    daemon.stop();
    place.call(&topic).expect(2).says(&["no message #9999"]);
}

#[test]
fn large_messages_are_cut_on_request() {
    let place = imported();
    let dry = place.json(&["compact", "--dry-run", "--large=300"]);
    assert!(dry["messages_to_shorten"].as_u64() > Some(0), "{dry}");
    let done = place.call(&["compact", "--large=300", "--yes", "--json"]);
    let done = done.expect(0);
    let lines = done.stderr.lines();
    let reported = lines.filter(|line| line.starts_with("shortened ")).count();
    assert_eq!(reported, 1, "one line for all cuts: {}", done.stderr);
    let done = done.json();
    assert_eq!(done["state"], "shortened", "{done}");
    assert_eq!(done["effect"], "cut", "{done}");
    assert_eq!(done["tokens_after"], dry["estimated_tokens_after"]);
    let context = place.json(&["context"]);
    assert_eq!(context["used_tokens"], done["tokens_after"]);
    let messages = context["messages"].as_array().unwrap().iter();
    let cut = messages.filter(|message| message["form"] == "cut").count();
    assert_eq!(Some(cut as u64), dry["messages_to_shorten"].as_u64());
    place
        .call(&["compact", "--large=300", "--yes"])
        .expect(0)
        .says(&["nothing to do: no verbatim message is too large"]);
    place.call(&["compact", "--large=63"]).expect(2);
}
