//! Models that stand in for one that cannot be had: what they are sent, and what is told of them.

use std::sync::Arc;

use serde_json::Value;
use unisono_context::Digest;
use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Refusal, Script, Stop, block_on};
use unisono_session::run::{FallbackUsed, Step};
use unisono_session::{Event, Fact};

use crate::http::Daemon;
use crate::providers::{run, shared};
use crate::serve_page::Browser;
use crate::support::{Place, example};
use crate::trace::copied;

const STAND_IN: &str = "anthropic/claude-haiku-4-5";

/// A place whose models of OpenAI are those of the first provider; the second has the fallback.
fn place(first: &FakeProvider, second: &FakeProvider, more: &str) -> Place {
    let more = format!(
        "attempts = 1\n\
         [providers.anthropic]\nbase_url = \"{}\"\napi_key_env = \"TEST_KEY\"\nattempts = 1\n\
         [models]\nfallback = [\"{STAND_IN}\"]\n\
         [compaction]\nsummarisers = [\"extractive\"]\n{more}",
        second.url()
    );
    Place::with_openai(first, &more)
}

#[test]
fn a_model_stands_in_for_one_whose_provider_cannot_be_had() {
    let first = FakeProvider::play_on_thread(Script::always(Act::refuse(Refusal::Overloaded)));
    let second = FakeProvider::play_on_thread(Script::always(Answer::text("All is well.")));
    let place = place(&first, &second, "");
    let done = place.keyed(&run(&example(), "openai/gpt-4o")).expect(0);
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
    let usage = place.keyed(&["usage", "--json"]).expect(0).json();
    assert_eq!(usage["total"]["input_tokens"], 400, "{usage}");
    let rows = usage["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{usage}");
    assert!(rows.iter().all(|row| row["model"] == STAND_IN), "{usage}");
}

#[test]
fn a_stand_in_that_declines_is_charged_for_it() {
    let first = FakeProvider::play_on_thread(Script::always(Act::refuse(Refusal::Overloaded)));
    let declined = Answer::text("I cannot help with that.").stop(Stop::Refused);
    let second = FakeProvider::play_on_thread(Script::always(declined));
    let place = place(&first, &second, "");
    let file = example();
    let args = ["run", &file, "--agents", "", "--model", "openai/gpt-4o"];
    place.keyed(&args).expect(1);
    assert_eq!(second.request_count(), 1);
    let usage = place.json(&["usage"]);
    let [row] = &usage["rows"].as_array().unwrap()[..] else {
        panic!("one model was paid for: {usage}");
    };
    assert_eq!(row["model"], STAND_IN);
    assert_eq!(row["input_tokens"], 100, "{usage}");
    let run = place.json(&["runs", "list"])[0]["run"].clone();
    let shown = place.json(&["runs", "show", run.as_str().unwrap()]);
    assert_eq!(shown["steps"][0]["kind"], "spent", "{shown:#}");
    assert_eq!(shown["steps"][0]["fallback"], STAND_IN);
}

/// What the fallback was sent in a run of an agent that calls a tool, and the place of the run.
fn stood_in(model: &str) -> (Place, Vec<Recorded>) {
    let first = FakeProvider::play_on_thread(Script::always(Act::refuse(Refusal::Overloaded)));
    let script = Script::sequence([Act::answer(Answer::call("recall", r#"{"n":2}"#))]);
    let script = script.then(Answer::text("All is well."));
    let second = FakeProvider::play_on_thread(script);
    let reader = "[agents.reader]\ndescription = \"reads\"\ntools = [\"recall\"]\n";
    let place = place(&first, &second, reader);
    let file = example();
    let args = [
        "run", &file, "--lead", "reader", "--agents", "", "--model", model,
    ];
    place.keyed(&args).expect(0);
    let received = block_on(second.wait_for(2));
    (place, received)
}

/// What the place's only run was sent, compared with what its provider received.
fn rebuilt(place: &Place, received: &[Recorded]) -> Value {
    let run = place.json(&["runs", "list"])[0]["run"].clone();
    let why = place.json(&["why", run.as_str().unwrap()]);
    let requests = why["requests"].as_array().unwrap();
    assert_eq!(requests.len(), received.len(), "{why:#}");
    for (asked, received) in requests.iter().zip(received) {
        assert_eq!(asked["to"], STAND_IN, "{why:#}");
        let rebuilt = ["head", "tail"].map(|piece| asked[piece].as_str().unwrap());
        assert_eq!(rebuilt.concat().as_bytes(), &received.body[..]);
    }
    assert_eq!(place.json(&["replay"])["mismatches"], 0);
    why
}

#[test]
fn what_a_stand_in_was_sent_is_rebuilt_in_its_own_words() {
    let (place, received) = stood_in("openai/gpt-4o");
    rebuilt(&place, &received);
    // Both of its replies are its own, the one that ended the run too.
    let usage = place.json(&["usage"]);
    let [row] = &usage["rows"].as_array().unwrap()[..] else {
        panic!("one model answered: {usage}");
    };
    assert_eq!((&row["model"], &row["jobs"]), (&STAND_IN.into(), &1.into()));
    assert_eq!(row["input_tokens"], usage["total"]["input_tokens"]);
}

#[test]
fn a_reply_cut_to_what_a_stand_in_can_give_and_its_prefix_are_recorded() {
    // A model that gives 128000 tokens; the one that stands in gives half of them.
    let (place, received) = stood_in("openai/gpt-5-mini");
    assert!(received.iter().all(|r| r.json()["max_tokens"] == 64_000));
    let why = rebuilt(&place, &received);
    let run = why["run"].as_str().unwrap();
    let shown = place.json(&["runs", "show", run]);
    let replies = shown["steps"].as_array().unwrap().iter();
    let replies: Vec<_> = replies.filter(|step| step["kind"] == "model").collect();
    assert_eq!(replies.len(), 2, "{shown:#}");
    let prefix = replies[0]["fallback_prefix"].as_str().unwrap();
    assert_ne!(shown["prefix"], prefix, "it has words of its own");
    for reply in replies
        .into_iter()
        .chain(why["requests"].as_array().unwrap())
    {
        assert_eq!(reply["fallback_prefix"], prefix, "{reply:#}");
    }
    let prefix = &prefix[..12];
    for (verb, says) in rows! {
        (&["runs", "show", run][..], format!("fallback {STAND_IN}, prefix {prefix}")),
        (&["why", run], format!("to {STAND_IN} (fallback, prefix {prefix})")),
    } {
        let done = place.call(verb).expect(0);
        assert!(done.stdout.contains(&says), "{done:#?}");
    }
    let daemon = Daemon::start(&place);
    let session = why["session"].as_str().unwrap();
    let page = format!("/sessions/{session}/runs/{run}");
    let page = Browser::enter(&daemon).get(&page).expect(200).text();
    let steps = format!("fallback {STAND_IN}, prefix <code");
    let requests = format!("{STAND_IN} (fallback, prefix <code");
    assert_eq!(page.matches(&steps).count(), 2, "{page}");
    assert_eq!(page.matches(&requests).count(), 2, "{page}");
    daemon.stop();
}

#[test]
fn a_stand_ins_prefix_is_compared_with_the_recorded_one() {
    let (place, received) = stood_in("openai/gpt-5-mini");
    let why = rebuilt(&place, &received);
    let session = why["session"].as_str().unwrap();
    let changed = |change: fn(&mut FallbackUsed)| {
        copied(
            &place,
            session,
            |events| change_stand_ins(events, change),
            |_| {},
        )
    };
    let other = changed(|by| by.sent.as_mut().unwrap().prefix = Digest([7; 32]));
    let done = place.call(&["replay", "--session", &other]).expect(1);
    let recorded = format!("recorded {STAND_IN}: 0707");
    assert!(done.stdout.contains("differs: prefix of run"), "{done:#?}");
    assert!(done.stdout.contains(&recorded), "{done:#?}");
    // As the journal was before that was recorded: nothing to compare, and the uncut reply.
    let older = changed(|by| by.sent = None);
    assert_eq!(
        place.json(&["replay", "--session", &older])["mismatches"],
        0
    );
    let why = place.json(&["why", why["run"].as_str().unwrap(), "--session", &older]);
    let tail = why["requests"][0]["tail"].as_str().unwrap();
    assert!(tail.contains("\"max_tokens\":128000"), "{tail}");
}

fn change_stand_ins(events: &mut [Event], change: fn(&mut FallbackUsed)) {
    for event in events {
        if let Fact::RunStepped { step, .. } = &mut event.fact
            && let Step::Model(reply) = Arc::make_mut(step)
        {
            reply.fallback.iter_mut().for_each(change);
        }
    }
}
