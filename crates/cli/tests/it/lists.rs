//! Lists over HTTP: each growing list has pages, and the pages together are the list.

use serde_json::{Value, json};
use unisono_server::http::description;

use crate::http::Daemon;
use crate::support::until;
use crate::tools::{Scene, program};

/// Lists that are as long as the configuration makes them.
const CONFIGURED: [&str; 5] = [
    "/v1/agents",
    "/v1/health",
    "/v1/models",
    "/v1/settings",
    "/v1/sessions/{session}/settings",
];

/// Where the store is a directory, it has no members, and no sessions of a member.
const EMPTY: &str = "/v1/cluster";
const OF_A_MEMBER: &str = "/v1/cluster/{member}/sessions";

/// The routes that tell a list in parts, as the description has them.
fn in_parts() -> Vec<String> {
    let described: Value = serde_json::from_str(&description()).unwrap();
    let paths = described["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, methods) in paths {
        let parameters = methods["get"]["parameters"].as_array();
        let named = |name: &str| {
            let mut all = parameters.into_iter().flatten();
            all.any(|one| one["in"] == "query" && one["name"] == name)
        };
        let content = &methods["get"]["responses"]["200"]["content"];
        let whole = content["application/json"]["schema"]["type"] == "array";
        assert!(
            !whole || CONFIGURED.contains(&path.as_str()),
            "GET {path} tells a list that grows as a whole"
        );
        assert_eq!(named("cursor"), named("cursor") && named("limit"), "{path}");
        if named("cursor") {
            found.push(path.clone());
        }
    }
    found
}

fn items(part: &Value) -> &Vec<Value> {
    let lists = ["items", "pinned", "hits"];
    let found = lists.iter().find_map(|name| part[*name].as_array());
    found.unwrap_or_else(|| panic!("no list: {part}"))
}

/// A session in which there are several of everything that a list is made of.
fn grown(daemon: &Daemon) -> String {
    let said = |n: usize| {
        let role = ["user", "assistant"][n % 2];
        json!({"role": role, "content": format!("We ship part {n} on Friday.")})
    };
    let messages: Vec<Value> = (0..8).map(said).collect();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let made = daemon.post("/v1/sessions", &json!({"messages": messages}));
        let made = made.expect(201).json();
        ids.push(made["session"].as_str().unwrap().to_owned());
    }
    let id = ids.remove(1);
    for name in ["ada", "bob", "cleo"] {
        let token = json!({"name": name, "scope": "read"});
        daemon.post("/v1/tokens", &token).expect(201);
    }
    let task = json!({"task": "When do we ship?", "lead": "plain", "agents": []});
    let other = format!("/v1/sessions/{}/turns", ids[0]);
    daemon.post(&other, &task).expect(200);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    for n in 1..4 {
        daemon.request("PUT", &at(&format!("/pins/{n}")), None);
        let branch = json!({"name": format!("plan {n} ü"), "at": format!("#{n}")});
        daemon.post(&at("/branches"), &branch).expect(201);
        daemon.post(&at("/topics/seal"), &json!({})).expect(200);
        let turn = daemon.post(&at("/turns"), &task).expect(200).json();
        assert_eq!(turn["state"], "answered", "{turn}");
    }
    let kept = json!({"keep_messages": 2});
    daemon.post(&at("/compactions"), &kept).expect(200);
    for n in 1..3 {
        let text = json!({"text": format!("Version {n}: all parts ship on Friday.")});
        let edit = at(&format!("/checkpoints/{n}/edit"));
        daemon.post(&edit, &text).expect(200);
    }
    let task = json!({"task": "Send them.", "wait": false});
    daemon.post(&at("/turns"), &task).expect(202);
    until("no call waits", || {
        items(&daemon.get("/v1/approvals").expect(200).json()).len() >= 3
    });
    id
}

/// A project whose clerk has three calls that wait for a person, and an agent that just answers.
fn scene() -> Scene {
    let send = |text: &str| ("files__send", json!({"text": text}));
    let calls = [send("one"), send("two"), send("three")];
    let schedule = |name| {
        format!("[schedules.{name}]\nevery = \"8760h\"\ntask = \"Look.\"\nenabled = false\n")
    };
    let plain = "[agents.plain]\ndescription = \"answers\"\nmodel = \"extractive\"\n";
    let more = plain.to_owned() + &["one", "three", "two"].map(schedule).concat();
    Scene::new(&[&calls], &program("approve = [\"send\"]"), &more)
}

/// All of a list, one by one.
fn walked(daemon: &Daemon, path: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let part = daemon.json(&format!("{path}limit=1{cursor}"));
        assert!(items(&part).len() <= 1, "{path}: {part}");
        all.extend(items(&part).iter().cloned());
        assert!(all.len() < 200, "{path} does not end");
        match part["next"].as_str() {
            Some(next) => cursor = format!("&cursor={}", escaped(next)),
            None => return all,
        }
    }
}

/// A text as it stands in an address.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn every_list_that_grows_is_told_in_parts_without_gap_or_repetition() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let id = grown(&daemon);
    let lost = |n: u32| format!("{id} {n} {n} 1790000000000 1\n");
    let losses = scene.place.path("data/unisono/losses");
    std::fs::write(losses, [2, 3, 4].map(lost).concat()).unwrap();
    let lists = in_parts();
    assert!(lists.len() >= 14, "{lists:?}");
    for list in lists.iter().filter(|list| *list != OF_A_MEMBER) {
        let search = if list.ends_with("/search") {
            "q=ship&"
        } else {
            ""
        };
        let path = format!("{}?{search}", list.replace("{session}", &id));
        let whole = daemon.get(&format!("{path}limit=500")).expect(200).json();
        assert_eq!(whole["next"], Value::Null, "{list}");
        let is_long = items(&whole).len() > 1 || list == EMPTY;
        assert!(is_long, "{list} is too short to tell");
        assert_eq!(&walked(&daemon, &path), items(&whole), "{list}");
        for wrong in ["", "no-such-place", "%00", "-1", "1.5"] {
            let refused = daemon.get(&format!("{path}cursor={wrong}")).expect(400);
            let detail = refused.problem("invalid_request");
            assert!(
                detail.contains("is not a cursor of this list"),
                "{list}: {detail}"
            );
        }
        for wrong in ["x", "-1", "1.5", ""] {
            let refused = daemon.get(&format!("{path}limit={wrong}")).expect(400);
            let detail = refused.problem("invalid_request");
            assert!(detail.contains("limit"), "{list}: {detail}");
        }
    }
    daemon.stop();
}

#[test]
fn a_list_goes_on_where_it_was_though_it_changed_in_between() {
    let scene = scene();
    let daemon = Daemon::start(&scene.place);
    let id = grown(&daemon);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let part = |path: &str, cursor: Option<&Value>| {
        let cursor = cursor.and_then(Value::as_str);
        let cursor = cursor.map(|next| format!("&cursor={}", escaped(next)));
        let path = format!("{path}?limit=1{}", cursor.unwrap_or_default());
        daemon.get(&path).expect(200).json()
    };

    // The last item of the page does not wait any more.
    let first = part("/v1/approvals", None);
    let call = items(&first)[0]["call"].as_str().unwrap();
    let approve = json!({"decision": "approve"});
    daemon
        .post(&format!("/v1/approvals/{call}"), &approve)
        .expect(200);
    let second = part("/v1/approvals", Some(&first["next"]));
    assert_eq!(items(&second)[0]["arguments"], json!({"text": "two"}));

    // One comes before the last item of the page, one after it.
    let first = part(&at("/branches"), None);
    assert_eq!(items(&first)[0]["name"], "main");
    for name in ["a", "n"] {
        let new = json!({"name": name, "at": "#1"});
        daemon.post(&at("/branches"), &new).expect(201);
    }
    let second = part(&at("/branches"), Some(&first["next"]));
    assert_eq!(items(&second)[0]["name"], "n");

    // The last item of the page is not pinned any more.
    let first = part(&at("/pins"), None);
    assert_eq!(items(&first)[0]["ordinal"], 1);
    assert_eq!(items(&first).len(), 1);
    daemon.delete(&at("/pins/1")).expect(200);
    let second = part(&at("/pins"), Some(&first["next"]));
    assert_eq!(items(&second)[0]["ordinal"], 2);
    assert!(
        second["pinned_tokens"].as_u64() > items(&second)[0]["tokens"].as_u64(),
        "what all of them take: {second}"
    );
    daemon.stop();
}
