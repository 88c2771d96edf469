//! Ids chain: what one verb prints, the next one takes; lists begin with the newest, and errors have
//! the codes of the HTTP API.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Done, Place, example, words};

/// Two turns on the example; what `run --json` printed of each.
fn two_turns(place: &Place) -> [Value; 2] {
    let file = example();
    let first = [
        "run",
        &file,
        "--agents",
        "facts,risks",
        "--compact-above",
        "8k",
    ];
    let second = words("run --session latest -t And? --agents facts");
    [place.json(&first), place.json(&second)]
}

fn run_of<'r>(report: &'r Value, agent: &str) -> &'r str {
    let runs = report["runs"].as_array().unwrap();
    let run = runs.iter().find(|run| run["agent"] == agent).unwrap();
    run["run"].as_str().unwrap()
}

#[test]
fn what_run_prints_is_taken_by_why_runs_show_and_replay() {
    let place = Place::new();
    let [first, second] = two_turns(&place);
    let turn = |report: &Value| report["turn"].as_str().unwrap().to_owned();
    assert_eq!(first["state"], "answered", "{first}");
    // What is written, and the run that is meant.
    let (old, new) = (turn(&first), turn(&second));
    let rows = [
        (run_of(&first, "risks"), run_of(&first, "risks")),
        ("latest", run_of(&second, "lead")),
        (old.as_str(), run_of(&first, "lead")),
        (&new[24..], run_of(&second, "lead")),
        ("facts", run_of(&second, "facts")),
        ("risks", run_of(&first, "risks")),
    ];
    let check = |rows: &[(&str, &str)]| {
        for &(name, run) in rows {
            for verb in [&["why"][..], &["runs", "show"]] {
                let shown = place.json(&[verb, &[name]].concat());
                assert_eq!(shown["run"], run, "{verb:?} {name}");
                assert_eq!(shown["session"], first["session"], "{verb:?} {name}");
            }
            let of = [(&first, &old), (&second, &new)];
            let (_, turn) = of
                .iter()
                .find(|(r, _)| r.to_string().contains(run))
                .unwrap();
            let replayed = place.json(&["replay", name]);
            assert_eq!(replayed["turn"], **turn, "replay {name}");
            assert_eq!(replayed["state"], "answered", "replay {name}");
        }
    };
    check(&rows);
    let daemon = Daemon::start(&place);
    check(&rows[4..]);
    let lookup = |name: &str| daemon.get(&format!("/v1/lookup?name={name}"));
    let found = lookup("risks").expect(200).json();
    let risks = json!({
        "session": first["session"], "turn": old, "run": run_of(&first, "risks"), "agent": "risks",
    });
    assert_eq!(found, json!({"items": [risks], "complete": true}));
    let turn_of = |name: &str| lookup(name).expect(200).json()["items"][0].clone();
    let newest = json!({"session": first["session"], "turn": new});
    assert_eq!([turn_of("latest"), turn_of(&new)], [newest.clone(), newest]);
    assert_eq!(lookup("nobody").expect(200).json()["items"], json!([]));
    assert_eq!(lookup("").expect(400).json()["code"], "invalid_request");
    let long = "x".repeat(1_000);
    assert_eq!(lookup(&long).expect(200).json()["items"], json!([]));
    let at = format!(
        "/v1/sessions/{}/runs/{}/request",
        first["session"].as_str().unwrap(),
        run_of(&first, "risks")
    );
    let why = |bodies: bool| daemon.json(&format!("{at}?bodies={bodies}"))["requests"][0].clone();
    let (with, without) = (why(true), why(false));
    let length = |part: &str| with[part].as_str().unwrap().len() as u64;
    assert_eq!(
        length("head"),
        with["head_bytes"].as_u64().unwrap(),
        "{with}"
    );
    assert_eq!(
        length("head") + length("tail"),
        with["bytes"].as_u64().unwrap()
    );
    assert_eq!([without.get("head"), without.get("tail")], [None, None]);
    daemon.stop();
    // A compaction has no runs: the newest one is still the same.
    place.call(&["compact", "latest", "--yes"]).expect(0);
    assert_eq!(place.json(&["why"])["run"], run_of(&second, "lead"));
    assert_ne!(place.json(&["replay"])["turn"], *new);
}

#[test]
fn lists_begin_with_the_newest_on_a_command_line_and_over_http() {
    let place = Place::new();
    two_turns(&place);
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    place.call(&["compact", "01", "--yes"]).expect(2);
    let texts = |list: &Value, key: &str| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| item[key].to_string()).collect()
    };
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all.reverse();
        all
    };
    let sessions = texts(&place.json(&["sessions", "list"]), "session");
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions, sorted(sessions.clone()));
    // What was made first is `latest` once it changed; it stays where it is in the lists.
    let oldest = sessions[1].trim_matches('"').to_owned();
    place.call(&["pin", &oldest, "1"]).expect(0);
    place.call(&["unpin", &oldest, "1"]).expect(0);
    assert_eq!(
        texts(&place.json(&["sessions", "list"]), "session"),
        sessions
    );
    let older = sessions[1].trim_matches('"').to_owned();
    let opened = texts(&place.json(&["runs", "list"]), "opened_at");
    assert_eq!(opened.len(), 5);
    assert_eq!(opened, sorted(opened.clone()));
    place
        .call(&["compact", &older, "--keep", "4", "--yes"])
        .expect(0);
    let numbers = texts(&place.json(&["checkpoints", "list", &older]), "number");
    assert_eq!(numbers, ["2", "1"]);
    let shown = place.json(&["sessions", "show", &older]);
    assert_eq!(
        texts(&shown["turns"], "state")[0],
        "\"compacted\"",
        "{shown}"
    );

    let daemon = Daemon::start(&place);
    let get = |path: String| daemon.get(&path).expect(200).json();
    let listed = get("/v1/sessions".to_owned());
    assert_eq!(texts(&listed["items"], "session"), sessions);
    // A part at a time, they are the same.
    let part = get("/v1/sessions?limit=1".to_owned());
    assert_eq!(texts(&part["items"], "session"), sessions[..1]);
    let rest = get(format!(
        "/v1/sessions?limit=1&cursor={}",
        part["next"].as_str().unwrap()
    ));
    assert_eq!(texts(&rest["items"], "session"), sessions[1..]);
    assert_eq!(rest["next"], Value::Null, "{rest}");
    let list = format!("/v1/sessions/{older}/checkpoints");
    let part = get(format!("{list}?limit=1"));
    assert_eq!(texts(&part["items"], "number"), ["2"]);
    let rest = get(format!(
        "{list}?limit=1&cursor={}",
        part["next"].as_str().unwrap()
    ));
    assert_eq!(texts(&rest["items"], "number"), ["1"]);
    let ended = get(format!("/v1/sessions/{older}"))["ended_turns"]["items"].clone();
    assert_eq!(texts(&ended, "state")[0], "\"compacted\"", "{ended}");
    daemon.stop();
}

#[test]
fn runs_of_all_sessions_are_in_the_order_of_their_openings() {
    let place = Place::new();
    place.talk();
    let imported = || place.json(&["import", "talk.json", "--copy"])["session"].clone();
    let (older, newer) = (imported(), imported());
    let daemon = Daemon::start(&place);
    for session in [&older, &newer, &older] {
        let path = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
        let turn = json!({"task": "What is open?", "agents": []});
        daemon.post(&path, &turn).expect(200);
    }
    let sessions = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|run| run["session"].clone()).collect()
    };
    let get = |path: &str| daemon.get(path).expect(200).json();
    let all = get("/v1/runs");
    assert_eq!(
        sessions(&all),
        [older.clone(), newer.clone(), older.clone()]
    );
    let (mut parts, mut path) = (Vec::new(), "/v1/runs?limit=1".to_owned());
    loop {
        let part = get(&path);
        parts.extend(part["items"].as_array().unwrap().clone());
        let Some(next) = part["next"].as_str() else {
            break;
        };
        path = format!("/v1/runs?limit=1&cursor={next}");
    }
    assert_eq!(Value::from(parts), all["items"]);
    // The last turn of the older session does not move its first run.
    let from_second = get("/v1/runs?limit=1")["next"].clone();
    let path = format!("/v1/sessions/{}/turns", newer.as_str().unwrap());
    daemon
        .post(&path, &json!({"task": "And now?", "agents": []}))
        .expect(200);
    let path = format!("/v1/runs?cursor={}", from_second.as_str().unwrap());
    assert_eq!(sessions(&get(&path)), [newer.clone(), older.clone()]);
    let gone = format!("/v1/sessions/{}", newer.as_str().unwrap());
    daemon.delete(&gone).expect(204);
    assert_eq!(sessions(&get("/v1/runs")), [older.clone(), older]);
    daemon.get("/v1/runs?cursor=x").expect(400);
    daemon.stop();
}

/// The error that a call prints as JSON.
fn error(done: &Done) -> Value {
    let last = done.stderr.lines().last().unwrap_or_default();
    let reply: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{done:#?}"));
    assert_eq!(reply["error"]["exit"], done.code.unwrap(), "{done:#?}");
    reply["error"].clone()
}

#[test]
fn errors_as_json_have_the_codes_of_the_http_api() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let rows: [(&[&str], &str); 15] = rows! {
        (&["sessions", "show", "ffff"], "not_found"),
        (&["why", "nobody"], "not_found"),
        (&["agents", "show", "nobody"], "not_found"),
        (&["context", "latest", "--branch", "mian"], "not_found"),
        (&["run", "--session", "latest", "--agents", "nobody"], "refused"),
        (&["run", "--session", "latest", "--model", "openai/gpt-4.1"], "refused"),
        (&["run", "--session", "latest", "--model", "nope"], "invalid_request"),
        (&["runs", "list", "--state", "so"], "invalid_request"),
        (&["run", "latest", "--set", "turn.agents"], "invalid_request"),
        (&["checkpoints", "show", "latest", "99"], "not_found"),
        (&["pin", "latest", "99999"], "not_found"),
        (&["history", "latest", "99999"], "not_found"),
        (&["config", "set", "compaction.prest", "x"], "refused"),
        (&["config", "set", "server.bind", "x", "--session", "latest"], "refused"),
        (&["compact", "--topic", "99999", "--yes"], "refused"),
    };
    let check = |rows: &[(&[&str], &str)]| {
        for (args, code) in rows {
            let done = place.call(&[args, &["--json"][..]].concat()).expect(2);
            assert_eq!(error(&done)["code"], *code, "{args:?}: {done:#?}");
            assert!(!error(&done)["message"].as_str().unwrap().is_empty());
        }
    };
    check(&rows);
    let daemon = Daemon::start(&place);
    check(&rows);
    daemon.stop();
    // A turn that failed has its own code.
    let small = "models.catalogue=small.toml";
    place.write(
        "small.toml",
        "[models.\"extractive/extractive\"]\nwindow = 24_000\n",
    );
    let long = "word ".repeat(24_000);
    let args = [
        "run",
        "--session",
        "latest",
        "-t",
        &long,
        "--set",
        small,
        "--json",
    ];
    let done = place.call(&args);
    assert_eq!(error(&done)["code"], "context_overflow", "{:?}", done.code);
}
