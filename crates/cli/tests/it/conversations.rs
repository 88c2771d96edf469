//! Files that are no conversation: a clear error, and nothing of them stored.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::Place;

const HELLO: &str = r#"{"role":"user","content":"Hello"}"#;

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>, words: &[&str]) {
    let place = Place::new();
    place.write("talk.jsonl", bytes);
    for verb in ["import", "run"] {
        place.call(&[verb, "talk.jsonl"]).expect(1).says(words);
    }
    assert_eq!(
        place.json(&["sessions", "list"]),
        json!([]),
        "something was stored"
    );
}

#[test]
fn a_malformed_line_is_named_with_its_line_and_column() {
    let bad = format!("{HELLO}\n{{\"role\":\"assistant\",\"content\":oops}}\n{HELLO}\n");
    refused(bad, &["talk.jsonl:2:31: ", "--skip-bad"]);
}

#[test]
fn a_truncated_line_is_named_with_its_line_and_column() {
    refused(
        format!("{HELLO}\n{{\"role\":\"assistant\",\"con"),
        &["talk.jsonl:2:"],
    );
}

#[test]
fn a_result_without_a_call_is_refused() {
    let result = r#"{"role":"tool","tool_call_id":"c1","content":"42"}"#;
    refused(
        format!("{HELLO}\n{result}\n"),
        &["talk.jsonl:2:", "c1", "no unanswered tool call"],
    );
}

#[test]
fn message_ids_that_repeat_are_refused_and_call_ids_that_repeat_are_not() {
    let session = r#"{"type":"session","unisono":1,"title":"t"}"#;
    let id = "01920000-0000-7000-8000-000000000001";
    let message = |text: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","role":"user","at":"2026-01-01T00:00:00Z","parts":[{{"type":"text","text":"{text}"}}]}}"#
        )
    };
    refused(
        format!("{session}\n{}\n{}\n", message("a"), message("b")),
        &["talk.jsonl:3:", id],
    );

    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"c1","content":"42"}"#;
    let place = Place::new();
    place.write("talk.jsonl", [HELLO, call, result, call, result].join("\n"));
    assert_eq!(place.json(&["import", "talk.jsonl"])["messages"], 5);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let bad = [
        HELLO.as_bytes(),
        b"\n{\"role\":\"user\",\"content\":\"caf\xe9\"}\n",
    ]
    .concat();
    refused(bad, &["talk.jsonl:2:", "UTF-8"]);
}

#[test]
fn a_file_without_a_conversation_is_refused() {
    refused("", &["talk.jsonl: the file is empty"]);
    refused(" \n\n", &["the file is empty"]);
    refused("just words\n", &["talk.jsonl"]);
    refused("[1,2]", &["talk.jsonl"]);
}

#[test]
fn bad_lines_are_left_out_on_request() {
    let place = Place::new();
    place.write("talk.jsonl", format!("{HELLO}\nnonsense\n{HELLO}\n"));
    let args = ["import", "talk.jsonl", "--skip-bad", "--json"];
    let done = place.call(&args).expect(4);
    let says = ["talk.jsonl:2:", "left out   1 bad message"];
    let reply = done.says(&says).json();
    assert_eq!(
        (&reply["messages"], &reply["skipped_messages"]),
        (&json!(2), &json!(1))
    );
}

/// A message with a bad part is kept without that part; both are counted, by every verb that reads
/// a file, and a script notices.
#[test]
fn bad_parts_are_left_out_of_their_messages_on_request() {
    let content = json!([
        {"type": "text", "text": "Look at this."},
        {"type": "hologram", "of": "it"},
        {"type": "text"},
    ]);
    let partly = json!({"role": "user", "content": content}).to_string();
    let wholly = json!({"role": "user", "content": [{"type": "hologram"}]}).to_string();
    let place = Place::new();
    let talk = [HELLO, &partly, &wholly, HELLO].join("\n");
    place.write("talk.jsonl", talk);
    let says = [
        "talk.jsonl:2:",
        "talk.jsonl:3:",
        "left out   1 bad message and 2 bad parts of others",
    ];
    let output = place.call(&["import", "talk.jsonl", "--skip-bad", "--json"]);
    let output = output.expect(4).says(&says).json();
    assert_eq!(output["messages"], 3, "{output}");
    assert_eq!(
        (&output["skipped_messages"], &output["skipped_parts"]),
        (&json!(1), &json!(2))
    );
    let exported = place.call(&["export", "latest"]).expect(0);
    assert!(exported.stdout.contains("Look at this."), "{exported:?}");
    let run = [
        "run",
        "talk.jsonl",
        "--skip-bad",
        "--json",
        "--task",
        "What is it?",
    ];
    let done = place.call(&run).expect(4).says(&says);
    assert_eq!(done.json()["state"], "answered");
    place.fails(&["run", "talk.jsonl"], &["--skip-bad"]);
}

#[test]
fn a_message_of_ten_megabytes_is_a_message() {
    let place = Place::new();
    let text = "The quick brown fox jumps over the lazy dog; 42 times. ".repeat(10_000_000 / 56);
    let talk =
        json!([{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]);
    place.write("big.json", talk.to_string());
    let report = place.json(&[
        "run",
        "big.json",
        "--agents",
        "facts",
        "--task",
        "What jumps?",
    ]);
    assert_eq!(report["state"], "answered", "{}", report["error"]);
    assert!(report["tokens_after"].as_u64() <= report["usable_tokens"].as_u64());
}

/// A program that reads `--json` gets the code of the HTTP API for the same mistake.
#[test]
fn bad_files_and_queries_have_the_code_of_http() {
    let place = Place::new();
    let bad = format!("{HELLO}\nnonsense\n");
    place.write("bad.jsonl", &bad);
    place.write("empty.jsonl", "");
    let long = "w".repeat(5_000);
    let many: Vec<String> = (0..300).map(|n| format!("w{n}")).collect();
    let queries = [String::new(), long, many.join(" ")];
    let code = |args: &[&str], exit: i32| -> Value {
        let done = place.call(&[args, &["--json"]].concat()).expect(exit);
        let error: Value = serde_json::from_str(&done.stderr).unwrap();
        error["error"]["code"].clone()
    };
    for query in &queries {
        assert_eq!(code(&["sessions", "search", query], 2), "refused");
    }
    for file in ["bad.jsonl", "empty.jsonl"] {
        assert_eq!(code(&["import", file], 1), "refused", "{file}");
    }

    let daemon = Daemon::start(&place);
    for query in &queries {
        let path = format!("/v1/search?q={}", query.replace(' ', "+"));
        daemon.get(&path).expect(422).problem("refused");
    }
    for body in [bad.as_str(), ""] {
        let (path, kind) = ("/v1/imports?name=x.jsonl", "application/octet-stream");
        let reply = daemon.post_bytes(path, kind, body.as_bytes());
        let detail = reply.expect(422).problem("refused");
        assert_eq!(detail.contains("`skip_bad=true`"), !body.is_empty());
    }
    daemon.stop();
}
