//! Agents that are defined anew while the daemon works: the real program on real files.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::{Daemon, Events};
use crate::interrupted::Scene;
use crate::people::caller;
use crate::support::{HasAll as _, Place, heard, tell};

/// An agent that is a program which says that.
fn saying(text: &str) -> String {
    format!("---\ndescription: Says\nkind: command\ncommand: echo\nargs: ['{text}']\n---\n")
}

fn session(daemon: &Daemon) -> String {
    let new = json!({"messages": [{"role": "user", "content": "We ship on Friday."}]});
    let id = daemon.session(&new);
    format!("/v1/sessions/{id}")
}

/// What the agent `says` answers in a turn.
fn said(daemon: &Daemon, session: &str) -> Value {
    let task = json!({"task": "When?", "agents": ["says"]});
    let turn = daemon.posted(&format!("{session}/turns"), &task);
    let runs = turn["runs"].as_array().unwrap().iter();
    let mut says = runs.filter(|run| run["agent"] == "says");
    says.next().unwrap()["text"].clone()
}

fn follow(daemon: &Daemon, session: &str) -> Events {
    let path = format!("{session}/events");
    daemon.request("GET", &path, None).expect(200).events()
}

/// The next word of agents that were read again and are so.
#[track_caller]
fn read_again(events: &mut Events, is: impl Fn(&Value) -> bool) -> Value {
    let reply = events.filter(|event| event.name == "agents");
    let mut reply = reply.map(|event| serde_json::from_str(&event.data).unwrap());
    reply.find(|reply| is(reply)).unwrap()
}

#[test]
fn files_that_are_written_and_removed_count_for_the_turns_after_them() {
    let place = Place::with_config("[server]\nreload_seconds = 1\n");
    place.write("agents/says.md", saying("one"));
    let daemon = Daemon::start(&place);
    let session = session(&daemon);
    assert_eq!(said(&daemon, &session), "one");
    let mut events = follow(&daemon, &session);

    place.write("agents/says.md", saying("two and more"));
    place.write("agents/new.toml", "description = \"New\"\n");
    let reply = read_again(&mut events, |reply| reply["added"] == json!(["new"]));
    assert_eq!(
        (&reply["applied"], &reply["problems"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(said(&daemon, &session), "two and more");

    // One that is wrong changes nothing, and that is said.
    place.write("agents/new.toml", "description = \n");
    place.write("agents/says.md", saying("three"));
    let reply = read_again(&mut events, |reply| reply["applied"] == false);
    let problem = reply["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("agents/new.toml:1:"), "{problem}");
    assert_eq!(said(&daemon, &session), "two and more");
    let listed = daemon.get("/v1/agents").expect(200).json();
    let listed = listed.as_array().unwrap();
    assert!(listed.iter().any(|agent| agent["agent"] == "new"));

    std::fs::remove_file(place.path("agents/new.toml")).unwrap();
    let reply = read_again(&mut events, |reply| reply["applied"] == true);
    assert_eq!(reply["removed"], json!(["new"]));
    assert_eq!(said(&daemon, &session), "three");
    daemon.going.signal("TERM");
    let done = daemon.going.finish().expect(0);
    let words = ["agents/new.toml:1:", "the old ones stay in use"];
    done.says(&words);
}

#[test]
fn they_are_read_when_asked_and_tables_of_the_settings_too() {
    let config = "[server]\nreload_seconds = 0\n[agents.says]\ndescription = \"Says\"\n\
                  kind = \"command\"\ncommand = \"echo\"\nargs = [\"one\"]\n";
    let place = Place::with_config(config);
    let daemon = Daemon::start(&place);
    let session = session(&daemon);
    let reload = || daemon.post("/v1/agents/reload", &json!({}));
    let nothing =
        json!({"applied": true, "added": [], "changed": [], "removed": [], "problems": []});
    assert_eq!(reload().expect(200).json(), nothing);

    let changed = config.replace("[\"one\"]", "[\"two\"]") + "[turn]\ntimeout_seconds = 77\n";
    place.set_config(&changed);
    let reply = reload().expect(200).json();
    assert_eq!(reply["changed"], json!(["says"]));
    let problem = reply["problems"][0].as_str().unwrap();
    problem.has_all(&[
        "config/unisono.toml:9:",
        "`turn.timeout_seconds` has changed",
        "started again",
    ]);
    assert_eq!(said(&daemon, &session), "two");

    // The agent that answers cannot go, nor one that another names.
    place.write(
        "agents/boss.md",
        "---\ndescription: x\ndelegates: [says]\n---\n",
    );
    assert_eq!(reload().expect(200).json()["added"], json!(["boss"]));
    place.set_config("[server]\nreload_seconds = 0\n");
    let detail = reload().expect(422).problem("refused");
    detail.has_all(&["`boss` names an unknown delegate `says`"]);
    assert_eq!(said(&daemon, &session), "two");
    daemon.stop();
}

#[test]
fn an_agent_may_come_with_a_model_that_nobody_named_before() {
    let answer = Act::answer(Answer::text("Says the other model."));
    let provider = FakeProvider::builder().script(Script::always(answer));
    let provider = provider.start_on_thread();
    let place = Place::with_config(&format!(
        "[models]\ndefault = \"extractive\"\n[server]\nreload_seconds = 0\n\
         [providers.local]\nlike = \"openai-compatible\"\nbase_url = \"{}/v1\"\n",
        provider.url()
    ));
    let daemon = Daemon::start(&place);
    let session = session(&daemon);
    let agent = "---\ndescription: Asks\nmodel: local/other\n---\n";
    place.write("agents/says.md", agent);
    let reply = daemon.post("/v1/agents/reload", &json!({})).expect(200);
    assert_eq!(reply.json()["added"], json!(["says"]));
    assert_eq!(said(&daemon, &session), "Says the other model.");
    daemon.stop();
}

#[test]
fn an_open_turn_goes_on_with_the_agents_it_began_with_also_after_a_restart() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let session = session(&daemon);
    let task = json!({"task": "Which word?", "agents": ["waits"], "wait": false});
    let accepted = daemon.post(&format!("{session}/turns"), &task).expect(202);
    let path = accepted.header("location").unwrap().to_owned();
    let agent = heard(&scene.started);

    let config = scene.place.config();
    let config = config.replace("The word is", "It was changed:");
    scene.place.set_config(config);
    let reply = daemon.post("/v1/agents/reload", &json!({})).expect(200);
    assert_eq!(reply.json()["changed"], json!(["waits"]));
    daemon.kill();
    crate::support::send_signal("KILL", &agent);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    let mut events = follow(&daemon, &session);
    tell(&scene.word, "unison");
    assert!(events.any(|event| event.name == "turn_ended"));
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["runs"][0]["text"], "The word is unison.", "{turn}");
    daemon.stop();
}

#[test]
fn a_request_with_settings_of_its_own_has_what_the_daemon_has_read() {
    let config = "[server]\nreload_seconds = 0\n[turn]\nagents = [\"says\"]\n";
    let place = Place::with_config(config);
    place.write("agents/says.md", saying("one"));
    place.write("agents/other.md", saying("other"));
    let daemon = Daemon::start(&place);
    let session = session(&daemon);
    let answer_with = |settings: Value| {
        let task = json!({"task": "When?", "settings": settings});
        daemon.posted(&format!("{session}/turns"), &task)["runs"][0]["text"].clone()
    };
    let own = json!({"turn.timeout_seconds": 50});
    assert_eq!(answer_with(own.clone()), "one");

    // What is written is nobody's before it is read, and settings at a start are not read again.
    place.write("agents/says.md", saying("two"));
    let changed = config.replace("\"says\"", "\"other\"");
    place.set_config(&changed);
    assert_eq!(answer_with(own.clone()), "one");
    let reload = daemon.post("/v1/agents/reload", &json!({}));
    assert_eq!(reload.expect(200).json()["changed"], json!(["says"]));
    for settings in [own, json!({})] {
        assert_eq!(answer_with(settings.clone()), "two", "{settings}");
    }
    let chosen = json!({"turn.agents": ["other"]});
    assert_eq!(answer_with(chosen), "other", "its own win");
    let wrong = json!({"task": "When?", "settings": {"turn.agents": ["nobody"]}});
    let wrong = daemon.post(&format!("{session}/turns"), &wrong).expect(422);
    assert!(wrong.problem("refused").contains("nobody"));
    // What is changed while it runs counts for those with settings of their own too.
    let change = json!({"changes": {"turn.agents": ["other"]}});
    daemon
        .request("PATCH", "/v1/settings", Some(&change))
        .expect(200);
    assert_eq!(answer_with(json!({"turn.timeout_seconds": 50})), "other");
    daemon.stop();
}

#[test]
fn the_file_of_an_agent_is_for_admins() {
    let place = Place::new();
    let text = saying("one").replacen("---\n", "---\nenv: {TOKEN: hunter2}\n", 1);
    place.write("agents/says.md", text);
    let daemon = Daemon::start(&place);
    let reader = caller(&daemon, &json!({"name": "ada", "scope": "approve"}));
    for path in ["/v1/agents/says", "/agents/says"] {
        assert!(daemon.text(path).contains("hunter2"), "{path}");
        let shown = reader.get(path).expect(200).text();
        assert!(
            shown.contains("Says") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
    daemon.stop();
}

#[test]
fn a_file_with_an_unknown_key_is_not_saved() {
    let place = Place::new();
    place.write("agents/says.md", saying("one"));
    // The unknown key of another file is not an error of this one.
    place.write(
        "agents/odd.toml",
        "description = \"Odd\"\nmodell = \"gpt\"\n",
    );
    let daemon = Daemon::start(&place);
    let file = daemon.get("/v1/agents/says").expect(200).json()["file"].clone();
    let draft = |text: String| json!({"text": text, "digest": file["digest"]});
    let check = |text| {
        daemon
            .post("/v1/agents/says/check", &draft(text))
            .expect(200)
    };
    let wrong = saying("two").replacen("---\n", "---\nmodell: gpt\n", 1);
    let found = check(wrong.clone()).json();
    assert_eq!(found["valid"], false, "{found}");
    let problems = found["problems"].to_string();
    problems.has_all(&["error: unknown key `modell`"]);
    let refused = daemon.request("PUT", "/v1/agents/says", Some(&draft(wrong)));
    let detail = refused.expect(422).problem("refused");
    assert!(detail.contains("unknown key `modell`"), "{detail}");
    assert_eq!(check(saying("two")).json()["valid"], true);
    daemon.stop();
}
