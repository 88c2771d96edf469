//! Settings of one session: kept with it, used by all that looks at it or works on it.

use std::fs;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{HasAll as _, Place, example, heard, send_signal, tell, words};

/// A project whose one session has a conversation of some thousand tokens.
fn place() -> Place {
    let place = Place::with_config(
        "[compaction]\nsummarisers = [\"extractive\"]\n[turn]\nlead = \"plain\"\nagents = []\n\
         [agents.plain]\ndescription = \"Answers.\"\nmodel = \"extractive\"\ntools = []\n",
    );
    place.call(&["import", &example()]).expect(0);
    place
}

fn set(place: &Place, key: &str, value: &str) {
    let args = ["config", "set", key, value, "--session", "latest"];
    let done = place.call(&args).expect(0);
    assert!(done.stdout.contains("# session"), "{done:?}");
}

/// Whether a turn compacted first, and whether it said so.
fn run(place: &Place, flags: &[&str]) -> (bool, bool) {
    let made = || {
        place
            .json(&["checkpoints", "list"])
            .as_array()
            .unwrap()
            .len()
    };
    let before = made();
    let args = ["run", "--session", "latest", "--task", "What is left?"];
    let done = place.call(&[&args[..], flags].concat()).expect(0);
    let mut lines = done.stderr.lines();
    (
        made() > before,
        lines.any(|line| line.starts_with("compacted ")),
    )
}

#[test]
fn a_session_has_its_own_which_flags_win_over_and_a_copy_takes_along() {
    let place = place();
    assert_eq!(run(&place, &[]), (false, false));
    set(&place, "compaction.trigger_tokens", "4000");
    set(&place, "compaction.notice", "off");
    // What looks at it knows them.
    let shown = place.json(&["config", "show", "compaction", "--session", "latest"]);
    let of = |key: &str| {
        let mut all = shown.as_array().unwrap().iter();
        all.find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(of("compaction.trigger_tokens")["value"], "4000");
    assert_eq!(of("compaction.trigger_tokens")["origin"], "session");
    assert_ne!(of("compaction.preset")["origin"], "session");
    let all = place.json(&["config", "show", "compaction.notice"]);
    assert_ne!(all[0]["origin"], "session");
    let about = place.json(&["sessions", "show"]);
    assert_eq!(
        about["settings"],
        json!({"compaction.notice": "off", "compaction.trigger_tokens": "4000"})
    );

    assert_eq!(run(&place, &["--compact-above", "90k"]), (false, false));
    let copy = place.call(&["export", "latest"]).expect(0).stdout;
    assert_eq!(run(&place, &[]), (true, false));

    fs::write(place.path("copy.jsonl"), copy).unwrap();
    place.call(&["import", "copy.jsonl", "--copy"]).expect(0);
    assert_eq!(
        place.json(&["sessions", "show"])["settings"],
        about["settings"]
    );
    assert_eq!(
        run(&place, &["--set", "compaction.notice=on"]),
        (true, true)
    );

    for key in ["compaction.notice", "compaction.trigger_tokens"] {
        let unset = ["config", "set", key, "--unset", "--session", "latest"];
        place.call(&unset).expect(0);
    }
    assert_eq!(place.json(&["sessions", "show"])["settings"], json!({}));
    assert_eq!(run(&place, &[]), (false, false));
}

#[test]
fn what_no_session_can_have_is_refused_with_what_is_wrong() {
    let place = place();
    let rows = rows! {
        ("compaction.prest", "off", "did you mean `compaction.preset`?"),
        ("server.bind", "127.0.0.1:1", "cannot be set for a session"),
        ("compaction.preset", "offf", "\"offf\""),
        ("turn.lead", "plian", "did you mean `plain`?"),
    };
    for (key, value, words) in rows {
        let args = ["config", "set", key, value, "--session", "latest"];
        place.call(&args).expect(2).says(&[key, words]);
    }
    assert_eq!(place.json(&["sessions", "show"])["settings"], json!({}));
    // Nor does it come to any with a conversation.
    let copy = place.call(&["export", "latest"]).expect(0).stdout;
    let (head, rest) = copy.split_once('\n').unwrap();
    for (settings, words) in [
        (json!({"compaction.prest": "off"}), "did you mean"),
        (json!({"compaction.preset": "offf"}), "\"offf\""),
    ] {
        let mut head: Value = serde_json::from_str(head).unwrap();
        head["settings"] = settings;
        place.write("copy.jsonl", format!("{head}\n{rest}"));
        let done = place.call(&["import", "copy.jsonl", "--copy"]).expect(2);
        done.says(&["the settings: ", words]);
    }
    assert_eq!(
        place.json(&["sessions", "list"]).as_array().unwrap().len(),
        1
    );
}

#[test]
fn what_became_wrong_is_told_and_can_be_taken_away() {
    let place = place();
    place.write(
        "agents/clerk.md",
        "---\ndescription: Notes\nmodel: extractive\n---\nTake notes.\n",
    );
    set(&place, "turn.lead", "clerk");
    fs::remove_file(place.path("agents/clerk.md")).unwrap();
    let args = ["run", "--session", "latest", "--task", "What is left?"];
    place.call(&args).expect(2).says(&["`turn.lead`", "clerk"]);
    let daemon = Daemon::start(&place);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    let id = sessions["items"][0]["session"].as_str().unwrap().to_owned();
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let refused = daemon.post(&at("/turns"), &json!({"task": "What is left?"}));
    let detail = refused.expect(422).problem("refused");
    detail.has_all(&["session", "clerk"]);
    daemon.get(&at("")).expect(200);
    daemon.get(&at("/messages")).expect(200);
    // The pages say it, and can be used to take it away.
    for page in ["", "/context", "/settings"] {
        let shown = daemon.text(&format!("/sessions/{id}{page}"));
        assert!(shown.contains("clerk"), "{page}: {shown}");
    }
    daemon.get(&format!("/sessions/{id}/history")).expect(200);
    // Through the daemon that has the store.
    let unset = words("config set turn.lead --unset --session latest");
    place.call(&unset).expect(0);
    let turn = daemon.post(&at("/turns"), &json!({"task": "What is left?"}));
    assert_eq!(turn.expect(200).json()["state"], "answered");
    daemon.stop();
}

#[test]
fn turns_of_a_daemon_use_them_also_after_it_was_killed() {
    let place = place();
    let daemon = Daemon::start(&place);
    let messages: Vec<Value> = (0..40)
        .map(|n| {
            let text = format!("We ship part {n} on Friday. ").repeat(30);
            let role = ["user", "assistant"][n % 2];
            json!({"role": role, "content": text})
        })
        .collect();
    let own = json!({"compaction.trigger_tokens": 3_000, "compaction.preset": "truncate"});
    let small = json!({"messages": messages, "settings": own});
    let small = daemon.post("/v1/sessions", &small).expect(201).json();
    assert_eq!(small["settings"]["compaction.trigger_tokens"], "3000");
    let large = daemon.post("/v1/sessions", &json!({"messages": messages}));
    let large = large.expect(201).json();
    let at = |session: &Value, rest: &str| {
        format!(
            "/v1/sessions/{}{rest}",
            session["session"].as_str().unwrap()
        )
    };
    let task = json!({"task": "When do we ship?"});
    let compacted = |daemon: &Daemon, session: &Value| {
        let turn = daemon.posted(&at(session, "/turns"), &task);
        assert_eq!(turn["state"], "answered", "{turn}");
        !turn["checkpoints"].as_array().unwrap().is_empty()
    };
    assert!(compacted(&daemon, &small));
    assert!(!compacted(&daemon, &large));
    let trigger = |daemon: &Daemon, session: &Value| {
        let all = daemon.get(&at(session, "/settings")).expect(200).json();
        let mut all = all.as_array().unwrap().clone().into_iter();
        let found = all.find(|setting| setting["key"] == "compaction.trigger_tokens");
        found.map(|setting| setting["origin"].clone())
    };
    assert_eq!(trigger(&daemon, &small), Some(json!("session")));
    assert_ne!(trigger(&daemon, &large), Some(json!("session")));
    let patch = |daemon: &Daemon, session: &Value, changes: Value| {
        let body = json!({"changes": changes});
        daemon.request("PATCH", &at(session, "/settings"), Some(&body))
    };
    let now = json!({"compaction.trigger_tokens": 3_000, "compaction.preset": "truncate"});
    patch(&daemon, &large, now).expect(200);
    let never = json!({"compaction.preset": "off", "compaction.trigger_tokens": null});
    patch(&daemon, &small, never).expect(200);
    for wrong in [
        json!({"compaction.preset": "off", "turn.lead": "plian"}),
        json!({"compaction.prest": "off"}),
        json!({"turn.agents": ["a,b"]}),
        json!({"compaction.preset": {"a": 1}}),
    ] {
        let detail = patch(&daemon, &large, wrong).expect(422).problem("refused");
        assert!(!detail.is_empty());
    }
    daemon.kill();

    let daemon = Daemon::start(&place);
    assert_eq!(trigger(&daemon, &large), Some(json!("session")));
    let large_id = large["session"].as_str().unwrap();
    let shown = ["config", "show", "--session", large_id, "--changed"];
    let shown = place.call(&shown).expect(0).stdout;
    let said = |words: &str| shown.lines().any(|line| line.contains(words));
    assert!(said("compaction.trigger_tokens = 3000"), "{shown}");
    assert!(said("config/unisono.toml:4:1"), "{shown}");
    assert!(!said("# defaults"), "{shown}");
    assert!(compacted(&daemon, &large));
    assert!(!compacted(&daemon, &small));
    // What is asked wins for one turn.
    let above = json!({"compaction.preset": "truncate", "compaction.trigger_tokens": 2_000});
    let task = json!({"task": "And now?", "settings": above});
    let turn = daemon.post(&at(&small, "/turns"), &task).expect(200).json();
    assert!(
        !turn["checkpoints"].as_array().unwrap().is_empty(),
        "{turn}"
    );
    daemon.stop();
}

#[test]
fn a_label_of_a_session_before_it_could_have_settings_still_counts() {
    let place = place();
    let daemon = Daemon::start(&place);
    let labelled = |word: &str| {
        let labels = json!({"compaction.notice": word});
        let id = daemon.session(&json!({"labels": labels}));
        format!("/v1/sessions/{id}/settings")
    };
    let notice = |all: Value| {
        let mut all = all.as_array().unwrap().clone().into_iter();
        let found = all.find(|setting| setting["key"] == "compaction.notice");
        let found = found.unwrap();
        (found["value"].clone(), found["origin"] == "session")
    };
    let off = labelled("off");
    let reply = daemon.get(&off).expect(200).json();
    assert_eq!(notice(reply), (json!("\"off\""), true));
    let reply = daemon.get(&labelled("on")).expect(200).json();
    assert_eq!(notice(reply), (json!("\"on\""), false));
    let on = json!({"changes": {"compaction.notice": "on"}});
    let reply = daemon.request("PATCH", &off, Some(&on)).expect(200).json();
    assert_eq!(notice(reply), (json!("\"on\""), true));
    daemon.stop();
}

#[test]
fn a_turn_keeps_those_that_it_began_with_though_the_daemon_was_killed() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let messages = json!([{"role": "user", "content": "We ship on Friday 6 March."}]);
    let own = json!({"turn.agents": ["marks", "waits"], "models.default": "extractive"});
    let made = json!({"messages": messages, "settings": own});
    let id = daemon.session(&made);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let task = json!({"task": "Which word?", "wait": false});
    let turn = daemon.post(&at("/turns"), &task).expect(202).json();
    let agent = heard(&scene.started);
    let fewer = json!({"changes": {"turn.agents": ["marks"]}});
    daemon
        .request("PATCH", &at("/settings"), Some(&fewer))
        .expect(200);
    daemon.kill();
    send_signal("KILL", &agent);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    tell(&scene.word, "unison");
    let agents = |turn: &Value| -> Vec<String> {
        let runs = turn["runs"].as_array().unwrap().iter();
        runs.map(|run| run["agent"].as_str().unwrap().to_owned())
            .collect()
    };
    let followed = daemon.get(&at("/events?after=0")).expect(200).events();
    let mut ended = followed.filter(|event| event.name == "turn_ended");
    assert!(ended.next().is_some());
    let turn = at(&format!("/turns/{}", turn["turn"].as_str().unwrap()));
    let turn = daemon.get(&turn).expect(200).json();
    assert_eq!(agents(&turn), ["marks", "waits", "lead"], "{turn}");
    let next = daemon.post(&at("/turns"), &json!({"task": "Which colour?"}));
    assert_eq!(agents(&next.expect(200).json()), ["marks", "lead"]);
    daemon.stop();
}
