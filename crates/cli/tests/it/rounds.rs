//! Compactions that follow one another: what each summariser reads, and what masked messages say.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Script};

use crate::support::{HasAll as _, Place, asks_for_a_summary};

fn place(provider: &FakeProvider, compaction: &str) -> Place {
    let own = "[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nagents = []\n[compaction]\n";
    Place::with_openai(provider, &[own, compaction].concat())
}

/// The text of the only message of a request for a summary.
fn prompt_of(request: &Recorded) -> String {
    let body = request.json();
    let inputs = body["input"].as_array().unwrap();
    let texts = inputs.iter().flat_map(|said| match &said["content"] {
        Value::String(text) => vec![text.as_str()],
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect()
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn between<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{tag}>\n"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// The messages of a part of a prompt, by their numbers.
fn ordinals(text: &str) -> Vec<u32> {
    let starts = text.lines().filter_map(|line| line.strip_prefix("<#"));
    let numbers = starts.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    numbers.flatten().filter_map(|n| n.parse().ok()).collect()
}

fn long_input(n: u32) -> String {
    let mut text = format!("Round {n} begins here.");
    for line in 0..60 {
        let _ = write!(
            text,
            " Part {line} of round {n} goes to depot {}.",
            line * n
        );
    }
    text
}

/// A fake OpenAI whose summaries and answers each say the number of the request.
fn provider() -> FakeProvider {
    let count = std::sync::atomic::AtomicUsize::new(1);
    let script = Script::by(move |request| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Act::answer(Answer::text(match asks_for_a_summary(request) {
            true => format!("## Context\n- Summary of request {n}.\n"),
            false => format!("Answer of request {n}."),
        }))
    });
    FakeProvider::play_on_thread(script)
}

#[test]
fn ten_compactions_in_a_row_read_each_message_once_and_never_the_whole_again() {
    let provider = provider();
    let place = place(
        &provider,
        "preset = \"progressive\"\ntrigger_tokens = 2500\n",
    );
    place.write("talk.json", r#"[{"role":"user","content":"We begin."}]"#);
    place.keyed(&["import", "talk.json"]).expect(0);
    let mut turns = 0;
    let mut requests: Vec<Recorded> = Vec::new();
    while requests.len() < 10 {
        turns += 1;
        assert!(
            turns < 60,
            "{} compactions after {turns} turns",
            requests.len()
        );
        let task = long_input(turns);
        let args = ["run", "--session", "latest", "--task", &task];
        place.keyed(&args).expect(0);
        let all = provider.requests().into_iter();
        requests = all.filter(asks_for_a_summary).collect();
    }
    let mut read: BTreeMap<u32, usize> = BTreeMap::new();
    let mut cutoff = 0;
    let mut bytes = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let prompt = prompt_of(request);
        let said = between(&prompt, "conversation").unwrap();
        let numbers = ordinals(said);
        // What came since the last cutoff, without a gap.
        let expected: Vec<u32> = (cutoff + 1..=cutoff + numbers.len() as u32).collect();
        assert_eq!(numbers, expected, "compaction {index}");
        cutoff = *numbers.last().unwrap();
        for number in numbers {
            *read.entry(number).or_default() += 1;
        }
        let prior = between(&prompt, "earlier_summary");
        assert_eq!(prior.is_some(), index > 0, "compaction {index}: {prompt}");
        // The cutoff marker, and after it what is shown for context only.
        let recent = ordinals(between(&prompt, "recent_messages").unwrap());
        assert_eq!(recent.first(), Some(&(cutoff + 1)));
        bytes.push(request.body.len());
    }
    let once = read.values().all(|times| *times == 1);
    assert!(once && read.len() as u32 == cutoff, "{read:?}");
    // The tenth reads no more than the second did, give or take a message.
    let (second, most) = (bytes[1], *bytes[1..].iter().max().unwrap());
    assert!(most < second + second / 2, "{bytes:?}");
    let history: usize = (1..=turns).map(|n| long_input(n).len()).sum();
    assert!(most * 3 < history, "{most} bytes of {history}");
}

#[test]
fn siblings_use_a_summary_of_their_common_past_and_edits_before_its_cutoff_do_not() {
    let provider = provider();
    let place = place(
        &provider,
        "preset = \"progressive\"\ntrigger_tokens = 2500\n",
    );
    place.write("talk.json", r#"[{"role":"user","content":"We begin."}]"#);
    place.keyed(&["import", "talk.json"]).expect(0);
    let summaries = || {
        provider
            .requests()
            .iter()
            .filter(|r| asks_for_a_summary(r))
            .count()
    };
    let mut turns = 0;
    while summaries() == 0 {
        turns += 1;
        let task = long_input(turns);
        place
            .keyed(&["run", "--session", "latest", "--task", &task])
            .expect(0);
    }
    let listed = place.keyed_json(&["checkpoints", "list", "--json"]);
    let prompt = prompt_of(
        provider
            .requests()
            .iter()
            .find(|r| asks_for_a_summary(r))
            .unwrap(),
    );
    let cutoff = *ordinals(between(&prompt, "conversation").unwrap())
        .last()
        .unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let fork = |name: &str, at: u32| {
        let at = at.to_string();
        place
            .keyed(&["sessions", "branch", "latest", name, "--at", &at])
            .expect(0);
    };
    let active = |branch: &str| {
        let shown = place.keyed_json(&["context", "latest", "--branch", branch, "--json"]);
        shown["summaries"].as_array().unwrap().len()
    };
    fork("after", cutoff + 1);
    fork("before", cutoff - 1);
    assert_eq!((active("after"), active("before")), (1, 0));
    let args = [
        "run",
        "--session",
        "latest",
        "--branch",
        "after",
        "--task",
        "And here?",
    ];
    place.keyed(&args).expect(0);
    assert_eq!(summaries(), 1, "the common past is summarised already");
    let last = provider.requests().pop().unwrap().json().to_string();
    last.has_all(&["Summary of request"]);
    last.has_none(&["Round 1 begins"]);
}

/// A conversation with that many large tool results, each with rows of its own.
fn with_tables(tables: u32) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Look the tables up."})];
    for table in 1..=tables {
        let rows: Vec<String> = (0..300)
            .map(|row| format!("row {row} of table {table}: depot {}", row * table))
            .collect();
        let id = format!("call_{table}");
        messages.push(json!({
            "role": "assistant", "content": null,
            "tool_calls": [{
                "id": id, "type": "function",
                "function": {"name": "table", "arguments": format!("{{\"n\":{table}}}")},
            }],
        }));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": rows.join("\n")}));
    }
    messages.push(json!({"role": "assistant", "content": "I have them all."}));
    Value::from(messages).to_string()
}

#[test]
fn old_tool_results_are_masked_before_a_model_is_asked_and_recall_reads_them() {
    // The result of the first call is message 3.
    let script = Script::sequence([Answer::call("recall", r#"{"n":3}"#)])
        .then(Act::answer(Answer::text("Depot 299.")));
    let provider = FakeProvider::play_on_thread(script);
    let place = place(
        &provider,
        "preset = \"checkpoint\"\ntrigger_tokens = 16000\n",
    );
    place.write("talk.json", with_tables(6));
    let task = "Which depot is in the last row of table 1?";
    let run = ["run", "talk.json", "--task", task, "--json"];
    let report = place.keyed(&run).expect(0).json();
    assert_eq!(report["answer"], "Depot 299.");
    assert!(
        report["checkpoints"].as_array().unwrap().is_empty(),
        "{report}"
    );

    assert_eq!(report["effect"], "masked", "{report}");
    let requests = provider.requests();
    assert!(
        !requests.iter().any(asks_for_a_summary),
        "masking was enough"
    );
    let first = requests[0].json();
    let contents: Vec<&str> = first["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|said| said["role"] == "tool")
        .filter_map(|said| said["content"].as_str())
        .collect();
    assert_eq!(contents.len(), 6);
    for (index, content) in contents.iter().enumerate() {
        let masked = content.starts_with("[tool result: ") && content.contains("tokens, recall #");
        assert_eq!(masked, index < 3, "the newest three stay: {content}");
    }
    assert!(contents[0].ends_with("recall #3]"), "{}", contents[0]);
    assert!(!first.to_string().contains("row 299 of table 1:"));
    // The call is answered with the original.
    let second = requests[1].json().to_string();
    assert!(second.contains("row 299 of table 1: depot 299"), "{second}");
    // And the conversation is as it was.
    let back = place.keyed(&["export", "latest"]).expect(0).stdout;
    assert!(back.contains("row 299 of table 1: depot 299"));
}

#[test]
fn a_lead_that_calls_compact_has_the_next_turn_begin_with_a_summary() {
    let script = Script::sequence([
        Act::answer(Answer::call("compact", "{}")),
        Act::answer(Answer::text("Done with the first part.")),
        Act::answer(Answer::text("Now the second.")),
        Act::answer(Answer::text("And the third.")),
    ]);
    let provider = FakeProvider::play_on_thread(script);
    let place = place(
        &provider,
        "summarisers = [\"extractive\"]\n[agents.lead]\ntools = [\"compact\"]\n",
    );
    place
        .keyed(&["import", &crate::support::example()])
        .expect(0);
    let mut checkpoints = Vec::new();
    for task in ["The first part, please.", "And now?", "And then?"] {
        place
            .keyed(&["run", "--session", "latest", "--task", task])
            .expect(0);
        let context = place.keyed_json(&["context", "latest", "--json"]);
        let summaries = context["summaries"].as_array().unwrap();
        checkpoints.push(
            summaries
                .iter()
                .map(|s| s["checkpoint"].clone())
                .collect::<Vec<_>>(),
        );
    }
    assert!(checkpoints[0].is_empty(), "{checkpoints:?}");
    assert_eq!(checkpoints[1].len(), 1, "{checkpoints:?}");
    assert_eq!(checkpoints[1], checkpoints[2], "asked for once, made once");
    assert_eq!(
        place.keyed(&["replay", "--json"]).expect(0).json()["mismatches"],
        0
    );
}
