//! The daemon over HTTP: conversations, turns, events, OpenAI's clients, restarts.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{Place, example, heard, send_signal, tell};

fn talk() -> Value {
    json!([
        {"role": "system", "content": "You help a small shop."},
        {"role": "user", "content": "We decided to move the orders database on Friday 6 March."},
        {"role": "assistant", "content": "Noted: the orders database moves on Friday 6 March."},
    ])
}

fn session(daemon: &Daemon) -> String {
    let new = json!({"title": "Move", "labels": {"team": "shop"}, "messages": talk()});
    let made = daemon.post("/v1/sessions", &new).expect(201);
    let location = made.header("location").unwrap().to_owned();
    let body = made.json();
    let id = body["session"].as_str().unwrap().to_owned();
    assert_eq!(location, format!("/v1/sessions/{id}"));
    assert_eq!(body["system"], "You help a small shop.");
    assert_eq!(body["messages"], 2);
    assert_eq!(body["branches"]["items"][0]["name"], "main");
    id
}

#[test]
fn an_answer_of_a_chat_is_regenerated_as_often_as_is_asked() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let path = format!("/v1/sessions/{}/chat", session(&daemon));
    let says = |id: &str, role: &str, text: &str| json!({"id": id, "role": role, "parts": [{"type": "text", "text": text}]});
    let turn = |messages: &Value, trigger: &str| {
        let body = json!({"messages": messages, "trigger": trigger, "agents": []});
        let events = daemon.post(&path, &body).expect(200).events();
        let parts = events.filter_map(|event| serde_json::from_str(&event.data).ok());
        let parts: Vec<Value> = parts.collect();
        assert_eq!(parts.last().unwrap()["type"], "finish", "{parts:?}");
        parts[0]["messageId"].as_str().unwrap().to_owned()
    };
    let first = says("m1", "user", "When does the orders database move?");
    let answer = turn(&json!([first]), "submit-message");
    let answer = says(&answer, "assistant", "On Friday.");
    let messages = json!([first, answer, says("m2", "user", "What moves?")]);
    let mut turns = vec![turn(&messages, "submit-message")];
    assert_eq!(turn(&messages, "submit-message"), turns[0], "sent again");
    for _ in 0..3 {
        turns.push(turn(&messages, "regenerate-message"));
    }
    let different: std::collections::BTreeSet<&String> = turns.iter().collect();
    assert_eq!(different.len(), 4, "{turns:?}");
    daemon.stop();
}

#[test]
fn a_task_keeps_its_author_when_its_answer_is_regenerated() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let at = format!("/v1/sessions/{}", session(&daemon));
    let ask = |task: &Value| {
        let turn = daemon.post(&format!("{at}/turns"), task).expect(200).json();
        turn["turn"].as_str().unwrap().to_owned()
    };
    let before = ask(&json!({"task": "When does the orders database move?", "agents": []}));
    let again = ask(&json!({"task": "What moves?", "author": "Ben", "agents": []}));
    let says = |id: &str, role: &str, text: &str| json!({"id": id, "role": role, "parts": [{"type": "text", "text": text}]});
    // The author of the task on the branch of an answer.
    let author = |task: &str, trigger: &str, message: Value| {
        let messages = [
            says("m1", "user", "When does the orders database move?"),
            says(&before, "assistant", "On Friday."),
            says("m2", "user", task),
        ];
        let body = json!({"messages": messages, "trigger": trigger, "messageId": message,
            "agents": []});
        let chat = daemon.post(&format!("{at}/chat"), &body).expect(200);
        let branch = chat.branch();
        assert_ne!(branch, "main");
        let listed = daemon.json(&format!("{at}/messages?branch={branch}"));
        let mut listed = listed["items"].as_array().unwrap().iter();
        let told = listed.rfind(|message| message["role"] == "user").unwrap();
        assert_eq!(told["parts"][0]["text"], task);
        told["author"].clone()
    };
    for message in [json!(again), Value::Null] {
        let author = author("What moves?", "regenerate-message", message);
        assert_eq!(author, "Ben");
    }
    // Nobody else says the same.
    for task in ["Who moves?", "What moves?"] {
        let author = author(task, "submit-message", json!("m2"));
        assert_eq!(author, Value::Null, "{task}");
    }
    daemon.stop();
}

#[test]
fn a_conversation_is_kept_asked_and_followed() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = session(&daemon);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");

    let task = json!({"task": "When does the orders database move?", "agents": ["facts", "risks"]});
    let turn = daemon.post(&at("/turns"), &task).expect(200).json();
    assert_eq!(turn["state"], "answered", "{turn}");
    assert!(
        turn["answer"].as_str().unwrap().contains("Friday 6 March"),
        "{turn}"
    );
    assert_eq!(turn["snapshot_agents"], 3);
    let runs = turn["runs"].as_array().unwrap();
    let of =
        |key: &str| -> Vec<&str> { runs.iter().map(|run| run[key].as_str().unwrap()).collect() };
    assert_eq!(of("role"), ["delegate", "delegate", "lead"]);
    assert_eq!(of("state"), ["done", "done", "done"]);
    assert!(
        runs.iter().all(|run| run["snapshot"] == turn["snapshot"]),
        "{turn}"
    );
    assert_eq!(runs[0]["prefix"], runs[1]["prefix"]);

    let shown = daemon.get(&at(&format!("/turns/{}", turn["turn"].as_str().unwrap())));
    assert_eq!(shown.expect(200).json(), turn);
    let whole = daemon.get(&at("")).expect(200).json();
    assert_eq!(whole["ended_turns"]["items"][0]["turn"], turn["turn"]);
    assert_eq!(whole["open_turns"]["count"], 0);

    let messages = daemon.get(&at("/messages?limit=2")).expect(200).json();
    assert_eq!(messages["items"][0]["parts"][0]["type"], "text");
    assert_eq!(messages["next"], "3");
    let rest = daemon.json(&at("/messages?limit=500&cursor=3"));
    assert_eq!(rest["next"], Value::Null);
    let last = rest["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["parts"][0]["text"], turn["answer"]);

    let context = daemon.get(&at("/context")).expect(200).json();
    assert_eq!(context["system"], "You help a small shop.");
    assert!(context["used_tokens"].as_u64().unwrap() > 0);

    let agents = daemon.get("/v1/agents").expect(200).json();
    assert!(
        agents
            .as_array()
            .unwrap()
            .iter()
            .any(|agent| agent["agent"] == "lead")
    );
    let models = daemon.get("/v1/models").expect(200).json();
    assert!(
        models
            .as_array()
            .unwrap()
            .iter()
            .any(|model| model["default"] == true)
    );
    let usage = daemon.json(&format!("/v1/usage?session={id}"));
    assert!(
        usage["total"]["input_tokens"].as_u64().unwrap() > 0,
        "{usage}"
    );
    let listed = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(listed["items"][0]["session"], id);
    assert_eq!(listed["items"][0]["labels"]["team"], "shop");
    assert_eq!(listed["next"], Value::Null);
    daemon.stop();
}

#[test]
fn every_event_is_told_once_also_across_a_restart() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let accept = [("Accept", "text/event-stream")];
    let task = json!({"task": "When?", "agents": ["facts"]});
    let reply = daemon.request_with("POST", &path, &accept, Some(&task));
    let reply = reply.expect(200);
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let streamed: Vec<_> = reply.events().collect();
    let last = streamed.last().unwrap();
    assert_eq!(last.name, "turn");
    let turn: Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!(turn["state"], "answered");

    let now = daemon.get(&format!("/v1/sessions/{id}")).json()["events"]
        .as_u64()
        .unwrap();
    let events = format!("/v1/sessions/{id}/events");
    let ids = |daemon: &Daemon, after: &str, upto: u64| -> Vec<u64> {
        let headers = [("Last-Event-ID", after)];
        let reply = daemon
            .request_with("GET", &events, &headers, None)
            .expect(200);
        let ids = reply.events().filter_map(|event| event.id);
        let mut all = Vec::new();
        for id in ids {
            all.push(id);
            if id == upto {
                break;
            }
        }
        all
    };
    assert_eq!(ids(&daemon, "0", now), (1..=now).collect::<Vec<_>>());
    let recorded: Vec<u64> = streamed.iter().filter_map(|event| event.id).collect();
    let first = recorded[0];
    assert_eq!(recorded, (first..=now).collect::<Vec<_>>());
    daemon.stop();

    let daemon = Daemon::start(&place);
    let half = now / 2;
    assert_eq!(
        ids(&daemon, &half.to_string(), now),
        (half + 1..=now).collect::<Vec<_>>()
    );
    let detail = daemon
        .request_with("GET", &events, &[("Last-Event-ID", "999999")], None)
        .expect(400)
        .problem("invalid_request");
    assert!(detail.contains("has not happened"), "{detail}");
    daemon.stop();
}

#[test]
fn a_turn_is_followed_from_wherever_its_follower_was_also_across_a_restart() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = session(&daemon);
    let path = format!("/v1/sessions/{id}/turns");
    let task = json!({"task": "When?", "agents": ["facts"]});
    let turn = daemon.post(&path, &task).expect(200).json();
    let path = format!("{path}/{}/events", turn["turn"].as_str().unwrap());
    let all: Vec<_> = daemon
        .get(&format!("{path}?after=0"))
        .expect(200)
        .events()
        .collect();
    let names: Vec<&str> = all.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"accepted"), "{names:?}");
    assert_eq!(names.last(), Some(&"ended"), "{names:?}");
    let end: Value = serde_json::from_str(&all.last().unwrap().data).unwrap();
    assert_eq!(end["turn"], turn);
    daemon.stop();

    let daemon = Daemon::start(&place);
    for (at, event) in all.iter().enumerate() {
        let last = event.id.unwrap().to_string();
        let headers = [("Last-Event-ID", last.as_str())];
        let later = daemon
            .request_with("GET", &path, &headers, None)
            .expect(200);
        let later: Vec<_> = later.events().map(|event| event.data).collect();
        let expected: Vec<_> = all[at + 1..]
            .iter()
            .map(|event| event.data.clone())
            .collect();
        assert_eq!(later, expected, "after {last}");
    }
    daemon.stop();
}

#[test]
fn a_killed_daemon_goes_on_with_its_turns_and_repeats_none() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let task = json!({"task": "Which word?", "agents": ["marks", "waits"], "wait": false});
    let accepted = daemon
        .post(&format!("/v1/sessions/{id}/turns"), &task)
        .expect(202);
    let path = accepted.header("location").unwrap().to_owned();
    let events = daemon.events(&id);
    let agent = heard(&scene.started);
    // The other agent's end is on disk when it is told.
    let mut ended = events.filter(|event| event.name == "run_ended");
    assert!(ended.next().is_some());
    daemon.kill();
    send_signal("KILL", &agent);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    let open = daemon.get(&path).expect(200).json();
    assert_eq!(open["state"], "working", "{open}");
    let events = daemon.events(&id);
    tell(&scene.word, "unison");
    let mut ended = events.filter(|event| event.name == "turn_ended");
    assert!(ended.next().is_some());
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["state"], "answered", "{turn}");
    assert!(turn.to_string().contains("The word is unison."), "{turn}");
    assert_eq!(scene.marks(), 1);
    daemon.stop();
}

#[test]
fn a_turn_that_was_begun_with_another_model_goes_on_with_that_one() {
    let provider = FakeProvider::play_on_thread(Script::by(|_| {
        Act::answer(Answer::text("Said by that model."))
    }));
    let scene = Scene::new();
    let config = scene.place.config();
    let local = format!(
        "{config}[providers.local]\nlike = \"openai-compatible\"\nbase_url = \"{}/v1\"\n",
        provider.url()
    );
    scene.place.set_config(local);
    let (going, agent) = scene.run(&["--model", "local/writer"]);
    going.kill();
    send_signal("KILL", &agent);
    assert_eq!(provider.requests().len(), 0);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    let id = sessions["items"][0]["session"].as_str().unwrap().to_owned();
    let session = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    let turn = session["open_turns"]["items"][0].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/turns/{turn}");
    let events = daemon.events(&id);
    tell(&scene.word, "unison");
    let mut ended = events.filter(|event| event.name == "turn_ended");
    assert!(ended.next().is_some());
    let turn = daemon.get(&path).expect(200).json();
    assert_eq!(turn["answer"], "Said by that model.", "{turn:#}");
    let requests = provider.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].json()["model"], "writer");
    daemon.stop();
}

#[test]
fn a_pinned_message_is_told_as_it_stands_though_its_range_is_summarised() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    place.call(&["import", &example()]).expect(0);
    place.call(&["compact", "--yes"]).expect(0);
    place.call(&["pin", "latest", "3"]).expect(0);
    let daemon = Daemon::start(&place);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    let id = sessions["items"][0]["session"].as_str().unwrap();
    let first = daemon.json(&format!("/v1/sessions/{id}/messages?limit=4"));
    let items = first["items"].as_array().unwrap().iter();
    let forms: Vec<&str> = items.map(|said| said["form"].as_str().unwrap()).collect();
    assert_eq!(
        forms,
        ["summarised", "summarised", "verbatim", "summarised"]
    );
    daemon.stop();
}

#[test]
fn a_turn_is_cancelled_and_branches_are_started() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let id = session(&daemon);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let task = json!({"task": "Which word?", "agents": ["waits"], "wait": false});
    let accepted = daemon.post(&at("/turns"), &task).expect(202);
    let path = accepted.header("location").unwrap().to_owned();
    heard(&scene.started);
    let busy = daemon.delete(&at("")).expect(409);
    assert!(busy.problem("conflict").contains("cancel them first"));
    let cancelled = daemon
        .request("POST", &format!("{path}/cancel"), None)
        .expect(200)
        .json();
    assert_eq!(cancelled["state"], "cancelled");
    let again = daemon
        .request("POST", &format!("{path}/cancel"), None)
        .expect(404);
    assert!(again.problem("not_found").contains("not open"));

    let new = json!({"name": "plan-b", "at": "#1"});
    let branch = daemon.post(&at("/branches"), &new).expect(201).json();
    assert_eq!(
        branch,
        json!({"name": "plan-b", "head": branch["head"], "parent": null, "messages": 1, "topics": 0})
    );
    for name in ["", "plan\u{1b}[31m", "plan\nc"] {
        let new = json!({"name": name, "at": "#1"});
        let refused = daemon.post(&at("/branches"), &new).expect(422);
        assert!(refused.problem("refused").contains("a valid branch name"));
    }
    let nowhere = at("/search?q=budget&branch=nowhere");
    daemon.get(&nowhere).expect(404).problem("not_found");
    let nowhere = format!("/v1/search?q=budget%20session:{id}&branch=nowhere");
    daemon.get(&nowhere).expect(404).problem("not_found");
    let refused = daemon.get("/v1/search?q=budget&branch=nowhere").expect(422);
    assert!(refused.problem("refused").contains("\"nowhere\""));
    let missing = json!({"name": "plan-c", "at": "#77"});
    daemon
        .post(&at("/branches"), &missing)
        .expect(404)
        .problem("not_found");
    daemon.delete(&at("")).expect(204);
    daemon.get(&at("")).expect(404).problem("not_found");
    daemon.stop();
}

#[test]
fn a_compaction_on_request_is_a_turn_with_a_checkpoint() {
    let place = Place::new();
    let example = crate::support::example();
    let imported = place.json(&["import", &example]);
    let id = imported["session"].as_str().unwrap();
    let daemon = Daemon::start(&place);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let turn = daemon.posted(&at("/compactions"), &json!({}));
    assert_eq!(turn["state"], "compacted", "{turn}");
    assert_eq!(turn["checkpoints"], json!([1]));
    let made = daemon.get(&at("/checkpoints")).expect(200).json();
    let made = &made["items"][0];
    assert_eq!(made["active"], true);
    assert!(made["tokens_after"].as_u64() < made["tokens_before"].as_u64());
    let messages = daemon.get(&at("/messages?limit=1")).expect(200).json();
    assert_eq!(messages["items"][0]["form"], "summarised");
    let context = daemon.get(&at("/context")).expect(200).json();
    assert_eq!(context["summaries"][0]["checkpoint"], 1);
    daemon.stop();
}

#[test]
fn openai_clients_ask_agents_with_and_without_a_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let models = daemon.get("/openai/v1/models").expect(200).json();
    let ids: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert!(ids.contains(&"team") && ids.contains(&"facts"), "{ids:?}");

    let mut messages = talk();
    let question = json!({"role": "user", "content": "When does the orders database move?"});
    messages.as_array_mut().unwrap().push(question);
    let ask = json!({"model": "facts", "messages": messages});
    let answer = daemon.posted("/openai/v1/chat/completions", &ask);
    let text = answer["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains("6 March"), "{answer}");
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let left = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(
        left["items"],
        json!([]),
        "a conversation for one request is not kept"
    );

    let stream = json!({"model": "facts", "messages": messages, "stream": true,
                        "stream_options": {"include_usage": true}});
    let mut events: Vec<_> = daemon
        .post("/openai/v1/chat/completions", &stream)
        .expect(200)
        .events()
        .collect();
    assert_eq!(events.pop().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(&event.data).unwrap())
        .collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let said: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, text);
    assert_eq!(chunks.last().unwrap()["usage"], answer["usage"]);
    let finished = &chunks[chunks.len() - 2];
    assert_eq!(finished["choices"][0]["finish_reason"], "stop");

    let id = session(&daemon);
    let header = [("X-Unisono-Session", id.as_str())];
    let ask = json!({"model": "team", "messages": [{"role": "user", "content": "Which day?"}]});
    let path = "/openai/v1/chat/completions";
    daemon
        .request_with("POST", path, &header, Some(&ask))
        .expect(200);
    let kept = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert_eq!(kept["ended_turns"]["count"], 1);

    let unknown = json!({"model": "nobody", "messages": [{"role": "user", "content": "x"}]});
    let refused = daemon.post(path, &unknown).expect(404).json();
    assert_eq!(refused["error"]["param"], "model");
    let last = json!({"model": "team", "messages": [{"role": "assistant", "content": "x"}]});
    let refused = daemon.post(path, &last).expect(400).json();
    assert_eq!(
        refused["error"]["type"], "invalid_request_error",
        "{refused}"
    );
    daemon.stop();
}

#[test]
fn settings_are_changed_while_it_runs_and_kept() {
    let place = Place::with_config("[turn]\nlead = \"lead\"\nagents = []\n");
    let daemon = Daemon::start(&place);
    let of = |all: &Value, key: &str| -> Value {
        let mut all = all.as_array().unwrap().iter();
        let found = all.find(|setting| setting["key"] == key);
        found
            .unwrap_or_else(|| panic!("{key} is not shown"))
            .clone()
    };
    let keys = daemon.get("/v1/settings/keys").expect(200).json();
    let has = |of: &str, key: &str| keys[of].as_array().unwrap().contains(&key.into());
    assert!(has("daemon", "turn.lead") && has("session", "models.default"));
    assert!(has("model", "preset") && !has("daemon", "store.path"));
    let before = daemon.get("/v1/settings").expect(200).json();
    let lead = of(&before, "turn.lead");
    assert_eq!(
        (&lead["value"], &lead["changeable"]),
        (&json!("\"lead\""), &json!(true))
    );
    assert_eq!(of(&before, "server.bind")["changeable"], false);

    let patch = |changes: Value| {
        let body = json!({"changes": changes});
        daemon.request("PATCH", "/v1/settings", Some(&body))
    };
    let changed = patch(json!({"turn.lead": "facts", "compaction.trigger_tokens": 9_000}));
    let changed = changed.expect(200).json();
    let lead = of(&changed, "turn.lead");
    assert_eq!(lead["value"], "\"facts\"", "{lead}");
    assert!(
        lead["origin"].as_str().unwrap().contains("settings.toml"),
        "{lead}"
    );
    // The next turn is led by it.
    let messages = json!([{"role": "user", "content": "We ship on Friday."}]);
    let made = daemon
        .post("/v1/sessions", &json!({"messages": messages}))
        .json();
    let turns = format!("/v1/sessions/{}/turns", made["session"].as_str().unwrap());
    let turn = daemon.posted(&turns, &json!({"task": "When?"}));
    assert_eq!(turn["runs"][0]["agent"], "facts", "{turn}");

    // What is wrong changes nothing, not even what is right beside it.
    let wrong = [
        json!({"turn.agents": ["risks"], "turn.lead": "fatcs"}),
        json!({"server.bind": "0.0.0.0:80"}),
        json!({"compaction.trigger_tokens": "many"}),
        json!({"compaction.preset": {"a": 1}}),
        json!({"run.led": "facts"}),
    ];
    for changes in wrong {
        let detail = patch(changes.clone()).expect(422).problem("refused");
        assert!(!detail.is_empty(), "{changes}");
    }
    assert_eq!(daemon.get("/v1/settings").expect(200).json(), changed);
    daemon.stop();

    let shown = place.json(&["config", "show"]);
    let shown = of(&shown, "turn.lead");
    assert!(shown.to_string().contains("settings.toml"), "{shown}");
    let daemon = Daemon::start(&place);
    let kept = daemon.get("/v1/settings").expect(200).json();
    assert_eq!(of(&kept, "compaction.trigger_tokens")["value"], "9000");
    let changes = json!({"changes": {"turn.lead": null}});
    let back = daemon.request("PATCH", "/v1/settings", Some(&changes));
    let lead = of(&back.expect(200).json(), "turn.lead");
    assert_eq!(lead["value"], "\"lead\"", "{lead}");
    daemon.stop();
    // A flag wins over what is stored.
    let flagged = place.json(&["config", "show", "--set", "compaction.trigger_tokens=8000"]);
    let flagged = of(&flagged, "compaction.trigger_tokens").to_string();
    assert!(flagged.contains("8000"), "{flagged}");
}
