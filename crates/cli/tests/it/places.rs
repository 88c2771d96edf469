//! Which store is used, whose the newest session is, who has a port, and how wide a list is.

use std::process::Command;

use serde_json::Value;

use crate::http::Daemon;
use crate::support::{Place, example, finish};
use crate::terminal::Talking;

#[test]
fn a_store_that_is_not_the_usual_one_is_named() {
    let place = Place::new();
    place.talk();
    let usual = place.call(&["import", "talk.json"]).expect(0);
    assert!(!usual.stderr.contains("store "), "{usual:#?}");
    let list = ["sessions", "list"];
    assert!(!place.call(&list).expect(0).stderr.contains("store "));
    place
        .call(&["import", "talk.json", "--store", "other"])
        .expect(0)
        .says(&["store      ", "/other (flag --store)"]);
    let quiet = place.call(&[&list[..], &["--store", "other", "--quiet"]].concat());
    assert_eq!(quiet.expect(0).stderr, "");
    place.set_config("[store]\npath = \"mine\"\n");
    let done = place.call(&list).expect(0);
    assert_eq!(done.stderr.matches("store      ").count(), 1, "{done:#?}");
    done.says(&["/mine (", "config/unisono.toml"]);
    // A program finds nothing on stderr, or one error.
    assert_eq!(
        place.call(&["sessions", "list", "--json"]).expect(0).stderr,
        ""
    );
    let unknown = place
        .call(&["sessions", "show", "ffff", "--json"])
        .expect(2);
    let error: Value = serde_json::from_str(&unknown.stderr).unwrap();
    assert_eq!(error["error"]["code"], "not_found", "{unknown:#?}");
}

#[test]
fn without_home_the_user_database_says_where_the_store_is() {
    let place = Place::new();
    let mut command = place.command(&["config", "show", "store.path"]);
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    let done = finish(command.spawn().unwrap(), &["config", "show"]).expect(0);
    let home = Command::new("sh")
        .args(["-c", "getent passwd $(id -u) | cut -d: -f6"])
        .output();
    let home = String::from_utf8(home.unwrap().stdout).unwrap();
    assert!(home.starts_with('/'), "{home}");
    let store = format!("{}/.local/share/unisono", home.trim());
    assert!(done.stdout.contains(&store), "{store}: {done:#?}");
}

/// Verbs that look, and verbs that change what is there.
const OF_WHAT_IS_THERE: [&[&str]; 20] = [
    &["sessions", "list"],
    &["sessions", "show"],
    &["sessions", "search", "Friday"],
    &["sessions", "delete", "latest", "--yes"],
    &["sessions", "prune", "--older-than", "1d"],
    &["context", "latest"],
    &["history", "latest"],
    &["export", "latest"],
    &["usage"],
    &["runs", "list"],
    &["checkpoints", "list"],
    &["doctor"],
    &["vacuum"],
    &["resume"],
    &["append", "latest", "More."],
    &["seal", "latest"],
    &["compact", "latest"],
    &["run", "--session", "latest"],
    &["tokens", "list"],
    &["tokens", "revoke", "ada"],
];
/// Verbs that make a store where there is none.
const MAKING: [&[&str]; 3] = [
    &["import", "talk.json"],
    &["run", "talk.json"],
    &["serve", "--bind", "127.0.0.1:0"],
];

#[test]
fn a_store_that_is_named_and_cannot_be_used_is_an_error_and_nothing_is_made() {
    let place = Place::new();
    place.talk();
    place.write("a_file", "not a store");
    place.write("full/of_others", "not a store");
    std::fs::create_dir(place.path("empty")).unwrap();
    let call = |verb: &[&str], store: &str| place.call(&[verb, &["--store", store]].concat());
    for verb in OF_WHAT_IS_THERE {
        for store in ["nowhere", "empty"] {
            let done = call(verb, store).expect(2);
            done.says(&["does not exist", store, "hint: "]);
        }
    }
    for verb in OF_WHAT_IS_THERE.iter().chain(&MAKING) {
        for store in ["a_file", "a_file/below", "full"] {
            let done = call(verb, store);
            assert!(matches!(done.code, Some(1 | 2)), "{verb:?} {done:?}");
            done.says(&["error: ", store.split('/').next().unwrap(), "another"]);
        }
    }
    for verb in MAKING {
        let done = call(verb, "missing/below").expect(2);
        done.says(&["missing/below", "does not exist", "hint: "]);
        // Of a kernel's own, where nobody may make anything.
        let done = call(verb, "/sys/unisono");
        done.expect(1).says(&["error: ", "/sys/unisono"]);
    }
    for made in ["nowhere", "missing"] {
        assert!(!place.path(made).exists(), "{made}");
    }
    let mut empty = std::fs::read_dir(place.path("empty")).unwrap();
    assert!(empty.next().is_none(), "something was put there");
    // Where it was not named in the call, one that is not there is an empty one.
    for verb in [
        &["sessions", "list"][..],
        &["usage"],
        &["doctor"],
        &["resume"],
    ] {
        place.call(verb).expect(0);
    }
    let acknowledged = place.json(&["doctor", "--acknowledge"]);
    assert_eq!(acknowledged["acknowledged"], 0, "{acknowledged}");
    assert!(!place.path("data/unisono").exists());
}

/// A task that a client of the Model Context Protocol gives.
fn ask_as_a_client(place: &Place) {
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"task":"What is open?","agents":[]}}}"#,
    ];
    let done = place
        .call_with(&(lines.join("\n") + "\n"), &["mcp"])
        .expect(0);
    assert!(done.stdout.contains("\"id\":2"), "{done:#?}");
}

#[test]
fn a_session_of_a_client_is_not_the_newest_of_a_person() {
    let place = Place::new();
    ask_as_a_client(&place);
    place
        .call(&["context", "latest"])
        .expect(2)
        .says(&["belong to MCP clients", "unisono sessions list"]);
    let theirs = place.json(&["sessions", "list"])[0].clone();
    assert_eq!(theirs["labels"]["channel"], "mcp", "{theirs}");
    place.talk();
    place.call(&["run", "talk.json", "--agents", ""]).expect(0);
    let own = place.json(&["sessions", "show"])["session"].clone();
    assert_ne!(own, theirs["session"]);
    let daemon = Daemon::start(&place);
    ask_as_a_client(&place);
    assert_eq!(place.json(&["sessions", "show"])["session"], own);
    assert_eq!(place.json(&["why", "latest"])["session"], own);
    daemon.stop();
    // Who names it has it.
    let id = theirs["session"].as_str().unwrap();
    assert_eq!(
        place.json(&["replay", "latest", "--session", id])["session"],
        id
    );
}

#[test]
fn a_new_project_says_where_earlier_sessions_are() {
    let place = Place::new();
    let nothing = place.call(&["init", "first"]).expect(0);
    assert!(!nothing.stderr.contains("earlier"), "{nothing:#?}");
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let done = place.call(&["init", "second"]).expect(0);
    let store = place.path("data/unisono").display().to_string();
    let done = done.says(&["earlier ones stay in", &store]);
    let (_, command) = done
        .stderr
        .split_once("`unisono sessions list --store ")
        .unwrap();
    let named = command.split('`').next().unwrap();
    assert_eq!(
        place
            .json(&["sessions", "list", "--store", named])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let output = place.json(&["init", "third"]);
    assert_eq!(output["earlier_store"], store.as_str(), "{output}");
    // A second time nothing changes.
    let again = place.json(&["init", "third"]);
    assert_eq!(again["earlier_store"], Value::Null, "{again}");
}

#[test]
fn a_taken_port_is_told_with_its_owner_and_a_free_one() {
    let (place, other) = (Place::new(), Place::new());
    let daemon = Daemon::start(&place);
    let id = daemon.going.id().to_string();
    let done = other.call(&["serve", "--bind", &daemon.address]).expect(1);
    let done = done.says(&[&daemon.address, "is in use", "unisono", &id]);
    let (_, free) = done.stderr.split_once("unisono serve --bind ").unwrap();
    let free: std::net::SocketAddr = free.split('`').next().unwrap().parse().unwrap();
    assert!(free.port() > 0 && free.to_string() != daemon.address);
    daemon.stop();
}

#[test]
fn a_fresh_project_is_in_order() {
    let place = Place::new();
    let done = place.call(&["doctor"]).expect(0);
    assert!(done.stdout.contains("no store yet"), "{done:#?}");
    let output = place.json(&["doctor"]);
    assert_eq!(
        (&output["sessions"], &output["search"]),
        (&Value::from(0), &Value::Null)
    );
    assert!(output["catalogue"]["models"].is_array(), "{output}");
    let listed = place.call(&["runs", "list"]).expect(0);
    listed.says(&["no runs yet: `unisono run FILE` starts some"]);
    place.says(&["runs", "list", "--agent", "risks"], &["no run matches"]);
    let why = place.call(&["why"]).expect(2);
    why.says(&["there are no runs yet", "`unisono run FILE` starts some"]);
    assert!(!place.path("data").exists(), "looking makes nothing");
}

#[test]
fn lists_are_no_wider_than_the_terminal() {
    let place = Place::new();
    let name = "a-name-that-is-rather-long-for-an-agent";
    let agent = format!(
        "---\ndescription: {}\n---\nAnswer.\n",
        "Says what was said ".repeat(6)
    );
    place.write(&format!("agents/{name}.md"), agent);
    let team = format!("risks,{name}");
    let file = example();
    place
        .call(&["run", &file, "--agents", &team, "--compact-above", "8k"])
        .expect(0);
    for args in [
        &["sessions", "list"][..],
        &["runs", "list"],
        &["checkpoints", "list"],
        &["agents", "list"],
        &["models"],
        &["usage"],
        &["usage", "--by", "session"],
        &["usage", "--by", "model"],
        &["replay"],
        &["approvals", "list"],
        &["context"],
        &["sessions", "tree"],
        &["sessions", "show"],
        &["compact", "--dry-run"],
        &["compact", "--dry-run", "--preset", "tiered"],
        &["agents", "show", name],
        &["agents", "show", "risks"],
        &["runs", "show", "risks"],
        &["checkpoints", "show", "latest"],
        &["sessions", "search", "rollback"],
        &["why", "risks"],
        &["doctor"],
    ] {
        let shown = Talking::at_a_terminal(place.command(args)).all();
        // Warnings depend on the day; the bytes of a request are shown as they are.
        let lines = shown.lines().filter(|line| !line.starts_with("warning: "));
        for line in lines.take_while(|line| !line.starts_with("request 1: ")) {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
        assert!(!shown.is_empty(), "{args:?}");
    }
    let run = ["run", "--session", "latest", "-t", "And?", "--agents", ""];
    let shown = Talking::at_a_terminal(place.command(&run)).all();
    let model = shown.lines().find(|line| line.starts_with("model "));
    let model = model.unwrap_or_else(|| panic!("{shown}"));
    assert!(model.chars().count() <= 80, "{model}");
    // Words of usage are in one piece: its headers, models and the ids of sessions.
    let session = place.json(&["sessions", "list"])[0]["session"].clone();
    let session = &session.as_str().unwrap()[..13];
    for (args, words) in [
        (&["usage"][..], ["AGENT", "MODEL", "COST"]),
        (&["usage", "--by", "session"], [session, "TITLE", "COST"]),
    ] {
        let shown = Talking::at_a_terminal(place.command(args)).all();
        for word in words {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
    // An id that is to be copied is in one piece, and a pipe has each row in a line.
    let runs = Talking::at_a_terminal(place.command(&["runs", "list"])).all();
    let piped = place.call(&["runs", "list"]).expect(0).stdout;
    assert_eq!(piped.lines().count(), 5, "{piped}");
    for line in piped.lines().skip(1) {
        let id = line.split(' ').next().unwrap();
        assert!(id.len() == 12 && runs.contains(id), "{runs}");
    }
}
