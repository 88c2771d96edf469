//! Tokens of people, and what one owner's token must not see of another's sessions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use unisono_fake_provider::{Answer, FakeProvider, Script, Usage};
use unisono_test_postgres::Server;

use crate::attachments::{base64, png};
use crate::http::{Daemon, Reply, half_sent, head, json_head};
use crate::support::{HasAll as _, PATIENCE, Place, until, words};

/// A word that only stands in the sessions of the other owner.
pub(crate) const SECRET: &str = "xylophone";

pub(crate) struct Caller<'d> {
    pub(crate) daemon: &'d Daemon,
    pub(crate) token: String,
}

impl<'d> Caller<'d> {
    pub(crate) fn new(daemon: &'d Daemon, token: &str) -> Caller<'d> {
        let token = token.to_owned();
        Caller { daemon, token }
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        self.daemon
            .request_as(&self.token, method, path, headers, body)
    }

    /// Makes a session. Returns its id.
    pub(crate) fn session(&self, new: &Value) -> String {
        let made = self.post("/v1/sessions", new).expect(201).json();
        made["session"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None)
    }

    /// Sends a form of a page of this daemon.
    pub(crate) fn form(&self, method: &str, path: &str, form: &str) -> Reply {
        let origin = format!("http://{}", self.daemon.address);
        let headers = [
            ("Origin", origin.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.daemon
            .send_as(&self.token, method, path, &headers, form.as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], Some(body))
    }

    pub(crate) fn mcp(&self, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities":
                {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let named = params["name"].as_str().or(params["taskId"].as_str());
        let named = named.or(params["uri"].as_str()).unwrap_or_default();
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            ("Mcp-Name", named),
        ];
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send("POST", "/mcp", &headers, Some(&body)).json()
    }

    pub(crate) fn tool(&self, name: &str, arguments: &Value) -> Value {
        self.mcp("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    pub(crate) fn a2a(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send("POST", "/a2a", &[("A2A-Version", "1.0")], Some(&body))
            .json()
    }
}

pub(crate) fn caller<'d>(daemon: &'d Daemon, new: &Value) -> Caller<'d> {
    let made = daemon.post("/v1/tokens", new).expect(201).json();
    Caller::new(daemon, made["secret"].as_str().unwrap())
}

pub(crate) fn of_owner<'d>(daemon: &'d Daemon, name: &str, scope: &str) -> Caller<'d> {
    caller(
        daemon,
        &json!({"name": format!("{name}-{scope}"), "scope": scope, "owner": name}),
    )
}

/// A session of a caller with a turn and a summary, and the parts of addresses that lead into it.
pub(crate) fn furnished(caller: &Caller<'_>) -> Vec<(&'static str, String)> {
    let messages: Vec<Value> = (0..12)
        .map(|n| {
            let role = ["user", "assistant"][n % 2];
            json!({"role": role, "content": format!("The {SECRET} is number {n}. ").repeat(20)})
        })
        .collect();
    let new = json!({"title": SECRET, "messages": messages});
    let session = caller.session(&new);
    let base = format!("/v1/sessions/{session}");
    let asked = json!({"task": format!("Where is the {SECRET}?"), "lead": "quiet", "agents": []});
    let turn = caller
        .post(&format!("{base}/turns"), &asked)
        .expect(200)
        .json();
    let compacted = json!({"keep_messages": 2});
    caller
        .post(&format!("{base}/compactions"), &compacted)
        .expect(200);
    let snapshot = turn["snapshot"].as_str().unwrap_or_default().to_owned();
    vec![
        ("{session}", session),
        ("{turn}", turn["turn"].as_str().unwrap().to_owned()),
        ("{run}", turn["runs"][0]["run"].as_str().unwrap().to_owned()),
        ("{snapshot}", snapshot),
        ("{message}", "1".to_owned()),
        ("{ordinal}", "1".to_owned()),
        ("{number}", "1".to_owned()),
        ("{chat}", "1".to_owned()),
    ]
}

/// An agent that answers alone and offline, and schedules of nobody and of an owner.
pub(crate) const KNOWN: &str = "[agents.quiet]\ndescription = \"answers\"\nkind = \"extractive\"\n\
    [schedules.known]\nevery = \"8760h\"\ntask = \"Look.\"\nsession = \"new\"\n\
    [schedules.hers]\nevery = \"8760h\"\ntask = \"Look.\"\nsession = \"owner=ada\"\n";

fn settings() -> String {
    format!("[models]\ndefault = \"extractive\"\n{KNOWN}")
}

#[test]
fn a_token_of_one_owner_finds_nothing_of_another_by_search_cursor_label_or_prefix() {
    let place = Place::with_config(&settings());
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let parts = furnished(&ada);
    let (session, turn, run) = (&parts[0].1, &parts[1].1, &parts[2].1);
    let own = bob
        .post("/v1/sessions", &json!({"title": "own"}))
        .expect(201)
        .json();
    let own = own["session"].as_str().unwrap().to_owned();
    let later = ada
        .post("/v1/sessions", &json!({"title": "later"}))
        .expect(201)
        .json();
    let later = later["session"].as_str().unwrap().to_owned();
    let start = &session[..13];
    for path in [
        "/v1/search?q=xylophone".to_owned(),
        format!("/v1/search?q=xylophone&session={session}"),
        format!("/v1/search?q=session:{session}%20xylophone"),
        "/v1/sessions?label=owner%3Dada".to_owned(),
        "/v1/sessions?label=owner%3Dada&by_change=true".to_owned(),
        format!("/v1/sessions?id={session}"),
        format!("/v1/sessions?id={start}"),
        "/v1/sessions?id=latest".to_owned(),
        format!("/v1/sessions?cursor={later}"),
        "/v1/sessions?by_change=true&limit=1".to_owned(),
        "/v1/sessions?open=true".to_owned(),
        format!("/v1/lookup?name={run}"),
        format!("/v1/lookup?name={turn}&session={session}"),
        "/v1/lookup?name=lead".to_owned(),
        "/v1/lookup?name=latest".to_owned(),
        format!("/v1/runs?session={session}"),
        "/v1/runs".to_owned(),
        format!("/v1/usage?session={session}"),
        "/v1/usage".to_owned(),
        format!("/v1/approvals?session={session}"),
        format!("/v1/agents?session={session}"),
    ] {
        let reply = bob.get(&path);
        let status = reply.status;
        let text = reply.text();
        assert!(
            [200, 400, 404, 422].contains(&status),
            "{path}: {status} {text}"
        );
        let response = text.replace(&format!("there is no session {session}"), "");
        let named = path.contains(session.as_str());
        assert!(
            !response.contains(SECRET) || path.contains(SECRET) && status != 200,
            "{path}: {text}"
        );
        assert!(
            named || !response.contains(session.as_str()),
            "{path}: {text}"
        );
        assert!(!response.contains(&later), "{path}: {text}");
    }
    let mine = bob.get("/v1/sessions").expect(200).json();
    assert_eq!(mine["items"].as_array().unwrap().len(), 1, "{mine}");
    assert_eq!(mine["items"][0]["session"], own);
    let used = bob.get("/v1/usage").expect(200).json();
    assert_eq!(
        (&used["rows"], &used["budgets"]),
        (&json!([]), &json!(null)),
        "{used}"
    );
    // Nor can he put a session of his in her name, or learn that hers exists.
    let named = json!({"title": "forged", "labels": {"owner": "ada"}});
    let forged = bob.post("/v1/sessions", &named).expect(201).json();
    assert_eq!(forged["labels"]["owner"], "bob");
    // Nor can a caller without an owner, who may only ask.
    let new = json!({"name": "clerk", "scope": "ask"});
    let clerk = daemon.post("/v1/tokens", &new).expect(201).json();
    let clerk = Caller::new(&daemon, clerk["secret"].as_str().unwrap());
    let forged = clerk.post("/v1/sessions", &named).expect(201).json();
    assert_eq!(forged["labels"], json!({}));
    let exported = ada
        .get(&format!("/v1/sessions/{session}/export"))
        .expect(200)
        .text();
    let import = |caller: &Caller<'_>, path: &str| {
        let kind = [("Content-Type", "application/octet-stream")];
        daemon.send_as(&caller.token, "POST", path, &kind, exported.as_bytes())
    };
    let imported = import(&bob, "/v1/imports?name=x.jsonl").expect(201).json();
    assert_ne!(imported["session"], session.as_str());
    assert_eq!(imported["labels"]["owner"], "bob");
    // A list of a file names the session that he made of it, and not hers.
    let listed = |caller: &Caller<'_>| {
        let listed = import(caller, "/v1/imports/dry-run?name=x.jsonl").expect(200);
        listed.json()["items"][0]["session"].clone()
    };
    assert_eq!(
        (listed(&ada), listed(&bob)),
        (Value::Null, imported["session"].clone())
    );
    daemon.stop();
}

#[test]
fn a_token_of_one_owner_gets_nothing_of_another_over_mcp_openai_a2a_and_the_page() {
    let place = Place::with_config(&settings());
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let parts = furnished(&ada);
    let (session, turn, run) = (&parts[0].1, &parts[1].1, &parts[2].1);
    let quiet = |what: &str, answer: &str| {
        assert!(!answer.contains(SECRET), "{what}: {answer}");
    };
    for (tool, arguments) in [
        ("ask", json!({"session": session, "task": "Tell."})),
        (
            "delegate",
            json!({"session": session, "tasks": [{"agent": "lead", "task": "Tell."}]}),
        ),
        ("compact", json!({"session": session})),
        ("wait", json!({"session": session, "turn": turn})),
        ("recall", json!({"session": session, "query": "number"})),
        ("recall", json!({"session": session, "from": 1, "to": 2})),
    ] {
        let answer = bob.tool(tool, &arguments);
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        quiet(tool, &answer.to_string());
    }
    for (tool, arguments) in [
        ("search", json!({"query": "number"})),
        (
            "search",
            json!({"query": format!("session:{session} number")}),
        ),
        ("sessions", json!({})),
    ] {
        let answer = bob.tool(tool, &arguments).to_string();
        quiet(tool, &answer);
        // An unknown session and that of another owner have the same answer.
        let answer = answer.replace(&format!("session {session} does not exist"), "");
        assert!(!answer.contains(session.as_str()), "{tool}: {answer}");
    }
    for uri in ["", "/context", &format!("/snapshots/{turn}")] {
        let uri = format!("unisono://sessions/{session}{uri}");
        let answer = bob.mcp("resources/read", &json!({"uri": uri}));
        assert!(answer["error"].is_object(), "{uri}: {answer}");
        quiet(&uri, &answer.to_string());
    }
    let listed = bob.mcp("resources/list", &json!({})).to_string();
    quiet("resources/list", &listed);
    assert!(!listed.contains(session.as_str()));
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = bob.mcp(method, &json!({"taskId": format!("{session}.{turn}.ask")}));
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("no task"), "{method}: {answer}");
    }
    for path in ["chat/completions", "responses"] {
        let body = json!({"model": "lead", "input": "Tell.", "metadata": {"session": session},
            "messages": [{"role": "user", "content": "Tell."}]});
        let mut body = body;
        let unused = if path == "responses" {
            "messages"
        } else {
            "input"
        };
        body.as_object_mut().unwrap().remove(unused);
        bob.post(&format!("/openai/v1/{path}"), &body).expect(404);
        let named = [("X-Unisono-Session", session.as_str())];
        body.as_object_mut().unwrap().remove("metadata");
        let reply = bob.send("POST", &format!("/openai/v1/{path}"), &named, Some(&body));
        quiet(path, &reply.expect(404).text());
    }
    let task = format!("{session}.{turn}");
    let hello = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Tell."}]});
    let with = |name: &str, id: &str| {
        let mut message = hello.clone();
        message[name] = id.into();
        json!({"message": message})
    };
    for (method, params) in [
        ("GetTask", json!({"id": task})),
        ("CancelTask", json!({"id": task})),
        ("SubscribeToTask", json!({"id": task})),
        ("SendMessage", with("contextId", session)),
        ("SendMessage", with("taskId", &task)),
    ] {
        let answer = bob.a2a(method, &params);
        assert!(answer["error"].is_object(), "{method}: {answer}");
        quiet(method, &answer.to_string());
    }
    let within = bob.a2a("ListTasks", &json!({"contextId": session}));
    assert_eq!(within["result"]["totalSize"], 0, "{within}");
    let all = bob.a2a("ListTasks", &json!({})).to_string();
    assert!(!all.contains(session.as_str()), "{all}");
    for path in [
        String::new(),
        "/context".to_owned(),
        "/history".to_owned(),
        "/tree".to_owned(),
        "/messages/1".to_owned(),
        "/export".to_owned(),
        "/export/file".to_owned(),
        "/settings".to_owned(),
        "/checkpoints".to_owned(),
        "/turns".to_owned(),
        format!("/turns/{turn}"),
        format!("/runs/{run}"),
    ] {
        let path = format!("/sessions/{session}{path}");
        let reply = bob.get(&path);
        let status = reply.status;
        quiet(&path, &reply.text());
        assert_eq!(status, 404, "{path}");
        ada.get(&path).expect(200);
    }
    for path in ["/", "/?q=number", "/approvals", "/schedules", "/usage"] {
        let text = bob.get(path).text();
        quiet(path, &text);
        assert!(!text.contains(session.as_str()), "{path}");
    }
    for (method, path) in [
        ("GET", "/settings"),
        ("POST", "/settings"),
        ("POST", "/schedules/known"),
    ] {
        assert_eq!(
            bob.send(method, path, &[], None).status,
            403,
            "{method} {path}"
        );
    }
    daemon.stop();
}

#[test]
fn a_token_of_one_owner_reads_no_attachment_of_another_by_its_digest() {
    let place = Place::with_config(&settings());
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let session = |caller: &Caller<'_>| {
        let id = caller.session(&json!({}));
        format!("/v1/sessions/{id}/messages")
    };
    let image = base64(&png(32, 16, b"of ada"));
    let with = |key: &str, value: &str| {
        let part = json!({"type": "attachment", "filename": "a.png", key: value});
        json!({"parts": [{"type": "text", "text": "Look."}, part]})
    };
    let messages = session(&ada);
    ada.post(&messages, &with("data", &image)).expect(201);
    let shown = ada.get(&messages).expect(200).json();
    let digest = shown["items"][0]["parts"][1]["digest"].as_str().unwrap();
    let address = format!("/v1/blobs/{digest}");
    ada.get(&address).expect(200);
    let page = format!("/blobs/{digest}");
    for hidden in [&address, &page] {
        assert_eq!(bob.get(hidden).status, 404, "{hidden}");
    }
    let own = session(&bob);
    bob.post(&own, &with("digest", digest)).expect(404);
    // Nor one that ada has uploaded and that no message names yet.
    let upload = |caller: &Caller<'_>| {
        let (kind, bytes) = ([("Content-Type", "image/png")], png(8, 8, b"uploaded"));
        let stored = daemon.send_as(&caller.token, "POST", "/v1/blobs", &kind, &bytes);
        let stored = stored.expect(201).json();
        format!("/v1/blobs/{}", stored["digest"].as_str().unwrap())
    };
    let uploaded = upload(&ada);
    ada.get(&uploaded).expect(200);
    assert_eq!(bob.get(&uploaded).status, 404);
    daemon.get(&uploaded).expect(200);
    assert_eq!(upload(&bob), uploaded);
    bob.get(&uploaded).expect(200);
    // Whoever has the content can store it too.
    bob.post(&own, &with("data", &image)).expect(201);
    bob.get(&address).expect(200);
    bob.post(&own, &with("digest", digest)).expect(201);
}

/// Operations of A2A require the same scope in both bindings, and a refusal has the id of its request.
fn operations_of_a2a_have_scopes(read: &Caller<'_>, ask: &Caller<'_>) {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Tell."}]});
    let task = ask.a2a("SendMessage", &json!({"message": message}))["result"]["task"].clone();
    let id = task["id"].as_str().unwrap();
    let of_task = json!({"taskId": id, "id": "c"});
    for (method, params) in [
        ("GetTask", json!({"id": id})),
        ("ListTasks", json!({})),
        ("SubscribeToTask", json!({"id": id})),
        ("GetTaskPushNotificationConfig", of_task.clone()),
        ("ListTaskPushNotificationConfigs", json!({"taskId": id})),
        ("GetExtendedAgentCard", json!({})),
    ] {
        let (one, other) = (read.a2a(method, &params), ask.a2a(method, &params));
        assert_eq!(one, other, "{method}");
    }
    for (method, params) in [
        ("SendMessage", json!({"message": message})),
        ("SendStreamingMessage", json!({"message": message})),
        ("CancelTask", json!({"id": id})),
        (
            "CreateTaskPushNotificationConfig",
            json!({"taskId": id, "url": "https://a.example"}),
        ),
        ("DeleteTaskPushNotificationConfig", of_task.clone()),
    ] {
        let refused = read.a2a(method, &params);
        let reason = &refused["error"]["data"][0]["reason"];
        assert_eq!(
            (&refused["id"], reason),
            (&json!(1), &json!("PERMISSION_DENIED")),
            "{method}"
        );
    }
    let version = [("A2A-Version", "1.0")];
    let rest = |method: &str, path: &str, body: Option<&Value>| {
        read.send(method, &format!("/a2a{path}"), &version, body)
    };
    rest("POST", "/message:send", Some(&json!({"message": message}))).expect(403);
    rest("POST", &format!("/tasks/{id}:cancel"), Some(&json!({}))).expect(403);
    rest(
        "DELETE",
        &format!("/tasks/{id}/pushNotificationConfigs/c"),
        None,
    )
    .expect(403);
    rest("GET", &format!("/tasks/{id}"), None).expect(200);
    // The task has ended, which only a permitted request is told.
    rest("POST", &format!("/tasks/{id}:subscribe"), Some(&json!({}))).expect(400);
}

#[test]
fn each_scope_may_do_what_it_is_for_and_nothing_above_it() {
    let place = Place::with_config(&settings());
    let daemon = Daemon::start(&place);
    let session = daemon.session(&json!({}));
    let call = "01900000-0000-7000-8000-000000000000";
    let admin = |path: &str| ("GET", path.to_owned(), json!(null), [403, 403, 403, 200]);
    let rows = [
        (
            "GET",
            "/v1/sessions".to_owned(),
            json!(null),
            [200, 200, 200, 200],
        ),
        (
            "GET",
            format!("/v1/sessions/{session}"),
            json!(null),
            [200, 200, 200, 200],
        ),
        (
            "POST",
            "/v1/sessions".to_owned(),
            json!({}),
            [403, 201, 201, 201],
        ),
        (
            "POST",
            format!("/v1/approvals/{call}"),
            json!({"decision": "approve"}),
            [403, 403, 404, 404],
        ),
        admin("/v1/settings"),
        admin("/v1/tokens"),
        (
            "POST",
            "/v1/vacuum".to_owned(),
            json!(null),
            [403, 403, 403, 200],
        ),
        admin("/v1/archive"),
        admin("/metrics"),
        admin("/v1/cluster"),
    ];
    let scopes = ["read", "ask", "approve", "admin"];
    let callers = scopes.map(|scope| caller(&daemon, &json!({"name": scope, "scope": scope})));
    for (method, path, body, expected) in &rows {
        for (n, caller) in callers.iter().enumerate() {
            let body = (!body.is_null()).then_some(body);
            let status = caller.send(method, path, &[], body).status;
            assert_eq!(status, expected[n], "{} {method} {path}", scopes[n]);
        }
    }
    let read = &callers[0];
    let refused = read
        .post("/v1/sessions", &json!({}))
        .expect(403)
        .problem("forbidden");
    refused.has_all(&["`read`", "`ask`"]);
    let asked = read.tool("ask", &json!({"task": "Tell."}));
    assert_eq!(asked["result"]["isError"], true, "{asked}");
    let listed = read.tool("sessions", &json!({}));
    assert_eq!(listed["result"]["isError"], false, "{listed}");
    operations_of_a2a_have_scopes(read, &callers[1]);
    daemon.stop();
}

#[test]
fn a_revoked_token_is_refused_and_its_streams_end() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let ada = of_owner(&daemon, "ada", "ask");
    let other = of_owner(&daemon, "ada", "read");
    let session = ada.session(&json!({}));
    let path = format!("/v1/sessions/{session}/events?after=0");
    let mut stream = ada.get(&path).expect(200).events();
    assert!(stream.next().is_some());
    let mut stays = other.get(&path).expect(200).events();
    assert!(stays.next().is_some());
    let (tell, response) = mpsc::channel();
    let ending = thread::spawn(move || {
        while stream.next().is_some() {}
        tell.send(()).unwrap();
    });
    place.says(&["tokens", "revoke", "ada-ask"], &["is revoked"]);
    response.recv_timeout(PATIENCE).expect("the stream ends");
    ending.join().unwrap();
    ada.get("/v1/sessions").expect(401).problem("unauthorized");
    // The other one goes on.
    let message = json!({"text": "Hello."});
    daemon
        .post(&format!("/v1/sessions/{session}/messages"), &message)
        .expect(201);
    assert!(stays.next().is_some());
    drop(stays);
    place.refuses(&["tokens", "revoke", "ada-ask"], &["no token"]);
    daemon.stop();
}

#[test]
fn tokens_are_made_with_and_without_a_daemon_and_only_their_digests_are_kept() {
    let place = Place::new();
    let made = place.json(&words("tokens create ada --owner ada --expires 90d"));
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(
        (&made["scope"], &made["owner"]),
        (&json!("ask"), &json!("ada"))
    );
    let daemon = Daemon::start(&place);
    let ada = Caller::new(&daemon, &secret);
    ada.get("/v1/sessions").expect(200);
    place
        .call(&["tokens", "create", "ada"])
        .expect(2)
        .says(&["already", "revoke it first"]);
    for name in ["", "a b", "a\nb", "a\u{202e}b", "a/b", ".."] {
        let new = json!({"name": name, "scope": "ask"});
        daemon
            .post("/v1/tokens", &new)
            .expect(400)
            .problem("invalid_request");
        let new = json!({"name": "fine", "scope": "ask", "owner": name});
        daemon
            .post("/v1/tokens", &new)
            .expect(400)
            .problem("invalid_request");
    }
    let brief = json!({"name": "brief", "scope": "ask", "expires_seconds": 1});
    let brief = caller(&daemon, &brief);
    until("it does not expire", || {
        brief.get("/v1/sessions").status != 200
    });
    let refused = brief.get("/v1/sessions").refused(401, "unauthorized");
    assert!(refused.contains("expired"), "{refused}");
    let listed = place.json(&["tokens", "list"]);
    let names: Vec<&Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["ada", "brief"]);
    assert!(!listed.to_string().contains(&secret));
    daemon.stop();
    let kept = std::process::Command::new("grep")
        .args(["-rlaF", secret.trim_start_matches("unisono_")])
        .arg(place.path("."))
        .output()
        .unwrap();
    assert!(
        kept.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&kept.stdout)
    );
    let daemon = Daemon::start(&place);
    let ada = Caller::new(&daemon, &secret);
    ada.get("/v1/sessions").expect(200);
    place.call(&["tokens", "revoke", "ada"]).expect(0);
    ada.get("/v1/sessions").expect(401);
    daemon.stop();
}

#[test]
fn a_token_that_asks_too_often_is_told_to_wait_and_others_are_not() {
    let place = Place::with_config("[server]\ntoken_requests_per_minute = 3\n");
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    for _ in 0..3 {
        ada.get("/v1/sessions").expect(200);
    }
    let full = ada.get("/v1/sessions").expect(429);
    let wait: u64 = full.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait}");
    assert!(full.problem("busy").contains("ada-ask"));
    bob.get("/v1/sessions").expect(200);
    for _ in 0..9 {
        daemon.get("/v1/sessions").expect(200);
    }
    daemon.stop();
}

#[test]
fn one_token_does_not_take_the_places_of_all_requests() {
    let place = Place::with_config("[server]\nrequests = 4\n");
    let daemon = Daemon::start(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let to = (daemon.address.as_str(), ada.token.as_str());
    let expects = [("Expect", "100-continue")];
    let head = json_head(to, "POST", "/v1/sessions", &expects, 100);
    let slow = [(); 3].map(|()| half_sent(&daemon.address, &head));
    ada.get("/v1/sessions").expect(429).problem("busy");
    bob.get("/v1/sessions").expect(200);
    daemon.get("/v1/sessions").expect(200);
    drop(slow);
    daemon.stop();
}

#[test]
fn a_proxy_with_the_daemons_token_names_the_person_and_nobody_else_does() {
    let place = Place::with_config("[server]\ntrusted_user_header = \"X-User\"\n");
    let daemon = Daemon::start(&place);
    let of = |user: &str, method: &str, path: &str, body: Option<&Value>| {
        daemon.request_with(method, path, &[("X-User", user)], body)
    };
    let made = of("ada", "POST", "/v1/sessions", Some(&json!({})))
        .expect(201)
        .json();
    assert_eq!(made["labels"]["owner"], "ada");
    let path = format!("/v1/sessions/{}", made["session"].as_str().unwrap());
    of("ada", "GET", &path, None).expect(200);
    of("bob", "GET", &path, None).expect(404);
    // A client of the proxy may send any other header.
    let forged = [("X-User", "bob"), ("unisono-caller", "user ada")];
    daemon.request_with("GET", &path, &forged, None).expect(404);
    of("ada", "GET", "/v1/settings", None).expect(403);
    // Of a session one reads only what it can set, not the rest of the configuration.
    let settings = of("ada", "GET", &format!("{path}/settings"), None).expect(200);
    let settings = settings.json();
    let keys = settings
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap());
    let keys: Vec<&str> = keys.collect();
    assert!(
        keys.contains(&"turn.lead") && !keys.contains(&"store.path"),
        "{keys:?}"
    );
    of("a b", "GET", "/v1/sessions", None).expect(403);
    // The page names the person. A logout would end nothing.
    let page = of("ada", "GET", "/", None).expect(200).text();
    assert!(page.contains("<span>ada</span>") && !page.contains("/logout"));
    daemon.get(&path).expect(200);
    // A token of a person names that person, whatever a header says.
    let bob = of_owner(&daemon, "bob", "ask");
    bob.send("GET", &path, &[("X-User", "ada")], None)
        .expect(404);
    bob.send("GET", &path, &[("unisono-caller", "user ada")], None)
        .expect(404);
    let host = daemon.address.clone();
    let none = head("GET", &path, &[("Host", &host), ("X-User", "ada")], 0);
    daemon.send(&none, b"").expect(401);
    daemon.stop();
    let off = Place::new();
    let daemon = Daemon::start(&off);
    let made = daemon.request_with(
        "POST",
        "/v1/sessions",
        &[("X-User", "ada")],
        Some(&json!({})),
    );
    assert_eq!(made.expect(201).json()["labels"], json!({}));
    daemon.stop();
    let wrong = Place::with_config("[server]\ntrusted_user_header = \"X User\"\n");
    wrong
        .call(&["serve", "--bind", "127.0.0.1:0"])
        .expect(2)
        .says(&["trusted_user_header"]);
}

#[test]
fn a_person_is_the_author_of_its_messages_and_only_a_program_names_other_people() {
    let place = Place::with_config(&settings());
    let daemon = Daemon::start(&place);
    let ada = of_owner(&daemon, "ada", "ask");
    let session = ada.session(&json!({"title": "Authors"}));
    let base = format!("/v1/sessions/{session}");
    let (turns, messages) = (format!("{base}/turns"), format!("{base}/messages"));
    let chat = "/openai/v1/chat/completions";
    let task =
        |author: Value| json!({"task": "Tell.", "author": author, "lead": "quiet", "agents": []});
    let said = |author: Value| json!({"text": "Hello.", "author": author});
    let named = |name: &str| {
        let said = json!({"role": "user", "name": name, "content": "Tell."});
        json!({"model": "quiet", "messages": [said]})
    };
    let forged = task(json!("bob"));
    for (path, body) in [
        (&*turns, &forged),
        (&*format!("{turns}/estimate"), &forged),
        (&*messages, &said(json!("bob"))),
    ] {
        let detail = ada.post(path, body).expect(403).problem("forbidden");
        detail.has_all(&["ada-ask", "bob"]);
    }
    ada.post(chat, &named("bob")).expect(403);
    ada.post(chat, &named("ada")).expect(200);
    // The same holds for an earlier message of a request that continues no session.
    for (name, status) in [("bob", 403), ("ada", 200)] {
        let mut list = named("ada");
        list["messages"] = json!([
            {"role": "user", "name": name, "content": "Hello."},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Tell."},
        ]);
        ada.post(chat, &list).expect(status);
    }
    for author in [Value::Null, json!("ada"), json!("ada-ask")] {
        ada.post(&turns, &task(author.clone())).expect(200);
        ada.post(&messages, &said(author)).expect(201);
    }
    // What an agent of another program said is no message of a person.
    let agent = json!({"text": "Hello.", "role": "assistant", "author": "helper"});
    ada.post(&messages, &agent).expect(201);
    // A program that passes on messages, and the daemon's own token, name anybody or nobody.
    let bridge = caller(&daemon, &json!({"name": "bridge", "scope": "ask"}));
    bridge.post(&messages, &said(json!("bob"))).expect(201);
    bridge.post(&messages, &said(Value::Null)).expect(201);
    daemon.post(&turns, &task(json!("eve"))).expect(200);
    let all = ada.get(&messages).expect(200).json();
    let all = all["items"].as_array().unwrap().iter();
    let users = all.filter(|one| one["role"] == "user");
    let authors: Vec<Value> = users.map(|one| one["author"].clone()).collect();
    let expected = json!([
        "ada-ask", "ada-ask", "ada", "ada", "ada-ask", "ada-ask", "bob", null, "eve"
    ]);
    assert_eq!(json!(authors), expected);

    // Another one's task that is worked on again for a person is that person's.
    let turn = |reply: Reply| reply.expect(200).json()["turn"].clone();
    let before = turn(ada.post(&turns, &task(Value::Null)));
    let of_eve = turn(daemon.post(&turns, &task(json!("eve"))));
    let says = |id: &Value, role: &str| json!({"id": id, "role": role, "parts": [{"type": "text", "text": "Tell."}]});
    let (first, second) = (json!("m1"), json!("m2"));
    let again = json!({"messages": [says(&first, "user"), says(&before, "assistant"), says(&second, "user")],
        "trigger": "regenerate-message", "messageId": of_eve, "lead": "quiet", "agents": []});
    let chat = ada.post(&format!("{base}/chat"), &again).expect(200);
    let branch = chat.branch();
    assert_ne!(branch, "main");
    let listed = ada.get(&format!("{messages}?branch={branch}"));
    let listed = listed.expect(200).json();
    let mut listed = listed["items"].as_array().unwrap().iter();
    let told = listed.rfind(|one| one["role"] == "user").unwrap();
    assert_eq!(told["author"], "ada-ask");
    daemon.stop();
}

#[test]
fn a_link_logs_in_whose_token_asked_for_it_until_the_token_is_revoked() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let (ada, bob) = (
        of_owner(&daemon, "ada", "ask"),
        of_owner(&daemon, "bob", "read"),
    );
    let id = ada.session(&json!({"title": "of ada"}));
    let path = format!("/sessions/{id}");
    let host = daemon.address.clone();
    let enter = |caller: &Caller<'_>| {
        let link = caller
            .send("POST", "/v1/login-links", &[], None)
            .expect(201)
            .json();
        let url = link["url"].as_str().unwrap().to_owned();
        let at = url[url.find("/login").unwrap()..].to_owned();
        let preview = head("HEAD", &at, &[("Host", &host)], 0);
        daemon.send(&preview, b"").expect(200);
        let reply = daemon
            .send(&head("GET", &at, &[("Host", &host)], 0), b"")
            .expect(303);
        let cookie = reply.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    };
    let [of_ada, of_bob] = [&ada, &bob].map(enter);
    let see = |cookie: &str, path: &str| {
        daemon.send(
            &head("GET", path, &[("Host", &host), ("Cookie", cookie)], 0),
            b"",
        )
    };
    let page = see(&of_ada, &path).expect(200).text();
    page.has_all(&["ada-ask", "/logout"]);
    let whole = daemon.get(&path).expect(200).text();
    assert!(!whole.contains("/logout"), "{whole}");
    see(&of_bob, &path).expect(404);
    // The pages of what is refused and of what is not there name the viewer as well.
    let html = "text/html";
    for (path, status) in [("/settings", 403), ("/nothing-here", 404)] {
        let headers = [
            ("Host", host.as_str()),
            ("Cookie", of_bob.as_str()),
            ("Accept", html),
        ];
        let page = daemon.send(&head("GET", path, &headers, 0), b"");
        let page = page.expect(status).text();
        page.has_all(&["bob-read", "/logout"]);
        assert!(!page.contains("href=\"/settings\""), "{page}");
    }
    let origin = format!("http://{host}");
    let post = |cookie: &str, path: &str| {
        let headers = [
            ("Host", host.as_str()),
            ("Cookie", cookie),
            ("Origin", &origin),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        daemon.send(&head("POST", path, &headers, 0), b"")
    };
    // The streams of a browser end when it is logged out.
    let again = enter(&ada);
    let events = format!("/v1{path}/events?after=0");
    let mut stream = see(&again, &events).expect(200).events();
    assert!(stream.next().is_some());
    post(&again, "/logout").expect(303);
    while stream.next().is_some() {}
    assert_eq!(post(&of_bob, "/").status, 403, "it may only look");
    post(&of_bob, "/logout").expect(303);
    see(&of_bob, "/").expect(401);
    see(&of_ada, "/").expect(200);
    let revoked = daemon.delete("/v1/tokens/ada-ask");
    revoked.expect(200);
    let refused = see(&of_ada, "/").expect(401).text();
    refused.has_all(&["The token of this login is revoked"]);
    daemon.stop();
}

#[test]
fn an_owner_without_budget_left_is_told_whose_it_is_and_others_go_on() {
    let used = Usage::new(3_000, 7);
    let script = Script::always(Answer::text("All is well.").usage(used));
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_openai(
        &provider,
        "attempts = 1\n\
         [models]\ndefault = \"openai/gpt-4o\"\n[compaction]\nsummarisers = [\"extractive\"]\n\
         [budget.owner]\nmax_cost_usd = 0.01\n[budget.owners.bob]\nmax_cost_usd = 5.0\n",
    );
    let daemon = Daemon::keyed(&place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let ask = |caller: &Caller<'_>| {
        let id = caller.session(&json!({}));
        let turns = format!("/v1/sessions/{id}/turns");
        caller
            .post(&turns, &json!({"task": "Well?", "agents": []}))
            .expect(200)
            .json()
    };
    let refused = ask(&ada);
    assert_eq!(refused["state"], "failed", "{refused}");
    let why = refused.to_string();
    assert!(why.contains("budget_exceeded"), "{why}");
    assert!(why.contains("budget of owner ada"), "{why}");
    assert_eq!(provider.request_count(), 0);
    assert_eq!(ask(&bob)["answer"], "All is well.");
    let whole = Caller::new(&daemon, &daemon.token);
    assert_eq!(ask(&whole)["answer"], "All is well.", "nobody's session");
    daemon.stop();
}

#[test]
fn usage_shows_what_is_left_of_the_budgets_of_owners_to_those_who_may_see_it() {
    let used = Usage::new(3_000, 7);
    let script = Script::always(Answer::text("All is well.").usage(used));
    let provider = FakeProvider::play_on_thread(script);
    let place = Place::with_openai(
        &provider,
        "[models]\ndefault = \"openai/gpt-4o\"\n[compaction]\nsummarisers = [\"extractive\"]\n\
         [budget.owner]\nmax_cost_usd = 2.0\n[budget.owners.dora]\nmax_tokens = 50_000\n",
    );
    let daemon = Daemon::keyed(&place);
    let whole = Caller::new(&daemon, &daemon.token);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let cleo = json!({"labels": {"owner": "cleo"}});
    let mut sessions = Vec::new();
    for (caller, new) in [(&ada, json!({})), (&whole, cleo), (&whole, json!({}))] {
        let session = caller.session(&new);
        let turns = format!("/v1/sessions/{session}/turns");
        sessions.push(session);
        let asked = json!({"task": "Well?", "agents": []});
        let turn = caller.post(&turns, &asked).expect(200).json();
        assert_eq!(turn["answer"], "All is well.", "{turn}");
    }
    let budgets = |caller: &Caller<'_>| {
        let used = caller.get("/v1/usage").expect(200).json();
        let all = used["budgets"].as_array().cloned().unwrap_or_default();
        let each = all.iter().map(|of| {
            assert_eq!(of["level"], "owner", "{of}");
            let owner = of["owner"].as_str().unwrap().to_owned();
            (
                owner,
                of["cap"].as_f64().unwrap(),
                of["spent"].as_f64().unwrap() > 0.0,
            )
        });
        each.collect::<Vec<_>>()
    };
    let of = |owner: &str, cap: f64, is_used: bool| (owner.to_owned(), cap, is_used);
    let all = [
        of("ada", 2.0, true),
        of("cleo", 2.0, true),
        of("dora", 50_000.0, false),
    ];
    assert_eq!(budgets(&whole), all);
    assert_eq!(budgets(&ada), all[..1]);
    assert_eq!(budgets(&bob), [of("bob", 2.0, false)]);
    let page = ada.get("/usage").expect(200).text();
    page.has_all(&["owner ada, cost"]);
    page.has_none(&["cleo"]);
    let said = place.call(&["usage"]).expect(0).stdout;
    said.has_all(&[
        "owner ada: $",
        "owner cleo: $",
        "owner dora: 0 tokens of 50,000 tokens used",
    ]);
    daemon.stop();
    // Without a daemon the names are read from the store.
    let said = place.call(&["usage"]).expect(0).stdout;
    assert!(said.contains("owner cleo: $"), "{said}");
    // The last session with a name is deleted, and its budget is not.
    for session in &sessions[..2] {
        let delete = ["sessions", "delete", session, "--yes"];
        place.call(&delete).expect(0);
    }
    let said = place.call(&["usage"]).expect(0).stdout;
    let is_listed = |owner: &str| said.contains(&format!("owner {owner}"));
    assert!(is_listed("ada: $") && is_listed("digest:"), "{said}");
    assert!(!is_listed("cleo"), "{said}");
}

/// The place of a daemon in a group on one database.
pub(crate) fn member(server: &Server) -> Place {
    let place = Place::with_config(&format!(
        "[store]\nurl = {:?}\n[server]\ntrusted_user_header = \"X-User\"\n",
        server.url("public")
    ));
    place.write("settings/unisono/token", "0123456789abcdef".repeat(4));
    let file = place.path("settings/unisono/token");
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    place
}

#[test]
fn daemons_of_a_group_know_each_others_tokens_and_pass_on_who_asks() {
    let server = needs!(Server::database());
    let places = [member(&server), member(&server)];
    let [one, other] = places.each_ref().map(Daemon::start);
    let ada = of_owner(&one, "ada", "ask");
    let bob = of_owner(&one, "bob", "ask");
    let session: &str = &ada.session(&json!({"title": "of ada"}));
    let path = format!("/v1/sessions/{session}");
    // The other daemon passes on what is asked of it: this one works on the session.
    let there = |caller: &Caller<'_>| Caller::new(&other, &caller.token);
    let (ada_there, bob_there) = (there(&ada), there(&bob));
    until("the token is not known there", || {
        ada_there.get(&path).status != 401
    });
    assert_eq!(
        ada_there.get(&path).expect(200).json()["labels"]["owner"],
        "ada"
    );
    until("the token is not known there", || {
        bob_there.get(&path).status != 401
    });
    bob_there.get(&path).expect(404);
    let task = json!({"task": "Tell."});
    bob_there.post(&format!("{path}/turns"), &task).expect(404);
    // Nor is it shown by the daemon that works on it, which passes nothing on.
    bob.get(&path).expect(404);
    bob.post(&format!("{path}/turns"), &task).expect(404);
    ada.get(&path).expect(200);
    // Nobody is somebody else by a header.
    for forged in ["user ada", "token 00", ""] {
        let headers = [("unisono-caller", forged), ("X-User", "ada")];
        bob_there.send("GET", &path, &headers, None).expect(404);
    }
    let named = |user: &str| other.request_with("GET", &path, &[("X-User", user)], None);
    named("ada").expect(200);
    named("bob").expect(404);
    let forged = [("X-User", "bob"), ("unisono-caller", "user ada")];
    other.request_with("GET", &path, &forged, None).expect(404);
    // A browser that logged in there.
    let host = other.address.clone();
    let link = ada_there.send("POST", "/v1/login-links", &[], None);
    let url = link.expect(201).json()["url"].as_str().unwrap().to_owned();
    let at = &url[url.find("/login").unwrap()..];
    let entered = other
        .send(&head("GET", at, &[("Host", &host)], 0), b"")
        .expect(303);
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let page = head(
        "GET",
        &format!("/sessions/{session}"),
        &[("Host", &host), ("Cookie", &cookie), ("X-User", "bob")],
        0,
    );
    let shown = other.send(&page, b"").expect(200).text();
    shown.has_all(&["of ada", "ada-ask"]);
    // Revoked at one, it ends at both.
    let events = format!("{path}/events?after=0");
    let mut stream = ada_there.get(&events).expect(200).events();
    assert!(stream.next().is_some());
    one.request("DELETE", "/v1/tokens/ada-ask", None)
        .expect(200);
    while stream.next().is_some() {}
    until("the token is still taken there", || {
        ada_there.get("/v1/sessions").status == 401
    });
    other.send(&page, b"").expect(401);
    other.stop();
    one.stop();
}

#[test]
fn a_label_gives_no_instructions_of_a_directory_to_a_token_below_admin() {
    let place = Place::new();
    place.write("secret/.git/HEAD", "ref: refs/heads/main\n");
    place.write("secret/AGENTS.md", "The vault opens with xylophone.");
    let daemon = Daemon::start(&place);
    for (scope, is_read) in [("ask", false), ("admin", true)] {
        let made = place.json(&["tokens", "create", scope, "--scope", scope]);
        let caller = Caller::new(&daemon, made["secret"].as_str().unwrap());
        let directory = place.path("secret").display().to_string();
        let labels = json!({"channel": "acp", "cwd": directory, "instructions_from": directory});
        let made = caller
            .post("/v1/sessions", &json!({"labels": labels}))
            .json();
        let session = made["session"].as_str().unwrap().to_owned();
        let turn = json!({"task": "What opens?", "agents": [], "wait": true});
        let path = format!("/v1/sessions/{session}/turns");
        assert!(caller.post(&path, &turn).status < 300);
        let context = caller
            .get(&format!("/v1/sessions/{session}/context"))
            .json();
        assert_eq!(
            context.to_string().contains(SECRET),
            is_read,
            "{scope}: {context}"
        );
    }
    daemon.stop();
}
