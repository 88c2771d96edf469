//! What several daemons on one database share: what providers told one of them, budget, settings, links,
//! tasks of A2A and their callbacks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unisono_fake_provider::{
    Act, Answer, FakeProvider, Gate, Pace, Recorded, Refusal, RetryAfter, Script, Usage, block_on,
};
use unisono_test_postgres::Server;

use crate::a2a::{Client, says};
use crate::a2a_callbacks::{self, until_callbacks};
use crate::cluster::{
    TOKEN, begin, daemon, ended, held_model, lasting_machine, machine, members, session,
    steady_machine, together,
};
use crate::http::{Daemon, Reply, head, json_head, send_to};
use crate::mcp::{call_5, client_id, posted, take_back_5};
use crate::people::of_owner;
use crate::support::{HasAll as _, PATIENCE, awaited, openai, until};

fn provider(script: Script, more: &str) -> (FakeProvider, String) {
    let provider = FakeProvider::play_on_thread(script);
    let settings = format!(
        "{}attempts = 1\nqueue_timeout = \"1ms\"\n[agent_defaults]\nretries = 0\n\
         [models]\ndefault = \"openai/gpt-4o-mini\"\n{more}",
        openai(&provider)
    );
    (provider, settings)
}

/// A turn of a new session, to its end.
fn turn(daemon: &Daemon, session: &str) -> Value {
    let task = json!({"task": "Well?", "lead": "facts", "agents": []});
    let turns = format!("/v1/sessions/{session}/turns");
    daemon.post(&turns, &task).expect(200).json()
}

/// Until a turn there fails for that reason; those before it are answered.
fn until_refused(daemon: &Daemon, provider: &FakeProvider, why: &str) {
    let (id, until) = (session(daemon, "A talk."), Instant::now() + PATIENCE);
    loop {
        let before = provider.request_count();
        let turn = turn(daemon, &id);
        if turn["state"] != "answered" {
            let text = turn.to_string();
            assert!(text.contains(why), "{text}");
            assert_eq!(provider.request_count(), before, "nothing was sent");
            return;
        }
        assert!(Instant::now() < until, "it is never told");
    }
}

/// Refuses the first so many requests, and answers all others.
fn refusing(first: usize, refusal: fn() -> Act) -> Script {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Script::by(move |_: &Recorded| {
        match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < first {
            true => refusal(),
            false => Answer::text("All is well.").into(),
        }
    })
}

#[test]
fn a_provider_that_tells_one_daemon_to_wait_is_left_alone_by_all() {
    let server = needs!(Server::database());
    let limited = || {
        let refusal = Refusal::RateLimited { seconds: None };
        Act::refuse(refusal).retry_after(RetryAfter::Seconds(50))
    };
    let (provider, settings) = provider(refusing(1, limited), "");
    let (_places, daemons) = together::<3>(|| machine(&server, TOKEN, &settings));
    let reply = turn(&daemons[0], &session(&daemons[0], "A talk."));
    assert_ne!(reply["state"], "answered", "{reply}");
    for daemon in &daemons {
        until_refused(daemon, &provider, "asked for a pause");
    }
    // One that is started now learns it as well.
    let later = machine(&server, TOKEN, &settings);
    let later = daemon(&later);
    until_refused(&later, &provider, "asked for a pause");
    later.stop();
    daemons.into_iter().for_each(Daemon::stop);
}

#[test]
fn a_model_that_fails_at_one_daemon_is_left_alone_by_all() {
    // As many as a model may fail in a row.
    const FAILURES: usize = 5;
    let server = needs!(Server::database());
    let overloaded = || Act::refuse(Refusal::Overloaded);
    let (provider, settings) = provider(refusing(FAILURES, overloaded), "");
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    for _ in 0..FAILURES {
        let failed = turn(&one, &session(&one, "A talk."));
        assert_ne!(failed["state"], "answered", "{failed}");
    }
    until_refused(&other, &provider, "failed too often");
    one.stop();
    other.stop();
}

/// Asks each daemon twice, in new sessions. Two calls at a time exceed the budget.
fn ask_each(budget: &str, labels: &Value) {
    let server = needs!(Server::database());
    let used = Usage::new(1_000, 7);
    let script = Script::always(Answer::text("All is well.").usage(used));
    // A call reserves about 18,000 tokens.
    let (_provider, settings) = provider(script, budget);
    let (_places, daemons) = together::<3>(|| steady_machine(&server, &settings));
    for daemon in daemons.iter().cycle().take(6) {
        let new = json!({"labels": labels, "messages": [{"role": "user", "content": "A talk."}]});
        let made = daemon.session(&new);
        let turn = turn(daemon, &made);
        assert_eq!(turn["state"], "answered", "{turn}");
    }
    daemons.into_iter().for_each(Daemon::stop);
}

#[test]
fn budget_that_one_daemon_holds_and_does_not_use_is_had_by_another() {
    ask_each("[budget.daemon]\nmax_tokens = 30_000\n", &json!({}));
}

#[test]
fn an_owners_budget_that_one_daemon_holds_and_does_not_use_is_had_by_another() {
    let owner = json!({"owner": "ada"});
    ask_each("[budget.owner]\nmax_tokens = 30_000\n", &owner);
}

#[test]
fn a_turn_waits_for_budget_while_another_daemon_waits_for_an_answer() {
    // Longer than four beats.
    const CALL: Duration = Duration::from_secs(5);
    let server = needs!(Server::database());
    let used = Usage::new(1_000, 7);
    let gate = Gate::new();
    let answer = Act::from(Answer::text("All is well.").usage(used)).hold(&gate);
    // Two calls at a time exceed the budget.
    let budget = "[budget.daemon]\nmax_tokens = 30_000\n";
    let (provider, settings) = provider(Script::always(answer), budget);
    let (_places, [one, other]) = together(|| steady_machine(&server, &settings));
    let first = begin(&one, &session(&one, "A talk."));
    block_on(provider.wait_for(1));
    let second = begin(&other, &session(&other, "Another."));
    let begun = Instant::now();
    while begun.elapsed() < CALL {
        let turn = other.get(&second).expect(200).json();
        let state = turn["state"].as_str().unwrap();
        assert!(!["answered", "failed"].contains(&state), "{turn}");
        std::thread::sleep(Duration::from_millis(50));
    }
    gate.open();
    for turn in [first, second] {
        let ended = ended(&one, &turn);
        assert_eq!(ended["state"], "answered", "{ended}");
    }
    assert_eq!(provider.request_count(), 2);
    one.stop();
    other.stop();
}

#[test]
fn a_daemon_with_many_waiting_turns_leaves_budget_to_another_one() {
    const MANY: usize = 12;
    let server = needs!(Server::database());
    let used = Usage::new(100, 7);
    let answer = Act::from(Answer::text("All is well.").usage(used)).pace(Pace {
        first: Duration::from_millis(500),
        tokens_per_second: 0,
    });
    // Two calls at a time exceed the budget.
    let budget = "[budget.daemon]\nmax_tokens = 30_000\n";
    let gate = Gate::new();
    let script = Script::sequence([answer.clone().hold(&gate)]).then(answer);
    let (provider, settings) = provider(script, budget);
    let (_places, [one, other]) = together(|| steady_machine(&server, &settings));
    let sessions = [0; MANY].map(|_| session(&one, "A talk."));
    let single = session(&other, "Another.");
    let turns = sessions.map(|id| begin(&one, &id));
    block_on(provider.wait_for(1));
    let turn = begin(&other, &single);
    gate.open();
    assert_eq!(ended(&other, &turn)["state"], "answered");
    assert!(provider.request_count() <= MANY, "it comes last");
    for turn in turns {
        assert_eq!(ended(&one, &turn)["state"], "answered");
    }
    assert_eq!(provider.request_count(), MANY + 1);
    one.stop();
    other.stop();
}

#[test]
fn a_large_call_of_one_daemon_gets_its_turn_beside_many_small_ones_of_another() {
    const MANY: usize = 10;
    // Long enough for all small calls, one after the other.
    const HELD: Duration = Duration::from_secs(6);
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (held, count) = (gate.clone(), std::sync::atomic::AtomicUsize::new(0));
    let script = Script::by(move |_: &Recorded| {
        let used = Usage {
            input: 100,
            output: 7,
            ..Usage::default()
        };
        let answer = Act::from(Answer::text("All is well.").usage(used));
        match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => answer.hold(&held),
            _ => answer.pace(Pace {
                first: Duration::from_millis(200),
                tokens_per_second: 0,
            }),
        }
    });
    // Three small calls fit, or the large one alone.
    let (provider, settings) = provider(script, "[budget.daemon]\nmax_tokens = 60_000\n");
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    let sessions = [0; MANY].map(|_| session(&one, "A talk."));
    let first = begin(&one, &session(&one, "A talk."));
    block_on(provider.wait_for(1));
    let turns = sessions.map(|id| begin(&one, &id));
    let long = json!([{"role": "user", "content": "word ".repeat(30_000)}]);
    let made = other.post("/v1/sessions", &json!({"title": "long", "messages": long}));
    let long = made.expect(201).json()["session"].clone();
    let large = begin(&other, long.as_str().unwrap());
    let begun = Instant::now();
    while begun.elapsed() < HELD {
        let state = other.get(&large).expect(200).json()["state"].clone();
        assert!(state != "answered" && state != "failed", "{state}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(provider.request_count() <= MANY, "the small ones go first");
    gate.open();
    assert_eq!(ended(&other, &large)["state"], "answered");
    for turn in turns.iter().chain([&first]) {
        assert_eq!(ended(&one, turn)["state"], "answered");
    }
    assert_eq!(provider.request_count(), MANY + 2);
    one.stop();
    other.stop();
}

#[test]
fn calls_that_queue_at_two_daemons_do_not_wait_for_each_other() {
    // Whether the second daemon hears of the first one before its own call is a matter of milliseconds.
    const ROUNDS: usize = 3;
    const CALLS: usize = 4;
    let server = needs!(Server::database());
    let gates: [Gate; ROUNDS] = std::array::from_fn(|_| Gate::new());
    let (held, count) = (gates.clone(), std::sync::atomic::AtomicUsize::new(0));
    let script = Script::by(move |_: &Recorded| {
        let answer = Act::from(Answer::text("All is well.").usage(Usage::new(100, 7)));
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match held.get(number / CALLS) {
            Some(gate) if number % CALLS == 0 => answer.hold(gate),
            _ => answer,
        }
    });
    // Two calls at a time exceed the budget.
    let (provider, settings) = provider(script, "[budget.daemon]\nmax_tokens = 30_000\n");
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    for (round, gate) in gates.iter().enumerate() {
        let first = begin(&one, &session(&one, "A talk."));
        block_on(provider.wait_for(round * CALLS + 1));
        // When the first of the three has its turn, the next one here is behind that of the other daemon.
        let queue = [&one, &other, &one].map(|daemon| (daemon, session(daemon, "A talk.")));
        let queue = queue.map(|(daemon, id)| begin(daemon, &id));
        gate.open();
        for turn in queue.iter().chain([&first]) {
            assert_eq!(ended(&one, turn)["state"], "answered");
        }
        assert_eq!(provider.request_count(), (round + 1) * CALLS);
    }
    one.stop();
    other.stop();
}

#[test]
fn settings_that_are_changed_at_the_same_time_are_all_kept() {
    let server = needs!(Server::database());
    let places = [0; 3].map(|_| machine(&server, TOKEN, ""));
    let daemons = places.each_ref().map(daemon);
    let keys = [
        "compaction.trigger_tokens",
        "compaction.deadline_seconds",
        "compaction.summariser_retries",
    ];
    for round in 1..=8 {
        std::thread::scope(|scope| {
            for (daemon, key) in daemons.iter().zip(keys) {
                let changes = json!({"changes": {key: 10 * round}});
                let address = daemon.address.clone();
                scope.spawn(move || ask(&address, "PATCH", "/v1/settings", &changes).expect(200));
            }
        });
        for daemon in &daemons {
            let wanted = (10 * round).to_string();
            awaited(|| {
                let all = daemon.get("/v1/settings").expect(200).json();
                let changed = all.as_array().unwrap().iter();
                let changed = changed.filter(|one| keys.iter().any(|key| one["key"] == *key));
                let values: Vec<&Value> = changed.map(|one| &one["value"]).collect();
                match values.len() == keys.len() && values.iter().all(|value| **value == *wanted) {
                    true => Ok(()),
                    false => Err(format!("{values:?} in round {round}")),
                }
            });
        }
    }
    daemons.into_iter().for_each(Daemon::stop);
}

/// Asks a daemon beside others: more than one at a time are asked.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &Value) -> Reply {
    let (to, body) = ((address, TOKEN), body.to_string());
    let head = json_head(to, method, path, &[("A2A-Version", "1.0")], body.len());
    send_to(address, &head, body.as_bytes())
}

/// A browser that opens a page there.
fn open(address: &str, path: &str) -> Reply {
    send_to(address, &head("GET", path, &[("Host", address)], 0), b"")
}

#[test]
fn a_link_that_is_opened_at_two_daemons_at_the_same_time_lets_one_browser_in() {
    let server = needs!(Server::database());
    let (_places, daemons) = together::<2>(|| machine(&server, TOKEN, ""));
    for _ in 0..8 {
        let link = daemons[0].request("POST", "/v1/login-links", None);
        let link = link.expect(201).json();
        let (_, code) = link["url"].as_str().unwrap().split_once("/login").unwrap();
        let path = format!("/login{code}");
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let opened = daemons.iter().cycle().take(6).map(|daemon| {
                let (address, path) = (daemon.address.clone(), path.clone());
                scope.spawn(move || open(&address, &path).status)
            });
            let opened: Vec<_> = opened.collect();
            opened.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let entered = statuses.iter().filter(|status| **status == 303).count();
        assert_eq!(entered, 1, "{statuses:?}");
    }
    daemons.into_iter().for_each(Daemon::stop);
}

#[test]
fn logins_have_the_time_of_the_database() {
    let server = needs!(Server::database());
    // Its clock is behind that of this machine.
    server.ask(
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
         'SELECT pg_catalog.clock_timestamp() - interval ''2 hours'''",
    );
    let place = machine(&server, TOKEN, "");
    let [first, own] = ["public", "public,pg_catalog"].map(|schema| server.url(schema));
    place.set_config(place.config().replace(&first, &own));
    let daemon = daemon(&place);
    let link = daemon.request("POST", "/v1/login-links", None);
    let link = link.expect(201).json();
    let (_, code) = link["url"].as_str().unwrap().split_once("/login").unwrap();
    open(&daemon.address, &format!("/login{code}")).expect(303);
    let late = server.ask(
        "SELECT count(*) FROM unisono_documents, regexp_split_to_table(text, '\\n') AS line \
         WHERE name = 'browsers' AND substring(line FROM ' ([0-9]+)$')::bigint > \
         (extract(epoch FROM now() - interval '1 hour') * 1000)::bigint",
    );
    assert_eq!(late, "0", "the machine's clock");
    daemon.stop();
}

#[test]
fn a_daemon_that_is_let_in_again_while_it_drains_keeps_its_turns() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let settings = format!("{settings}[server]\ndrain_seconds = 600\n");
    let places = [0; 2].map(|_| machine(&server, TOKEN, &settings));
    let [one, other] = places.each_ref().map(daemon);
    let id = session(&one, "A talk.");
    let turn = begin(&one, &id);
    block_on(provider.wait_for(1));
    let all = members(&other, |all| all.len() == 2);
    let member = all.iter().find(|one| one["self"] == false).unwrap()["member"].clone();
    let path = format!("/v1/cluster/{}", member.as_str().unwrap());
    for _ in 0..3 {
        other.post(&path, &json!({"drain": true})).expect(200);
        // It knows: it takes nothing new, and waits for the turn.
        let draining = "\nunisono_cluster_draining 1\n";
        until("it does not drain", || {
            one.get("/metrics").expect(200).text().contains(draining)
        });
        other.post(&path, &json!({"drain": false})).expect(200);
        until("it is not let in", || {
            !one.get("/metrics").expect(200).text().contains(draining)
        });
    }
    let new = session(&one, "A new talk.");
    gate.open();
    assert_eq!(ended(&other, &turn)["answer"], "All is well.");
    assert_eq!(provider.request_count(), 1, "it went on where it was");
    let all = members(&one, |all| all.len() == 2);
    let own = all.iter().find(|one| one["self"] == true).unwrap();
    let seen = (&own["sessions"], &own["state"], &own["member"]);
    assert_eq!(seen, (&json!(2), &json!("alive"), &member));
    one.get(&format!("/v1/sessions/{new}")).expect(200);
    // Drained to the end, it hands over, and is let in as another member.
    other.post(&path, &json!({"drain": true})).expect(200);
    let drained = members(&other, |all| {
        all.len() == 2
            && all
                .iter()
                .any(|one| one["state"] == "draining" && one["member"] != member)
    });
    let own = drained.iter().find(|one| one["self"] == false).unwrap();
    let path = format!("/v1/cluster/{}", own["member"].as_str().unwrap());
    other.post(&path, &json!({"drain": false})).expect(200);
    members(&one, |all| all.iter().all(|one| one["state"] == "alive"));
    one.stop();
    other.stop();
}

#[test]
fn settings_that_a_daemon_cannot_use_are_reported_once() {
    let server = needs!(Server::database());
    let extra = "[agents.extra]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"true\"\n";
    let places = [extra, ""].map(|agents| {
        let settings = format!("[turn]\nagents = []\n{agents}");
        machine(&server, TOKEN, &settings)
    });
    let [one, mut other] = places.each_ref().map(daemon);
    members(&one, |all| all.len() == 2);
    let changes = json!({"changes": {"turn.lead": "extra"}});
    one.request("PATCH", "/v1/settings", Some(&changes))
        .expect(200);
    let unused = "settings that another daemon has changed are not used here";
    other.going.wait_for(&[unused]);
    let age = || {
        let all = members(&one, |all| all.len() == 2);
        let other = all.iter().find(|one| one["self"] == false).unwrap();
        other["last_seen_ms"].as_u64().unwrap()
    };
    for _ in 0..5 {
        let mut before = age();
        until("it sends no beat", || {
            let now = age();
            now < std::mem::replace(&mut before, now)
        });
    }
    other.going.signal("TERM");
    let done = other.going.finish().expect(0);
    assert_eq!(done.stderr.matches(unused).count(), 1, "{done:?}");
    one.stop();
}

#[test]
fn settings_reach_a_daemon_that_waits_for_its_turns() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let settings = format!("{settings}[server]\ndrain_seconds = 600\n");
    let places = [0; 2].map(|_| steady_machine(&server, &settings));
    let [one, other] = places.each_ref().map(daemon);
    let turn = begin(&one, &session(&one, "A talk."));
    block_on(provider.wait_for(1));
    let all = members(&other, |all| all.len() == 2);
    let member = all.iter().find(|one| one["self"] == false).unwrap();
    let path = format!("/v1/cluster/{}", member["member"].as_str().unwrap());
    other.post(&path, &json!({"drain": true})).expect(200);
    until("it does not drain", || {
        let metrics = one.get("/metrics").expect(200).text();
        metrics.contains("\nunisono_cluster_draining 1\n")
    });
    let changes = json!({"changes": {"compaction.trigger_tokens": 12_345}});
    other
        .request("PATCH", "/v1/settings", Some(&changes))
        .expect(200);
    until("the setting does not come", || {
        let all = one.get("/v1/settings").expect(200).json();
        let mut all = all.as_array().unwrap().iter();
        let trigger = all.find(|one| one["key"] == "compaction.trigger_tokens");
        trigger.is_some_and(|one| one["value"] == "12345")
    });
    gate.open();
    assert_eq!(ended(&other, &turn)["answer"], "All is well.");
    assert_eq!(provider.request_count(), 1, "it has ended where it began");
    one.stop();
    other.stop();
}

#[test]
fn a_call_of_mcp_is_taken_back_at_any_daemon() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let (provider, settings) = held_model(&gate);
    let (_places, [one, other]) = together(|| steady_machine(&server, &settings));
    let client = client_id(&one, &[]);
    let client = [("Mcp-Session-Id", client.as_str())];
    // The first one owns the session. It gets the call from the other one, or from the client.
    let rows = [(&one, &other), (&other, &other), (&other, &one)];
    for (n, (called, asked)) in rows.into_iter().enumerate() {
        let id = session(&one, "A talk.");
        let arguments = json!({"session": id, "task": "Well?", "lead": "facts", "agents": []});
        let reply = posted(called, &client, &call_5(&arguments)).expect(200);
        block_on(provider.wait_for(n + 1));
        take_back_5(asked, &client);
        let turns = format!("/v1/sessions/{id}/turns");
        one.awaited(&turns, |all| all["items"][0]["state"] == "cancelled");
        let messages: Vec<String> = reply.events().map(|event| event.data).collect();
        assert!(!messages.concat().contains("\"result\""), "{messages:?}");
    }
    gate.open();
    one.stop();
    other.stop();
}

#[test]
fn a_first_message_of_a2a_is_one_task_whichever_daemon_gets_it_again() {
    let server = needs!(Server::database());
    let (provider, settings) = provider(
        Script::always(Answer::text("Yes.")),
        "[turn]\nagents = []\n",
    );
    let (_places, daemons) = together::<2>(|| machine(&server, TOKEN, &settings));
    let how = json!({"returnImmediately": true});
    for round in 0..6 {
        let sent = json!({"message": says(&format!("m{round}"), "Well?"), "configuration": how});
        let tasks: Vec<Value> = std::thread::scope(|scope| {
            let asked = daemons.iter().cycle().take(4).map(|daemon| {
                let (address, sent) = (daemon.address.clone(), &sent);
                scope.spawn(move || {
                    let call =
                        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent});
                    awaited(|| {
                        let reply = ask(&address, "POST", "/a2a", &call);
                        let status = reply.status;
                        let answer = reply.json();
                        if status == 200 && answer.get("error").is_none() {
                            return Ok(answer["result"]["task"]["id"].clone());
                        }
                        // Another daemon begins it just now.
                        assert_eq!(status, 503, "{answer}");
                        Err(answer)
                    })
                })
            });
            let asked: Vec<_> = asked.collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(tasks.iter().all(|task| *task == tasks[0]), "{tasks:?}");
        // Later, at each of them.
        for daemon in &daemons {
            let again = Client::of(daemon).rpc("SendMessage", &sent);
            assert_eq!(again["task"]["id"], tasks[0]);
        }
    }
    let listed = daemons[1].get("/v1/sessions?limit=50").expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 6, "{listed}");
    block_on(provider.wait_for(6));
    daemons.into_iter().for_each(Daemon::stop);
}

#[test]
fn callbacks_of_a_daemon_that_dies_are_told_by_who_takes_over() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let acts = [
        Act::from(Answer::text("Lost.")).hold(&gate),
        Act::answer(Answer::text("The answer.")),
    ];
    let more = "[turn]\nagents = []\n[server]\ncallback_hosts = [\"127.0.0.1\"]\n";
    let (provider, settings) = provider(Script::sequence(acts), more);
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    let receiving = a2a_callbacks::receiving(&[]);
    let sent = json!({"message": says("m1", "When?"), "configuration": {
        "returnImmediately": true,
        "taskPushNotificationConfig": {"url": receiving.url, "token": "mine"}}});
    let task = Client::of(&one).rpc("SendMessage", &sent)["task"].clone();
    block_on(provider.wait_for(1));
    receiving.next();
    one.kill();
    loop {
        let events = receiving.next();
        if a2a_callbacks::state(&events) == "TASK_STATE_COMPLETED" {
            assert_eq!(a2a_callbacks::task(&events)["id"], task["id"]);
            assert_eq!(events.header("x-a2a-notification-token"), Some("mine"));
            break;
        }
    }
    gate.open();
    // What is over is forgotten.
    let of_task = json!({"taskId": task["id"]});
    let team = Client::of(&other);
    let kept = || team.rpc("ListTaskPushNotificationConfigs", &of_task)["configs"].is_array();
    until("it is kept", || !kept());
    other.stop();
}

#[test]
fn callbacks_of_a_session_that_a_request_claims_are_told_by_who_owns_it_then() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let acts = [
        Act::from(Answer::text("Lost.")).hold(&gate),
        Act::answer(Answer::text("The answer.")),
        Act::answer(Answer::text("Another answer.")),
    ];
    let more = "[turn]\nagents = []\n[server]\ncallback_hosts = [\"127.0.0.1\"]\n";
    let (provider, settings) = provider(Script::sequence(acts), more);
    let (_places, [one, other]) = together(|| lasting_machine(&server, "600s", &settings));
    let receiving = a2a_callbacks::receiving(&[]);
    let sent = json!({"message": says("m1", "When?"), "configuration": {
        "returnImmediately": true, "taskPushNotificationConfig": {"url": receiving.url}}});
    let task = Client::of(&one).rpc("SendMessage", &sent)["task"].clone();
    block_on(provider.wait_for(1));
    receiving.next();
    one.kill();
    // A request comes before the takeover, for which it is too early.
    let (session, _) = task["id"].as_str().unwrap().split_once('.').unwrap();
    server.ask(&format!(
        "UPDATE unisono_sessions SET owner = NULL WHERE session = '{session}'"
    ));
    let turn = begin(&other, session);
    loop {
        let events = receiving.next();
        if a2a_callbacks::state(&events) == "TASK_STATE_COMPLETED" {
            assert_eq!(a2a_callbacks::task(&events)["id"], task["id"]);
            break;
        }
    }
    ended(&other, &turn);
    gate.open();
    other.stop();
}

#[test]
fn callbacks_of_a_token_that_another_daemon_revokes_end() {
    let server = needs!(Server::database());
    let gate = Gate::new();
    let acts = [Act::from(Answer::text("The answer.")).hold(&gate)];
    let more = "[turn]\nagents = []\n[server]\ncallback_hosts = [\"127.0.0.1\"]\n";
    let (provider, settings) = provider(Script::sequence(acts), more);
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    let ada = of_owner(&one, "ada", "ask");
    let receiving = a2a_callbacks::receiving(&[]);
    let sent = json!({"message": says("m1", "When?"), "configuration": {
        "returnImmediately": true,
        "taskPushNotificationConfig": {"id": "hers", "url": receiving.url}}});
    let task = ada.a2a("SendMessage", &sent)["result"]["task"].clone();
    block_on(provider.wait_for(1));
    until_callbacks(&one, &task, &["hers"]);
    let revoked = "/v1/tokens/ada-ask";
    other.request("DELETE", revoked, None).expect(200);
    until_callbacks(&one, &task, &[]);
    gate.open();
    let id = json!({"id": task["id"]});
    until("the task is not completed", || {
        let task = Client::of(&one).rpc("GetTask", &id);
        task["status"]["state"] == "TASK_STATE_COMPLETED"
    });
    let states = a2a_callbacks::states(&receiving);
    let told = states.iter().any(|state| state == "TASK_STATE_COMPLETED");
    assert!(!told, "{states:?}");
    one.stop();
    other.stop();
}

/// Takes encrypted connections in front of a daemon, as a proxy does, with a certificate of an authority
/// that no machine knows.
fn encrypt(listener: std::net::TcpListener, daemon: &Daemon) {
    use rustls::pki_types::PrivatePkcs8KeyDer;

    let certificate = include_bytes!("../../../model/tests/client/loopback/leaf.der").to_vec();
    let key = include_bytes!("../../../model/tests/client/loopback/key.der").to_vec();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.into()],
            PrivatePkcs8KeyDer::from(key).into(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let address = daemon.address.clone();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, address) = (acceptor.clone(), address.clone());
                tokio::spawn(async move {
                    // A client that trusts nobody breaks off.
                    if let Ok(mut client) = acceptor.accept(client).await {
                        let mut daemon = tokio::net::TcpStream::connect(address).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut daemon).await;
                    }
                });
            }
        });
    });
}

#[test]
fn daemons_reach_each_other_by_tls_with_an_authority_of_their_own() {
    let server = needs!(Server::database());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let places = [
        machine(&server, TOKEN, &format!("address = {url:?}\n")),
        machine(&server, TOKEN, ""),
        machine(&server, TOKEN, ""),
    ];
    let owner = daemon(&places[0]);
    encrypt(listener, &owner);
    let with_file = |place: &crate::support::Place, file: &str| {
        let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
        command.env("SSL_CERT_FILE", file);
        Daemon::of(place, command)
    };
    let authority = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/client/loopback/authority.pem"
    );
    let trusting = with_file(&places[1], authority);
    let other = daemon(&places[2]);
    members(&owner, |all| all.len() == 3);
    let id = session(&owner, "The migration is on Friday.");
    let task = json!({"task": "When is it?", "lead": "facts", "agents": []});
    let turns = format!("/v1/sessions/{id}/turns");
    let turn = trusting.post(&turns, &task).expect(200).json();
    assert!(
        turn["answer"].as_str().unwrap().contains("Friday"),
        "{turn}"
    );
    // One that does not know the authority sends nothing there, and says why.
    let problem = other.post(&turns, &task).expect(503);
    let problem = problem.problem("unavailable");
    problem.has_all(&[&url, "certificate"]);
    for daemon in [owner, trusting, other] {
        daemon.stop();
    }
}

#[test]
fn old_sessions_that_another_daemon_works_on_are_left_to_it() {
    let server = needs!(Server::database());
    let places = [steady_machine(&server, ""), steady_machine(&server, "")];
    let one = daemon(&places[0]);
    let (owned, idle) = (session(&one, "A talk."), session(&one, "Another."));
    // Neither has changed for years, and no daemon works on the second one.
    server.ask(&format!(
        "UPDATE unisono_sessions SET updated_unix_ms = 0; \
         UPDATE unisono_sessions SET owner = NULL WHERE session = '{idle}'"
    ));
    let settings = places[1].config();
    let days = "[store]\nretention_days = 1\n";
    places[1].set_config(settings.replace("[store]\n", days));
    let mut command = places[1].keyed_command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("UNISONO_LOG", "info");
    let mut other = Daemon::of(&places[1], command);
    let is_deleted = |id: &str| {
        let asked = format!("SELECT deleted FROM unisono_sessions WHERE session = '{id}'");
        server.ask(&asked) == "t"
    };
    // They are looked at in the order of their ids.
    until("no session is deleted", || is_deleted(&idle));
    assert!(!is_deleted(&owned));
    // The log outlives the session, whose title is a text of a person.
    let line = other.going.wait_for(&["retention_days are over", &idle]);
    assert!(!line.contains("Another"), "{line}");
    for daemon in [&one, &other] {
        let found = daemon.get(&format!("/v1/sessions/{owned}")).expect(200);
        assert_eq!(found.json()["messages"], 1);
    }
    [one, other].into_iter().for_each(Daemon::stop);
}
