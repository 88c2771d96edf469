//! Agents that are programs, and what they do wrong: the others' answer is still printed.

use serde_json::Value;

use crate::support::{Done, Place, finish};

/// An agent that runs a shell script, beside one that works.
fn place(script: &str) -> Place {
    program("sh", &["-c", script])
}

fn program(program: &str, args: &[&str]) -> Place {
    let args: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
    let place = Place::with_config(&format!(
        "[agents.odd]\ndescription = \"Odd\"\nkind = \"command\"\ncommand = {program:?}\n\
         args = [{}]\ntimeout = \"700ms\"\nretries = 0\n",
        args.join(", ")
    ));
    place.talk();
    place
}

fn run(place: &Place) -> Done {
    place.call(&[
        "run",
        "talk.json",
        "--agents",
        "odd,facts",
        "--task",
        "When?",
        "--json",
    ])
}

/// The odd one fails for that cause, and says so; the others' answer is there.
#[track_caller]
fn fails(place: &Place, cause: &str, words: &[&str]) {
    let done = run(place)
        .expect(4)
        .says(words)
        .says(&["1 of 3 agents failed: odd"]);
    let report = done.json();
    assert_eq!(report["state"], "answered");
    assert_ne!(report["answer"], Value::Null);
    let odd = &report["runs"][0];
    assert_eq!(
        (odd["state"].as_str(), odd["cause"].as_str()),
        (Some("failed"), Some(cause))
    );
    assert_eq!(report["runs"][1]["state"], "done");
}

#[test]
fn a_program_reads_its_task_and_answers() {
    let place = place(r#"grep -q '"task"' && echo '{"text":"On Friday, says the program."}'"#);
    let report = run(&place).expect(0).json();
    assert_eq!(report["runs"][0]["text"], "On Friday, says the program.");
}

#[test]
fn a_program_that_is_missing() {
    fails(
        &program("no-such-program", &[]),
        "spawn_failed",
        &["no-such-program"],
    );
}

#[test]
fn a_program_that_hangs() {
    fails(&place("sleep 600"), "timeout", &["odd", "failed"]);
}

#[test]
fn a_program_that_prints_garbage() {
    fails(
        &place("printf '\\377\\376\\000'"),
        "bad_output",
        &["not UTF-8"],
    );
    fails(
        &place("echo '{\"text\": 7'"),
        "bad_output",
        &["not valid JSON"],
    );
    fails(&place("true"), "bad_output", &["empty"]);
}

#[test]
fn a_program_that_floods() {
    fails(&program("yes", &[]), "bad_output", &["odd", "failed"]);
}

#[test]
fn a_program_that_fails() {
    fails(
        &place("echo no licence >&2; exit 3"),
        "exit_failure",
        &["exit status: 3", "no licence"],
    );
}

#[test]
fn a_failure_that_matters_fails_the_turn() {
    let place = place("exit 3");
    let config = std::fs::read_to_string(place.path("config/unisono.toml")).unwrap();
    place.write(
        "config/unisono.toml",
        format!("{config}on_failure = \"fail\"\n"),
    );
    let done = run(&place).expect(1).says(&["the turn failed", "odd"]);
    assert_eq!(done.json()["state"], "failed");
}

#[test]
fn a_program_inherits_everything_but_the_keys_of_providers() {
    let place = Place::with_config(
        "[models]\ndefault = \"extractive\"\n\
         [providers.mine]\nlike = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:9\"\n\
         api_key_env = \"MY_SERVICE\"\n\
         [agents.odd]\ndescription = \"Odd\"\nkind = \"command\"\ncommand = \"env\"\n\
         env = { GEMINI_API_KEY = \"given\", MODE = \"fast\" }\n",
    );
    place.talk();
    let args = [
        "run",
        "talk.json",
        "--agents",
        "odd",
        "--task",
        "When?",
        "--json",
    ];
    let mut command = place.command(&args);
    for name in [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "MY_SERVICE",
    ] {
        command.env(name, "a-provider-key-of-ones-own");
    }
    command.env("EDITION", "second");
    let report = finish(command.spawn().unwrap(), &args).expect(0).json();
    let env = report["runs"][0]["text"].as_str().unwrap();
    assert!(!env.contains("a-provider-key"), "{env}");
    for line in ["GEMINI_API_KEY=given", "MODE=fast", "EDITION=second"] {
        assert!(env.lines().any(|had| had == line), "{line} in {env}");
    }
    assert!(env.contains("PATH="), "{env}");
}

#[test]
fn a_lead_that_cannot_delegate_says_so() {
    let place = Place::new();
    place.talk();
    let args = [
        "run",
        "talk.json",
        "--lead",
        "coordinator",
        "--agents",
        "risks,facts",
        "--task",
        "When?",
    ];
    place.call(&args).expect(0).says(&[
        "agent `coordinator` has the tool `delegate`, but its model `extractive` calls no tools: it \
         gives no tasks to others and answers without risks, facts: name whom it works with as its \
         `delegates`",
    ]);
    let with_tasks = [&args[..5], &["risks=what is risky?", "--task", "When?"]].concat();
    let said = place.call(&with_tasks).expect(0).stderr;
    assert!(!said.contains("calls no tools"), "{said}");

    // The shipped one is no fault of anybody's who does not use it.
    place.call(&["agents", "check"]).expect(0);
    place.write("config/unisono.toml", "[run]\nlead = \"coordinator\"\n");
    let checked = place.call(&["agents", "check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(
        said.contains("its model `extractive` calls no tools"),
        "{said}"
    );
}
