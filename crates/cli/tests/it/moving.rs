//! Sessions that move to another store: what an agent would be given is the same there.

use serde_json::{Value, json};

use crate::support::{HasAll as _, Place, TIERED};

/// What tiers keep little of, tool results too.
fn settings() -> String {
    format!("{TIERED}mask_over_tokens = 100\nmask_keep_newest = 1\n")
}

/// Topics that each look something up.
fn transcript(topics: usize) -> String {
    let mut lines = String::new();
    let mut say = |message: Value| lines.push_str(&format!("{message}\n"));
    for topic in 0..topics {
        let opening = if topic > 0 { "New topic: " } else { "" };
        say(json!({"role": "user", "content": format!("{opening}we plan depot {topic}.")}));
        let id = format!("c{topic}");
        say(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]}));
        let rows: Vec<String> = (0..60)
            .map(|n| format!("shelf {n} holds {topic}{n}"))
            .collect();
        say(json!({"role": "tool", "tool_call_id": id, "content": rows.join("; ")}));
        let costs = format!("Depot {topic} costs {topic}00 euro. ").repeat(12);
        say(json!({"role": "assistant", "content": costs}));
        say(json!({"role": "user", "content": format!("It must open on day {topic}.")}));
    }
    lines
}

/// What of a context follows from the conversation.
fn contexts(place: &Place, branches: &[&str]) -> Vec<Value> {
    let context = |branch: &&str| place.json(&["context", "latest", "--branch", branch]);
    branches.iter().map(context).collect()
}

/// The export of the newest session, imported into a store of its own.
fn moved(place: &Place, args: &[&str], settings: &str) -> Place {
    let written = place
        .call(&[&["export", "latest"], args].concat())
        .expect(0);
    let other = Place::with_config(settings);
    other.write("talk.jsonl", written.stdout);
    other.json(&["import", "talk.jsonl"]);
    other
}

fn ask(place: &Place, branch: &str, task: &str, flags: &[&str]) {
    let args = [
        "run",
        "--session",
        "latest",
        "--branch",
        branch,
        "--agents",
        "",
        "--task",
        task,
    ];
    place.call(&[&args[..], flags].concat()).expect(0);
}

fn revert(place: &Place) {
    place
        .call(&["checkpoints", "revert", "latest", "--yes"])
        .expect(0);
}

#[test]
fn topics_masks_cuts_and_what_was_taken_back_move_with_a_session() {
    let place = Place::with_config(&settings());
    place.write("talk.jsonl", transcript(14));
    place.json(&["import", "talk.jsonl"]);
    let compact = ["compact", "latest", "--keep", "60", "--yes"];
    place.call(&compact).expect(0);
    revert(&place);
    place.call(&compact).expect(0);
    ask(&place, "main", "New topic: what is to be done?", &[]);
    place.call(&["seal", "latest"]).expect(0);
    place.call(&["pin", "latest", "2"]).expect(0);
    place
        .call(&["sessions", "branch", "latest", "side", "--at", "40"])
        .expect(0);
    ask(&place, "side", "New topic: and here?", &[]);
    ask(&place, "main", "What of depot 3?", &[]);
    let branches = ["main", "side"];
    let before = contexts(&place, &branches);
    let topics = before[0]["topics"]["items"].as_array().unwrap();
    assert!(
        topics.iter().any(|t| t["ended_by"] == "person"),
        "{topics:?}"
    );
    assert!(
        topics.iter().any(|t| t["ended_by"] == "phrase"),
        "{topics:?}"
    );
    let export = place.call(&["export", "latest"]).expect(0).stdout;
    export.has_all(&[
        "\"topics\"",
        "\"sealed\"",
        "\"masked\"",
        "\"retired\":true",
        "\"after\":",
    ]);

    let other = moved(&place, &[], &settings());
    assert_eq!(contexts(&other, &branches), before);
    // All lines but the first, whose label names the file it was imported from.
    let lines = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let again = other.call(&["export", "latest"]).expect(0).stdout;
    assert_eq!(lines(&again), lines(&export));
    let main = moved(&place, &["--branch", "main"], &settings());
    assert_eq!(contexts(&main, &["main"])[0], before[0]);

    // And what comes next is the same: a summary taken back, a turn that compacts.
    for place in [&place, &other] {
        revert(place);
        ask(
            place,
            "main",
            "New topic: the last one.",
            &["--compact-above", "2k"],
        );
    }
    let texts = |place: &Place| {
        let mut context = contexts(place, &["main"]).remove(0);
        // The last turns were asked at different instants.
        for topic in context["topics"]["items"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            for key in ["started_at", "last_at", "sealed_at"] {
                topic.as_object_mut().map(|topic| topic.remove(key));
            }
        }
        (
            context["topics"]["items"].clone(),
            context["summaries"].clone(),
        )
    };
    assert_eq!(texts(&other), texts(&place));
}

#[test]
fn a_progressive_session_moves_with_all_its_summaries() {
    let settings = settings()
        .replace("tiered", "progressive")
        .replace("topic_ends_over = 0.0\n", "");
    let place = Place::with_config(&settings);
    place.write("talk.jsonl", transcript(10));
    place.json(&["import", "talk.jsonl"]);
    for n in 0..3 {
        ask(
            &place,
            "main",
            &format!("What of depot {n}? {}", "It is late. ".repeat(200)),
            &[],
        );
        place
            .call(&["compact", "latest", "--keep", "4", "--yes"])
            .expect(0);
    }
    let before = contexts(&place, &["main"]);
    let other = moved(&place, &[], &settings);
    assert_eq!(contexts(&other, &["main"]), before);
    // Each summary that is taken back brings the same context there as here.
    for _ in 0..2 {
        revert(&place);
        revert(&other);
        assert_eq!(contexts(&other, &["main"]), contexts(&place, &["main"]));
    }
}

#[test]
fn a_summary_that_kept_less_than_was_asked_for_says_so_in_another_store() {
    let settings = "[compaction]\npreset = \"checkpoint\"\ntrigger_tokens = 2_000\n\
                    keep_tokens = 1_900\n";
    let place = Place::with_config(settings);
    place.write("talk.jsonl", transcript(8));
    place.json(&["import", "talk.jsonl"]);
    ask(&place, "main", "What of depot 3?", &[]);
    let before = contexts(&place, &["main"]);
    assert_eq!(before[0]["summaries"][0]["tightened"], true, "{before:?}");
    let other = moved(&place, &[], settings);
    assert_eq!(contexts(&other, &["main"]), before);
}

#[test]
fn no_flag_selects_a_part_of_an_archive() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let archive = place.path("all.unisono").display().to_string();
    place.call(&["export", "--all", &archive]).expect(0);
    let other = Place::new();
    let import = ["import", &archive];
    for flags in [&["--list"][..], &["--pick", "1"], &["--copy"]] {
        let refused = other.call(&[&import[..], flags].concat());
        refused.expect(2).says(&["imported whole", "omit --list"]);
    }
    assert_eq!(other.json(&["sessions", "list"]), json!([]));
    other.call(&import).expect(0);
}
