//! Hooks of real programs and servers: asked, killed while they are, and failing in every way.

use std::path::PathBuf;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer};

use crate::http::Daemon;
use crate::receiving::Receiving;
use crate::summaries;
use crate::support::{
    Done, Going, HasAll as _, Place, awaited, example, heard, kill_if_alive, tell,
};
use crate::tools::{Scene, program};

pub(crate) fn hook(on: &str, script: &str, more: &str) -> String {
    format!("[hooks.guard]\non = [{on:?}]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n{more}\n")
}

/// A clerk that sends these texts, one after the other, with that hook.
fn clerk(texts: &[&str], hook: &str) -> Scene {
    let each: Vec<Vec<(&str, Value)>> = texts
        .iter()
        .map(|text| vec![("files__send", json!({"text": text}))])
        .collect();
    let replies: Vec<&[(&str, Value)]> = each.iter().map(Vec::as_slice).collect();
    Scene::new(&replies, &program(""), hook)
}

const RUN: [&str; 5] = ["run", "talk.json", "--task", "Do it.", "--json"];

/// How often the server was asked to send.
fn sent(scene: &Scene) -> usize {
    let log = std::fs::read_to_string(&scene.log).unwrap();
    log.lines()
        .filter(|line| line.starts_with("call send"))
        .count()
}

/// The notices that the hook received, one per line.
fn notices(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn wait_for(path: &PathBuf, lines: usize) -> Vec<Value> {
    awaited(|| {
        let seen = notices(path);
        match seen.len() < lines {
            true => Err(json!(seen)),
            false => Ok(seen),
        }
    })
}

#[test]
fn a_call_is_made_where_its_hook_has_nothing_against_it() {
    let script = "if grep -q secret; then echo '{\"decision\":\"deny\",\"reason\":\"It is \
                  secret.\"}'; fi";
    let scene = clerk(&["a secret", "news"], &hook("before_tool_call", script, ""));
    let report = scene.call(&RUN).expect(0).json();
    assert_eq!(report["state"], "answered", "{report}");
    assert_eq!(sent(&scene), 1, "what was denied was not made");
    let session = report["session"].as_str().unwrap();
    let events = scene.place.events(session);
    let answers = events
        .iter()
        .filter(|event| event.fact.name() == "hook_answered");
    assert_eq!(answers.count(), 2);
    let one = clerk(&["a secret"], &hook("before_tool_call", script, ""));
    let report = one.call(&RUN).expect(0).json();
    let denied =
        "the hook `guard` did not allow this call; it was not made. It said: It is secret.";
    let answer = report["answer"].as_str().unwrap();
    assert!(answer.contains(denied), "the model is told: {answer}");
    // The journal has what the hooks said: every request is made again from it, byte for byte.
    scene.call(&["replay", "latest"]).expect(0);
}

#[test]
fn a_hook_is_asked_about_its_tools_only() {
    let more = "tools = [\"files__*\", \"shell__*\"]\non_failure = \"deny\"";
    let scene = clerk(&["news"], &hook("before_tool_call", "exit 1", more));
    scene.call(&RUN).expect(0);
    assert_eq!(sent(&scene), 0);
    let more = "tools = [\"shell__*\"]\non_failure = \"deny\"";
    let scene = clerk(&["news"], &hook("before_tool_call", "exit 1", more));
    scene.call(&RUN).expect(0);
    assert_eq!(sent(&scene), 1);
}

#[test]
fn a_hook_that_gives_no_answer_stands_for_what_its_settings_say() {
    let table = [
        ("sleep 600", "timeout = \"300ms\"", "longer than 300 ms"),
        ("echo yes", "", "not JSON"),
        ("echo '{\"decision\":\"maybe\"}'", "", "allow, deny"),
        ("echo why >&2; exit 3", "", "exit status: 3: why"),
        ("head -c 100000 /dev/zero", "", "65536 bytes"),
    ];
    for (script, more, reason) in table {
        for (on_failure, expected) in [("ignore", 1), ("deny", 0)] {
            let more = format!("{more}\non_failure = {on_failure:?}");
            let scene = clerk(&["news"], &hook("before_tool_call", script, &more));
            let report = scene.call(&RUN).expect(0).json();
            assert_eq!(report["state"], "answered", "{report}");
            assert_eq!(sent(&scene), expected, "{script}: {on_failure}");
            let events = scene.place.events(report["session"].as_str().unwrap());
            let said: Vec<String> = events.iter().map(|event| event.fact.to_string()).collect();
            let noted = said.iter().any(|line| line.contains(reason));
            assert!(noted, "{script}: {said:#?}");
        }
    }
    let missing = "[hooks.guard]\non = [\"before_tool_call\"]\ncommand = \"/nowhere/at-all\"\n\
                   on_failure = \"deny\"\n";
    let scene = clerk(&["news"], missing);
    scene.call(&RUN).expect(0);
    assert_eq!(sent(&scene), 0);
}

/// A hook that tells what it is told and that it is asked, and answers once it is told to.
fn waiting(place: &Place, on: &str) -> (String, PathBuf, PathBuf, PathBuf) {
    let (asked, started, word) = (
        place.path("asked"),
        place.path("started"),
        place.path("word"),
    );
    let script = format!(
        "read -r told; echo \"$told\" >> '{}'; echo $$ > '{}'; read -r word < '{}'; echo \"$word\"",
        asked.display(),
        started.display(),
        word.display()
    );
    (hook(on, &script, "timeout = \"60s\""), asked, started, word)
}

#[test]
fn a_hook_that_was_asked_when_the_program_was_killed_is_asked_again_under_the_same_id() {
    let scene = clerk(&["news"], "");
    let (settings, asked, ..) = waiting(&scene.place, "before_tool_call");
    let (started, word) = (scene.place.fifo("started"), scene.place.fifo("word"));
    let config = scene.place.config();
    scene.place.set_config(config + &settings);
    let going = Going::start(scene.command(&RUN));
    let hook = heard(&started);
    assert_eq!(sent(&scene), 0, "it is asked before");
    going.kill();
    kill_if_alive(&hook);
    let going = Going::start(scene.command(&["resume", "--json"]));
    heard(&started);
    tell(&word, "{}");
    let report = going.finish().expect(0).json();
    assert_eq!(report["state"], "answered", "{report}");
    assert_eq!(sent(&scene), 1);
    let reply = notices(&asked);
    assert_eq!(reply.len(), 2, "{reply:?}");
    assert_eq!(reply[0], reply[1], "the same question has the same id");
    assert_eq!(reply[0]["event"], "before_tool_call");
    assert_eq!(reply[0]["tool"], "files__send");
    assert_eq!(reply[0]["arguments"], json!({"text": "news"}));
    assert_eq!(reply[0]["agent"], "clerk");
}

const SAYS: &str = "[agents.says]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"echo\"\n\
                    args = [\"Done.\"]\n[turn]\nlead = \"says\"\nagents = []\n\
                    [compaction]\nsummarisers = [\"extractive\"]\n";

#[test]
fn a_hook_is_told_of_the_end_of_a_turn_also_when_the_daemon_was_killed() {
    let place = Place::new();
    let (settings, asked, ..) = waiting(&place, "turn_ended");
    let (started, word) = (place.fifo("started"), place.fifo("word"));
    place.set_config(SAYS.to_owned() + &settings);
    let daemon = Daemon::start(&place);
    let session = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let session = session["session"].as_str().unwrap().to_owned();
    let turns = format!("/v1/sessions/{session}/turns");
    let turn = daemon.posted(&turns, &json!({"task": "Do it."}));
    assert_eq!(
        turn["state"], "answered",
        "its answer does not wait for the hook"
    );
    let hook = heard(&started);
    daemon.kill();
    kill_if_alive(&hook);
    // No turn is open: the session is opened for the hook alone.
    let daemon = Daemon::start(&place);
    heard(&started);
    tell(&word, "{\"pin\":[1]}");
    let reply = wait_for(&asked, 2);
    assert_eq!(reply[0], reply[1]);
    assert_eq!(reply[0]["event"], "turn_ended");
    assert_eq!(reply[0]["turn"], turn["turn"]);
    assert_eq!(
        (&reply[0]["state"], &reply[0]["answer"]),
        (&json!("answered"), &json!("Done."))
    );
    let pins = format!("/v1/sessions/{session}/pins");
    let is_one = |all: &Value| all.as_array().is_some_and(|all| all.len() == 1);
    daemon.awaited(&pins, |seen| is_one(&seen["pinned"]));
    daemon.stop();
    let daemon = Daemon::start(&place);
    daemon.get(&pins).expect(200);
    daemon.stop();
    assert_eq!(self::notices(&asked).len(), 2, "it is not asked once more");
}

#[test]
fn a_run_without_a_daemon_tells_its_hooks_before_it_ends() {
    let place = Place::new();
    place.talk();
    let path = place.path("asked");
    let script = format!("cat >> '{}'", path.display());
    place.set_config(SAYS.to_owned() + &hook("turn_ended", &script, ""));
    let report = place.call(&["run", "talk.json", "--task", "Do it.", "--json"]);
    let report = report.expect(0).json();
    let reply = notices(&path);
    assert_eq!(reply.len(), 1, "{reply:?}");
    assert_eq!(reply[0]["turn"], report["turn"]);
}

fn denied(place: &Place, words: &[&str]) -> Done {
    place.fails(&["run", "talk.json", "--task", "Do it."], words)
}

#[test]
fn a_task_can_be_denied_and_a_message_pinned_before_it_is_worked_on() {
    let place = Place::new();
    place.talk();
    let deny = "echo '{\"decision\":\"deny\",\"reason\":\"Not today.\"}'";
    let settings = SAYS.to_owned() + &hook("turn_accepted", deny, "");
    place.set_config(settings);
    denied(&place, &["the hook `guard` denied it: Not today."]);
    let settings = SAYS.to_owned() + &hook("turn_accepted", "exit 1", "on_failure = \"deny\"");
    place.set_config(settings);
    denied(&place, &["it gave no answer", "exit status: 1"]);
    let pin = "echo '{\"pin\":[1, 999]}'";
    let settings = SAYS.to_owned() + &hook("turn_accepted", pin, "");
    place.set_config(settings);
    let report = place.json(&["run", "talk.json", "--task", "Do it."]);
    assert_eq!(report["state"], "answered");
    let events = place.events(report["session"].as_str().unwrap());
    let names: Vec<&str> = events.iter().map(|event| event.fact.name()).collect();
    let at = |name: &str| names.iter().position(|known| *known == name);
    assert!(at("pinned") < at("frozen"), "{names:?}");
    assert!(at("pinned").is_some(), "{names:?}");
}

#[test]
fn what_a_hook_says_before_a_compaction_is_told_to_the_summariser() {
    let (place, provider) = summaries::place(|| Act::answer(Answer::text(summaries::SUMMARY)));
    let asked = place.path("asked");
    let script = format!(
        "cat >> '{}'; echo '{{\"instructions\":\"Keep every supplier by name.\"}}'",
        asked.display()
    );
    let config = place.config();
    let both = format!(
        "[hooks.guard]\non = [\"before_compaction\", \"after_compaction\"]\ncommand = \"sh\"\n\
         args = [\"-c\", {script:?}]\n"
    );
    place.set_config(config + &both);
    let file = example();
    let run = ["run", &file, "--compact-above", "8k", "--agents", "risks"];
    place.keyed(&run).expect(0).says(&["summarised"]);
    let asked_for = summaries::summaries(&provider);
    assert_eq!(asked_for.len(), 1);
    let prompt = asked_for[0].json().to_string();
    assert!(prompt.contains("Keep every supplier by name."), "{prompt}");
    let reply = notices(&asked);
    let events: Vec<&str> = reply
        .iter()
        .map(|one| one["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["before_compaction", "after_compaction"]);
    assert_eq!(reply[0]["checkpoint"], Value::Null);
    assert_eq!(reply[1]["checkpoint"], 1);
    assert_eq!(reply[0]["messages"], reply[1]["messages"]);
    assert!(reply[0]["tokens"].as_u64().unwrap() > 8_000, "{reply:?}");
}

#[test]
fn a_hook_can_be_a_server() {
    let answer = r#"{"decision":"deny","reason":"The office is closed."}"#;
    let office = Receiving::start(move |_| Act::json(200, answer));
    let place = Place::new();
    place.talk();
    let settings = format!(
        "{SAYS}[hooks.office]\non = [\"turn_accepted\"]\nurl = \"{}/ask\"\n\
         headers = {{ X-Office = \"${{OFFICE}}\" }}\n",
        office.url
    );
    place.set_config(settings);
    let mut command = place.command(&["run", "talk.json", "--task", "Do it."]);
    command.env("OFFICE", "north-4711");
    let done = Going::start(command).finish().expect(1);
    done.says(&["the hook `office` denied it: The office is closed."]);
    let asked = office.next();
    let question = asked.json();
    assert_eq!(question["task"], "Do it.");
    assert_eq!(asked.header("idempotency-key"), question["id"].as_str());
    assert_eq!(asked.header("x-office"), Some("north-4711"));
}

#[test]
fn a_denied_task_of_openais_clients_has_a_status_that_they_do_not_retry() {
    let deny = "echo '{\"decision\":\"deny\",\"reason\":\"Not today.\"}'";
    let settings = SAYS.to_owned() + &hook("turn_accepted", deny, "");
    let place = Place::with_config(&settings);
    let daemon = Daemon::start(&place);
    let asked = json!({"model": "says", "messages": [{"role": "user", "content": "Do it."}]});
    let refused = daemon.post("/openai/v1/chat/completions", &asked);
    let message = refused.expect(422).json()["error"]["message"].to_string();
    message.has_all(&["hook_denied: the hook `guard` denied it"]);
    daemon.stop();
}

#[test]
fn a_hook_whose_variable_is_not_set_fails_and_no_other_command_does() {
    let hook = "[hooks.guard]\non = [\"turn_accepted\"]\nurl = \"http://127.0.0.1:9\"\n\
                headers = { Authorization = \"Bearer ${NOT_SET_ANYWHERE}\" }\n";
    let place = Place::with_config(&format!("{SAYS}{hook}"));
    place.talk();
    let checked = place.call(&["config", "check"]).expect(0);
    for words in ["unisono.toml:", "warning", "NOT_SET_ANYWHERE, which is not"] {
        assert!(checked.stdout.contains(words), "{}", checked.stdout);
    }
    place.says(&["sessions", "list"], &["NOT_SET_ANYWHERE"]);
    let report = place.json(&["run", "talk.json", "--task", "Do it."]);
    assert_eq!(report["state"], "answered");
    let denies = format!("{SAYS}{hook}on_failure = \"deny\"\n");
    place.set_config(denies);
    denied(&place, &["it cannot be asked", "NOT_SET_ANYWHERE"]);
}

#[test]
fn a_hook_that_is_wrong_is_told_with_its_place() {
    let table: [(&str, &str); 7] = rows! {
        ("command = \"sh\"", "is never asked"),
        ("on = [\"turn_ended\"]", "neither `command`"),
        ("on = [\"turn_over\"]\ncommand = \"sh\"", "`turn_over` is unknown"),
        (
            "on = [\"turn_ended\"]\ncommand = \"sh\"\nurl = \"http://127.0.0.1:1\"",
            "both `command` and `url`",
        ),
        ("on = [\"turn_ended\"]\ncommand = \"sh\"\ntimeout = \"1h\"", "120 s at most"),
        ("on = [\"turn_ended\"]\ncommand = \"sh\"\non_failure = \"maybe\"", "ignore, deny"),
        ("on = [\"turn_ended\"]\nurl = \"http:// nowhere\"", "hooks.guard.url"),
    };
    for (hook, words) in table {
        let place = Place::with_config(&format!("[hooks.guard]\n{hook}\n"));
        let checked = place.call(&["config", "check"]).expect(2);
        let found = &checked.stdout;
        assert!(found.contains("unisono.toml:"), "{found}");
        assert!(
            words.starts_with("hooks.") || found.contains(words),
            "{found}"
        );
    }
}
