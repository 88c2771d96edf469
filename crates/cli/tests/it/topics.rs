//! Topics over several calls of the program: each starts it anew.

use serde_json::Value;

use crate::support::{HasAll as _, Place, TIERED};

pub(crate) fn transcript(topics: usize) -> String {
    let mut lines = String::new();
    for topic in 0..topics {
        let name = ["harbour", "library", "orchard", "station"][topic % 4];
        for n in 0..6 {
            let (role, text) = if n == 0 {
                let opening = if topic > 0 { "New topic: " } else { "" };
                (
                    "user",
                    format!("{opening}we plan the {name} number {topic}."),
                )
            } else if n % 2 == 1 {
                let text = format!(
                    "The {name} costs {topic}{n}00 euro and Mara decided on day {n} that wall \
                     {topic}-{n} must be finished before the {name} opens to visitors."
                );
                ("assistant", text)
            } else {
                let text = format!("And what of part {n} of the {name}? It must stay dry.");
                ("user", text)
            };
            let line = serde_json::json!({"role": role, "content": text});
            lines.push_str(&format!("{line}\n"));
        }
    }
    lines
}

fn numbers(of: &Value) -> Vec<u64> {
    let all = of.as_array().unwrap().iter();
    all.map(|message| message["ordinal"].as_u64().unwrap())
        .collect()
}

/// Each message is verbatim, or covered by exactly one summary.
fn assert_covered(place: &Place, context: &Value, messages: u64) {
    let mut seen = numbers(&context["messages"]);
    for listed in place.json(&["checkpoints", "list"]).as_array().unwrap() {
        let number = listed["number"].as_u64().unwrap_or_default();
        let active = context["summaries"].as_array().unwrap().iter();
        if !active.clone().any(|s| s["checkpoint"] == listed["number"]) {
            continue;
        }
        let shown = place.json(&["checkpoints", "show", "latest", &number.to_string()]);
        for span in shown["covers"].as_array().unwrap() {
            let (first, last) = (span["first"].as_u64(), span["last"].as_u64());
            seen.extend(first.unwrap()..=last.unwrap());
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=messages).collect::<Vec<_>>());
}

fn ask(place: &Place, task: &str) {
    let args = ["run", "--session", "latest", "--agents", "", "--task", task];
    place.call(&args).expect(0);
}

#[test]
fn a_long_conversation_keeps_its_topics_over_several_turns() {
    let place = Place::with_config(TIERED);
    place.write("talk.jsonl", transcript(24));
    place.json(&["import", "talk.jsonl"]);
    ask(&place, "New topic: what is to be done?");
    let context = place.json(&["context"]);
    // The newest are first, and no more than twenty.
    let topics = context["topics"]["items"].as_array().unwrap();
    assert_eq!(
        (&context["topics"]["count"], topics.len()),
        (&25.into(), 20)
    );
    assert!(
        topics[1..]
            .iter()
            .all(|topic| topic["ended_by"] == "phrase")
    );
    assert_eq!(topics[0]["ended_by"], Value::Null);
    assert_covered(&place, &context, 24 * 6 + 2);
    for tier in context["tiers"].as_array().unwrap() {
        assert!(
            tier["tokens"].as_u64() <= tier["limit_tokens"].as_u64(),
            "{tier}"
        );
    }
    assert!(
        topics
            .iter()
            .all(|topic| topic["status"] != "partly_summarised")
    );

    // Another call of the program knows them, and a person may end one.
    let sealed = place.json(&["seal", "latest"]);
    assert_eq!(
        (&sealed["first"], &sealed["last"]),
        (&145.into(), &146.into())
    );
    place.refuses(&["seal", "latest"], &["has no topic to seal", "is sealed"]);
    place
        .call(&["seal", "latest", "--branch", "side"])
        .expect(2)
        .says(&["no branch `side`"]);
    for n in 0..3 {
        ask(&place, &format!("What of the harbour, part {n}?"));
    }
    let context = place.json(&["context"]);
    let topics = &context["topics"];
    assert_eq!(topics["count"], 26);
    assert_eq!(topics["items"][1]["ended_by"], "person");
    assert_covered(&place, &context, 24 * 6 + 8);
    let listed = place.json(&["checkpoints", "list"]);
    let tiers = listed.as_array().unwrap().iter();
    let tiers: Vec<&str> = tiers.filter_map(|c| c["tier"].as_str()).collect();
    assert!(
        tiers.contains(&"topic") && tiers.contains(&"bulk"),
        "{tiers:?}"
    );
    let shown = place.json(&["sessions", "show"]);
    assert_eq!(shown["branches"][0]["topics"], 26);
    let text = place.call(&["context"]).expect(0).stdout;
    text.has_all(&["ended by person", "older topics"]);
}

#[test]
fn numbers_of_tiers_that_cannot_be_are_told() {
    let rows = rows! {
        ("tier_topic = 0.6", "`compaction.tier_topic` = 0.6"),
        ("preset = \"tiered\"\nkeep_messages = 4", "`tiered` keeps the current topic"),
        ("topic_cap_tokens = 100\nbulk_cap_tokens = 300", "must be smaller than these"),
        ("large_message = 0.2\nlarge_message_chars = 2000", "keep one of"),
    };
    for (settings, reply) in rows {
        let place = Place::with_config(&format!("[compaction]\n{settings}\n"));
        let checked = place.call(&["config", "check"]).expect(2).stdout;
        assert!(checked.contains(reply), "{settings}: {checked}");
    }
    let thirds = "[compaction]\ntier_topic = 0.34\ntier_topics = 0.33\ntier_bulks = 0.33\n";
    Place::with_config(thirds)
        .call(&["config", "check"])
        .expect(0);
}
