//! A database that refuses writes or does not answer for a while: open runs wait for it.

use std::time::{Duration, Instant};

use serde_json::json;
use unisono_fake_provider::{Gate, block_on};
use unisono_test_postgres::Server;

use crate::cluster::{
    PATIENCE, TOKEN, begin, daemon, ended, held_model, machine, members, session,
};
use crate::http::Daemon;

/// Longer than `cluster.takeover_after`, and than a write waits for the database.
const OUTAGE: Duration = Duration::from_secs(7);

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let latest = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < latest, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_waits_for_room_on_the_disk_of_the_database_without_asking_its_model() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let place = machine(&server, TOKEN, &settings);
    let daemon = daemon(&place);
    let (id, other) = (session(&daemon, "A talk."), session(&daemon, "Another."));
    let turn = begin(&daemon, &id);
    block_on(provider.wait_for(1));
    // New events are refused, as when the disk is full. A sequence counts the attempts.
    server.ask(
        "CREATE SEQUENCE attempts; CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN \
         PERFORM nextval('attempts'); RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; \
         END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER refuse BEFORE INSERT ON unisono_events EXECUTE FUNCTION refuse()",
    );
    gate.open();
    let attempts = || -> u64 {
        let asked = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM attempts";
        server.ask(asked).parse().unwrap()
    };
    until("nothing is written", || attempts() > 0);
    until("it counts as ready", || daemon.get("/readyz").status == 503);
    let metrics = daemon.get("/metrics").expect(200).text();
    assert!(metrics.contains("unisono_store_writable 0\n"), "{metrics}");
    // The session is opened again and again meanwhile, and the store probes.
    until("it does not probe", || attempts() >= 5);
    assert_eq!(provider.request_count(), 1, "the model is asked again");
    let said = json!({"role": "user", "text": "And more."});
    for id in [&id, &other] {
        let path = format!("/v1/sessions/{id}/messages");
        daemon.post(&path, &said).expect(507).problem("disk_full");
    }
    let doctor = place.call(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("full"), "{}", doctor.stdout);
    server.ask("DROP TRIGGER refuse ON unisono_events");
    assert_eq!(ended(&daemon, &turn)["answer"], "All is well.");
    assert_eq!(provider.request_count(), 2);
    assert_eq!(daemon.get("/readyz").status, 200);
    // The records of a database can be checked beside the daemon.
    let doctor = place.call(&["doctor"]).expect(0);
    let whole = doctor.stdout.contains("2 sessions") && doctor.stdout.contains("is whole");
    assert!(whole && !doctor.stderr.contains("stop the"), "{doctor:?}");
    daemon.stop();
    // Without a daemon, a command finds out by a probe.
    server.ask("CREATE TRIGGER refuse BEFORE INSERT ON unisono_events EXECUTE FUNCTION refuse()");
    let doctor = place.call(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("full"), "{}", doctor.stdout);
    server.ask("DROP TRIGGER refuse ON unisono_events");
    let doctor = place.call(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
}

/// A model call is in progress when the database goes away for longer than `cluster.takeover_after`.
fn outlasts_an_outage(is_answered_meanwhile: bool) {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let daemons = places.each_ref().map(daemon);
    let turns = daemons
        .each_ref()
        .map(|daemon| begin(daemon, &session(daemon, "A talk.")));
    block_on(provider.wait_for(2));
    server.crash();
    let down = Instant::now();
    until("it counts as ready", || {
        daemons[0].get("/readyz").status == 503
    });
    if is_answered_meanwhile {
        gate.open();
    }
    // Longer than a write waits, too.
    until("time stands still", || down.elapsed() > OUTAGE);
    server.up();
    let lapses = |daemon: &Daemon| {
        let metrics = daemon.get("/metrics").expect(200).text();
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("unisono_cluster_lapses_total "));
        line.unwrap().ends_with(" 1")
    };
    for daemon in &daemons {
        until("it was not cut off", || lapses(daemon));
    }
    gate.open();
    for (daemon, turn) in daemons.iter().zip(&turns) {
        assert_eq!(ended(daemon, turn)["answer"], "All is well.");
    }
    assert_eq!(provider.request_count(), 2, "a model is asked again");
    let all = members(&daemons[0], |all| all.len() == 2);
    let owned = |one: &serde_json::Value| one["sessions"] == 1 && one["state"] == "alive";
    assert!(all.iter().all(owned), "{all:?}");
    daemons.into_iter().for_each(Daemon::stop);
}

#[test]
fn calls_that_outlast_an_outage_go_on() {
    outlasts_an_outage(false);
}

#[test]
fn calls_that_end_during_an_outage_are_written_after_it() {
    outlasts_an_outage(true);
}

#[test]
fn a_new_session_is_refused_as_soon_as_other_writes_while_the_database_is_away() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let place = machine(&server, TOKEN, "");
    let daemon = daemon(&place);
    server.crash();
    let message = json!([{"role": "user", "content": "Well?"}]);
    let new = json!({"title": "A talk.", "messages": message});
    let asked = json!({"model": "facts", "messages": message});
    for (path, body) in [
        ("/v1/sessions", &new),
        ("/openai/v1/chat/completions", &asked),
    ] {
        let before = Instant::now();
        let refused = daemon.post(path, body).expect(503);
        assert!(refused.header("retry-after").is_some(), "{path}");
        // A write waits for five seconds, once.
        assert!(before.elapsed() < 2 * OUTAGE, "{path} waits several times");
    }
    server.up();
    until("no session is made", || {
        daemon.post("/v1/sessions", &new).status == 201
    });
    daemon.stop();
}
