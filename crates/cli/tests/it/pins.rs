//! Messages that a person pins: shown verbatim, kept, exported, and refused with a reason.

use serde_json::{Value, json};

use crate::support::{Place, example};

fn place() -> Place {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    place.call(&["import", &example()]).expect(0);
    place
}

fn ordinals(list: &Value) -> Vec<u64> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["ordinal"].as_u64().unwrap()).collect()
}

#[test]
fn a_summarised_message_that_is_pinned_stands_beside_its_summary() {
    let place = place();
    place.call(&["compact", "--yes"]).expect(0);
    let before = place.json(&["context", "latest"]);
    assert!(!ordinals(&before["messages"]).contains(&3));

    let pinned = place.json(&["pin", "latest", "3", "#3"]);
    assert_eq!(ordinals(&pinned["pinned"]), [3]);
    let with_it = place.json(&["context", "latest"]);
    assert_eq!(with_it["messages"][0]["ordinal"], 3);
    assert_eq!(with_it["messages"][0]["pinned"], true);
    assert_eq!(with_it["summaries"], before["summaries"]);
    let used = |context: &Value| context["used_tokens"].as_u64().unwrap();
    let cost = pinned["pinned_tokens"].as_u64().unwrap();
    assert_eq!(used(&with_it), used(&before) + cost);

    place
        .call(&[
            "run",
            "--session",
            "latest",
            "--task",
            "What is left?",
            "--compact-above",
            "2k",
        ])
        .expect(0);
    let context = place.json(&["context", "latest"]);
    assert!(ordinals(&context["messages"]).contains(&3));

    let left = place.json(&["unpin", "latest", "--all"]);
    assert_eq!(left["pinned"], json!([]));
    let context = place.json(&["context", "latest"]);
    assert!(!ordinals(&context["messages"]).contains(&3));
}

#[test]
fn pins_go_where_the_conversation_goes() {
    let place = place();
    place.call(&["pin", "latest", "1", "3"]).expect(0);
    place
        .call(&["export", "latest", "--output", "all.jsonl"])
        .expect(0);
    let other = Place::new();
    let text = std::fs::read_to_string(place.path("all.jsonl")).unwrap();
    other.write("all.jsonl", &text);
    other.call(&["import", "all.jsonl"]).expect(0);
    assert_eq!(ordinals(&other.json(&["pin", "latest"])["pinned"]), [1, 3]);
}

#[test]
fn a_pin_of_what_is_not_there_says_what_is() {
    let place = place();
    let call = |args: &[&str]| place.call(args).expect(2);
    call(&["pin", "latest", "9999"])
        .says(&["no message #9999 on branch `main`", "the last message is #"]);
    call(&["pin", "latest", "1", "--branch", "mian"]).says(&["no branch `mian`", "main"]);
    call(&["pin", "latest", "first"]).says(&["write a message's number"]);
    call(&["unpin", "latest"]).says(&["unpin <SESSION>"]);
    place
        .call(&["pin", "latest"])
        .expect(0)
        .says(&["nothing is pinned"]);
}
