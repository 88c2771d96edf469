//! The pages of a checkpoint, as a browser without scripts asks for them.

use serde_json::json;

use crate::http::Daemon;
use crate::serve_page::Browser;
use crate::support::{HasAll as _, Place, example};

fn place() -> Place {
    Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n")
}

#[test]
fn the_undo_of_an_edited_summary_says_that_it_returns_to_the_older_one() {
    let place = place();
    let imported = place.json(&["import", &example()]);
    let session = imported["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let at = |rest: &str| format!("/v1/sessions/{session}{rest}");
    daemon.post(&at("/compactions"), &json!({})).expect(200);
    let browser = Browser::enter(&daemon);
    let undo = |number: u32| {
        let path = format!("/sessions/{session}/checkpoints/{number}/revert");
        browser.get(&path).expect(200).text()
    };
    let first = undo(1);
    first.has_all(&["Undo: restore the messages of checkpoint 1", ">Restore "]);
    let text = json!({"text": "The orders move on Friday."});
    let edited = daemon.post(&at("/checkpoints/1/edit"), &text).expect(200);
    assert_eq!(edited.json()["checkpoints"], json!([2]));
    let second = undo(2);
    second.has_all(&["Undo checkpoint 2: return to checkpoint 1"]);
    second.has_all(&["<button>Return to checkpoint 1</button>"]);
    daemon.stop();
}

#[test]
fn before_and_after_shows_all_parts_of_a_message() {
    let place = place();
    let daemon = Daemon::start(&place);
    let made = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let session = made["session"].as_str().unwrap();
    let append = |message: serde_json::Value| {
        let path = format!("/v1/sessions/{session}/messages");
        daemon.post(&path, &message).expect(201);
    };
    let long = "The orders of the old shop move to the new warehouse on Friday. ".repeat(40);
    append(json!({"parts": [
        {"type": "text", "text": long},
        {"type": "text", "text": "The second part names a walrus."},
    ]}));
    append(json!({"role": "assistant", "parts": [
        {"type": "text", "text": "I look it up."},
        {"type": "tool_call", "id": "c1", "name": "stock", "arguments": "{\"of\": \"heron\"}"},
        {"type": "tool_call", "id": "c2", "name": "price", "arguments": "{\"of\": \"gull\"}"},
    ]}));
    append(json!({"role": "tool", "parts": [
        {"type": "tool_result", "call_id": "c1", "content": "Twelve."},
        {"type": "tool_result", "call_id": "c2", "content": "Nine francs."},
    ]}));
    append(json!({"text": "Twelve, then."}));
    let compact = format!("/v1/sessions/{session}/compactions");
    let compacted = daemon.post(&compact, &json!({"keep_messages": 1}));
    assert_eq!(compacted.expect(200).json()["checkpoints"], json!([1]));
    let browser = Browser::enter(&daemon);
    let path = format!("/sessions/{session}/checkpoints/1/compare");
    let page = browser.get(&path).expect(200).text();
    let (before, _) = page.split_once("aria-label=\"After\"").unwrap();
    for part in [
        "names a walrus",
        "I look it up",
        "stock({",
        "heron",
        "price({",
        "gull",
        "Twelve.",
        "Nine francs",
    ] {
        assert!(before.contains(part), "{part}: {before}");
    }
    // The sentences of other pages are not counted.
    assert!(before.contains("Of the text on this page, the summary keeps "));
    daemon.stop();
}
