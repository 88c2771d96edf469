//! The audit log: who changed what and who was refused, without content and secrets.

use std::fs::Permissions;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use serde_json::{Value, json};
use unisono_test_postgres::Server;

use crate::http::{Daemon, head, json_head};
use crate::people::{Caller, caller, member, of_owner};
use crate::support::{HasAll as _, PATIENCE, Place, until, words};

/// A word of the conversations.
const CONTENT: &str = "xylophone";
const UNKNOWN: &str = "0192f0c1-2b3c-7d4e-8f50-616263646566";
const SETTINGS: &str = "[models]\ndefault = \"extractive\"\n";

/// The log as far as a query says, the newest entry first.
fn log(daemon: &Daemon, query: &str) -> Vec<Value> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = daemon.json(&format!("/v1/audit?limit=7{query}{next}"));
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return all,
        }
    }
}

/// Method, route, operation and status of an entry.
fn what(entry: &Value) -> (String, Option<u64>) {
    let parts = ["method", "route", "operation"].map(|name| entry[name].as_str());
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    (parts.join(" "), entry["status"].as_u64())
}

/// Changes something by every door; answers with the session, and what the log should have, the newest
/// first.
fn change_everything(ada: &Caller<'_>) -> (String, Vec<(String, u64)>) {
    let mut expected = Vec::new();
    let messages = [json!({"role": "user", "content": format!("The {CONTENT} is here.")})];
    let new = json!({"title": CONTENT, "messages": messages});
    let session = ada.session(&new);
    expected.push(("POST /v1/sessions".to_owned(), 201));
    let task = json!({"task": format!("Where is the {CONTENT}?")});
    let decided = json!({"decision": "approve"});
    let own = json!({"changes": {"compaction.preset": "off"}});
    let base = "/v1/sessions/{session}";
    for (method, route, body) in [
        ("POST", format!("{base}/turns"), Some(&task)),
        ("PUT", format!("{base}/pins/{{message}}"), None),
        ("DELETE", format!("{base}/pins/{{message}}"), None),
        ("PATCH", format!("{base}/settings"), Some(&own)),
        ("POST", "/v1/approvals/{call}".to_owned(), Some(&decided)),
        ("POST", "/v1/login-links".to_owned(), None),
    ] {
        let path = route.replace("{session}", &session);
        let path = path.replace("{message}", "1").replace("{call}", UNKNOWN);
        let status = ada.send(method, &path, &[], body).status;
        expected.push((format!("{method} {route}"), u64::from(status)));
    }
    let chat = json!({"model": "lead", "messages": [{"role": "user", "content": CONTENT}]});
    let status = ada
        .post("/openai/v1/chat/completions?x=secret", &chat)
        .status;
    let route = "POST /openai/v1/chat/completions";
    expected.push((route.to_owned(), u64::from(status)));
    let asked = ada.tool("ask", &json!({"session": session, "task": CONTENT}));
    assert!(asked["result"].is_object(), "{asked}");
    expected.push(("POST /mcp ask".to_owned(), 200));
    let said = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": CONTENT}],
        "contextId": session});
    let sent = ada.a2a("SendMessage", &json!({"message": said}));
    assert!(sent["result"].is_object(), "{sent}");
    expected.push(("POST /a2a SendMessage".to_owned(), 200));
    let task = format!("{session}.{UNKNOWN}");
    let version = [("A2A-Version", "1.0")];
    let cancel = format!("/a2a/tasks/{task}:cancel");
    let status = ada.send("POST", &cancel, &version, Some(&json!({}))).status;
    let route = "POST /a2a/tasks/{task} CancelTask";
    expected.push((route.to_owned(), u64::from(status)));
    let status = ada.form("POST", "/", "title=xylophone&system=").status;
    expected.push(("POST /".to_owned(), u64::from(status)));
    let path = format!("/v1/sessions/{session}");
    let status = ada.send("DELETE", &path, &[], None).status;
    expected.push((format!("DELETE {base}"), u64::from(status)));
    expected.reverse();
    (session, expected)
}

#[test]
fn each_change_is_in_the_log_with_its_name_and_a_restart_keeps_it() {
    let place = Place::with_config(SETTINGS);
    let daemon = Daemon::start(&place);
    let ada = of_owner(&daemon, "ada", "approve");
    let (session, expected) = change_everything(&ada);
    // None of these changes anything.
    ada.get("/v1/sessions").expect(200);
    ada.tool("search", &json!({"query": CONTENT}));
    ada.mcp("tools/list", &json!({}));
    ada.a2a("ListTasks", &json!({}));
    ada.post("/v1/nothing", &json!({})).expect(404);
    let file = json!([{"role": "user", "content": CONTENT}]);
    ada.post("/v1/imports/dry-run?name=talk.json", &file)
        .expect(200);
    let other = ada.post("/v1/sessions", &json!({})).expect(201).json();
    let other = other["session"].as_str().unwrap();
    let estimate = format!("/v1/sessions/{other}/turns/estimate");
    ada.post(&estimate, &json!({"task": "Hello."})).expect(200);
    let settings = format!("/v1/sessions/{other}/settings");
    let dry = json!({"changes": {"compaction.preset": "off"}, "dry_run": true});
    ada.send("PATCH", &settings, &[], Some(&dry)).expect(200);
    let entries = log(&daemon, "&caller=ada-approve");
    let found: Vec<_> = entries.iter().map(what).collect();
    let mut all = vec![("POST /v1/sessions".to_owned(), Some(201))];
    all.extend(
        expected
            .into_iter()
            .map(|(what, status)| (what, Some(status))),
    );
    assert_eq!(found, all);
    for entry in &entries {
        assert_eq!(
            (&entry["caller"], &entry["owner"]),
            (&json!("ada-approve"), &json!("ada"))
        );
    }
    let turn = entries
        .iter()
        .find(|entry| entry["route"] == "/v1/sessions/{session}/turns");
    assert_eq!(turn.unwrap()["object"], json!({"session": session}));
    let of = |operation: &str| {
        let found = entries.iter().find(|entry| entry["operation"] == operation);
        found.unwrap()["object"].clone()
    };
    assert_eq!(of("ask"), json!({"session": session}));
    assert_eq!(
        of("CancelTask"),
        json!({"task": format!("{session}.{UNKNOWN}")})
    );
    let by_daemon: Vec<_> = log(&daemon, "&caller=daemon").iter().map(what).collect();
    assert_eq!(by_daemon, [("POST /v1/tokens".to_owned(), Some(201))]);
    let before = log(&daemon, "");
    let text = Value::from(before.clone()).to_string();
    text.has_none(&[CONTENT, &ada.token, &daemon.token, "secret", "unisono_"]);
    daemon.stop();
    // Without a daemon, the store itself is read.
    let output = place.json(&["audit", "--limit", "1000"]);
    assert_eq!(output, Value::from(before.clone()));
    let few = place.json(&words("audit --limit 2 --caller ada-approve --since 1h"));
    assert_eq!(few, Value::from(entries[..2].to_vec()));
    let shown = place.call(&["audit"]).expect(0).stdout;
    for shows in ["ada-approve", "POST /mcp ask", &session] {
        assert!(shown.contains(shows), "{shows}: {shown}")
    }
    let daemon = Daemon::start(&place);
    assert_eq!(log(&daemon, ""), before);
    assert_eq!(
        place.json(&["audit", "--limit", "1000"]),
        Value::from(before)
    );
    assert_eq!(log(&daemon, "&since=2999-01-01"), Vec::<Value>::new());
    for refused in ["since=yesterday", "caller=a%20b"] {
        daemon.get(&format!("/v1/audit?{refused}")).expect(422);
    }
    for wrong in ["cursor=x", "cursor=1:", "limit=0", "x=1"] {
        daemon.get(&format!("/v1/audit?{wrong}")).expect(400);
    }
    daemon.stop();
}

#[test]
fn a_list_of_no_entries_is_refused() {
    for list in [&["audit"][..], &["runs", "list"]] {
        let args = [list, &["--limit", "0"]].concat();
        let done = Place::new().call(&args).expect(2);
        done.says(&["write a number from 1 on"]);
    }
}

#[test]
fn a_command_without_a_daemon_is_recorded_with_its_user_before_each_change() {
    let place = Place::with_config(SETTINGS);
    let message = json!({"role": "user", "content": CONTENT});
    place.write("talk.jsonl", format!("{message}\n"));
    let made = place.json(&["run", "talk.jsonl", "--task", CONTENT]);
    let session = made["session"].as_str().unwrap();
    place.call(&["append", session, CONTENT]).expect(0);
    place.call(&["pin", "latest", "1"]).expect(0);
    let made = place.json(&["tokens", "create", "ada", "--owner", "ada"]);
    place.call(&["tokens", "revoke", "ada"]).expect(0);
    place.call(&["tokens", "revoke", "ada"]).expect(2);
    // None of these changes anything.
    for reads in [
        vec!["sessions", "list"],
        vec!["sessions", "show", session],
        vec!["context", session],
        vec!["why", session],
        vec!["history", "search", CONTENT],
        vec!["export", session],
        vec!["tokens", "list"],
        vec!["usage"],
        vec!["runs", "list"],
        vec!["doctor"],
        vec!["compact", session, "--dry-run"],
    ] {
        place.call(&reads);
    }
    place
        .call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    place.call(&["vacuum"]).expect(0);
    let entries = place.json(&["audit"]);
    let entries = entries.as_array().unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (entry["route"].as_str().unwrap(), &entry["object"]))
        .collect();
    let (of, token) = (json!({"session": session}), json!({"token": "ada"}));
    let created = json!({"token": "ada", "owner": "ada", "scope": "ask"});
    let whole = json!({});
    let expected = [
        ("vacuum", &whole),
        ("sessions delete", &of),
        ("tokens revoke", &token),
        ("tokens create", &created),
        ("pin", &of),
        ("append", &of),
        ("run", &of),
    ];
    assert_eq!(found, expected);
    let who = entries[0]["caller"].as_str().unwrap();
    for entry in entries {
        let parts = (&entry["caller"], &entry["method"], &entry["status"]);
        assert_eq!(parts, (&json!(who), &json!("CLI"), &Value::Null));
    }
    let text = json!(entries).to_string();
    text.has_none(&[CONTENT, made["secret"].as_str().unwrap()]);
    let shown = place.stdout(&["audit", "--caller", who, "--limit", "1"]);
    assert!(shown.contains("CLI vacuum"), "{shown}");
    // A daemon goes on with the same log, and records what the same command asks of it.
    let daemon = Daemon::start(&place);
    place.call(&["tokens", "create", "bob"]).expect(0);
    let all = log(&daemon, "");
    assert_eq!(
        (&all[0]["caller"], &all[0]["method"]),
        (&json!("daemon"), &json!("POST"))
    );
    assert_eq!(all[1..], *entries);
    daemon.stop();
    let off = Place::with_config(&format!("{SETTINGS}[audit]\nenabled = false\n"));
    off.call(&["tokens", "create", "ada"]).expect(0);
    assert_eq!(off.json(&["audit"]), json!([]));
}

#[test]
fn an_entry_names_the_created_or_revoked_token_with_its_scope_and_owner() {
    let place = Place::with_config(SETTINGS);
    let daemon = Daemon::start(&place);
    let _ada = of_owner(&daemon, "ada", "read");
    daemon.delete("/v1/tokens/ada-read").expect(200);
    let _all = caller(&daemon, &json!({"name": "all", "scope": "ask"}));
    let again = json!({"name": "all", "scope": "admin"});
    daemon.post("/v1/tokens", &again).expect(409);
    let secret = format!("unisono_{}", "a".repeat(50));
    let misplaced = json!({"name": secret, "scope": "read"});
    daemon.post("/v1/tokens", &misplaced).expect(201);
    let entries = log(&daemon, "");
    let objects: Vec<_> = entries.iter().map(|entry| &entry["object"]).collect();
    let ada = json!({"token": "ada-read", "scope": "read", "owner": "ada"});
    let expected = [
        &json!({"scope": "read"}),
        &json!({"token": "all", "scope": "admin"}),
        &json!({"token": "all", "scope": "ask"}),
        &ada,
        &ada,
    ];
    assert_eq!(objects, expected);
    daemon.stop();
}

#[test]
fn a_store_that_is_repaired_when_it_is_opened_has_an_entry_that_says_so() {
    let place = Place::with_config(SETTINGS);
    let message = json!({"role": "user", "content": CONTENT});
    place.write("talk.jsonl", format!("{message}\n"));
    place.call(&["import", "talk.jsonl"]).expect(0);
    let entries = || {
        let entries = place.json(&["audit"]);
        let entries = entries.as_array().unwrap().clone();
        let entry = |entry: &Value| (what(entry).0, entry["object"].clone());
        entries.iter().map(entry).collect::<Vec<_>>()
    };
    let before = entries();
    let db = place.path("data/unisono/data/db");
    for (path, mode) in [("", 0o755), ("/data", 0o755), ("/data/db", 0o644)] {
        let path = place.path(&format!("data/unisono{path}"));
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let narrowed = ("OPEN narrow".to_owned(), json!({"paths": "3"}));
    assert_eq!(entries(), [vec![narrowed], before.clone()].concat());
    let mut bytes = std::fs::read(&db).unwrap();
    // The checksum of each event.
    let event = [0xF5, 0x55, 0x6E, 0x4A];
    for at in 0..bytes.len() - 40 {
        if bytes[at..].starts_with(&event) && bytes[at + 7] == 2 {
            bytes[at + 36] ^= 0xFF;
        }
    }
    std::fs::write(&db, bytes).unwrap();
    let repaired = ("OPEN repair".to_owned(), json!({"quarantine": "1"}));
    assert_eq!(entries()[0], repaired);
    assert_eq!(entries()[0], repaired, "it is repaired once");
    // A check opens the store, too.
    std::fs::remove_dir_all(place.path("data/unisono/data")).unwrap();
    place.call(&["doctor"]).expect(1);
    let repaired = ("OPEN repair".to_owned(), json!({"quarantine": "2"}));
    assert_eq!(entries()[0], repaired);
}

#[test]
fn a_login_by_a_link_is_recorded_and_so_is_a_link_that_does_not_work() {
    let place = Place::with_config(SETTINGS);
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "read"));
    let link = |caller: &Caller<'_>| {
        let made = caller
            .post("/v1/login-links", &json!({}))
            .expect(201)
            .json();
        let url = made["url"].as_str().unwrap().to_owned();
        url[url.find("/login").unwrap()..].to_owned()
    };
    let host = [("Host", daemon.address.as_str())];
    let open = |path: &str| daemon.send(&head("GET", path, &host, 0), b"").status;
    let (of_ada, of_bob) = (link(&ada), link(&bob));
    daemon.delete("/v1/tokens/bob-read").expect(200);
    assert_eq!(open(&of_ada), 303);
    assert_eq!(open(&of_ada), 401, "a link works once");
    assert_eq!(open(&of_bob), 401, "its token is revoked");
    let logins: Vec<Value> = log(&daemon, "")
        .into_iter()
        .filter(|entry| entry["route"] == "/login")
        .collect();
    let found: Vec<_> = logins
        .iter()
        .map(|entry| (entry["caller"].as_str(), what(entry)))
        .collect();
    let refused = (None, ("GET /login".to_owned(), Some(401)));
    let entered = (Some("ada-read"), ("GET /login login".to_owned(), Some(303)));
    assert_eq!(found, [refused.clone(), refused, entered]);
    let code = of_ada.split('=').next_back().unwrap();
    assert!(!json!(logins).to_string().contains(code));
    daemon.stop();
}

#[test]
fn refused_requests_are_in_the_log_bounded_and_only_admins_see_it() {
    let place = Place::with_config(&format!(
        "{SETTINGS}[server]\ntoken_requests_per_minute = 200\n"
    ));
    let daemon = Daemon::start(&place);
    let reader = caller(&daemon, &json!({"name": "reader", "scope": "read"}));
    let admin = caller(
        &daemon,
        &json!({"name": "boss", "scope": "admin", "owner": "bob"}),
    );
    reader.get("/v1/audit").expect(403);
    reader.post("/v1/sessions", &json!({})).expect(403);
    let asked = reader.tool("ask", &json!({"task": CONTENT}));
    assert_eq!(asked["result"]["isError"], true);
    let task = format!("{UNKNOWN}.{UNKNOWN}.ask");
    for (method, params) in [
        ("tasks/cancel", json!({"taskId": task})),
        (
            "tasks/update",
            json!({"taskId": task, "inputResponses": {}}),
        ),
    ] {
        let answer = reader.mcp(method, &params);
        assert!(answer["error"].is_object(), "{answer}");
    }
    let secret = reader.token.clone();
    reader
        .send("DELETE", &format!("/v1/tokens/{secret}"), &[], None)
        .expect(403);
    reader
        .send("DELETE", "/v1/tokens/boss", &[], None)
        .expect(403);
    admin.get("/v1/audit").expect(200);
    let entries = log(&daemon, "&caller=reader");
    let found: Vec<_> = entries.iter().map(what).collect();
    let refused = |what: &str| (what.to_owned(), Some(403));
    assert_eq!(
        found,
        [
            refused("DELETE /v1/tokens/{token}"),
            refused("DELETE /v1/tokens/{token}"),
            refused("POST /mcp tasks/update"),
            refused("POST /mcp tasks/cancel"),
            refused("POST /mcp ask"),
            refused("POST /v1/sessions"),
            refused("GET /v1/audit"),
        ]
    );
    assert_eq!(entries[0]["object"], json!({"token": "boss"}));
    assert_eq!(entries[1]["object"], json!({}));
    // A token of nobody, on a route and on none.
    let nobody = Caller::new(&daemon, "unisono_guessed");
    nobody
        .post("/a2a/agents/facts/message:send", &json!({}))
        .expect(401);
    let path = format!("/v1/sessions/{UNKNOWN}/turns");
    nobody.post(&path, &json!({"task": CONTENT})).expect(401);
    nobody.get("/v1/guessed-secret").expect(401);
    let [none, turn, sent]: [Value; 3] = log(&daemon, "")[..3].to_vec().try_into().unwrap();
    assert_eq!(
        (&sent["caller"], &sent["route"]),
        (&Value::Null, &json!("/a2a/agents/{agent}/message:send"))
    );
    assert_eq!(
        (&turn["caller"], &turn["route"]),
        (&Value::Null, &json!("/v1/sessions/{session}/turns"))
    );
    assert_eq!(
        (&none["caller"], &none["route"], &none["status"]),
        (&Value::Null, &Value::Null, &json!(401))
    );
    for _ in 0..100 {
        nobody.get("/v1/sessions").expect(401);
    }
    // What is left out of nobody's requests leaves room for those of others.
    while reader.get("/v1/sessions").status == 200 {}
    let all = log(&daemon, "");
    let count = |name: &Value, status: u64| {
        let fits = |entry: &&Value| entry["caller"] == *name && entry["status"] == status;
        all.iter().filter(fits).count()
    };
    let omitted: u64 = all
        .iter()
        .filter_map(|entry| entry["omitted"].as_u64())
        .sum();
    let recorded = count(&Value::Null, 401) as u64;
    assert_eq!(recorded + omitted, 103);
    assert!((60..=120).contains(&recorded), "{recorded}");
    assert_eq!(count(&json!("reader"), 429), 1);
    assert!(all.iter().any(|entry| entry["cause"] == "refusals"));
    let text = Value::from(all).to_string();
    text.has_none(&["guessed", CONTENT, &secret]);
    let daemons_name = json!({"name": "daemon", "scope": "read"});
    daemon.post("/v1/tokens", &daemons_name).expect(400);
    daemon.stop();
}

#[test]
fn an_expired_token_is_named_and_a_client_that_leaves_is_recorded() {
    let place = Place::with_config(SETTINGS);
    let daemon = Daemon::start(&place);
    let brief = json!({"name": "brief", "scope": "ask", "expires_seconds": 1});
    let brief = caller(&daemon, &brief);
    until("it does not expire", || {
        brief.get("/v1/sessions").status != 200
    });
    let last = log(&daemon, "&caller=brief").remove(0);
    assert_eq!(
        (&last["status"], &last["route"]),
        (&json!(401), &json!("/v1/sessions"))
    );
    let to = (daemon.address.as_str(), daemon.token.as_str());
    let head = json_head(to, "POST", "/v1/imports?name=x.jsonl", &[], 1_000);
    let mut stream = TcpStream::connect(&daemon.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream);
    let asked = Instant::now();
    let left = loop {
        let mut entries = log(&daemon, "&caller=daemon").into_iter();
        if let Some(found) = entries.find(|entry| entry["route"] == "/v1/imports") {
            break found;
        }
        assert!(asked.elapsed() < PATIENCE, "it is not recorded");
    };
    assert!(
        !(200..300).contains(&left["status"].as_u64().unwrap_or_default()),
        "{left}"
    );
    daemon.stop();
}

#[test]
fn a_crash_loses_nothing_that_was_read_and_the_log_can_be_off() {
    let place = Place::with_config(SETTINGS);
    let daemon = Daemon::start(&place);
    let ada = of_owner(&daemon, "ada", "ask");
    for _ in 0..20 {
        ada.post("/v1/sessions", &json!({})).expect(201);
    }
    let before = log(&daemon, "");
    assert_eq!(before.len(), 21);
    daemon.kill();
    let daemon = Daemon::start(&place);
    assert_eq!(log(&daemon, ""), before);
    daemon.stop();
    let off = Place::with_config(&format!("{SETTINGS}[audit]\nenabled = false\n"));
    let daemon = Daemon::start(&off);
    daemon.post("/v1/sessions", &json!({})).expect(201);
    assert_eq!(log(&daemon, ""), Vec::<Value>::new());
    daemon.stop();
    off.call(&["audit"])
        .expect(0)
        .says(&["nothing is recorded"]);
}

#[test]
fn daemons_on_one_database_have_one_log_and_record_what_is_passed_on_once() {
    let server = needs!(Server::database());
    let places = [member(&server), member(&server)];
    let [one, other] = places.each_ref().map(Daemon::start);
    let ada = of_owner(&one, "ada", "ask");
    let session: &str = &ada.session(&json!({}));
    let there = Caller::new(&other, &ada.token);
    until("the token is not known there", || {
        there.get("/v1/sessions").status != 401
    });
    let path = format!("/v1/sessions/{session}/messages");
    for _ in 0..3 {
        there.post(&path, &json!({"text": CONTENT})).expect(201);
        ada.post(&path, &json!({"text": CONTENT})).expect(201);
        there.post("/v1/sessions", &json!({})).expect(201);
    }
    // A reader waits for its own daemon's entries; the other one's are a moment away.
    let asked = Instant::now();
    let all = loop {
        log(&one, "");
        let all = log(&other, "&caller=ada-ask");
        if all.len() >= 10 || asked.elapsed() > PATIENCE {
            break all;
        }
    };
    let messages = all
        .iter()
        .filter(|entry| entry["object"]["session"] == session);
    assert_eq!((messages.count(), all.len()), (6, 10), "{all:?}");
    assert_eq!(log(&one, "&caller=ada-ask").len(), 10);
    one.stop();
    other.stop();
}
