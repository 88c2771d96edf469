//! A database that refuses writes or does not answer for a while: open runs wait for it.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use unisono_fake_provider::{Gate, block_on};
use unisono_test_postgres::Server;

use crate::a2a::Client;
use crate::cluster::{
    TOKEN, begin, daemon, ended, held_model, lasting_machine, machine, members, session,
    steady_machine,
};
use crate::cluster_shared::ask;
use crate::http::{Daemon, Event, head};
use crate::support::{Going, HasAll as _, Place, example, until};

/// Longer than `cluster.takeover_after`, and than a write waits for the database.
const OUTAGE: Duration = Duration::from_secs(7);

#[test]
fn a_run_waits_for_room_on_the_disk_of_the_database_without_asking_its_model() {
    let server = needs!(Server::database());
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
    let server = needs!(Server::start(&[]));
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    // A busy machine does not pause for so long.
    let places = [0; 2].map(|_| lasting_machine(&server, "4s", &settings));
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
        !line.unwrap().ends_with(" 0")
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
fn open_turns_are_taken_over_while_the_list_of_imports_is_damaged() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let [one, other] = places.each_ref().map(daemon);
    let turn = begin(&one, &session(&one, "A talk."));
    block_on(provider.wait_for(1));
    let list = "ffffffff-ffff-ffff-ffff-fffffffffffd";
    server.ask(&format!(
        "INSERT INTO unisono_sessions (session, epoch, last_seq, payload_bytes, deleted, \
         created_unix_ms, updated_unix_ms) VALUES ('{list}', 1, 1, 1, false, 0, 0); \
         INSERT INTO unisono_events (session, seq, checksum, payload) \
         VALUES ('{list}', 1, 0, 'no list')"
    ));
    one.kill();
    block_on(provider.wait_for(2));
    gate.open();
    assert_eq!(ended(&other, &turn)["answer"], "All is well.");
    other.stop();
}

#[test]
fn a_new_session_is_refused_as_soon_as_other_writes_while_the_database_is_away() {
    let server = needs!(Server::start(&[]));
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

#[test]
fn nobody_is_told_of_a_logout_that_the_database_undoes() {
    let server = needs!(Server::start(&[]));
    let place = machine(&server, TOKEN, "");
    let daemon = daemon(&place);
    let own = format!("http://{}", daemon.address);
    let send = |method: &str, path: &str, cookie: &str| {
        let headers = [
            ("Host", daemon.address.as_str()),
            ("Origin", own.as_str()),
            ("Cookie", cookie),
        ];
        daemon.send(&head(method, path, &headers, 0), b"")
    };
    let link = daemon.request("POST", "/v1/login-links", None);
    let link = link.expect(201).json();
    let path = link["url"].as_str().unwrap().strip_prefix(&own).unwrap();
    let entered = send("GET", path, "").expect(303);
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    server.crash();
    let refused = send("POST", "/logout", cookie).expect(503);
    assert_eq!(refused.header("set-cookie"), None);
    server.up();
    until("nobody can log out", || {
        send("POST", "/logout", cookie).status == 303
    });
    send("GET", "/", cookie).expect(401);
    daemon.stop();
}

/// What doctor says about each daemon with a fault, on the machine at that place.
fn faulty_daemons(place: &Place) -> Vec<String> {
    let checked = place.call(&["doctor", "--json"]).expect(1).json();
    let checks = checked["deployment"].as_array().unwrap().iter();
    let daemons = checks.filter(|one| one["name"].as_str().unwrap().starts_with("daemon "));
    let faulty = daemons.filter(|one| one["good"] == false);
    let messages = faulty.map(|one| one["message"].as_str().unwrap().to_owned());
    messages.collect()
}

#[test]
fn an_address_that_answers_nothing_holds_no_request() {
    let server = needs!(Server::database());
    // Its connections are accepted by the system, and read by nobody.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let places = [String::new(), format!("address = \"http://{address}\"\n")];
    let places = places.map(|more| steady_machine(&server, &more));
    let [one, unheard] = places.each_ref().map(Daemon::start);
    members(&one, |all| all.len() == 2);
    let id = session(&unheard, "A talk.");
    let read = one.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert_eq!(read["messages"], 1, "{read}");
    let said = json!({"role": "user", "text": "And more."});
    let refused = one.post(&format!("/v1/sessions/{id}/messages"), &said);
    let detail = refused.expect(503).problem("unavailable");
    detail.has_all(&["answers nothing", "cluster.address"]);
    let faulty = faulty_daemons(&places[0]);
    assert!(
        faulty.len() == 1 && faulty[0].contains("answers nothing"),
        "{faulty:?}"
    );
    // A daemon that is drained passes on what begins a session, which nobody owns.
    let all = members(&one, |all| all.len() == 2);
    let own = all.iter().find(|member| member["self"] == true).unwrap();
    let own = format!("/v1/cluster/{}", own["member"].as_str().unwrap());
    one.post(&own, &json!({"drain": true})).expect(200);
    until("it is not drained", || {
        let metrics = one.get("/metrics").expect(200).text();
        metrics.contains("unisono_cluster_draining 1\n")
    });
    let refused = one.post("/v1/sessions", &json!({"title": "Another."}));
    let detail = refused.expect(503).problem("unavailable");
    assert!(
        detail.contains("answers nothing") && !detail.contains("owns"),
        "{detail}"
    );
    one.stop();
    unheard.stop();
}

/// The updates of a turn that follow from the journal, up to its end.
fn updates(daemon: &Daemon, turn: &str) -> Vec<Event> {
    let followed = daemon.get(&format!("{turn}/events?after=0")).expect(200);
    let updates = followed.events();
    updates.filter(|update| update.id.is_some()).collect()
}

#[test]
fn a_turn_is_followed_in_the_journal_while_its_owner_cannot_be_reached() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    // Nobody is at that address.
    let unreached = format!("address = \"http://127.0.0.1:1\"\n{settings}");
    let places = [settings, unreached].map(|more| steady_machine(&server, &more));
    let [one, unreached] = places.each_ref().map(daemon);
    members(&one, |all| all.len() == 2);
    let turn = begin(&unreached, &session(&unreached, "A talk."));
    block_on(provider.wait_for(1));
    let mut joined = one.get(&format!("{turn}/events")).expect(200).events();
    let state = joined.next().unwrap();
    assert!(state.name == "state" && state.id.is_some(), "{state:?}");
    assert_eq!(joined.next().unwrap().name, "missed");
    gate.open();
    let last = joined.last().unwrap();
    assert_eq!(last.name, "ended");
    assert!(last.data.contains("All is well."), "{}", last.data);
    assert_eq!(updates(&one, &turn), updates(&unreached, &turn));
    let same = turn.replace("/turns/", "/delegations/");
    assert_eq!(one.get(&same).expect(200).json()["answer"], "All is well.");
    // After the end nothing comes, and nothing is waited for.
    let end = last.id.unwrap();
    let rest = one.get(&format!("{turn}/events?after={end}")).expect(200);
    assert_eq!(rest.events().count(), 0);
    one.get(&format!("{turn}/events?after=1000000")).expect(400);
    one.stop();
    unreached.stop();
}

#[test]
fn a_turn_of_a_command_is_followed_at_a_daemon_while_the_command_works() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    // Who waits for the lease of the command waits for longer than this test.
    let places = [0; 2].map(|_| lasting_machine(&server, "600s", &settings));
    let one = daemon(&places[0]);
    let file = example();
    let run = ["run", &file, "--agents", "facts", "-t", "Well?"];
    let command = Going::start(places[1].keyed_command(&run));
    block_on(provider.wait_for(1));
    let listed = one.get("/v1/sessions").expect(200).json();
    let id = listed["items"][0]["session"].as_str().unwrap();
    let turns = one.get(&format!("/v1/sessions/{id}/turns")).expect(200);
    let turn = turns.json()["items"][0]["turn"].clone();
    let turn = format!("/v1/sessions/{id}/turns/{}", turn.as_str().unwrap());
    let mut updates = one.get(&format!("{turn}/events")).expect(200).events();
    assert_eq!(updates.next().unwrap().name, "state");
    let mut events = one.events(id);
    assert!(events.any(|event| event.name == "run_opened"));
    gate.open();
    assert!(events.any(|event| event.name == "turn_ended"));
    assert_eq!(updates.last().unwrap().name, "ended");
    command.finish().expect(0);
    one.stop();
}

#[test]
fn a_task_and_a_chat_are_followed_in_the_journal_while_their_owner_cannot_be_reached() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let settings = settings + "[server]\ncallback_hosts = [\"127.0.0.1\"]\n";
    // Nobody is at that address.
    let unreached = format!("address = \"http://127.0.0.1:1\"\n{settings}");
    let places = [settings, unreached].map(|more| steady_machine(&server, &more));
    let [one, unreached] = places.each_ref().map(daemon);
    members(&one, |all| all.len() == 2);
    let turn = begin(&unreached, &session(&unreached, "A talk."));
    block_on(provider.wait_for(1));
    let ids: Vec<&str> = turn.split('/').skip(3).step_by(2).collect();
    let task = json!({"id": ids.join(".")});
    let team = Client::of(&one);
    assert_eq!(team.task(&task)["status"]["state"], "TASK_STATE_WORKING");
    let callback = json!({"taskId": task["id"], "id": "c", "url": "http://127.0.0.1:1/"});
    Client::of(&unreached).rpc("CreateTaskPushNotificationConfig", &callback);
    let read = team.rpc(
        "GetTaskPushNotificationConfig",
        &json!({"taskId": task["id"], "id": "c"}),
    );
    assert_eq!(read["url"], callback["url"], "{read}");
    let listed = team.rpc(
        "ListTaskPushNotificationConfigs",
        &json!({"taskId": task["id"]}),
    );
    assert_eq!(listed["configs"], json!([read]));
    let subscribed = team.call("SubscribeToTask", &task).expect(200);
    let mut updates = subscribed.events();
    let first = updates.next().unwrap().data;
    assert!(first.contains("TASK_STATE_WORKING"), "{first}");
    let path = format!("/tasks/{}:subscribe", ids.join("."));
    let by_address = team.rest("POST", &path, Some(&json!({}))).expect(200);
    let first = by_address.events().next().unwrap().data;
    assert!(first.contains("TASK_STATE_WORKING"), "{first}");
    let chat = format!("/v1/sessions/{}/chat/any/stream", ids[0]);
    let mut parts = one.get(&chat).expect(200).events();
    let first = parts.next().unwrap().data;
    assert!(first.contains("\"start\""), "{first}");
    gate.open();
    let updates: Vec<String> = updates.map(|update| update.data).collect();
    let said = updates.iter().any(|update| update.contains("All is well."));
    let last = updates.last().unwrap();
    assert!(said && last.contains("TASK_STATE_COMPLETED"), "{updates:?}");
    let parts: Vec<String> = parts.map(|part| part.data).collect();
    let said = parts.iter().any(|part| part.contains("All is well."));
    assert!(said && parts.last().unwrap() == "[DONE]", "{parts:?}");
    let failed = parts.iter().any(|part| part.contains(r#""type":"error""#));
    assert!(!failed, "{parts:?}");
    // What changes something needs the owner.
    let cancelled = team.call("CancelTask", &task).expect(503).json();
    assert_eq!(cancelled["error"]["code"], -32_000, "{cancelled}");
    one.stop();
    unreached.stop();
}

#[test]
fn a_daemon_with_the_address_of_another_one_is_named() {
    let server = needs!(Server::database());
    let first = steady_machine(&server, "");
    let one = Daemon::start(&first);
    let own = format!("address = \"http://{}\"\n", one.address);
    let second = steady_machine(&server, &own);
    let other = Daemon::start(&second);
    for place in [&first, &second] {
        let faulty = faulty_daemons(place);
        assert!(
            faulty.len() == 1 && faulty[0].contains("is also the address of"),
            "{faulty:?}"
        );
    }
    one.stop();
    other.stop();
}

#[test]
fn a_turn_that_takes_longer_than_a_probe_is_waited_for_at_another_daemon() {
    // Longer than the pause before the first probe.
    const LONG: Duration = Duration::from_secs(5);
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 2].map(|_| steady_machine(&server, &settings));
    let [one, other] = places.each_ref().map(daemon);
    members(&other, |all| all.len() == 2);
    let turns = format!("/v1/sessions/{}/turns", session(&one, "A talk."));
    let task = json!({"task": "Well?", "lead": "facts", "agents": []});
    let address = other.address.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&address, "POST", &turns, &task).expect(200).json());
        block_on(provider.wait_for(1));
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            assert!(!waiting.is_finished(), "it was cut");
            std::thread::sleep(Duration::from_millis(50));
        }
        gate.open();
        let turn = waiting.join().unwrap();
        assert_eq!(turn["answer"], "All is well.", "{turn}");
    });
    assert_eq!(provider.request_count(), 1);
    one.stop();
    other.stop();
}
