//! Models that stand in for one that cannot be had: what they are sent, and what is told of them.

use unisono_fake_provider::{Act, Answer, FakeProvider, Refusal, Script, block_on};

use crate::providers::{call, run, shared};
use crate::support::{Place, example};

const STAND_IN: &str = "anthropic/claude-haiku-4-5";

/// A place whose models of OpenAI are those of the first provider; the second has the stand-in.
fn place(first: &FakeProvider, second: &FakeProvider, more: &str) -> Place {
    Place::with_config(&format!(
        "[providers.openai]\nbase_url = \"{}/v1\"\napi_key_env = \"TEST_KEY\"\nattempts = 1\n\
         [providers.anthropic]\nbase_url = \"{}\"\napi_key_env = \"TEST_KEY\"\nattempts = 1\n\
         [models]\nfallback = [\"{STAND_IN}\"]\n\
         [compaction]\nsummarisers = [\"extractive\"]\n{more}",
        first.url(),
        second.url()
    ))
}

#[test]
fn a_model_stands_in_for_one_whose_provider_cannot_be_had() {
    let first = FakeProvider::builder()
        .script(Script::always(Act::refuse(Refusal::Overloaded)))
        .start_on_thread();
    let second = FakeProvider::builder()
        .script(Script::always(Answer::text("All is well.")))
        .start_on_thread();
    let place = place(&first, &second, "");
    let done = call(&place, &run(&example(), "openai/gpt-4o")).expect(0);
    assert_eq!(done.stdout.trim(), "All is well.");
    let asked = (first.request_count(), second.request_count());
    assert!(asked.0 >= 1 && asked.1 == 4, "{asked:?}");
    // In its own words, on one prefix of its own.
    let requests = second.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.path == "/v1/messages")
    );
    assert!(shared(&requests) > 4_000);
    let usage = call(&place, &["usage", "--json"]).expect(0).json();
    assert_eq!(usage["total"]["input_tokens"], 400, "{usage}");
    let rows = usage["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{usage}");
    assert!(rows.iter().all(|row| row["model"] == STAND_IN), "{usage}");
}

#[test]
fn what_a_stand_in_was_sent_is_rebuilt_in_its_own_words() {
    let first = FakeProvider::builder()
        .script(Script::always(Act::refuse(Refusal::Overloaded)))
        .start_on_thread();
    let script = Script::sequence([Act::answer(Answer::call("recall", r#"{"n":2}"#))]);
    let script = script.then(Answer::text("All is well."));
    let second = FakeProvider::builder().script(script).start_on_thread();
    let reader = "[agents.reader]\ndescription = \"reads\"\ntools = [\"recall\"]\n";
    let place = place(&first, &second, reader);
    let (file, model) = (example(), "openai/gpt-4o");
    let args = [
        "run", &file, "--lead", "reader", "--agents", "", "--model", model,
    ];
    call(&place, &args).expect(0);
    let run = place.json(&["runs", "list"])[0]["run"].clone();
    let why = place.json(&["why", run.as_str().unwrap()]);
    let received = block_on(second.wait_for(2));
    let requests = why["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2, "{why:#}");
    for (asked, received) in requests.iter().zip(&received) {
        assert_eq!(asked["to"], STAND_IN, "{why:#}");
        let rebuilt = ["head", "tail"].map(|piece| asked[piece].as_str().unwrap());
        assert_eq!(rebuilt.concat().as_bytes(), &received.body[..]);
    }
    assert_eq!(place.json(&["replay"])["mismatches"], 0);
    // Both of its replies are its own, the one that ended the run too.
    let usage = place.json(&["usage"]);
    let [row] = &usage["rows"].as_array().unwrap()[..] else {
        panic!("one model answered: {usage}");
    };
    assert_eq!((&row["model"], &row["jobs"]), (&STAND_IN.into(), &1.into()));
    assert_eq!(row["input_tokens"], usage["total"]["input_tokens"]);
}
