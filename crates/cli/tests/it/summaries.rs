//! Summaries by language models, over the wire: written, failed, asked for by a person.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Refusal, Script, Usage};

use crate::support::{HasAll as _, Place, asks_for_a_summary, example};
use crate::terminal::Talking;

pub(crate) const SUMMARY: &str = "Here is the summary:\n\n## Context\n- Orders are moved to a new database \
                       (#1).\n\n## Unresolved questions\nNone.";
const TAKEN: &str = "## Context\n- Orders are moved to a new database (#1).";

/// A place whose OpenAI is a fake one that answers agents, and summarisers as `summary` says.
pub(crate) fn place(summary: impl Fn() -> Act + Send + Sync + 'static) -> (Place, FakeProvider) {
    let script = Script::by(move |request| match asks_for_a_summary(request) {
        true => summary(),
        false => Act::answer(Answer::text("All is well.")),
    });
    let provider = FakeProvider::play_on_thread(script);
    let more = "attempts = 1\n[models]\ndefault = \"openai/gpt-4o\"\n";
    let place = Place::with_openai(&provider, more);
    (place, provider)
}

pub(crate) fn summaries(provider: &FakeProvider) -> Vec<Recorded> {
    let requests = provider.requests().into_iter();
    requests.filter(asks_for_a_summary).collect()
}

fn run(file: &str) -> [&str; 6] {
    ["run", file, "--compact-above", "8k", "--agents", "risks"]
}

#[test]
fn the_catalogues_summariser_of_the_leads_model_writes_the_summary() {
    let (place, provider) = place(|| Act::answer(Answer::text(SUMMARY)));
    let file = example();
    place
        .keyed(&run(&file))
        .expect(0)
        .says(&["summarised", "(openai/gpt-6-luna, "]);
    let shown = place.keyed_json(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(shown["model"], "openai/gpt-6-luna");
    assert_eq!(shown["degraded"], false);
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains(TAKEN) && !text.contains("Here is"), "{text}");
    assert!(!shown["key_facts"].as_array().unwrap().is_empty());

    let asked = summaries(&provider);
    assert_eq!(asked.len(), 1);
    let body = asked[0].json();
    assert_eq!(body["model"], "gpt-6-luna");
    assert!(body["tools"].is_null(), "{body}");
    let prompt = body.to_string();
    assert!(prompt.contains("<recent_messages>") && prompt.contains("<#1 user"));
}

#[test]
fn the_usage_of_a_turn_has_its_summaries_also_those_that_are_not_used() {
    let used = Usage::new(70_000, 300);
    let file = example();
    let json = [&run(&file)[..], &["--json"]].concat();
    let (place, _provider) = place(move || Act::answer(Answer::text(SUMMARY).usage(used)));
    let report = place.keyed(&json).expect(0).json();
    let summaries = &report["summaries"];
    assert_eq!(summaries["usage"]["input_tokens"], 70_000, "{report}");
    assert!(summaries["unused"].is_null(), "{report}");
    let runs = report["runs"].as_array().unwrap().iter();
    let runs: u64 = runs.map(|run| run["input_tokens"].as_u64().unwrap()).sum();
    assert_eq!(report["usage"]["input_tokens"], 70_000 + runs);
    let shown = place.keyed_json(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(shown["usage"]["input_tokens"], 70_000, "{shown}");
    assert_eq!(shown["usage"]["output_tokens"], 300, "{shown}");

    // One request and two retries, and then quotes.
    let (place, _provider) =
        self::place(move || Act::answer(Answer::text("I would rather not.").usage(used)));
    let done = place.keyed(&json).expect(0);
    let report = done.json();
    let unused = &report["summaries"]["unused"];
    assert_eq!(unused["input_tokens"], 210_000, "{report}");
    done.says(&["a summary was tried and not used: 210,900 tokens"]);
    let shown = place.keyed_json(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(shown["degraded"], true, "{shown}");
    assert_eq!(shown["usage"]["input_tokens"], 210_000, "{shown}");
}

#[test]
fn where_the_summariser_fails_quotes_are_taken_and_it_is_said() {
    let (place, provider) = place(|| Act::refuse(Refusal::Unauthorised));
    let file = example();
    place.keyed(&run(&file)).expect(0).says(&[
        "summary    no acceptable summary: model openai/gpt-6-luna: ",
        "(extractive in place of a model, ",
    ]);
    let shown = place.keyed(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(shown.expect(0).json()["degraded"], true);
    assert_eq!(summaries(&provider).len(), 1);
}

#[test]
fn a_compaction_on_request_that_fails_changes_nothing_and_says_what_can_be_done() {
    let (place, provider) = place(|| Act::answer(Answer::text("I would rather not.")));
    place.keyed(&["import", &example()]).expect(0);
    let estimate = place.keyed_json(&["compact", "--dry-run", "--json"]);
    assert!(
        estimate["estimated_cost_usd"].as_f64() > Some(0.0),
        "{estimate}"
    );
    // No model writes what is only dropped or cut.
    let dropped = ["compact", "--dry-run", "--json", "--preset", "truncate"];
    let dropped = place.keyed(&dropped).expect(0).json();
    assert_eq!(dropped["estimated_cost_usd"], 0.0, "{dropped}");
    place.keyed(&["compact", "--yes"]).expect(1).says(&[
        "the summary has none of its sections; nothing was changed",
        "--on-failure extractive",
    ]);
    assert_eq!(summaries(&provider).len(), 3, "one request and two retries");
    let none = place.keyed(&["checkpoints", "list", "--json"]).expect(0);
    assert_eq!(none.json().as_array().unwrap().len(), 0);

    let quotes = ["compact", "--yes", "--summariser", "extractive", "--json"];
    let done = place.keyed(&quotes).expect(0).json();
    assert_eq!(done["state"], "compacted");
    assert_eq!(summaries(&provider).len(), 3);
    let shown = place.keyed_json(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(
        (&shown["model"], &shown["degraded"]),
        (&"extractive".into(), &false.into())
    );
}

#[test]
fn what_is_done_where_no_summary_is_written_can_be_said_beforehand() {
    let (place, provider) = place(|| Act::answer(Answer::text("I would rather not.")));
    place.keyed(&["import", &example()]).expect(0);
    let asked = |way: &str| place.keyed(&["compact", "--yes", "--on-failure", way, "--json"]);
    asked("retry").expect(1).says(&["nothing was changed"]);
    assert_eq!(
        summaries(&provider).len(),
        9,
        "asked three times, each with two retries"
    );
    asked("leave").expect(1).says(&["nothing was changed"]);
    assert_eq!(asked("extractive").expect(0).json()["state"], "compacted");
    asked("give-up")
        .expect(2)
        .says(&["retry, extractive, leave"]);
    let shown = place.keyed(&["checkpoints", "show", "latest", "1", "--json"]);
    assert_eq!(shown.expect(0).json()["model"], "extractive");

    let chosen = |name: &str| place.keyed(&["compact", "--yes", "--summariser", name]);
    chosen("anthropic/claude-haiku-4-5")
        .expect(2)
        .says(&["is not usable", "ANTHROPIC_API_KEY"]);
    chosen("nobody/model")
        .expect(2)
        .says(&["summariser `nobody/model`"]);
}

#[test]
fn an_interrupted_question_ends_the_program_and_changes_nothing() {
    let (place, _provider) = place(|| Act::answer(Answer::text("I would rather not.")));
    place.keyed(&["import", &example()]).expect(0);
    let asked = |args: &[&str]| {
        let mut talking = Talking::at_a_terminal(place.keyed_command(args));
        talking.sees("[y/N]");
        talking
    };
    let interrupts = |args: &[&str]| {
        let ended = asked(args).interrupted();
        assert_eq!(ended.signal(), Some(2), "{args:?}: {ended}");
    };
    let checkpoints = || {
        let list = place.keyed_json(&["checkpoints", "list", "--json"]);
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["active"] == true).collect::<Vec<_>>()
    };
    interrupts(&["compact"]);
    let mut talking = asked(&["compact"]);
    talking.say("y\r");
    talking.sees("[l]eave it?");
    assert_eq!(talking.interrupted().code(), Some(130));
    assert_eq!(checkpoints(), [false; 0]);

    let quotes = ["compact", "--yes", "--summariser", "extractive"];
    place.keyed(&quotes).expect(0);
    interrupts(&["checkpoints", "regenerate", "latest"]);
    interrupts(&["checkpoints", "revert", "latest"]);
    assert_eq!(checkpoints(), [true]);
}

#[test]
fn a_prompt_of_ones_own_is_what_the_summariser_is_told() {
    let (place, provider) = place(|| Act::answer(Answer::text(SUMMARY)));
    let config = place.config();
    place.set_config(format!(
        "{config}\n[compaction]\nprompt = \"minutes\"\n\
             summarisers = [\"openai/gpt-4.1-nano\", \"openai/gpt-6-luna\"]\n"
    ));
    let minutes = "Take the minutes under `## Context`, {{target_tokens}} tokens at most.\n\
                   {{instructions}}\n{{prior}}\n{{conversation}}\n";
    place.write("config/prompts/minutes.md", minutes);
    place.keyed(&["import", &example()]).expect(0);
    let reply = ["compact", "--yes", "--instructions", "Keep the dates."];
    place.keyed(&reply).expect(0);
    let asked = summaries(&provider);
    assert_eq!(asked.len(), 1);
    let prompt = asked[0].json().to_string();
    prompt.has_all(&["Take the minutes under `## Context`"]);
    assert!(prompt.contains("<asked_for>\\nKeep the dates.\\n</asked_for>"));
    assert_eq!(asked[0].json()["model"], "gpt-4.1-nano");
}

fn again<'a>(task: &'a str, above: &'a str) -> [&'a str; 9] {
    [
        "run",
        "--session",
        "latest",
        "--task",
        task,
        "--compact-above",
        above,
        "--agents",
        "risks",
    ]
}

#[test]
fn what_was_quoted_in_place_of_a_model_is_written_anew_by_it_on_the_next_turn() {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let used = Usage::new(900, 70);
    let (place, provider) = place(move || match is_down.load(Ordering::SeqCst) {
        true => Act::answer(Answer::text("I would rather not.").usage(used)),
        false => Act::answer(Answer::text(SUMMARY).usage(used)),
    });
    place
        .keyed(&run(&example()))
        .expect(0)
        .says(&["(extractive in place of a model, "]);
    let spent = place.keyed(&["usage", "--json"]).expect(0).json();
    assert_eq!(summary_row(&spent)["jobs"], 0, "{spent}");
    assert_eq!(summary_row(&spent)["input_tokens"], 2_700, "three replies");
    assert_eq!(summary_row(&spent)["output_tokens"], 210);
    assert!(summary_row(&spent)["cost_usd"].as_f64() > Some(0.0));

    down.store(false, Ordering::SeqCst);
    let report = place.keyed_json(&[&again("And now?", "16k")[..], &["--json"]].concat());
    let made = &report["checkpoints"][0];
    assert_eq!(
        (&made["number"], &made["regenerates"], &made["degraded"]),
        (&2.into(), &1.into(), &false.into()),
        "{report}"
    );
    let shown = place.keyed_json(&["checkpoints", "show", "latest", "2", "--json"]);
    assert_eq!(shown["model"], "openai/gpt-6-luna");
    assert!(shown["text"].as_str().unwrap().contains(TAKEN), "{shown}");
    let asked = summaries(&provider);
    assert_eq!(asked.len(), 4);
    let prompt = asked[3].json().to_string();
    assert!(prompt.contains("<#1 user") && !prompt.contains("<earlier_summary>"));
    let spent = place.keyed(&["usage", "--json"]).expect(0).json();
    assert_eq!(summary_row(&spent)["jobs"], 1);
    assert_eq!(summary_row(&spent)["input_tokens"], 3_600);

    let quiet = place.keyed(&again("And then?", "16k")).expect(0);
    assert!(!quiet.stderr.contains("rewritten"), "{}", quiet.stderr);
    assert_eq!(summaries(&provider).len(), 4);
}

fn summary_row(spent: &serde_json::Value) -> &serde_json::Value {
    let mut rows = spent["rows"].as_array().unwrap().iter();
    rows.find(|row| row["agent"].is_null()).unwrap()
}

#[test]
fn a_repair_that_fails_says_when_the_next_try_is() {
    let (place, provider) = place(|| Act::refuse(Refusal::Unauthorised));
    place.keyed(&run(&example())).expect(0);
    place
        .keyed(&again("And now?", "16k"))
        .expect(0)
        .says(&["the summary stays as it is; the next try is in 1 minute"]);
    place.keyed(&again("And then?", "16k")).expect(0);
    assert_eq!(summaries(&provider).len(), 2, "the pause is not over");
}

#[test]
fn that_models_have_written_as_many_summaries_as_they_may_is_said() {
    let (place, provider) = place(|| Act::answer(Answer::text(SUMMARY)));
    let config = place.config();
    place.set_config(format!(
        "{config}\n[compaction]\nmodel_checkpoints = 1\nkeep_messages = 4\n"
    ));
    place.keyed(&run(&example())).expect(0);
    assert_eq!(summaries(&provider).len(), 1);
    let long = "Something else is said here about the matter at hand. ".repeat(500);
    place.keyed(&again(&long, "5k")).expect(0);
    place.keyed(&again("And now?", "5k")).expect(0).says(&[
        "models wrote 1 summary in the last 24 hours, as many as compaction.model_checkpoints \
         allows: quotes are taken",
        "(extractive, ",
    ]);
    assert_eq!(summaries(&provider).len(), 1);
}

#[test]
fn a_session_has_its_own_summarisers_and_prompt() {
    let (place, provider) = place(|| Act::answer(Answer::text(SUMMARY)));
    place.keyed(&["import", &example()]).expect(0);
    let set = |key: &str, value: &str| {
        let args = ["config", "set", key, value, "--session", "latest"];
        place.keyed(&args)
    };
    let compact = || {
        place
            .keyed(&["compact", "--yes", "--keep", "4", "--json"])
            .expect(0)
    };
    let written_by = |number: &str| {
        let args = ["checkpoints", "show", "latest", number, "--json"];
        let shown = place.keyed(&args).expect(0).json();
        (shown["model"].clone(), shown["degraded"].clone())
    };
    set("compaction.summarisers", "extractive").expect(0);
    compact();
    assert_eq!(written_by("1"), ("extractive".into(), false.into()));
    assert!(summaries(&provider).is_empty());

    place
        .keyed(&["checkpoints", "revert", "latest", "--yes"])
        .expect(0);
    set("compaction.summarisers", "openai/gpt-4.1-nano").expect(0);
    set("compaction.prompt", "handoff").expect(0);
    set("compaction.prompt", "handof")
        .expect(2)
        .says(&["unknown prompt `handof`", "did you mean `handoff`?"]);
    set("compaction.prompt", "/etc/passwd")
        .expect(2)
        .says(&["unknown prompt `/etc/passwd`"]);
    set("compaction.summarisers", "opnai/gpt-4o")
        .expect(2)
        .says(&["session", "opnai"]);
    compact();
    assert_eq!(written_by("2").0, "openai/gpt-4.1-nano");
    let asked = summaries(&provider);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].json()["model"], "gpt-4.1-nano");
    let sent = asked[0].json().to_string();
    sent.has_all(&["Somebody who was not there takes over"]);
}
