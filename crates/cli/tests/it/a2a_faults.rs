//! What the Agent2Agent protocol refuses, and how: each error as the protocol has it.

use serde_json::{Value, json};

use crate::a2a::{Client, says};
use crate::http::{Daemon, Reply, head};
use crate::support::Place;

fn sends(daemon: &Daemon, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    daemon.send_as(&daemon.token, "POST", path, headers, body.as_bytes())
}

const JSON: (&str, &str) = ("Content-Type", "application/json");
const VERSION: (&str, &str) = ("A2A-Version", "1.0");

#[test]
fn what_is_wrong_is_an_error_of_the_protocol_in_both_bindings() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let file = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "aGk=", "mediaType": "image/png"}]});
    let with = |field: &str, value: Value| {
        let mut message = says("m", "Why?");
        message[field] = value;
        json!({"message": message})
    };
    let none = "01a00000-0000-7000-8000-000000000000";
    let callback = json!({"message": says("m", "Why?"), "configuration": {
        "taskPushNotificationConfig": {"url": "https://example.com/hook"}}});
    let wants_images = json!({"message": says("m", "Why?"), "configuration": {
        "acceptedOutputModes": ["image/png"]}});
    // The code of JSON-RPC, the status of HTTP, the reason.
    let sends_rows = rows! {
        (json!({"message": file}), -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        (wants_images, -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
        (callback, -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        (with("taskId", json!("nothing")), -32001, 404, "TASK_NOT_FOUND"),
        (with("taskId", json!(format!("{none}.{none}"))), -32001, 404, "TASK_NOT_FOUND"),
        (with("contextId", json!(none)), -32602, 400, "INVALID_PARAMS"),
        (with("contextId", json!("mine")), -32602, 400, "INVALID_PARAMS"),
        (with("role", json!("ROLE_AGENT")), -32602, 400, "INVALID_PARAMS"),
        (with("parts", json!([])), -32602, 400, "INVALID_PARAMS"),
        (with("parts", json!("Why?")), -32602, 400, "INVALID_PARAMS"),
        (with("messageId", json!("")), -32602, 400, "INVALID_PARAMS"),
        (json!({"message": says("m", "Why?"), "tenant": "other"}), -32602, 400, "INVALID_PARAMS"),
        (
            json!({"message": says("m", "Why?"), "configuration": {"historyLength": -1}}),
            -32602,
            400,
            "INVALID_PARAMS",
        ),
        (json!({}), -32602, 400, "INVALID_PARAMS"),
    };
    for (body, code, status, reason) in sends_rows {
        for (method, path) in [
            ("SendMessage", "/message:send"),
            ("SendStreamingMessage", "/message:stream"),
        ] {
            let error = team.error(method, &body);
            assert_eq!(
                (&error["code"], &error["data"][0]["reason"]),
                (&json!(code), &json!(reason)),
                "{body}: {error}"
            );
            let refused = team.rest("POST", path, Some(&body)).expect(status);
            assert_eq!(refused.header("content-type"), Some("application/json"));
            let refused = refused.json();
            assert_eq!(
                refused["error"]["details"][0]["reason"], reason,
                "{body}: {refused}"
            );
            assert_eq!(refused["error"]["message"], error["message"]);
        }
    }
    // Nothing was begun.
    assert_eq!(team.rpc("ListTasks", &json!({}))["totalSize"], 0);
    let listed = place.json(&["sessions", "list"]);
    assert_eq!(listed, json!([]));
    let rows = rows! {
        ("GetTask", json!({"id": "x"}), -32001),
        ("GetTask", json!({"id": format!("{none}.{none}"), "historyLength": -1}), -32602),
        ("CancelTask", json!({"id": format!("{none}.{none}")}), -32001),
        ("SubscribeToTask", json!({"id": "x"}), -32001),
        ("ListTasks", json!({"pageSize": 0}), -32602),
        ("ListTasks", json!({"pageSize": 101}), -32602),
        ("ListTasks", json!({"pageToken": "x"}), -32602),
        ("ListTasks", json!({"status": "TASK_STATE_RUNNING"}), -32602),
        ("ListTasks", json!({"statusTimestampAfter": "yesterday"}), -32602),
        ("GetExtendedAgentCard", json!({}), -32004),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "x"}), -32003),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "x", "tenant": "other"}), -32602),
        ("message/send", json!({"message": says("m", "?")}), -32601),
    };
    for (method, params, code) in rows {
        let error = team.error(method, &params);
        assert_eq!(error["code"], code, "{method} {params}: {error}");
    }
    let rows = rows! {
        ("GET", "/tasks/x", 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks/x:subscribe", 404, "TASK_NOT_FOUND"),
        ("GET", "/tasks/x:cancel", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/tasks/x", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/tasks/x:explode", 404, "NOT_FOUND"),
        ("GET", "/message:send", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", "/tasks?pageSize=many", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?pageSize=0", 400, "INVALID_PARAMS"),
        ("GET", "/tasks?includeArtifacts=perhaps", 400, "INVALID_PARAMS"),
        ("GET", "/extendedAgentCard", 400, "UNSUPPORTED_OPERATION"),
        ("GET", "/tasks/x/pushNotificationConfigs", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE", "/tasks/x/pushNotificationConfigs/y?tenant=other", 400, "INVALID_PARAMS"),
    };
    for (method, path, status, reason) in rows {
        let refused = team.rest(method, path, None).expect(status).json();
        assert_eq!(
            refused["error"]["details"][0]["reason"], reason,
            "{method} {path}"
        );
    }
    let nobody = Client {
        base: "/a2a/agents/nobody",
        ..team
    };
    let unknown = nobody.call("SendMessage", &json!({"message": says("m", "?")}));
    let unknown = unknown.expect(404).json();
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("nobody")
    );
    daemon.stop();
}

#[test]
fn versions_and_types_that_are_not_spoken_are_refused() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let call =
        json!({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": {}}).to_string();
    for version in [None, Some("0.3"), Some("2.0"), Some("x")] {
        let named = version.map(|version| ("A2A-Version", version));
        let headers: Vec<_> = [JSON].into_iter().chain(named).collect();
        let error = sends(&daemon, "/a2a", &headers, &call).expect(200).json();
        assert_eq!(
            (&error["id"], &error["error"]["code"]),
            (&json!("a"), &json!(-32009))
        );
        let info = &error["error"]["data"][0];
        assert_eq!(info["metadata"]["supportedVersions"], "1.0");
        let earlier = call.replace("ListTasks", "message/send");
        let error = sends(&daemon, "/a2a", &headers, &earlier).expect(200);
        assert_eq!(error.json()["error"]["code"], -32009);
        let refused = sends(&daemon, "/a2a/message:send", &headers, "{}")
            .expect(400)
            .json();
        assert_eq!(
            refused["error"]["details"][0]["reason"],
            "VERSION_NOT_SUPPORTED"
        );
    }
    let path = "/a2a/tasks?A2A-Version=1.0";
    assert_eq!(daemon.get(path).expect(200).json()["totalSize"], 0);
    for kind in [
        "text/plain",
        "application/jsonx",
        "application/x-www-form-urlencoded",
    ] {
        let headers = [("Content-Type", kind), VERSION];
        let refused = sends(&daemon, "/a2a", &headers, &call).expect(415).json();
        assert_eq!(
            (&refused["id"], &refused["error"]["code"]),
            (&Value::Null, &json!(-32005))
        );
        let refused = sends(&daemon, "/a2a/message:send", &headers, "{}").expect(415);
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let refused = refused.json();
        assert_eq!(
            refused["error"]["details"][0]["reason"],
            "CONTENT_TYPE_NOT_SUPPORTED"
        );
    }
    let kind = ("Content-Type", "application/a2a+json; charset=utf-8");
    sends(&daemon, "/a2a", &[kind, VERSION], &call).expect(200);
    // An error of HTTP has its own type, whatever that of the request.
    let refused = sends(&daemon, "/a2a/message:send", &[kind, VERSION], "{").expect(400);
    assert_eq!(refused.header("content-type"), Some("application/json"));
    daemon.stop();
}

#[test]
fn bodies_that_are_no_requests_or_too_large_are_refused() {
    let place = Place::with_config("[server]\nbody_limit_bytes = 4_096\n");
    let daemon = Daemon::start(&place);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": says("m", &"x".repeat(8_192))}})
    .to_string();
    let deep = "[".repeat(2_000);
    let rows = [
        ("{\"jsonrpc\": ", 200, -32700),
        ("", 200, -32700),
        ("[1, 2]", 200, -32600),
        ("\"text\"", 200, -32600),
        (&*deep, 200, -32700),
        (&*large, 413, -32600),
    ];
    for (body, status, code) in rows {
        let reply = sends(&daemon, "/a2a", &[JSON, VERSION], body).expect(status);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let error = reply.json();
        assert_eq!(
            (&error["id"], &error["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{body}"
        );
    }
    for (body, status) in [("{", 400), ("", 400), ("[]", 400), (&*large, 413)] {
        let refused = sends(&daemon, "/a2a/message:send", &[JSON, VERSION], body);
        let refused = refused.expect(status).json();
        assert_eq!(refused["error"]["code"], status, "{body}");
    }
    // It answers as before.
    assert_eq!(
        Client::of(&daemon).rpc("ListTasks", &json!({}))["totalSize"],
        0
    );
    daemon.stop();
}

#[test]
fn nothing_but_cards_is_told_without_the_token_or_for_another_host() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let host = daemon.address.clone();
    for path in ["/a2a", "/a2a/agents/facts"] {
        for wrong in [None, Some("Bearer x"), Some("Basic eDp4")] {
            let who = wrong.map(|wrong| ("Authorization", wrong));
            let headers: Vec<_> = [("Host", &*host), JSON, VERSION]
                .into_iter()
                .chain(who)
                .collect();
            let refused = daemon
                .send(&head("POST", path, &headers, 2), b"{}")
                .expect(401);
            assert!(
                refused
                    .header("www-authenticate")
                    .unwrap()
                    .starts_with("Bearer")
            );
            let refused = refused.json();
            assert_eq!(
                (&refused["jsonrpc"], &refused["id"]),
                (&json!("2.0"), &Value::Null)
            );
            assert_eq!(refused["error"]["data"][0]["reason"], "UNAUTHENTICATED");
            let tasks = format!("{path}/tasks");
            let refused = daemon
                .send(&head("GET", &tasks, &headers, 0), b"")
                .expect(401)
                .json();
            assert_eq!(refused["error"]["status"], "UNAUTHENTICATED");
        }
    }
    let card = "/.well-known/agent-card.json";
    for headers in [
        [("Host", "evil.example"), VERSION],
        [("Host", &*host), ("Origin", "http://evil.example")],
    ] {
        let refused = daemon
            .send(&head("GET", card, &headers, 0), b"")
            .expect(403)
            .json();
        assert_eq!(refused["error"]["status"], "PERMISSION_DENIED");
    }
    let headers = [("Host", &*host), VERSION];
    daemon
        .send(&head("DELETE", card, &headers, 0), b"")
        .expect(405);
    daemon.stop();
}

#[test]
fn more_streams_than_are_allowed_are_told_to_come_back() {
    let place = Place::with_config("[server]\nstreams = 1\n");
    let daemon = Daemon::start(&place);
    let team = Client::of(&daemon);
    let session = place.json(&["import", &crate::support::example()])["session"].clone();
    let path = format!("/v1/sessions/{}/events", session.as_str().unwrap());
    let open = daemon.get(&path).expect(200);
    let sent = json!({"message": says("m", "Why?")});
    let busy = team
        .rest("POST", "/message:stream", Some(&sent))
        .expect(429);
    assert!(busy.header("retry-after").is_some());
    assert_eq!(busy.json()["error"]["status"], "RESOURCE_EXHAUSTED");
    let busy = team.call("SendStreamingMessage", &sent).expect(429).json();
    assert_eq!(
        (&busy["id"], &busy["error"]["code"]),
        (&json!(1), &json!(-32000))
    );
    // Nothing was begun.
    assert_eq!(team.rpc("ListTasks", &json!({}))["totalSize"], 0);
    drop(open);
    daemon.stop();
}
