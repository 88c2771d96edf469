//! What the daemon is asked that it must not do, or cannot.

use serde_json::{Value, json};

use crate::http::{Daemon, half_sent, head};
use crate::support::Place;

/// The secret of the trigger `known`.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn nothing_is_told_without_the_token_or_to_other_pages() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let host = daemon.address.clone();
    let bearer = format!("Bearer {}", daemon.token);
    let get =
        |path: &str, headers: &[(&str, &str)]| daemon.send(&head("GET", path, headers, 0), b"");
    let described = daemon.get("/v1/openapi.json").expect(200).json();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 35, "{}", paths.len());
    for (path, methods) in paths {
        if ["/healthz", "/readyz", "/problems/{code}"].contains(&path.as_str()) {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let none = daemon
                .send(&head(&method, path, &[("Host", &host)], 0), b"")
                .expect(401);
            assert!(none.header("www-authenticate").is_some());
            if path.starts_with("/openai/") {
                assert_eq!(none.json()["error"]["type"], "authentication_error");
                continue;
            }
            none.problem("unauthorized");
        }
    }
    for wrong in ["Bearer x", "Basic x", "Bearer", &bearer[..bearer.len() - 1]] {
        get("/v1/sessions", &[("Host", &host), ("Authorization", wrong)]).expect(401);
    }
    let port = host.rsplit_once(':').unwrap().1;
    let evil = format!("evil.example:{port}");
    get(
        "/v1/sessions",
        &[("Host", &evil), ("Authorization", &bearer)],
    )
    .expect(403)
    .problem("forbidden");
    let named = format!("localhost:{port}");
    get(
        "/v1/sessions",
        &[("Host", &named), ("Authorization", &bearer)],
    )
    .expect(200);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let headers = [
            ("Host", host.as_str()),
            ("Authorization", &bearer),
            ("Origin", origin),
        ];
        get("/v1/sessions", &headers).expect(403);
    }
    let own = format!("http://{host}");
    let headers = [
        ("Host", host.as_str()),
        ("Authorization", &bearer),
        ("Origin", &own),
    ];
    let reply = get("/v1/sessions", &headers).expect(200);
    assert_eq!(reply.header("access-control-allow-origin"), None);
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    get("/v1/sessions", &[("Authorization", &bearer)]).expect(400);
    // Probes of a container name its address, or no host.
    for path in ["/healthz", "/readyz"] {
        for host in [&[("Host", "10.1.2.3:7007")][..], &[]] {
            get(path, host).expect(200);
        }
    }
    daemon.stop();
}

#[test]
fn every_route_says_what_is_wrong_with_a_request() {
    let place = Place::with_config(
        "[server]\nbody_limit_bytes = 20_000\n[triggers.known]\nsecret_env = \"KNOWN\"\n\
         task = \"Look.\"\n[schedules.known]\nevery = \"8760h\"\ntask = \"Look.\"\n",
    );
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("KNOWN", SECRET);
    let daemon = Daemon::of(&place, command);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let id: &str = &daemon.session(&new);
    let described = daemon.get("/v1/openapi.json").expect(200).json();
    assert!(described["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, methods) in described["paths"].as_object().unwrap() {
        let concrete = path
            .replace("{session}", id)
            .replace("{turn}", id)
            .replace("{run}", id)
            .replace("{message}", "1")
            .replace("{number}", "1")
            .replace("{snapshot}", id)
            .replace("{trigger}", "known")
            .replace("{schedule}", "known")
            .replace("{code}", "busy");
        let known = methods.as_object().unwrap();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if known.contains_key(&method.to_lowercase()) {
                continue;
            }
            let reply = daemon.request(method, &concrete, None).expect(405);
            assert!(reply.header("allow").is_some(), "{method} {path}");
            if path.starts_with("/openai/") {
                assert_eq!(reply.json()["error"]["code"], "method_not_allowed");
            } else {
                reply.problem("method_not_allowed");
            }
        }
        if let Some(post) = known
            .get("post")
            .filter(|post| post.get("requestBody").is_some())
        {
            let content = &post["requestBody"]["content"];
            if content["application/octet-stream"].is_object() {
                let read = daemon.post(&format!("{concrete}?name=x"), &json!({"no": "messages"}));
                // A conversation is read and refused; what is no file of a known type is not read.
                match path.as_str() {
                    "/v1/blobs" => read.expect(400).problem("invalid_request"),
                    _ => read.expect(422).problem("refused"),
                };
            } else {
                assert!(content["application/json"].is_object(), "{path}");
                bad_bodies(&daemon, &concrete);
            }
        }
        let wrong = path.replace("{session}", "not-an-id").replace("{turn}", id);
        if path.contains("{session}") {
            let method = known.keys().next().unwrap().to_uppercase();
            let body = json!({"task": "x", "name": "x", "at": "#1"});
            let body = (method == "POST").then_some(&body);
            let status = daemon.request(&method, &wrong, body).status;
            assert!([400, 422].contains(&status), "{method} {wrong}: {status}");
        }
    }
    let paths = described["paths"].as_object().unwrap();
    let queried = paths.iter();
    let queried = queried.map(|(path, methods)| bad_places(&daemon, id, path, methods));
    assert!(queried.sum::<usize>() > 30, "what follows a question mark");
    let nobody = "01900000-0000-7000-8000-000000000000";
    daemon
        .get(&format!("/v1/sessions/{nobody}"))
        .expect(404)
        .problem("not_found");
    daemon
        .get(&format!("/v1/sessions/{id}/turns/{nobody}"))
        .expect(404)
        .problem("not_found");
    daemon
        .get("/v1/sessions?cursor=x")
        .expect(400)
        .problem("invalid_request");
    daemon
        .get("/v1/sessions?limit=-1")
        .expect(400)
        .problem("invalid_request");
    daemon
        .get("/v1/sessions?limits=1")
        .expect(400)
        .problem("invalid_request");
    daemon
        .get(&format!("/v1/sessions/{id}/messages?branch=nope"))
        .expect(404);
    daemon.get("/v2/sessions").expect(404).problem("not_found");
    let turns = format!("/v1/sessions/{id}/turns");
    let empty = daemon.post(&turns, &json!({"task": " "})).expect(422);
    assert!(empty.problem("refused").contains("empty"));
    let nobody = daemon
        .post(&turns, &json!({"task": "x", "lead": "laed"}))
        .expect(422);
    assert!(nobody.problem("refused").contains("lead"));
    let page = daemon.get("/problems/busy").expect(200).text();
    assert!(page.contains("429"), "{page}");
    daemon.get("/problems/teapot").expect(404);
    daemon.stop();
}

/// Each part of an address and of what follows its question mark, wrong in turn; how many of the
/// latter there were.
fn bad_places(daemon: &Daemon, session: &str, path: &str, methods: &Value) -> usize {
    let mut tried = 0;
    let parts: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
    let concrete = |wrong: Option<(&str, &str)>| {
        parts.iter().fold(path.to_owned(), |path, part| {
            let right = match *part {
                "message" | "number" => "1",
                "code" => "busy",
                _ => session,
            };
            let wrong_part = wrong.filter(|(name, _)| name == part);
            path.replace(
                &format!("{{{part}}}"),
                wrong_part.map_or(right, |(_, wrong)| wrong),
            )
        })
    };
    // A request without the secret of a trigger does not learn whether the trigger exists.
    let is_trigger = path.starts_with("/v1/triggers/");
    let is_expected = |status: u16| match is_trigger {
        true => [400, 401, 404].contains(&status),
        false => [400, 404, 409, 422].contains(&status),
    };
    for (method, described) in methods.as_object().unwrap() {
        let method = method.to_uppercase();
        let body = described.get("requestBody").is_some();
        let empty = json!({});
        let ask = |path: &str| daemon.request(&method, path, body.then_some(&empty)).status;
        // A chat's id is its page's own: any will do.
        for part in parts.iter().filter(|part| **part != "chat") {
            for wrong in [
                "not-an-id",
                "-1",
                "99999999999999999999",
                "%00",
                "%FF",
                "..%2F..%2Fetc",
            ] {
                let path = concrete(Some((part, wrong)));
                let status = ask(&path);
                assert!(is_expected(status), "{method} {path}: {status}");
            }
        }
        if method != "GET" || path.starts_with("/openai/") {
            continue;
        }
        let parameters = described["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let queried = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query");
        for parameter in queried {
            let name = parameter["name"].as_str().unwrap();
            let number = parameter["schema"].to_string().contains("integer");
            if !number && !["cursor", "session"].contains(&name) {
                continue;
            }
            tried += 1;
            for wrong in ["x%00", "-1.5", "%FF%FE", "99999999999999999999999"] {
                let path = format!("{}?{name}={wrong}", concrete(None));
                let status = daemon.get(&path).status;
                assert!(is_expected(status), "GET {path}: {status}");
            }
        }
    }
    tried
}

fn bad_bodies(daemon: &Daemon, path: &str) {
    let is_trigger = path.starts_with("/v1/triggers/");
    let secret = match is_trigger {
        true => SECRET,
        false => &daemon.token,
    };
    let send = |kind: &str, body: &[u8]| {
        let kind = [("Content-Type", kind)];
        daemon.send_as(secret, "POST", path, &kind, body).status
    };
    assert_eq!(send("text/plain", b"{}"), 415, "{path}");
    let json = "application/json";
    assert_eq!(send(json, b"{"), 400, "{path}");
    assert_eq!(send(json, b"[]"), 400, "{path}");
    assert_eq!(send(json, b"{\"task\": \"\xff\"}"), 400, "{path}");
    let deep = format!(
        "{{\"messages\": {}{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    // A route that keeps messages as they were written refuses what is in them. A trigger takes a body as
    // text.
    let answered = send(json, deep.as_bytes());
    assert!(
        matches!(answered, 400 | 422) || is_trigger && answered == 202,
        "{path}: {answered}"
    );
    assert_eq!(send(json, &vec![b' '; 30_000]), 413, "{path}");
}

#[test]
fn more_than_there_is_room_for_is_told_to_come_back_and_health_still_answers() {
    let place = Place::with_config("[server]\nrequests = 2\nstreams = 2\n");
    let daemon = Daemon::start(&place);
    let new = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let id = daemon.session(&new);
    let events = format!("/v1/sessions/{id}/events?after=0");
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = daemon.get(&events).expect(200).events();
        assert!(stream.next().is_some());
        open.push(stream);
    }
    let full = daemon.get(&events).expect(429);
    assert_eq!(full.header("retry-after"), Some("1"));
    full.problem("busy");
    // A client that sends half of a request's body takes a place until it is done.
    let bearer = format!("Bearer {}", daemon.token);
    let headers = [
        ("Host", daemon.address.as_str()),
        ("Authorization", &bearer),
        ("Content-Type", "application/json"),
        ("Expect", "100-continue"),
    ];
    let head = head("POST", "/v1/sessions", &headers, 100);
    let slow = [(); 2].map(|()| half_sent(&daemon.address, &head));
    daemon.get("/v1/agents").expect(429).problem("busy");
    daemon.get("/healthz").expect(200);
    daemon.get("/readyz").expect(200);
    drop(slow);
    drop(open);
    daemon.stop();
}

#[test]
fn it_listens_to_this_machine_only_unless_told_otherwise() {
    let place = Place::new();
    for _ in 0..3 {
        let refused = place.call(&["serve", "--bind", "0.0.0.0:0"]).expect(2);
        let refused = refused.says(&["other machines", "--allow-remote"]);
        // The store is closed, not dropped: that would be reported as damage.
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{refused:?}");
    }
    place.refuses(&["serve", "--bind", "here"], &["address with a port"]);
    let daemon = Daemon::start(&place);
    place
        .call(&["serve", "--bind", &daemon.address])
        .expect(1)
        .says(&["has the store open", &daemon.address]);
    let other = Place::new();
    other
        .call(&["serve", "--bind", &daemon.address])
        .expect(1)
        .says(&["is in use", "server.bind"]);
    let listed: Value = place.json(&["sessions", "list"]);
    assert_eq!(listed, json!([]), "through the daemon");
    daemon.stop();
    let left: Value = place.json(&["sessions", "list"]);
    assert_eq!(left, json!([]));
}
