//! Settings and agents that are wrong: what, where, what to do.

use crate::support::{Place, example, finish};

#[test]
fn an_unknown_preset_agent_key_or_tool_is_named_with_what_was_meant() {
    let place = Place::new();
    let file = example();
    let done = place
        .call(&["run", &file, "--preset", "checkpiont"])
        .expect(2);
    done.says(&["checkpiont", "'checkpoint'"]);
    let done = place.call(&["run", &file, "--agents", "risk"]).expect(2);
    done.says(&["unknown agent `risk`", "did you mean `risks`?"]);
    let done = place.call(&["run", &file, "--lead", "leda"]).expect(2);
    done.says(&["unknown agent `leda`", "did you mean `lead`?"]);
    place
        .call(&["run", &file, "--set", "compaction.preset"])
        .expect(2)
        .says(&["KEY=VALUE"]);

    place.write(
        "agents/notes.md",
        "---\ndescription: Notes\ntools: [recal]\n---\nTake notes.\n",
    );
    let done = place.call(&["agents", "list"]).expect(2);
    done.says(&[
        "agents/notes.md:3:",
        "unknown tool `recal`",
        "did you mean `recall`?",
    ]);
}

#[test]
fn an_unknown_key_is_a_warning_that_a_check_refuses() {
    let place = Place::with_config("[compaction]\nprest = \"retention\"\n");
    let words = [
        "config/unisono.toml:2:1",
        "unknown key `prest`",
        "did you mean `preset`?",
    ];
    place.call(&["agents", "list"]).expect(0).says(&words);
    let done = place.call(&["config", "check"]).expect(2);
    for word in words {
        assert!(done.stdout.contains(word), "{done:#?}");
    }
    let found = place.call(&["config", "check", "--json"]).expect(2).json();
    assert_eq!(found[0]["line"], 2);
}

#[test]
fn an_unknown_model_or_provider_is_refused() {
    let place = Place::with_config("[models]\ndefault = \"opnai/gpt-4o\"\n");
    let done = place.call(&["run", &example()]).expect(2);
    done.says(&[
        "config/unisono.toml:2:",
        "unknown provider `opnai`",
        "did you mean `openai`?",
    ]);
}

#[test]
fn a_setting_says_where_it_came_from() {
    let place = Place::with_config("[turn]\nagents = [\"risks\"]\n");
    let settings = place.json(&["config", "show", "turn", "--set", "turn.lead=facts"]);
    let origin = |key: &str| {
        let all = settings.as_array().unwrap();
        all.iter().find(|s| s["key"] == key).unwrap()["origin"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(origin("turn.agents").ends_with("config/unisono.toml"));
    assert_eq!(origin("turn.lead"), "flag --set turn.lead");
    assert_eq!(origin("turn.timeout_seconds"), "defaults");
}

#[test]
fn a_wrong_key_is_told_with_what_was_meant() {
    let place = Place::new();
    for (wrong, meant) in [
        ("compaction.presett", "did you mean `compaction.preset`?"),
        ("compation", "did you mean `compaction`?"),
        ("zzz", "lists the keys that are set"),
        // Its keys have no defaults.
        ("budget", "lists the keys that are set"),
    ] {
        let unknown = place.call(&["config", "show", wrong]).expect(2);
        unknown.says(&["no key that is set starts with", wrong, meant]);
    }
}

#[test]
fn a_starter_project_runs() {
    let place = Place::new();
    place
        .call(&["init", "mine"])
        .expect(0)
        .says(&["next: `cd mine`, then `unisono run FILE`"]);
    for args in [&["config", "check"][..], &["doctor"], &["init"]] {
        let mut command = place.command(args);
        command.current_dir(place.path("mine"));
        let done = finish(command.spawn().unwrap(), args).expect(0);
        assert!(!done.stderr.contains("`cd "), "{args:?}: {done:#?}");
    }
    // Nothing of a person's is overwritten.
    place.write("mine/agents/risks.md", "mine");
    place.says(&["init", "mine"], &["kept  mine/agents/risks.md"]);
}

#[test]
fn the_log_has_colours_where_messages_have_them() {
    let place = Place::new();
    place.write("data/unisono/calibration.json", "none");
    for (when, painted) in [("always", true), ("never", false), ("auto", false)] {
        let done = place.call(&["models", "--color", when]).expect(0);
        let mut log = done.stderr.lines();
        let line = log.find(|line| line.contains("calibrations cannot be read"));
        assert_eq!(
            line.unwrap().contains('\u{1b}'),
            painted,
            "{when}: {done:#?}"
        );
    }
}
