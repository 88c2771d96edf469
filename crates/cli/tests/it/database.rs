//! A store in a PostgreSQL database, by the program.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};
use unisono_test_postgres::Server;

use crate::http::Daemon;
use crate::purge;
use crate::support::{Done, Going, HasAll as _, Place, awaited, example, finish, openai};

/// A machine that uses the database, with more settings.
fn machine(server: &Server, more: &str) -> Place {
    let url = server.url("public");
    Place::with_config(&format!("[store]\nurl = {url:?}\n{more}"))
}

#[test]
fn sessions_in_a_database_are_those_of_every_machine() {
    let server = needs!(Server::database());
    let (one, other) = (machine(&server, ""), machine(&server, ""));
    let asked = one.json(&["run", &example(), "-t", "What is open?"]);
    let session = asked["session"].as_str().unwrap();
    let seen = other.json(&["sessions", "show", session]);
    assert_eq!(seen["session"], session);
    let turn = asked["turn"].as_str().unwrap();
    let replayed = other.call(&["replay", turn]).expect(0).stdout;
    assert!(replayed.contains("16 of 16 checks hold"), "{replayed}");
    // The other machine goes on with it.
    let more = other.json(&[
        "delegate",
        session,
        "facts",
        "-t",
        "Which figures are given?",
    ]);
    assert_eq!(more["state"], "answered", "{more}");
    let checked = one.json(&["doctor"]);
    assert_eq!(
        (&checked["sessions"], &checked["findings"]),
        (&json!(1), &json!([]))
    );
    one.call(&["doctor", "--repair"])
        .expect(2)
        .says(&["is a database"]);
    let found = one.json(&["sessions", "search", "migration"]);
    assert!(
        found["hits"]
            .as_array()
            .is_some_and(|hits| !hits.is_empty()),
        "{found}"
    );
    one.call(&["vacuum"]).expect(0);
    // Beside a daemon as well.
    let daemon = Daemon::start(&one);
    assert_eq!(one.json(&["sessions", "show", session])["session"], session);
    other.call(&["sessions", "list"]).expect(0);
    daemon.stop();
    let schema = one.call(&["store", "schema"]).expect(0).stdout;
    schema.has_all(&["CREATE TABLE IF NOT EXISTS unisono_events"]);
}

#[test]
fn a_vacuum_removes_the_words_that_another_machine_deleted() {
    let server = needs!(Server::database());
    let (one, other) = (machine(&server, ""), machine(&server, ""));
    one.talk();
    purge::talk(&one);
    for file in ["talk.json", "secret.json"] {
        one.call(&["import", file]).expect(0);
    }
    let found = other.json(&["sessions", "search", purge::SECRET]);
    assert!(found.to_string().contains(purge::SECRET), "{found}");
    // Each segment has a file of its words; a new one has a new name.
    let words = || -> BTreeSet<PathBuf> {
        let files = std::fs::read_dir(other.path("data/unisono/search")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let is_of_words = |file: &PathBuf| file.extension().is_some_and(|end| end == "term");
        files.filter(is_of_words).collect()
    };
    let before = words();
    assert!(!before.is_empty(), "the test proves nothing");
    one.call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    other.call(&["vacuum"]).expect(0);
    let after = words();
    assert!(before.is_disjoint(&after), "{before:?}, {after:?}");
}

#[test]
fn a_role_that_may_not_vacuum_purges_nothing_and_is_told_before_a_session_is_deleted() {
    let server = needs!(Server::start(&[]));
    let owner = machine(&server, "");
    let asked = owner.json(&["run", &example(), "-t", "What is open?"]);
    let session = asked["session"].as_str().unwrap();
    server.ask(
        "CREATE ROLE guest LOGIN; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest",
    );
    let url = server.url("public").replace("unisono@", "guest@");
    let guest = Place::with_config(&format!("[store]\nurl = {url:?}\n"));
    let refused = guest.call(&["sessions", "delete", session, "--yes", "--purge"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let told = refused.stderr.contains("nothing was deleted") && refused.stderr.contains("guest");
    assert!(told, "{refused:?}");
    let seen = owner.json(&["sessions", "show", session]);
    assert_eq!(seen["session"], session);
    let delete = ["sessions", "delete", session, "--yes"];
    guest.call(&delete).expect(0);
    assert_ne!(owner.call(&["sessions", "show", session]).code, Some(0));
}

#[test]
fn a_directory_takes_no_place_of_a_database_that_cannot_be_written() {
    let server = needs!(Server::database());
    machine(&server, "").call(&["sessions", "list"]).expect(0);
    // The sessions were in a directory before.
    let place = Place::with_config("");
    place
        .call(&["run", &example(), "--agents", "facts", "-t", "Well?"])
        .expect(0);
    place.set_config(format!("[store]\nurl = {:?}\n", server.url("public")));
    server.ask(
        "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN \
         RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER refuse BEFORE INSERT ON unisono_members \
         FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    for command in [["sessions", "list"].as_slice(), &["serve"]] {
        let refused = place.call(command);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("no room"), "{refused:?}");
    }
}

#[test]
fn sessions_move_to_a_database_and_back_with_their_ids() {
    let server = needs!(Server::database());
    let (here, there, back) = (Place::new(), machine(&server, ""), Place::new());
    here.call(&["run", &example(), "--agents", "facts", "-t", "Well?"])
        .expect(0);
    here.call(&["import", "--copy", &example()]).expect(0);
    let archive = here.path("all.unisono").display().to_string();
    here.call(&["export", "--all", &archive]).expect(0);
    there.call(&["import", &archive]).expect(0);
    let again = there.path("again.unisono").display().to_string();
    there.call(&["export", "--all", &again]).expect(0);
    back.call(&["import", &again]).expect(0);
    let list = |place: &Place| -> Vec<String> {
        let all = place.json(&["sessions", "list"]);
        let ids = all.as_array().unwrap().iter();
        ids.map(|one| one["session"].as_str().unwrap().to_owned())
            .collect()
    };
    let ids = list(&here);
    assert_eq!((ids.len(), &list(&there), &list(&back)), (2, &ids, &ids));
    for id in &ids {
        let of = |place: &Place| place.call(&["export", id]).expect(0).stdout;
        assert!(of(&here) == of(&there) && of(&here) == of(&back), "{id}");
        assert_eq!(here.events(id), back.events(id));
    }
}

#[test]
fn another_machine_takes_over_a_turn_whose_machine_is_gone() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let script = Script::always(Act::from(Answer::text("All is well.")).hold(&gate));
    let provider = FakeProvider::play_on_thread(script);
    let settings = openai(&provider) + "[models]\ndefault = \"openai/gpt-4o-mini\"\n";
    let (one, other) = (machine(&server, &settings), machine(&server, &settings));
    let file = example();
    let run = ["run", &file, "--agents", "facts", "-t", "Well?"];
    let going = Going::start(one.keyed_command(&run));
    block_on(provider.wait_for(1));
    going.kill();

    gate.open();
    let report = other.keyed(&["resume", "--json"]).expect(0).json();
    assert_eq!(report["state"], "answered");
    let bodies: Vec<_> = provider
        .requests()
        .into_iter()
        .map(|one| one.body)
        .collect();
    assert_eq!(bodies.len(), 3, "one was killed, then two");
    assert!(
        bodies[0] == bodies[1],
        "the same bytes from another machine"
    );
}

#[test]
fn what_is_wrong_with_the_database_is_said_without_the_password() {
    let wrong = rows! {
        ("postgres://me:hunter2@127.0.0.1:1/db", 1, "does not respond"),
        ("postgres://me:hunter2@127.0.0.1:1", 2, "names no database"),
        ("mysql://me:hunter2@127.0.0.1:1/db", 2, "cannot be read"),
        ("postgres://me:hunter2@127.0.0.1:1/db?sslrootcert=x", 2, "SSL_CERT_FILE"),
    };
    for (url, code, says) in wrong {
        let place = Place::with_config(&format!("[store]\nurl = {url:?}\n"));
        let refused = place.call(&["sessions", "list"]).expect(code).says(&[says]);
        let shown = place.call(&["config", "show"]).expect(0);
        for text in [&refused.stderr, &refused.stdout, &shown.stdout] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

/// Lists the sessions of a database at that address; with an authority that it trusts.
fn listed(url: &str, authority: Option<&str>) -> Done {
    let place = Place::with_config(&format!("[store]\nurl = {url:?}\n"));
    let args = ["sessions", "list"];
    let mut command = place.command(&args);
    match authority {
        Some(file) => command.env("SSL_CERT_FILE", file),
        None => command.env_remove("SSL_CERT_FILE"),
    };
    finish(command.spawn().unwrap(), &args)
}

#[test]
fn a_database_is_asked_by_tls_and_verified_where_that_is_set() {
    const AUTHORITY: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/client/loopback/authority.pem"
    );
    let server = needs!(Server::start(&[]));
    let url = server.url("public");
    let by = |mode: &str| url.replace("sslmode=disable", mode);
    let unencrypted = listed(&by("sslmode=require"), None).expect(1);
    unencrypted.says(&["does not support TLS", "sslmode=disable"]);
    server.encrypt();
    server.crash();
    server.up();
    listed(&by("sslmode=disable"), None).expect(1);
    listed(&by("sslmode=require"), None).expect(0);
    let full = by("sslmode=verify-full");
    listed(&full, Some(AUTHORITY)).expect(0);
    let unknown = listed(&full, None).expect(1);
    unknown.says(&["certificate", "SSL_CERT_FILE"]);
    let missing = listed(&full, Some("/nowhere/authority.pem")).expect(1);
    missing.says(&["SSL_CERT_FILE", "/nowhere/authority.pem"]);
    let other = full.replace("127.0.0.1", "localhost");
    listed(&other, Some(AUTHORITY))
        .expect(1)
        .says(&["certificate", "localhost"]);
}

#[test]
fn a_turn_goes_on_when_its_database_is_back() {
    let server = needs!(Server::start(&[]));
    let gate = Gate::new();
    let provider = FakeProvider::play_on_thread(Script::always(
        Act::from(Answer::text("All is well.")).hold(&gate),
    ));
    let settings = openai(&provider) + "[models]\ndefault = \"openai/gpt-4o-mini\"\n";
    let place = machine(&server, &settings);
    let daemon = Daemon::keyed(&place);
    let made = daemon.post("/v1/sessions", &json!({"title": "Talk", "messages": []}));
    let session = made.expect(201).json()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let turns = format!("/v1/sessions/{session}/turns");
    let task = json!({"task": "Well?", "lead": "facts", "agents": [], "wait": false});
    let turn = daemon.post(&turns, &task).expect(202).json();
    let turn = format!("{turns}/{}", turn["turn"].as_str().unwrap());
    block_on(provider.wait_for(1));

    server.crash();
    let away = daemon.post("/v1/sessions", &json!({"title": "Other", "messages": []}));
    assert!(away.headers.iter().any(|(name, _)| name == "retry-after"));
    assert_eq!(away.expect(503).json()["code"], "unavailable");
    daemon.get("/readyz").expect(503);
    daemon.get("/healthz").expect(200);
    gate.open();
    // The answer is there before the database is.
    let until = Instant::now() + Duration::from_secs(7);
    while Instant::now() < until {
        daemon.get(&turn);
    }
    server.up();
    let answered = awaited(|| {
        let reply = daemon.get(&turn);
        let turn = (reply.status == 200).then(|| reply.json());
        let answered = turn.filter(|turn| turn["state"] == "answered");
        answered.ok_or("the turn does not go on")
    });
    assert_eq!(answered["answer"], "All is well.");
    daemon.get("/readyz").expect(200);
    daemon.stop();
}
