//! The token of one owner tries to reach the objects of another owner by every route, MCP tool and A2A
//! operation. The tests read these lists from the program, so they cover each new entry.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use unisono_test_postgres::Server;

use crate::attachments::{base64, png};
use crate::http::{Daemon, Reply};
use crate::people::{Caller, KNOWN, SECRET, furnished, member, of_owner};
use crate::support::awaited;
use crate::tools::{Scene, program};

const ROUTES: &str = include_str!("../../../server/src/http/scopes.rs");
const OPERATIONS: &str = include_str!("../../../server/src/a2a/operations.rs");
/// Parameters of routes that name nothing of an owner.
const SHARED: [&str; 5] = ["{agent}", "{member}", "{model}", "{token}", "{schedule}"];
/// Fields of every form of the page.
const FORM: &str = "task=Hello.&text=Nothing.&branch=main&name=other&at=%231&message=1&pinned=true&\
    key=compaction.preset&value=off&decision=approve&back=%2F&keep=2";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    scope: String,
    method: String,
    path: String,
}

fn routes() -> Vec<Route> {
    let table = ROUTES.split_once("const SCOPES").unwrap().1;
    let table = table.split_once("\n];").unwrap().0;
    let (mut scope, mut method, mut all) = (String::new(), String::new(), Vec::new());
    for word in table.split(|c: char| c.is_whitespace() || ",()[]&".contains(c)) {
        if let Some(name) = word.strip_prefix("Scope::") {
            name.clone_into(&mut scope);
        } else if let Some(text) = word.strip_prefix('"') {
            let text = text.trim_end_matches('"');
            match text.starts_with('/') {
                true => all.push(Route {
                    scope: scope.clone(),
                    method: method.clone(),
                    path: text.to_owned(),
                }),
                false => text.clone_into(&mut method),
            }
        }
    }
    all
}

/// A body with which a route of the API would do something.
fn body(path: &str) -> Value {
    let last = path.rsplit('/').next().unwrap();
    match last {
        "turns" | "estimate" => json!({"task": "Hello."}),
        "messages" => json!({"text": "Hello."}),
        "branches" => json!({"name": "other", "at": "#1"}),
        "chat" => json!({"id": "1", "messages": [{"id": "1", "role": "user",
            "parts": [{"type": "text", "text": "Hello."}]}]}),
        "delegations" => json!({"task": "Hello.", "agents": [{"agent": "lead", "task": "Hello."}]}),
        "edit" => json!({"text": "Nothing."}),
        "settings" => json!({"changes": {"compaction.preset": "off"}}),
        "seal" => json!({"branch": "main"}),
        "{call}" => json!({"decision": "approve"}),
        _ => json!({}),
    }
}

/// A request as a program sends it to the API, or a browser to the page.
fn tries(caller: &Caller<'_>, method: &str, (route, path): (&str, &str)) -> Reply {
    let is_api = ["/v1/", "/openai/", "/a2a", "/mcp"]
        .iter()
        .any(|start| path.starts_with(start));
    if method == "GET" || method == "DELETE" {
        return caller.send(method, path, &[], None);
    }
    if is_api {
        return caller.send(method, path, &[], Some(&body(route)));
    }
    caller.form(method, path, FORM)
}

/// The parameters in the pattern of a route.
fn parameters(path: &str) -> BTreeSet<&str> {
    path.split('/')
        .filter(|part| part.starts_with('{'))
        .collect()
}

/// A project whose agents call a tool that waits for a person, and one that answers offline.
fn scene() -> Scene {
    let send = ("files__send", json!({"text": SECRET}));
    Scene::new(&[&[send]], &program("approve = [\"send\"]"), KNOWN)
}

/// Gives ada a call that waits; its id.
fn waiting_call(ada: &Caller<'_>) -> String {
    let id = ada.session(&json!({}));
    let turns = format!("/v1/sessions/{id}/turns");
    ada.post(&turns, &json!({"task": "Send it.", "wait": false}))
        .expect(202);
    awaited(|| {
        let waiting = ada.get("/v1/approvals").expect(200).json();
        let call = waiting["items"][0]["call"].as_str();
        call.map(str::to_owned).ok_or("no call waits")
    })
}

/// What ada has, by the parameter of routes that leads to it.
fn hers(ada: &Caller<'_>) -> Vec<(&'static str, String)> {
    let mut parts = furnished(ada);
    parts.push(("{call}", waiting_call(ada)));
    let messages = format!("/v1/sessions/{}/messages", parts[0].1);
    let image = base64(&png(32, 16, b"of ada"));
    let part = json!({"type": "attachment", "filename": "a.png", "data": image});
    let added = json!({"parts": [{"type": "text", "text": "Look."}, part]});
    ada.post(&messages, &added).expect(201);
    let shown = ada.get(&format!("{messages}?limit=500")).expect(200).json();
    let last = shown["items"].as_array().unwrap().last().unwrap();
    let digest = last["parts"][1]["digest"].as_str().unwrap().to_owned();
    parts.push(("{digest}", digest));
    parts
}

#[test]
fn every_route_of_the_table_hides_what_another_owner_has() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "approve"));
    let parts = hers(&ada);
    let session = &parts[0].1;
    let state = || {
        let paths = [
            "",
            "/messages?limit=500",
            "/checkpoints",
            "/pins",
            "/branches",
        ];
        let all = paths.map(|rest| {
            let path = format!("/v1/sessions/{session}{rest}");
            ada.get(&path).expect(200).json()
        });
        (all, ada.get("/v1/approvals").expect(200).json())
    };
    let before = state();
    let mut tried = 0;
    // The operations of A2A have a test of their own.
    let others = |route: &Route| !route.path.starts_with("/a2a");
    for Route {
        scope,
        method,
        path,
    } in routes().into_iter().filter(others)
    {
        let concrete = parts
            .iter()
            .fold(path.clone(), |path, (name, id)| path.replace(name, id));
        let concrete = match path.ends_with("/search") {
            true => format!("{concrete}?q=number"),
            false => concrete,
        };
        let of_owner: Vec<&str> = parameters(&path)
            .into_iter()
            .filter(|name| !SHARED.contains(name))
            .collect();
        let what = format!("{method} {concrete}");
        if scope == "Admin" {
            assert_eq!(
                tries(&bob, &method, (&path, &concrete)).status,
                403,
                "{what}"
            );
        } else if !of_owner.is_empty() {
            let known = |name: &&str| parts.iter().any(|(known, _)| known == name);
            assert!(
                of_owner.iter().all(known),
                "{path}: what of ada's does it name?"
            );
            let mut reply = tries(&bob, &method, (&path, &concrete));
            if reply.status == 303 {
                // It leads to the page of the session, whatever session that is.
                let to = reply.header("location").unwrap().to_owned();
                reply = bob.get(&to);
            }
            let status = reply.status;
            let text = reply.text();
            assert_eq!(status, 404, "{what}: {text}");
            assert!(!text.contains(SECRET), "{what}: {text}");
            tried += 1;
        } else if method == "GET" && parameters(&path).is_empty() && path != "/v1/openapi.json" {
            let reply = bob.get(&concrete);
            let status = reply.status;
            let text = reply.text();
            assert!([200, 400].contains(&status), "{what}: {status} {text}");
            let leaked = text.contains(session) || text.contains(SECRET);
            assert!(!leaked, "{what}: {text}");
        }
    }
    assert!(tried >= 80, "{tried}");
    // A schedule that works in her sessions is not there for him.
    for order in ["runs", "pause"] {
        let path = format!("/v1/schedules/hers/{order}");
        let status = bob.post(&path, &json!({})).status;
        assert!([403, 404].contains(&status), "{path}: {status}");
    }
    let listed = bob.get("/v1/schedules?limit=1").expect(200).json();
    assert_eq!(
        (&listed["items"], &listed["next"]),
        (&json!([]), &Value::Null),
        "{listed}"
    );
    bob.get("/v1/schedules?cursor=hers").expect(400);
    let listed = ada.get("/v1/schedules?limit=1").expect(200).json();
    assert_eq!(listed["items"][0]["name"], "hers", "{listed}");
    assert_eq!(before, state(), "nothing was changed");
    // All of it is hers.
    for (name, id) in &parts {
        let path = match *name {
            "{session}" => format!("/v1/sessions/{id}"),
            "{turn}" => format!("/v1/sessions/{session}/turns/{id}"),
            "{run}" => format!("/v1/sessions/{session}/runs/{id}"),
            "{digest}" => format!("/v1/blobs/{id}"),
            _ => continue,
        };
        ada.get(&path).expect(200);
    }
    let call = &parts.iter().find(|(name, _)| *name == "{call}").unwrap().1;
    let decided = json!({"decision": "deny"});
    ada.post(&format!("/v1/approvals/{call}"), &decided)
        .expect(200);
    for path in [
        "/v1/sessions",
        "/v1/sessions?by_change=true",
        "/v1/runs",
        "/v1/usage/sessions",
        "/v1/search?q=xylophone",
    ] {
        let text = ada.get(path).expect(200).text();
        assert!(text.contains(session.as_str()), "{path}: {text}");
    }
    daemon.stop();
}

#[test]
fn no_tool_of_mcp_works_in_the_session_of_another_owner() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let parts = furnished(&ada);
    let session = parts[0].1.as_str();
    let listed = bob.mcp("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.len() >= 7, "{listed}");
    let mut tried = BTreeSet::new();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let schema = &tool["inputSchema"];
        if schema["properties"]["session"].is_null() {
            assert!(["search", "sessions"].contains(&name), "{name} is new");
            continue;
        }
        let mut arguments = json!({"session": session});
        for needed in schema["required"].as_array().into_iter().flatten() {
            let needed = needed.as_str().unwrap();
            arguments[needed] = match needed {
                "session" => continue,
                "task" => json!("Tell."),
                "tasks" => json!([{"agent": "quiet", "task": "Tell."}]),
                "turn" => json!(parts[1].1),
                "query" => json!("number"),
                other => panic!("{name} needs {other}"),
            };
        }
        for (key, value) in [("query", json!("number")), ("from", json!(1))] {
            let mut arguments = arguments.clone();
            if !schema["properties"][key].is_null() {
                arguments[key] = value;
            }
            let answer = bob.tool(name, &arguments);
            let text = answer.to_string();
            assert_eq!(answer["result"]["isError"], true, "{name}: {text}");
            assert!(!text.contains(SECRET), "{name}: {text}");
        }
        tried.insert(name);
    }
    assert_eq!(
        tried,
        BTreeSet::from(["ask", "compact", "delegate", "recall", "wait"])
    );
    let templates = bob.mcp("resources/templates/list", &json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
    assert!(!templates.is_empty());
    for template in templates {
        let mut uri = template["uriTemplate"].as_str().unwrap().to_owned();
        for (name, id) in &parts {
            uri = uri.replace(name, id);
        }
        assert!(!uri.contains('{'), "{uri}: what of ada's does it name?");
        let answer = bob.mcp("resources/read", &json!({"uri": uri}));
        assert!(answer["error"].is_object(), "{uri}: {answer}");
        assert!(!answer.to_string().contains(SECRET), "{uri}: {answer}");
        let of_ada = ada.mcp("resources/read", &json!({"uri": uri}));
        assert!(of_ada["result"].is_object(), "{uri}: {of_ada}");
    }
    daemon.stop();
}

/// What the operations of A2A are called, with parameters that name a task of ada.
fn operations(session: &str, task: &str) -> Vec<(&'static str, Value)> {
    let hello = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Tell."}]});
    let with = |name: &str, id: &str| {
        let mut message = hello.clone();
        message[name] = id.into();
        json!({"message": message})
    };
    let mut refers = json!({"message": hello});
    refers["message"]["referenceTaskIds"] = json!([task]);
    let config = json!({"taskId": task, "id": "1", "url": "https://example.org/hook"});
    let named = json!({"taskId": task, "id": "1"});
    vec![
        ("SendMessage", with("contextId", session)),
        ("SendMessage", with("taskId", task)),
        ("SendMessage", refers),
        ("SendStreamingMessage", with("contextId", session)),
        ("SendStreamingMessage", with("taskId", task)),
        ("GetTask", json!({"id": task})),
        ("CancelTask", json!({"id": task})),
        ("SubscribeToTask", json!({"id": task})),
        ("CreateTaskPushNotificationConfig", config),
        ("GetTaskPushNotificationConfig", named.clone()),
        ("ListTaskPushNotificationConfigs", json!({"taskId": task})),
        ("DeleteTaskPushNotificationConfig", named),
    ]
}

#[test]
fn no_operation_of_a2a_and_no_door_of_openai_leads_to_the_session_of_another_owner() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let [ada, bob] = ["ada", "bob"].map(|name| of_owner(&daemon, name, "ask"));
    let parts = furnished(&ada);
    let (session, task) = (&parts[0].1, format!("{}.{}", parts[0].1, parts[1].1));
    let all = operations(session, &task);
    let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
    let known = OPERATIONS.split_once("enum Operation {").unwrap().1;
    let known = known.split_once("\n}").unwrap().0.lines().count() - 1;
    // `ListTasks` and `GetExtendedAgentCard` name no task.
    assert_eq!(names.len() + 2, known, "an operation is new");
    for base in ["/a2a", "/a2a/agents/quiet"] {
        for (method, params) in &all {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let reply = bob.send("POST", base, &[("A2A-Version", "1.0")], Some(&body));
            let answer = reply.text();
            assert!(answer.contains("\"error\""), "{base} {method}: {answer}");
            assert!(!answer.contains(SECRET), "{base} {method}: {answer}");
        }
        let tasks = format!("{base}/tasks");
        for (method, path) in [
            ("GET", format!("{tasks}/{task}")),
            ("POST", format!("{tasks}/{task}:cancel")),
            ("POST", format!("{tasks}/{task}:subscribe")),
            ("GET", format!("{tasks}/{task}:subscribe")),
            ("GET", format!("{tasks}/{task}/pushNotificationConfigs")),
            ("POST", format!("{tasks}/{task}/pushNotificationConfigs")),
            ("GET", format!("{tasks}/{task}/pushNotificationConfigs/1")),
            (
                "DELETE",
                format!("{tasks}/{task}/pushNotificationConfigs/1"),
            ),
        ] {
            let body = (method == "POST").then(|| json!({"url": "https://example.org/hook"}));
            let reply = bob.send(method, &path, &[("A2A-Version", "1.0")], body.as_ref());
            let status = reply.status;
            let text = reply.text();
            assert!(
                (400..500).contains(&status),
                "{method} {path}: {status} {text}"
            );
            assert!(!text.contains(SECRET), "{method} {path}: {text}");
        }
        let listed = bob.send("GET", &tasks, &[("A2A-Version", "1.0")], None);
        let listed = listed.expect(200).text();
        assert!(!listed.contains(session.as_str()), "{listed}");
    }
    for (door, key) in [("chat/completions", "messages"), ("responses", "input")] {
        let path = format!("/openai/v1/{door}");
        let said = json!([{"role": "user", "content": "Tell."}]);
        let named = json!({"model": "quiet", key: said, "metadata": {"session": session}});
        bob.post(&path, &named).expect(404);
        let plain = json!({"model": "quiet", key: said});
        let header = [("X-Unisono-Session", session.as_str())];
        let reply = bob.send("POST", &path, &header, Some(&plain)).expect(404);
        assert!(!reply.text().contains(SECRET), "{path}");
        ada.send("POST", &path, &header, Some(&plain)).expect(200);
    }
    daemon.stop();
}

#[test]
fn the_same_message_of_two_owners_is_a_task_of_each_on_one_database() {
    let server = needs!(Server::database());
    let place = member(&server);
    let daemon = Daemon::start(&place);
    let said = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": SECRET}]});
    let contexts = ["ada", "bob"].map(|name| {
        let caller = of_owner(&daemon, name, "ask");
        let sent = || caller.a2a("SendMessage", &json!({"message": said}));
        let (first, again) = (sent(), sent());
        let context = first["result"]["task"]["contextId"].as_str();
        let context = context.unwrap_or_else(|| panic!("{name}: {first}"));
        assert_eq!(again["result"]["task"]["contextId"], context, "{name}");
        caller.get(&format!("/v1/sessions/{context}")).expect(200);
        context.to_owned()
    });
    assert_ne!(contexts[0], contexts[1]);
    daemon.stop();
}
