//! Callbacks of the Agent2Agent protocol: addresses that receive the states of tasks.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, Gate, Recorded, Script, block_on};

use crate::a2a::{Client, held, says, scripted};
use crate::http::Daemon;
use crate::people::{caller, of_owner};
use crate::receiving::Receiving;
use crate::support::until;
use crate::tools::{Scene, program};

/// A server that accepts deliveries after it has refused some with these statuses.
pub(crate) fn receiving(refusals: &'static [u16]) -> Receiving {
    let mut receiving = Receiving::start(move |number| {
        let status = refusals.get(number).copied().unwrap_or(204);
        Act::json(status, "")
    });
    receiving.url += "/hook?of=me";
    receiving
}

pub(crate) fn task(delivery: &Recorded) -> Value {
    delivery.json()["task"].take()
}

pub(crate) fn state(delivery: &Recorded) -> String {
    let state = &task(delivery)["status"]["state"];
    state.as_str().unwrap().to_owned()
}

/// The states of the deliveries so far that nobody has taken.
pub(crate) fn states(receiving: &Receiving) -> Vec<String> {
    receiving.rest().iter().map(state).collect()
}

const ALLOWED: &str = "[server]\ncallback_hosts = [\"127.0.0.1\"]\n";

#[test]
fn a_callback_is_told_of_each_state_signed_and_with_what_its_client_asked_for() {
    let gate = Gate::new();
    let (provider, place) = scripted(Script::sequence([held(&gate, "On Friday.")]), ALLOWED);
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let card = daemon.json("/.well-known/agent-card.json");
    assert_eq!(card["capabilities"]["pushNotifications"], true);
    let receiving = receiving(&[]);
    let callback = json!({"url": receiving.url, "token": "mine",
        "authentication": {"scheme": "Bearer", "credentials": "secret"}});
    let sent = json!({"message": says("m1", "When?"), "configuration": {
        "returnImmediately": true, "taskPushNotificationConfig": callback}});
    let task = team.rpc("SendMessage", &sent)["task"].clone();
    block_on(provider.wait_for(1));
    let first = receiving.next();
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&&*state(&first)));
    assert_eq!(self::task(&first)["id"], task["id"]);
    assert_eq!((&*first.path, &*first.query), ("/hook", "of=me"));
    assert_eq!(first.header("authorization"), Some("Bearer secret"));
    assert_eq!(first.header("x-a2a-notification-token"), Some("mine"));
    assert_eq!(first.header("content-type"), Some("application/a2a+json"));

    let of_task = json!({"taskId": task["id"]});
    let listed = team.rpc("ListTaskPushNotificationConfigs", &of_task);
    let kept = &listed["configs"][0];
    assert_eq!(
        (&kept["url"], &kept["token"]),
        (&json!(receiving.url), &json!("mine"))
    );
    assert_eq!(
        kept["authentication"],
        json!({"scheme": "Bearer"}),
        "no credentials"
    );
    // Registered again, it is told nothing twice.
    let mut again = callback.clone();
    (again["taskId"], again["id"]) = (task["id"].clone(), kept["id"].clone());
    assert_eq!(&team.rpc("CreateTaskPushNotificationConfig", &again), kept);
    gate.open();
    let mut reply = vec![first];
    while state(reply.last().unwrap()) != "TASK_STATE_COMPLETED" {
        reply.push(receiving.next());
    }
    let last = reply.last().unwrap();
    assert_eq!(self::task(last), team.task(&task));
    let ids: std::collections::BTreeSet<_> =
        reply.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids.len(), reply.len());
    assert!(last.header("webhook-signature").unwrap().starts_with("v1,"));
    let seconds: u64 = last.header("webhook-timestamp").unwrap().parse().unwrap();
    assert!(seconds > 1_700_000_000);
    // What is over is forgotten.
    let kept = || team.rpc("ListTaskPushNotificationConfigs", &of_task)["configs"].is_array();
    until("it is kept", || !kept());
    daemon.stop();
    let file = std::fs::read_to_string(place.path("data/unisono/callbacks")).unwrap();
    assert_eq!(file, "[]");
}

#[test]
fn a_callback_is_told_after_the_program_was_killed_and_again_where_it_was_refused() {
    let gate = Gate::new();
    let acts = [
        held(&gate, "Lost."),
        Act::answer(Answer::text("The answer.")),
    ];
    let (provider, place) = scripted(Script::sequence(acts), ALLOWED);
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let how = json!({"returnImmediately": true});
    let sent = json!({"message": says("m1", "When?"), "configuration": how});
    let task = team.rpc("SendMessage", &sent)["task"].clone();
    block_on(provider.wait_for(1));
    let receiving = receiving(&[503, 302]);
    let path = format!(
        "/tasks/{}/pushNotificationConfigs",
        task["id"].as_str().unwrap()
    );
    let made = team.rest("POST", &path, Some(&json!({"url": receiving.url})));
    let made = made.expect(200).json();
    assert_eq!(made["taskId"], task["id"]);
    // Without a token of its own it is given a secret, which is not sent.
    let secret = made["token"].as_str().unwrap();
    assert_eq!(secret.len(), 64);
    let again = team.rest("POST", &path, Some(&json!({"url": receiving.url})));
    assert_eq!(again.expect(200).json(), made, "the same again is the same");
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    assert_eq!(team.rest("GET", &one, None).expect(200).json(), made);
    let first = receiving.next();
    assert_eq!(state(&first), "TASK_STATE_WORKING");
    assert_eq!(first.header("x-a2a-notification-token"), None);
    daemon.kill();

    let daemon = Daemon::keyed(&place);
    loop {
        let events = receiving.next();
        if state(&events) == "TASK_STATE_COMPLETED" {
            assert_eq!(
                self::task(&events)["artifacts"][0]["parts"][0]["text"],
                "The answer."
            );
            break;
        }
    }
    gate.open();
    let over = Client::of(&daemon).error(
        "CreateTaskPushNotificationConfig",
        &json!({"taskId": task["id"], "url": receiving.url}),
    );
    assert_eq!(over["code"], -32004, "{over}");
    daemon.stop();
}

/// Waits until a task has these callbacks.
pub(crate) fn until_callbacks(daemon: &Daemon, task: &Value, ids: &[&str]) {
    let of_task = json!({"taskId": task["id"]});
    until("the callbacks of the task are others", || {
        let listed = Client::of(daemon).rpc("ListTaskPushNotificationConfigs", &of_task);
        let configs = listed["configs"].as_array().into_iter().flatten();
        let listed: Vec<Value> = configs.map(|config| config["id"].clone()).collect();
        listed == ids
    });
}

#[test]
fn a_callback_ends_with_the_token_that_registered_it_also_after_a_restart() {
    let gate = Gate::new();
    let acts = [held(&gate, "Lost."), held(&gate, "The answer.")];
    let (provider, place) = scripted(Script::sequence(acts), ALLOWED);
    let daemon = Daemon::keyed(&place);
    let [hers, own] = [0; 2].map(|_| receiving(&[]));
    let callback = |id: &str, url: &str| json!({"id": id, "url": url});
    let task = {
        let ada = of_owner(&daemon, "ada", "ask");
        let sent = json!({"message": says("m1", "When?"), "configuration": {
            "returnImmediately": true,
            "taskPushNotificationConfig": callback("first", &hers.url)}});
        let task = ada.a2a("SendMessage", &sent)["result"]["task"].clone();
        let more = of_owner(&daemon, "ada", "approve");
        let mut config = callback("second", &hers.url);
        config["taskId"] = task["id"].clone();
        let made = more.a2a("CreateTaskPushNotificationConfig", &config);
        assert_eq!(made["result"]["id"], "second", "{made}");
        task
    };
    let mut config = callback("third", &own.url);
    config["taskId"] = task["id"].clone();
    Client::of(&daemon).rpc("CreateTaskPushNotificationConfig", &config);
    block_on(provider.wait_for(1));
    until_callbacks(&daemon, &task, &["first", "second", "third"]);
    place.call(&["tokens", "revoke", "ada-ask"]).expect(0);
    until_callbacks(&daemon, &task, &["second", "third"]);
    daemon.kill();
    place.call(&["tokens", "revoke", "ada-approve"]).expect(0);
    let daemon = Daemon::keyed(&place);
    until_callbacks(&daemon, &task, &["third"]);
    gate.open();
    while state(&own.next()) != "TASK_STATE_COMPLETED" {}
    let states = states(&hers);
    assert!(
        !states.contains(&"TASK_STATE_COMPLETED".to_owned()),
        "{states:?}"
    );
    daemon.stop();
}

#[test]
fn a_callback_that_is_deleted_while_its_host_is_not_listed_is_gone() {
    let gate = Gate::new();
    let acts = [held(&gate, "Lost."), held(&gate, "The answer.")];
    let (provider, place) = scripted(Script::sequence(acts), ALLOWED);
    let daemon = Daemon::keyed(&place);
    let callback = json!({"id": "mine", "url": "http://127.0.0.1:1/"});
    let sent = json!({"message": says("m1", "When?"), "configuration": {
        "returnImmediately": true, "taskPushNotificationConfig": callback}});
    let task = Client::of(&daemon).rpc("SendMessage", &sent)["task"]["id"].clone();
    block_on(provider.wait_for(1));
    daemon.kill();
    let others = ALLOWED.replace("127.0.0.1", "hooks.example");
    place.set_config(place.config().replace(ALLOWED, &others));
    let daemon = Daemon::keyed(&place);
    let named = json!({"taskId": task, "id": "mine"});
    Client::of(&daemon).rpc("DeleteTaskPushNotificationConfig", &named);
    gate.open();
    daemon.stop();
    let file = std::fs::read_to_string(place.path("data/unisono/callbacks")).unwrap();
    assert_eq!(file, "[]");
}

#[test]
fn a_callback_is_told_of_each_question() {
    let call = |text: &str| ("files__send", json!({"text": text}));
    let rules = program("approve = [\"send\"]");
    let scene = Scene::new(&[&[call("one"), call("two")]], &rules, ALLOWED);
    let daemon = Daemon::keyed(&scene.place);
    let team = Client::of(&daemon);
    let receiving = receiving(&[]);
    let sent = json!({"message": says("m1", "Do it."), "configuration": {
        "returnImmediately": true, "taskPushNotificationConfig": {"url": receiving.url}}});
    let task = team.rpc("SendMessage", &sent)["task"]["id"].clone();
    // The calls of the next question, and the id of its delivery.
    let question = || loop {
        let delivery = receiving.next();
        if state(&delivery) == "TASK_STATE_INPUT_REQUIRED" {
            let asked =
                self::task(&delivery)["status"]["message"]["parts"][1]["data"]["calls"].take();
            let calls = asked.as_array().unwrap().iter();
            let calls = calls.map(|call| call["call"].as_str().unwrap().to_owned());
            let id = delivery.header("webhook-id").unwrap().to_owned();
            break (calls.collect::<Vec<String>>(), id);
        }
    };
    let decide = |id: &str, call: &str| {
        let mut message = says(id, &format!("approve {call}"));
        message["taskId"] = task.clone();
        team.send(&message)
    };
    let (mut calls, first) = question();
    calls.sort();
    assert_eq!(calls.len(), 2);
    decide("m2", &calls.pop().unwrap());
    let (left, second) = question();
    assert_eq!(left, calls);
    assert_ne!(first, second, "the second one is no repetition");
    decide("m3", &calls[0]);
    while state(&receiving.next()) != "TASK_STATE_COMPLETED" {}
    daemon.stop();
}

#[test]
fn callbacks_go_to_hosts_that_are_listed_and_nowhere_else() {
    let gate = Gate::new();
    let (provider, place) = scripted(Script::sequence([held(&gate, "So.")]), ALLOWED);
    let daemon = Daemon::keyed(&place);
    let team = Client::of(&daemon);
    let callback = |url: &str| {
        json!({"message": says("m1", "When?"), "configuration": {
        "taskPushNotificationConfig": {"url": url}}})
    };
    for url in [
        "https://evil.example/",
        "http://localhost:1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:10.0.0.1]/",
        "http://user@127.0.0.1/",
        "ftp://127.0.0.1/",
        "nothing",
    ] {
        let refused = team.error("SendMessage", &callback(url));
        assert_eq!(refused["code"], -32602, "{url}: {refused}");
        let field = "configuration.taskPushNotificationConfig.url";
        assert!(
            refused["message"].as_str().unwrap().starts_with(field),
            "{refused}"
        );
    }
    assert_eq!(
        team.rpc("ListTasks", &json!({}))["totalSize"],
        0,
        "nothing was begun"
    );
    let how = json!({"returnImmediately": true});
    let sent = json!({"message": says("m1", "When?"), "configuration": how});
    let task = team.rpc("SendMessage", &sent)["task"]["id"].clone();
    block_on(provider.wait_for(1));
    // Nobody listens there: that is tried again, and the task goes on.
    let made = json!({"taskId": task, "url": "http://127.0.0.1:1/", "id": "mine"});
    let made = team.rpc("CreateTaskPushNotificationConfig", &made);
    let named = json!({"taskId": task, "id": "mine"});
    assert_eq!(team.rpc("GetTaskPushNotificationConfig", &named), made);
    // A token that may only read sees all but the secret.
    let reader = caller(&daemon, &json!({"name": "reader", "scope": "read"}));
    let listed = reader.a2a("ListTaskPushNotificationConfigs", &json!({"taskId": task}));
    let seen = reader.a2a("GetTaskPushNotificationConfig", &named)["result"].clone();
    assert_eq!(listed["result"]["configs"], json!([seen]));
    let mut public = made.clone();
    let secret = public.as_object_mut().unwrap().remove("token");
    assert_eq!((secret.is_some(), seen), (true, public));
    let other = json!({"taskId": task, "url": "http://127.0.0.1:1/", "id": "other"});
    let other = team.rpc("CreateTaskPushNotificationConfig", &other);
    let page = |token: &Value| {
        let asked = json!({"taskId": task, "pageSize": 1, "pageToken": token});
        team.rpc("ListTaskPushNotificationConfigs", &asked)
    };
    let first = page(&json!(""));
    assert_eq!(first["configs"], json!([made]));
    let second = page(&first["nextPageToken"]);
    assert_eq!(second, json!({"configs": [other], "nextPageToken": ""}));
    let none = team.error(
        "GetTaskPushNotificationConfig",
        &json!({"taskId": task, "id": "x"}),
    );
    assert_eq!(none["code"], -32001);
    for _ in 0..2 {
        assert_eq!(
            team.rpc("DeleteTaskPushNotificationConfig", &named),
            json!({})
        );
    }
    assert_eq!(
        team.error("GetTaskPushNotificationConfig", &named)["code"],
        -32001
    );
    let of_none = json!({"taskId": "x", "url": "http://127.0.0.1:1/"});
    assert_eq!(
        team.error("CreateTaskPushNotificationConfig", &of_none)["code"],
        -32001
    );
    gate.open();
    assert_eq!(
        team.send(&says("m1", "When?"))["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
    daemon.stop();
}
