//! What a shell is offered: sessions, agents and models of where it asks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::http::Daemon;
use crate::support::{Place, finish};

/// What is offered for the last of these words.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let args = [&["--", "unisono"], words].concat();
    let mut command = place.command(&args);
    command.env("COMPLETE", "fish");
    let done = finish(command.spawn().unwrap(), words).expect(0);
    let values = done.stdout.lines().map(|line| line.split('\t').next());
    values.flatten().map(str::to_owned).collect()
}

#[test]
fn sessions_agents_and_models_are_offered() {
    let place = Place::with_config("[providers.openai]\napi_key_env = \"TEST_KEY\"\n");
    assert_eq!(
        offered(&place, &["context", ""])[0],
        "latest",
        "without a store"
    );
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let session = place.json(&["sessions", "list"])[0]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let check = || {
        for verb in [
            &["context"][..],
            &["sessions", "show"],
            &["run", "--session"],
        ] {
            let sessions = offered(&place, &[verb, &[""]].concat());
            assert!(
                sessions.contains(&"latest".to_owned()),
                "{verb:?}: {sessions:?}"
            );
            assert!(sessions.contains(&session), "{verb:?}: {sessions:?}");
            let begun = offered(&place, &[verb, &[&session[..4]]].concat());
            assert_eq!(begun, std::slice::from_ref(&session), "{verb:?}");
        }
    };
    check();
    let daemon = Daemon::start(&place);
    check();
    daemon.stop();
    let elsewhere = offered(&place, &["--store", "elsewhere", "context", ""]);
    assert!(!elsewhere.contains(&session), "{elsewhere:?}");
    assert!(!place.path("elsewhere").exists(), "asking makes nothing");

    let run = |words: &[&str]| offered(&place, &[&["run", "talk.json"], words].concat());
    assert_eq!(run(&["--agents", "ri"]), ["risks"]);
    assert_eq!(run(&["--agents", "facts,ri"]), ["facts,risks"]);
    assert!(run(&["--lead", ""]).contains(&"lead".to_owned()));
    assert_eq!(offered(&place, &["why", "ris"]), ["risks"]);
    assert_eq!(run(&["--model", "extr"]), ["extractive"]);
    assert!(run(&["--model", "openai/"]).contains(&"openai/gpt-4.1".to_owned()));
    assert!(offered(&place, &["ses"]).contains(&"sessions".to_owned()));
    // So are the models of one's own server that agents name.
    place.set_config(
        "[models]\ndefault = \"loc/m1\"\n[providers.loc]\nlike = \"openai-compatible\"\n\
         base_url = \"http://127.0.0.1:9/v1\"\n",
    );
    let agent = "---\ndescription: Test\nmodel: loc/m2\n---\nAnswer.\n";
    place.write("agents/own.md", agent);
    for verb in [
        &["run", "talk.json", "--model"][..],
        &["usage", "--model"],
        &["compact", "--summariser"],
    ] {
        let models = offered(&place, &[verb, &["loc/"]].concat());
        assert_eq!(models, ["loc/m1", "loc/m2"], "{verb:?}");
    }
    // Settings that are wrong are no reason to say anything.
    place.set_config("[turn]\nlead = \"nobody\"\n");
    assert!(run(&["--agents", "ri"]).is_empty());
}

#[test]
fn a_word_that_is_not_utf_8_leaves_the_candidates() {
    let place = Place::new();
    let mut command = place.command(&["--", "unisono", "run"]);
    let command = command.env("COMPLETE", "fish");
    let command = command.arg(OsStr::from_bytes(b"talk\xff"));
    let child = command.args(["--agents", "ri"]).spawn().unwrap();
    let done = finish(child, &["run"]).expect(0);
    assert!(done.stdout.starts_with("risks"), "{done:#?}");
}

#[test]
fn each_shell_has_a_script_that_asks_the_program() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.call(&["completions", shell]).expect(0).stdout;
        assert!(
            script.contains("COMPLETE") && script.contains("unisono"),
            "{shell}: {script}"
        );
    }
    place.call(&["completions", "tcsh"]).expect(2);
}
