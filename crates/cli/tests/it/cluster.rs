//! Several daemons on one database: any of them is asked, and any of them may die.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, Usage, block_on};
use unisono_test_postgres::Server;

use crate::http::{Daemon, Events, head, json_head, send_to};
use crate::support::{HasAll as _, Place, awaited, finish, openai, until};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The place of a daemon: with the token of the others, and with more settings.
pub(crate) fn machine(server: &Server, token: &str, more: &str) -> Place {
    let url = server.url("public");
    let place = Place::with_config(&format!(
        "[store]\nurl = {url:?}\n[cluster]\ntakeover_after = \"2s\"\n{more}"
    ));
    place.write("settings/unisono/token", token);
    let file = place.path("settings/unisono/token");
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    place
}

/// [`machine`] whose turns are taken over after that time.
pub(crate) fn lasting_machine(server: &Server, takeover_after: &str, more: &str) -> Place {
    let place = machine(server, TOKEN, more);
    let settings = place.config();
    let after = |time: &str| format!("takeover_after = \"{time}\"");
    place.set_config(settings.replace(&after("2s"), &after(takeover_after)));
    place
}

/// [`machine`] for a test in which no daemon is gone: on a busy machine beats may come late.
pub(crate) fn steady_machine(server: &Server, more: &str) -> Place {
    lasting_machine(server, "10s", more)
}

/// A model whose answers wait for a gate.
pub(crate) fn held_model(gate: &Gate) -> (FakeProvider, String) {
    let script = Script::always(Act::from(Answer::text("All is well.")).hold(gate));
    let provider = FakeProvider::play_on_thread(script);
    let settings = openai(&provider) + "[models]\ndefault = \"openai/gpt-4o-mini\"\n";
    (provider, settings)
}

pub(crate) fn daemon(place: &Place) -> Daemon {
    Daemon::keyed(place)
}

/// Daemons on machines of their own, which know each other.
pub(crate) fn together<const N: usize>(machine: impl Fn() -> Place) -> ([Place; N], [Daemon; N]) {
    let places = [0; N].map(|_| machine());
    let daemons = places.each_ref().map(daemon);
    members(&daemons[0], |all| all.len() == N);
    (places, daemons)
}

pub(crate) fn session(daemon: &Daemon, text: &str) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    daemon.session(&json!({"title": text, "messages": messages}))
}

/// Hands a turn in and does not wait for it. Its path.
pub(crate) fn begin(daemon: &Daemon, session: &str) -> String {
    let turns = format!("/v1/sessions/{session}/turns");
    let task = json!({"task": "Well?", "lead": "facts", "agents": [], "wait": false});
    let turn = daemon.post(&turns, &task).expect(202).json();
    format!("{turns}/{}", turn["turn"].as_str().unwrap())
}

/// Waits until a turn has ended, whichever daemon answers.
pub(crate) fn ended(daemon: &Daemon, turn: &str) -> Value {
    awaited(|| {
        let reply = daemon.get(turn);
        let turn = (reply.status == 200).then(|| reply.json());
        let ended = turn.filter(|turn| turn["state"] != "running" && !turn["answer"].is_null());
        ended.ok_or("the turn does not end")
    })
}

/// Waits until the members of the cluster are so.
pub(crate) fn members(daemon: &Daemon, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let items = |all: &Value| all["items"].as_array().unwrap().clone();
    items(&daemon.awaited("/v1/cluster", |all| is_so(&items(all))))
}

/// The numbers of the events up to the end of a turn.
fn numbers(events: Events) -> Vec<u64> {
    let mut numbers = Vec::new();
    for event in events {
        numbers.extend(event.id);
        if event.name == "turn_ended" {
            break;
        }
    }
    numbers
}

#[test]
fn a_session_is_worked_on_by_one_daemon_and_reached_through_all() {
    let server = needs!(Server::database());
    let places = [machine(&server, TOKEN, ""), machine(&server, TOKEN, "")];
    let [one, other] = places.each_ref().map(daemon);
    let id = session(&one, "The migration is on Friday.");
    let path = format!("/v1/sessions/{id}");
    assert_eq!(other.get(&path).expect(200).json()["messages"], 1);
    // A turn, its events and its page.
    let events = other.events(&id);
    let task = json!({"task": "When is it?", "lead": "facts", "agents": []});
    let turn = other
        .post(&format!("{path}/turns"), &task)
        .expect(200)
        .json();
    assert!(
        turn["answer"].as_str().unwrap().contains("Friday"),
        "{turn}"
    );
    let numbers = numbers(events);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let page = other.get(&format!("/sessions/{id}")).expect(200).text();
    assert!(page.contains("When is it?"), "{page}");
    // What clients of MCP read of it.
    for part in ["", "/context"] {
        let uri = format!("unisono://sessions/{id}{part}");
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
            "params": {"uri": uri}});
        let accept = [("Accept", "application/json, text/event-stream")];
        let read = other.request_with("POST", "/mcp", &accept, Some(&call));
        let read = read.expect(200).json();
        let text = read["result"]["contents"][0]["text"].as_str();
        assert!(text.unwrap_or_default().contains("Friday"), "{read}");
    }
    let owned = members(&one, |all| all.len() == 2);
    assert_eq!(
        (&owned[0]["sessions"], &owned[1]["sessions"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        (&owned[0]["self"], &owned[1]["self"]),
        (&json!(true), &json!(false))
    );
    // Both list the sessions of each, also on their pages.
    for (member, there) in [(&owned[0], json!([id])), (&owned[1], json!([]))] {
        let member = member["member"].as_str().unwrap();
        for daemon in [&one, &other] {
            let listed = daemon.json(&format!("/v1/cluster/{member}/sessions"));
            let items = listed["items"].as_array().unwrap().iter();
            let ids: Vec<&Value> = items.map(|session| &session["session"]).collect();
            assert_eq!(json!(ids), there, "{listed}");
            let page = daemon.get(&format!("/cluster/{member}")).expect(200).text();
            let link = page.contains(&format!("/sessions/{id}"));
            assert_eq!(link, there != json!([]), "{page}");
        }
    }
    let owner = owned[0]["member"].as_str().unwrap();
    let listed = places[1].json(&["cluster", "sessions", owner]);
    assert_eq!(listed[0]["session"], id.as_str(), "{listed}");
    other
        .get("/v1/cluster/00000000-0000-7000-8000-000000000000/sessions")
        .expect(404);
    assert!(
        owned
            .iter()
            .all(|one| one["state"] == "alive" && one["same_agents"] == true)
    );
    // OpenAI's clients and those of MCP name the session in what they send.
    let asked = json!({"model": "facts", "metadata": {"session": id},
                       "messages": [{"role": "user", "content": "And now?"}]});
    let reply = other
        .post("/openai/v1/chat/completions", &asked)
        .expect(200);
    assert_eq!(reply.header("x-unisono-session"), Some(id.as_str()));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "recall", "arguments": {"session": id, "query": "migration"}}});
    let accept = [("Accept", "application/json, text/event-stream")];
    let response = other
        .request_with("POST", "/mcp", &accept, Some(&call))
        .expect(200)
        .text();
    assert!(response.contains("Friday"), "{response}");
    // What one says is found by the other, and what it deletes is gone for both.
    let found = other.get("/v1/search?q=migration").expect(200).json();
    assert_eq!(found["hits"][0]["session"], id.as_str(), "{found}");
    let shown = places[1].json(&["sessions", "show", &id]);
    assert_eq!(shown["session"], id.as_str());
    other.request("DELETE", &path, None).expect(204);
    one.get(&path).expect(404);
    let found = other.get("/v1/search?q=migration").expect(200).json();
    assert_eq!(found["hits"], json!([]), "{found}");
    one.stop();
    other.stop();
}

#[test]
fn a_session_of_a_daemon_is_not_deleted_by_a_command_on_another_machine() {
    let server = needs!(Server::start(&[]));
    let [here, there] = [0; 2].map(|_| steady_machine(&server, ""));
    let daemon = daemon(&there);
    let id = session(&daemon, "The migration is on Friday.");
    let path = format!("/v1/sessions/{id}");
    let delete = ["sessions", "delete", &id, "--yes"];
    let prune = ["sessions", "prune", "--older-than", "0m", "--yes"];
    for command in [&delete[..], &prune] {
        let refused = here.call(command);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        refused.says(&["is owned by", "http://127.0.0.1:"]);
    }
    daemon.get(&path).expect(200);
    // On its machine the daemon is asked.
    there.call(&delete).expect(0);
    daemon.get(&path).expect(404);
    daemon.stop();
}

#[test]
fn open_turns_of_a_daemon_that_is_killed_go_on_at_another_with_the_same_bytes() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let [one, other] = places.each_ref().map(daemon);
    let (id, idle) = (session(&one, "A talk."), session(&one, "Another talk."));
    let turn = begin(&other, &id);
    block_on(provider.wait_for(1));
    let events = other.events(&id);
    one.kill();
    // The stream ends with its daemon; its client goes on at the other one.
    let mut seen: Vec<u64> = events.filter_map(|event| event.id).collect();
    block_on(provider.wait_for(2));
    gate.open();
    assert_eq!(ended(&other, &turn)["answer"], "All is well.");
    let after = seen.last().copied().unwrap_or_default().to_string();
    let went_on = other.request_with(
        "GET",
        &format!("/v1/sessions/{id}/events"),
        &[("Last-Event-ID", &after)],
        None,
    );
    seen.extend(numbers(went_on.expect(200).events()));
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
    let bodies: Vec<_> = provider
        .requests()
        .into_iter()
        .map(|one| one.body)
        .collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0] == bodies[1], "the same bytes from another daemon");
    // Claimed when it was made and by the takeover, and not once more to be opened.
    let epoch = format!("SELECT epoch FROM unisono_sessions WHERE session = '{id}'");
    assert_eq!(server.ask(&epoch), "2");
    // Nobody owns what had no open turn, until somebody asks for it.
    let all = members(&other, |all| all.len() == 1);
    assert_eq!(all[0]["sessions"], 1);
    other.get(&format!("/v1/sessions/{idle}")).expect(200);
    let metrics = other.get("/metrics").expect(200).text();
    assert!(metrics.contains("unisono_cluster_members 1"), "{metrics}");
    metrics.has_all(&["unisono_cluster_takeovers_total 2"]);
    other.stop();
}

#[test]
fn a_turn_that_was_taken_over_is_taken_over_again_when_that_daemon_dies_too() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 3].map(|_| machine(&server, TOKEN, &settings));
    let [one, second] = [&places[0], &places[1]].map(daemon);
    let id = session(&one, "A talk.");
    let turn = begin(&one, &id);
    block_on(provider.wait_for(1));
    one.kill();
    // In the middle of what it took over.
    block_on(provider.wait_for(2));
    second.kill();
    let third = daemon(&places[2]);
    block_on(provider.wait_for(3));
    gate.open();
    assert_eq!(ended(&third, &turn)["answer"], "All is well.");
    let bodies = provider.requests().into_iter().map(|one| one.body);
    let mut bodies: Vec<_> = bodies.collect();
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "the same bytes from all three");
    let ends = third
        .events(&id)
        .take_while(|event| event.name != "turn_ended");
    assert_eq!(ends.filter(|event| event.name == "run_opened").count(), 1);
    third.stop();
}

#[test]
fn open_turns_wait_for_a_daemon_with_the_key_of_their_provider() {
    open_turns_wait(|settings| (settings.clone(), settings));
}

#[test]
fn open_turns_wait_for_a_daemon_that_knows_their_provider() {
    open_turns_wait(|settings| {
        let slow = "[providers.slow]\nlike = \"openai-compatible\"";
        let settings = settings.replace("[providers.openai]", slow);
        (settings.replace("openai/gpt", "slow/gpt"), String::new())
    });
}

#[test]
fn open_turns_wait_beside_a_daemon_that_starts_without_the_key_of_their_provider() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let settings = format!("{settings}[server]\ndrain_seconds = 1\n");
    let places = [0; 3].map(|_| machine(&server, TOKEN, &settings));
    let one = daemon(&places[0]);
    let turn = begin(&one, &session(&one, "A talk."));
    block_on(provider.wait_for(1));
    one.stop();
    let unable = Daemon::start(&places[1]);
    let looked = "unisono_cluster_takeovers_total 1";
    until("nobody looks at it", || {
        unable.get("/metrics").expect(200).text().contains(looked)
    });
    gate.open();
    let able = daemon(&places[2]);
    assert_eq!(ended(&able, &turn)["answer"], "All is well.");
    able.stop();
    unable.stop();
}

/// Kills the daemon that works on a turn. `settings` gets the settings of a model. It returns
/// the settings of the daemons that can run the turn, and of the daemon that has no API key.
fn open_turns_wait(settings: impl Fn(String) -> (String, String)) {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, model) = held_model(&gate);
    let (able, unable) = settings(model);
    let places = [&able, &unable, &able].map(|settings| machine(&server, TOKEN, settings));
    let one = daemon(&places[0]);
    let unable = Daemon::start(&places[1]);
    let id = session(&one, "A talk.");
    let turn = begin(&one, &id);
    block_on(provider.wait_for(1));
    one.kill();
    let looked = "unisono_cluster_takeovers_total 1";
    until("nobody looks at it", || {
        // A request before the takeover does not have it fail there either.
        unable.get(&turn).expect(200);
        unable
            .post(&format!("{turn}/cancel"), &json!({}))
            .expect(503);
        unable.get("/metrics").expect(200).text().contains(looked)
    });
    members(&unable, |all| all.len() == 1 && all[0]["sessions"] == 0);
    // It is shown as it is; and whoever asks for it does not have it fail there.
    let running = unable.get(&turn).expect(200).json();
    assert_eq!(running["answer"], Value::Null, "{running}");
    let task = json!({"task": "Again?", "lead": "facts", "agents": [], "wait": false});
    let refused = unable.post(&format!("/v1/sessions/{id}/turns"), &task);
    let detail = refused.expect(503).problem("unavailable");
    detail.has_all(&["no running program can continue the open turns"]);
    unable.get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(provider.request_count(), 1, "it did not try");
    gate.open();
    let able = daemon(&places[2]);
    assert_eq!(ended(&able, &turn)["answer"], "All is well.");
    assert_eq!(ended(&unable, &turn)["answer"], "All is well.");
    able.stop();
    unable.stop();
}

#[test]
fn a_daemon_that_slept_writes_nothing_and_passes_requests_on() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let [sleeper, other] = places.each_ref().map(daemon);
    let id = session(&sleeper, "A talk.");
    let turn = begin(&sleeper, &id);
    block_on(provider.wait_for(1));
    sleeper.going.signal("STOP");
    // A request that was passed on to it before it counts as lost is not left there.
    other.get(&format!("/v1/sessions/{id}")).expect(200);
    block_on(provider.wait_for(2));
    // Both have an answer now: the one that wakes is too late.
    gate.open();
    assert_eq!(ended(&other, &turn)["answer"], "All is well.");
    sleeper.going.signal("CONT");
    members(&other, |all| {
        all.len() == 2 && all.iter().all(|one| one["state"] == "alive")
    });
    assert_eq!(ended(&sleeper, &turn)["answer"], "All is well.");
    // It has noticed, and works on others.
    let asked = json!({"task": "Well?", "lead": "facts", "agents": []});
    let more = awaited(|| {
        let reply = sleeper.post(&format!("/v1/sessions/{id}/turns"), &asked);
        if reply.status == 200 {
            return Ok(reply.json());
        }
        let reply = reply.expect(503);
        assert_eq!(reply.header("retry-after"), Some("1"));
        Err("it does not notice")
    });
    assert_eq!(more["state"], "answered");
    let all = members(&other, |all| all.len() == 2);
    let owned = |own: bool| all.iter().find(|one| one["self"] == own).unwrap()["sessions"].clone();
    assert_eq!((owned(true), owned(false)), (json!(1), json!(0)));
    let ended = other
        .get(&format!("/v1/sessions/{id}/ended-turns"))
        .expect(200)
        .json();
    assert_eq!(
        ended["items"].as_array().unwrap().len(),
        2,
        "each turn ended once"
    );
    sleeper.stop();
    other.stop();
}

#[test]
fn a_daemon_that_is_drained_hands_over_and_passes_everything_on() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let settings = format!("{settings}[server]\ndrain_seconds = 1\n");
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let [one, other] = places.each_ref().map(daemon);
    let id = session(&one, "A talk.");
    let turn = begin(&one, &id);
    block_on(provider.wait_for(1));
    let all = members(&other, |all| all.len() == 2);
    let member = all.iter().find(|one| one["self"] == false).unwrap()["member"].clone();
    let beginning = &member.as_str().unwrap()[..13];
    let asked = places[1].json(&["cluster", "drain", beginning]);
    assert_eq!(asked["state"], "draining");
    block_on(provider.wait_for(2));
    gate.open();
    assert_eq!(ended(&one, &turn)["answer"], "All is well.");
    let new = session(&one, "A new talk.");
    let is_free = |all: &[Value]| {
        all.len() == 2
            && all.iter().any(|one| {
                one["self"] == false && one["state"] == "draining" && one["sessions"] == 0
            })
            && all
                .iter()
                .any(|one| one["self"] == true && one["sessions"] == 2)
    };
    let all = members(&other, is_free);
    one.get(&format!("/v1/sessions/{new}")).expect(200);
    // It has a new id now, and is known by its address.
    let address = format!("http://{}", one.address);
    places[1]
        .call(&["cluster", "drain", &address])
        .expect(0)
        .says(&["hands its sessions over"]);
    // The last one cannot be drained.
    let own = all.iter().find(|one| one["self"] == true).unwrap()["member"].clone();
    let path = format!("/v1/cluster/{}", own.as_str().unwrap());
    other
        .post(&path, &json!({"drain": true}))
        .expect(409)
        .problem("conflict");
    other
        .post(
            "/v1/cluster/00000000-0000-0000-0000-000000000000",
            &json!({"drain": false}),
        )
        .expect(404)
        .problem("not_found");
    one.stop();
    other.get(&format!("/v1/sessions/{id}")).expect(200);
    other.stop();
}

/// An agent that answers by itself, and what begins turns without being asked.
pub(crate) const BY_THEMSELVES: &str = "[agents.says]\ndescription = \"Test\"\nkind = \"command\"\n\
    command = \"echo\"\nargs = [\"Done.\"]\n[turn]\nlead = \"says\"\nagents = []\n\
    [schedules.beat]\nevery = \"1s\"\ntask = \"Look.\"\nsession = \"kind=beat\"\n\
    [triggers.deploy]\nsecret_file = \"settings/unisono/token\"\ntask = \"${body}\"\nsession = \"kind=deploy\"\n";

/// Where a schedule begins its turn now, for programs and on the page, with the status of the answer.
const RUN_NOW: [(&str, u16); 2] = [
    ("/v1/schedules/beat/runs", 202),
    ("/schedules/beat/run", 303),
];

pub(crate) fn turns(daemon: &Daemon, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/turns?limit=500");
    let turns = daemon.get(&path).expect(200).json();
    turns["items"].as_array().unwrap().clone()
}

#[test]
fn turns_that_begin_by_themselves_begin_once_whoever_owns_their_session() {
    let server = needs!(Server::database());
    let places = [0; 3].map(|_| machine(&server, TOKEN, BY_THEMSELVES));
    let [one, other, third] = places.each_ref().map(daemon);
    let daemons = [&one, &other, &third];
    members(&one, |all| all.len() == 3);
    // A trigger is pulled at each of them: all of it is in one session, which one of them owns.
    let mut sessions = Vec::new();
    for (n, daemon) in daemons.iter().cycle().take(6).enumerate() {
        // The secret is the token, which is sent with all that a test asks.
        let key = n.to_string();
        let headers = [("Idempotency-Key", key.as_str())];
        let body = json!({"n": n});
        let pull = || daemon.request_with("POST", "/v1/triggers/deploy", &headers, Some(&body));
        let begun = pull().expect(202).json();
        assert_eq!(pull().expect(202).json(), begun, "the same request");
        sessions.push(begun["session"].as_str().unwrap().to_owned());
    }
    sessions.dedup();
    let [session] = &sessions[..] else {
        panic!("{sessions:?}")
    };
    assert_eq!(turns(&other, session).len(), 6);
    // Each of them has the schedule begin its turn, also those that do not own its session.
    for daemon in daemons {
        for (path, status) in RUN_NOW {
            let begun = awaited(|| {
                let reply = daemon.request("POST", path, None);
                match reply.status {
                    409 => Err("the turn before does not end"),
                    _ => Ok(reply),
                }
            });
            begun.expect(status);
        }
    }
    // So does a schedule that all of them follow; the one that works on it dies in between.
    let beat = |daemon: &Daemon| {
        let listed = daemon.get("/v1/schedules").expect(200).json();
        let last = listed["items"][0]["last"].clone();
        last["session"].as_str().map(str::to_owned)
    };
    let many = |daemon: &Daemon, least: usize| {
        awaited(|| {
            let turns = beat(daemon).map(|session| turns(daemon, &session));
            let turns = turns.filter(|turns| turns.len() >= least);
            turns.ok_or("the schedule does not go on")
        })
    };
    many(&other, 3);
    one.kill();
    let before = turns(&other, &beat(&other).unwrap()).len();
    many(&third, before + 3);
    other.stop();
    third.stop();
}

#[test]
fn all_daemons_together_keep_to_one_budget() {
    const CAP: u64 = 100_000;
    const CALL: u64 = 3_007;
    let server = needs!(Server::database());
    let used = Usage::new(CALL - 7, 7);
    let script = Script::always(Answer::text("All is well.").usage(used));
    let provider = FakeProvider::play_on_thread(script);
    let settings = format!(
        "{}[models]\ndefault = \"openai/gpt-4o-mini\"\n[budget.daemon]\nmax_tokens = {CAP}\n",
        openai(&provider)
    );
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let daemons = places.each_ref().map(daemon);
    let refused: Vec<usize> = std::thread::scope(|scope| {
        let each = |daemon: &Daemon| {
            let id = session(daemon, "A talk.");
            let address = daemon.address.clone();
            scope.spawn(move || {
                let body = json!({"task": "Well?", "lead": "facts", "agents": []}).to_string();
                let turns = format!("/v1/sessions/{id}/turns");
                let head = json_head((address.as_str(), TOKEN), "POST", &turns, &[], body.len());
                let ask = || send_to(&address, &head, body.as_bytes()).expect(200).json();
                (0..12).filter(|_| ask()["state"] != "answered").count()
            })
        };
        let threads: Vec<_> = daemons
            .iter()
            .flat_map(|daemon| [each(daemon), each(daemon)])
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.collect()
    });
    let calls = provider.request_count() as u64;
    assert!(calls * CALL <= CAP, "{calls} calls");
    assert!(calls * CALL >= CAP / 2, "{calls} calls of {refused:?}");
    assert!(refused.iter().all(|refused| *refused > 0), "{refused:?}");
    for daemon in daemons {
        daemon.stop();
    }
}

#[test]
fn settings_and_logins_hold_on_every_daemon() {
    let server = needs!(Server::database());
    let places = [machine(&server, TOKEN, ""), machine(&server, TOKEN, "")];
    let [one, other] = places.each_ref().map(daemon);
    let changed = json!({"changes": {"compaction.trigger_tokens": 12_345}});
    one.request("PATCH", "/v1/settings", Some(&changed))
        .expect(200);
    let trigger = |daemon: &Daemon| {
        let all = daemon.get("/v1/settings").expect(200).json();
        let all = all.as_array().unwrap().clone();
        let found = all
            .into_iter()
            .find(|one| one["key"] == "compaction.trigger_tokens");
        found.map_or(Value::Null, |one| one["value"].clone())
    };
    until("the setting does not come", || trigger(&other) == "12345");
    // One that joins later has it as well, and a change there keeps it.
    let third = machine(&server, TOKEN, "");
    let third = daemon(&third);
    assert_eq!(trigger(&third), "12345");
    let changed = json!({"changes": {"compaction.preset": "retention"}});
    third
        .request("PATCH", "/v1/settings", Some(&changed))
        .expect(200);
    assert_eq!(trigger(&third), "12345");
    // A link of one daemon lets a browser in at another, which all of them know then.
    let link = one
        .request("POST", "/v1/login-links", None)
        .expect(201)
        .json();
    let (_, code) = link["url"].as_str().unwrap().split_once("/login").unwrap();
    let open = |daemon: &Daemon, path: &str, cookie: &str| {
        let headers = [("Host", daemon.address.as_str()), ("Cookie", cookie)];
        daemon.send(&head("GET", path, &headers, 0), b"")
    };
    let entered = open(&other, &format!("/login{code}"), "").expect(303);
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    // Behind a load balancer the next request may come to any of them.
    open(&one, "/", &cookie).expect(200);
    assert_ne!(
        open(&one, &format!("/login{code}"), "").status,
        303,
        "it was used"
    );
    for daemon in [one, other, third] {
        daemon.stop();
    }
}

/// Whether doctor found the same agents at all daemons, and its text.
fn agents_of(report: &Value) -> (bool, &str) {
    let mut checks = report["deployment"].as_array().unwrap().iter();
    let found = checks.find(|one| one["name"] == "agents").unwrap();
    (found["good"] == true, found["message"].as_str().unwrap())
}

#[test]
fn what_keeps_daemons_apart_is_said() {
    let server = needs!(Server::database());
    let places = [machine(&server, TOKEN, ""), machine(&server, TOKEN, "")];
    let one = daemon(&places[0]);
    // Another token.
    let stranger = machine(&server, &TOKEN.replace('0', "1"), "");
    let args = ["serve", "--bind", "127.0.0.1:0"];
    let refused = finish(stranger.command(&args).spawn().unwrap(), &args).expect(1);
    refused.says(&["another token", "server.token_file"]);
    // An address at which nobody is: what only reads is answered all the same.
    let unreached = machine(&server, TOKEN, "address = \"http://127.0.0.1:1\"\n");
    let unreached = daemon(&unreached);
    let id = session(&unreached, "A talk.");
    assert_eq!(
        one.get(&format!("/v1/sessions/{id}")).expect(200).json()["messages"],
        1
    );
    let task = json!({"task": "Well?", "lead": "facts", "agents": []});
    let problem = one
        .post(&format!("/v1/sessions/{id}/turns"), &task)
        .expect(503);
    let problem = problem.problem("unavailable");
    problem.has_all(&["http://127.0.0.1:1", "cluster.address"]);
    // Its events come from the journal, also those that are written meanwhile.
    let events = one.events(&id);
    let turns = format!("/v1/sessions/{id}/turns");
    unreached.post(&turns, &task).expect(200);
    let seen = numbers(events);
    assert_eq!(seen, numbers(unreached.events(&id)));
    // Doctor says so on each machine, with or without a daemon.
    for place in [&places[0], &places[1]] {
        let checked = place.call(&["doctor", "--json"]).expect(1).json();
        let daemons = checked["deployment"].as_array().unwrap().iter();
        let daemons = daemons.filter(|one| one["name"].as_str().unwrap().starts_with("daemon "));
        let (good, bad): (Vec<_>, Vec<_>) = daemons.partition(|one| one["good"] == true);
        assert_eq!((good.len(), bad.len()), (1, 1), "{checked}");
        let says = bad[0]["message"].as_str().unwrap();
        says.has_all(&["http://127.0.0.1:1 cannot be reached", "cluster.address"]);
        assert!(agents_of(&checked).0, "{checked}");
    }
    // Other agents.
    let differs = "[agents.extra]\ndescription = \"More\"\nkind = \"extractive\"\n";
    let differs = machine(&server, TOKEN, differs);
    let differs = daemon(&differs);
    let all = members(&differs, |all| all.len() == 3);
    let same = |own: bool| {
        let found = all.iter().find(|one| one["self"] == own);
        found.unwrap()["same_agents"].clone()
    };
    assert_eq!((same(true), same(false)), (json!(true), json!(false)));
    let ready = differs.get("/readyz").expect(200).text();
    assert!(
        ready.starts_with("ready\n") && ready.contains("differ from the agents of this daemon"),
        "{ready}"
    );
    for place in [&places[0], &places[1]] {
        let checked = place.call(&["doctor", "--json"]).expect(1).json();
        let (are_same, says) = agents_of(&checked);
        assert!(!are_same && says.contains("differ from those of"), "{says}");
    }
    // A command of a machine without a daemon looks, and leaves the others' sessions alone.
    assert_eq!(
        places[1].json(&["sessions", "show", &id])["session"],
        id.as_str()
    );
    let refused = places[1]
        .call(&["delegate", &id, "facts", "-t", "Well?"])
        .expect(1);
    refused.says(&["is owned by unisono on", "http://127.0.0.1:1"]);
    for daemon in [one, unreached, differs] {
        daemon.stop();
    }
}
