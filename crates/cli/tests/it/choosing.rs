//! A model that is chosen for one turn counts for all agents, or the call is refused.

use serde_json::Value;
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::support::{Done, Place, example, words};

/// A project whose lead and delegate each name a model of their own.
fn place(provider: &FakeProvider, more: &str) -> Place {
    let own = "attempts = 1\n[turn]\nlead = \"boss\"\nagents = [\"scout\"]\n\
               [compaction]\nsummarisers = [\"extractive\"]\n";
    let place = Place::with_openai(provider, &[own, more].concat());
    let agent = |model: &str| format!("---\ndescription: Test\nmodel: {model}\n---\nAnswer.\n");
    place.write("agents/boss.md", agent("openai/gpt-4.1"));
    place.write("agents/scout.md", agent("extractive"));
    place
}

fn provider() -> FakeProvider {
    FakeProvider::play_on_thread(Script::by(|_| Act::answer(Answer::text("Done."))))
}

/// The models that a provider was asked for.
fn asked(provider: &FakeProvider) -> Vec<Value> {
    let requests = provider.requests();
    requests.iter().map(|r| r.json()["model"].clone()).collect()
}

#[test]
fn the_chosen_model_is_asked_by_agents_that_name_another() {
    let provider = provider();
    let place = place(&provider, "");
    let file = example();
    place.keyed(&["run", &file]).expect(0);
    assert_eq!(asked(&provider), ["gpt-4.1"]);
    for model in ["openai/gpt-4.1-mini", "gpt-4.1-mini"] {
        let before = asked(&provider).len();
        place
            .keyed(&["run", &file, "--model", model])
            .expect(0)
            .says(&["model      openai/gpt-4.1-mini, as chosen"]);
        let models = asked(&provider).split_off(before);
        assert_eq!(
            models,
            ["gpt-4.1-mini", "gpt-4.1-mini"],
            "lead and delegate"
        );
    }
    // The same where a daemon does the work.
    let daemon = Daemon::keyed(&place);
    let before = asked(&provider).len();
    let again = words("run --session latest -t And? --model gpt-4.1-mini");
    place.call(&again).expect(0);
    let models = asked(&provider).split_off(before);
    assert_eq!(models, ["gpt-4.1-mini", "gpt-4.1-mini"], "through a daemon");
    daemon.stop();
}

#[test]
fn a_daemon_knows_the_chosen_model_by_its_own_settings() {
    let provider = provider();
    let place = place(&provider, "");
    place.call(&["import", &example()]).expect(0);
    let own = format!(
        "[providers.own]\nlike = \"openai-compatible\"\nbase_url = \"{}/v1\"\nattempts = 1\n",
        provider.url()
    );
    place.write("own.toml", own);
    let ask = words("run --session latest -t And? --model own/some");
    place.refuses(&ask, &["flag --model: unknown provider `own`"]);
    let command = place.command(&["serve", "--bind", "127.0.0.1:0", "--config", "own.toml"]);
    let daemon = Daemon::of(&place, command);
    let lead_alone = ["--agents", "", "--lead", "lead"];
    place.call(&[&ask[..], &lead_alone].concat()).expect(0);
    assert_eq!(asked(&provider), ["some"]);
    let nobody = words("run --session latest -t And? --model none/some");
    place.refuses(&nobody, &["unknown provider `none`"]);
    daemon.stop();
}

#[test]
fn the_default_model_of_an_own_provider_is_chosen_by_its_name_alone() {
    let provider = provider();
    let own = format!(
        "[providers.own]\nlike = \"openai-compatible\"\nbase_url = \"{}/v1\"\nattempts = 1\n\
         default_model = \"some:8b\"\n",
        provider.url()
    );
    let place = place(&provider, &own);
    place
        .keyed(&["run", &example(), "--model", "some:8b"])
        .expect(0)
        .says(&["model      own/some:8b, as chosen"]);
    assert_eq!(asked(&provider), ["some:8b", "some:8b"]);
}

#[test]
fn flags_take_what_the_settings_show_and_name_what_is_empty() {
    let place = Place::new();
    place.call(&["import", &example()]).expect(0);
    let quoted = [
        "context",
        "latest",
        "--set",
        "compaction.preset=\"retention\"",
    ];
    place.call(&quoted).expect(0);
    place.refuses(&["run", "--model", ""], &["--model"]);
    let all = place.json(&["models"]);
    assert_eq!(place.json(&["models", "list"]), all);
}

#[test]
fn a_chosen_model_that_cannot_be_asked_is_refused_whatever_stands_in() {
    let provider = provider();
    // Without a choice, the fallback answers for an agent whose key is missing.
    let place = place(&provider, "[models]\nfallback = [\"extractive\"]\n");
    let file = example();
    place.call(&["run", &file]).expect(0);
    place
        .call(&["run", &file, "--model", "openai/gpt-4.1-mini"])
        .expect(2)
        .says(&["openai/gpt-4.1-mini", "TEST_KEY"]);
    assert!(asked(&provider).is_empty());
}

#[test]
fn a_chosen_model_that_no_agent_asks_is_refused() {
    let provider = provider();
    let place = place(&provider, "");
    let program = "---\ndescription: Test\nkind: command\ncommand: cat\n---\n";
    place.write("agents/program.md", program);
    let args = [
        "--lead",
        "program",
        "--agents",
        "",
        "--model",
        "openai/gpt-4.1-mini",
    ];
    let file = example();
    place
        .keyed(&[&["run", &file][..], &args].concat())
        .expect(2)
        .says(&[
            "no agent of this turn uses model `openai/gpt-4.1-mini`",
            "program",
        ]);
}

/// What is said in lines that begin with a word.
fn lines<'d>(done: &'d Done, word: &str) -> Vec<&'d str> {
    let lines = done.stderr.lines();
    lines.filter(|line| line.contains(word)).collect()
}

#[test]
fn a_wrong_model_is_one_error_with_its_place() {
    let place = Place::new();
    let done = place
        .call(&["run", &example(), "--model", "nope"])
        .expect(2);
    let said = lines(&done, "error");
    assert_eq!(said.len(), 1, "{done:#?}");
    assert_eq!(said[0].matches("error").count(), 1, "{done:#?}");
    assert!(
        said[0].contains("--model: model `nope` names no provider"),
        "{done:#?}"
    );
}

#[test]
fn an_unknown_branch_is_told_with_those_there_are_with_a_daemon_too() {
    let place = Place::new();
    place.call(&["import", &example()]).expect(0);
    let each = [
        &["run", "--session", "latest", "--branch", "mian"][..],
        &[
            "delegate", "latest", "facts", "-t", "Look.", "--branch", "mian",
        ],
        &["compact", "latest", "--branch", "mian", "--yes"],
        &["context", "latest", "--branch", "mian"],
        &["pin", "latest", "1", "--branch", "mian"],
        &["seal", "latest", "--branch", "mian"],
    ];
    let check = || {
        for args in each {
            place.refuses(args, &["no branch `mian`", "hint: it has: main"]);
        }
    };
    check();
    let daemon = Daemon::start(&place);
    check();
    daemon.stop();
}
