//! Compaction is steered while the daemon runs: thresholds of one model, who writes, how, how long.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::serve_page::Browser;
use crate::support::{Place, asks_for_a_summary, example, words};

const SUMMARY: &str = "## Context\n- Orders are moved to a new database (#1).";

/// A place whose provider answers agents, and summarisers as well unless they are to hang.
fn place() -> (Place, FakeProvider) {
    let script = Script::by(move |request| {
        let asked = request.json();
        match asks_for_a_summary(request) {
            true if asked["model"] == "gpt-4.1-nano" => Act::silence(),
            true => Act::answer(Answer::text(SUMMARY)),
            false => Act::answer(Answer::text("All is well.")),
        }
    });
    let provider = FakeProvider::play_on_thread(script);
    let more = "attempts = 1\n[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nagents = []\n";
    let place = Place::with_key_file("openai", &provider, more);
    (place, provider)
}

fn summaries(provider: &FakeProvider) -> Vec<Value> {
    let asked = provider.requests().into_iter().filter(asks_for_a_summary);
    asked.map(|request| request.json()).collect()
}

#[test]
fn who_writes_how_and_for_how_long_changes_while_the_daemon_runs() {
    let (place, provider) = place();
    let session = place.json(&["import", &example()])["session"].clone();
    let session = format!("/v1/sessions/{}", session.as_str().unwrap());
    let daemon = Daemon::start(&place);
    let patch = |changes: Value| {
        let body = json!({"changes": changes});
        daemon.request("PATCH", "/v1/settings", Some(&body))
    };
    let ask = || {
        let task = json!({"task": "What is open?"});
        let turn = daemon.post(&format!("{session}/turns"), &task).expect(200);
        turn.json()["checkpoints"].as_array().unwrap().len()
    };
    assert_eq!(ask(), 0);
    // The threshold of the model that leads, and of no other.
    patch(json!({"compaction.models.openai/gpt-4.1.trigger_tokens": 9_000})).expect(200);
    assert_eq!(ask(), 0);
    let changed = patch(json!({
        "compaction.models.openai/gpt-4o.trigger_tokens": 9_000,
        "compaction.summarisers": ["openai/gpt-4.1-mini"],
        "compaction.style": "concise",
    }));
    let shown = changed.expect(200).json();
    let key = "compaction.models.\"openai/gpt-4o\".trigger_tokens";
    let mut all = shown.as_array().unwrap().iter();
    let of_model = all.find(|setting| setting["key"] == key).unwrap();
    assert_eq!(
        (&of_model["value"], &of_model["changeable"]),
        (&json!("9000"), &json!(true))
    );
    assert_eq!(ask(), 1);
    let asked = summaries(&provider);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["model"], "gpt-4.1-mini");
    assert!(asked[0].to_string().contains("Write concisely:"));

    // Another prompt by its name, another style, of one provider.
    let of_provider = json!({
        "compaction.style": null,
        "compaction.providers.openai.style": "detailed",
        "compaction.prompt": "code",
    });
    patch(of_provider).expect(200);
    let compact = |settings: &Value| {
        let compaction = format!("{session}/compactions");
        daemon.post(&compaction, settings)
    };
    compact(&json!({"on_failure": "leave"})).expect(200);
    let asked = summaries(&provider);
    let newest = asked.last().unwrap().to_string();
    assert!(newest.contains("about work on software"), "{newest}");
    assert!(newest.contains("Write in detail:"), "{newest}");

    // A file is not read for who only has the token.
    let path = patch(json!({"compaction.prompt": "/etc/hostname"})).expect(422);
    assert!(path.problem("refused").contains("name of a prompt"));

    // The deadline holds for the next compaction.
    patch(json!({
        "compaction.summarisers": ["openai/gpt-4.1-nano"],
        "compaction.deadline_seconds": 1,
    }))
    .expect(200);
    ask();
    let late = compact(&json!({})).expect(200).json();
    assert_eq!(late["state"], "failed", "{late}");
    let reason = late["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("no summary in time"), "{reason}");
    assert_eq!(late["offers"].as_array().unwrap().len(), 3);
    daemon.stop();

    // It is kept, and a key is left to the files again by either spelling.
    place.says(
        &words("config set compaction.models.openai/gpt-4o.trigger_tokens --unset"),
        &[],
    );
    let shown = place.json(&["config", "show", "compaction"]).to_string();
    assert!(!shown.contains("openai/gpt-4o\\\\\\\""), "{shown}");
    assert!(shown.contains("gpt-4.1"), "{shown}");
}

#[test]
fn a_concise_summary_of_quotes_is_half_as_long_and_a_detailed_one_longer() {
    let long = |style: &str| {
        let place = Place::with_config("[models]\ndefault = \"extractive\"\n");
        place.json(&["import", &example()]);
        let style = format!("compaction.style={style}");
        let args = ["compact", "--keep", "4", "--yes", "--set", &style];
        let done = place.json(&args);
        let listed = place.json(&["checkpoints", "list"]);
        assert_eq!(done["checkpoint"], 1);
        listed[0]["tokens_after"].as_u64().unwrap()
    };
    let [concise, standard, detailed] = ["concise", "standard", "detailed"].map(long);
    assert!(concise <= 1_024 && concise > 512, "{concise}");
    assert!(standard <= 2_048 && standard > 1_024, "{standard}");
    assert!(detailed <= 4_096 && detailed > standard, "{detailed}");
}

#[test]
fn a_telegraphic_summary_of_quotes_has_no_articles_and_more_words() {
    let words = |style: &str| {
        let place = Place::with_config("[models]\ndefault = \"extractive\"\n");
        place.json(&["import", &example()]);
        let style = format!("compaction.style={style}");
        place.json(&["compact", "--keep", "4", "--yes", "--set", &style]);
        let shown = place.json(&["checkpoints", "list"])[0].clone();
        let text = shown["text"].as_str().unwrap().to_lowercase();
        assert!(shown["tokens_after"].as_u64().unwrap() <= 2_048, "{shown}");
        let words = text.split_whitespace().map(str::to_owned);
        words.collect::<Vec<String>>()
    };
    let [standard, telegraphic] = ["standard", "telegraphic"].map(words);
    let articles = |words: &[String]| words.iter().filter(|word| *word == "the").count();
    assert!(articles(&standard) > 20, "{standard:?}");
    assert!(articles(&telegraphic) <= 2, "{telegraphic:?}");
    let distinct = |words: &[String]| words.iter().collect::<BTreeSet<_>>().len();
    assert!(distinct(&telegraphic) > distinct(&standard));
}

#[test]
fn the_page_says_the_new_size_of_the_context_and_compacts_from_the_settings() {
    let place = Place::with_config(
        "[models]\ndefault = \"extractive\"\n[turn]\nagents = []\n\
         [compaction]\ntrigger_tokens = 9_000\n",
    );
    let session = place.json(&["import", &example()])["session"].clone();
    let id = session.as_str().unwrap();
    let daemon = Daemon::start(&place);
    let task = json!({"task": "What is open?"});
    let compacted = daemon.posted(&format!("/v1/sessions/{id}/turns"), &task)["compacted"].clone();
    let context = daemon.get(&format!("/v1/sessions/{id}/context"));
    let used = context.expect(200).json()["used_tokens"].as_u64().unwrap();
    let after = compacted["tokens_after"].as_u64().unwrap();
    // The context has the answer since, of some hundred tokens.
    assert!(after < used && used - after < 1_000, "{compacted} {used}");
    let browser = Browser::enter(&daemon);
    let page = browser.get(&format!("/sessions/{id}")).expect(200).text();
    assert!(page.contains("The context was compacted first: "), "{page}");
    let settings = browser.text(&format!("/sessions/{id}/settings"));
    assert!(settings.contains("Compact now"), "{settings}");
    let all = browser.get("/settings").expect(200).text();
    assert!(all.contains("for one provider or one model"), "{all}");
    let confirm = browser.get(&format!("/sessions/{id}/compact?part=large"));
    assert!(
        confirm
            .expect(200)
            .text()
            .contains("By itself: preset checkpoint")
    );
    daemon.stop();
}
