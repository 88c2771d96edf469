//! Client tools of OpenAI's clients: the real daemon, with a scripted model.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Script};

use crate::http::Daemon;
use crate::support::{HasAll as _, Place};

const CHAT: &str = "/openai/v1/chat/completions";
const RESPONSES: &str = "/openai/v1/responses";

pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) provider: FakeProvider,
}

/// The tools and the results in the requests to the model.
fn results(request: &Recorded) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    let texts = results.map(|message| message["content"].as_str().unwrap().to_owned());
    texts.collect()
}

impl Scene {
    /// A clerk whose model gives these replies, then says what its tools came back with.
    fn new(replies: Vec<Answer>) -> Scene {
        let script = Script::by(move |request| {
            let body = request.json();
            let asked = body["messages"].as_array().unwrap().iter();
            let done = asked.filter(|said| said["tool_calls"].is_array()).count();
            match replies.get(done) {
                Some(answer) => Act::answer(answer.clone()),
                None => Act::answer(Answer::text(format!(
                    "Told: {}",
                    results(request).join(" | ")
                ))),
            }
        });
        Scene::scripted(script)
    }

    /// A clerk whose model does as it is written.
    pub(crate) fn scripted(script: Script) -> Scene {
        let provider = FakeProvider::play_on_thread(script);
        let place = Place::with_key_file(
            "openai",
            &provider,
            "[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nlead = \"clerk\"\nagents = []\n\
             [compaction]\nsummarisers = [\"extractive\"]\n\
             [agents.clerk]\ndescription = \"keeps the books\"\ntools = [\"recall\"]\n",
        );
        Scene { place, provider }
    }

    /// The bodies that the model was sent.
    pub(crate) fn sent(&self) -> Vec<Value> {
        self.provider
            .requests()
            .iter()
            .map(Recorded::json)
            .collect()
    }
}

fn weather() -> Value {
    json!({"name": "weather", "description": "The weather somewhere.", "parameters": {
        "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}})
}

fn tools() -> Value {
    json!([{"type": "function", "function": weather()}])
}

fn call(place: &str) -> String {
    json!({"place": place}).to_string()
}

#[test]
fn a_call_ends_the_answer_and_its_result_goes_on() {
    let both = Answer::text("I look.")
        .and_call("weather", call("Bern"))
        .and_call("recall", json!({"query": "Bern"}).to_string())
        .and_call("weather", call("Basel"));
    let scene = Scene::new(vec![both]);
    let daemon = Daemon::start(&scene.place);
    let mut messages = vec![json!({"role": "user", "content": "Where is it warmer?"})];
    let ask =
        |messages: &[Value]| json!({"model": "clerk", "messages": messages, "tools": tools()});
    let left = daemon.post(CHAT, &ask(&messages)).expect(200).json();
    let choice = &left["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{left}");
    assert_eq!(choice["message"]["content"], "I look.");
    let calls = choice["message"]["tool_calls"].as_array().unwrap().clone();
    let arguments: Vec<&str> = calls
        .iter()
        .map(|call| call["function"]["arguments"].as_str().unwrap())
        .collect();
    assert_eq!(
        arguments,
        [call("Bern"), call("Basel")],
        "its own tools are not the client's"
    );
    assert_ne!(calls[0]["id"], calls[1]["id"]);

    messages.push(choice["message"].clone());
    for (call, degrees) in calls.iter().zip(["12", "14"]) {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": degrees}));
    }
    let reply = daemon.post(CHAT, &ask(&messages)).expect(200).json();
    assert_eq!(
        reply["choices"][0]["message"]["content"], "Told: #3 12 | #3 14",
        "{reply}"
    );
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert_eq!(reply["choices"][0]["message"].get("tool_calls"), None);
    let none = daemon.get("/v1/sessions").expect(200).json();
    assert_eq!(none["items"], json!([]), "nothing is kept");

    let sent = scene.sent();
    assert_eq!(sent.len(), 2);
    for body in &sent {
        let names: Vec<&str> = body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["recall", "weather"]);
    }
    let asked = sent[0]["messages"].to_string();
    asked.has_all(&["Of the tools you may call: recall, weather."]);
    daemon.stop();
}

#[test]
fn a_stream_ends_with_the_calls() {
    let scene = Scene::new(vec![
        Answer::text("I look.").and_call("weather", call("Bern")),
    ]);
    let daemon = Daemon::start(&scene.place);
    let stream = json!({"model": "clerk", "stream": true, "tools": tools(),
                        "messages": [{"role": "user", "content": "How warm is it in Bern?"}]});
    let mut events: Vec<_> = daemon.post(CHAT, &stream).expect(200).events().collect();
    assert_eq!(events.pop().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(&event.data).unwrap())
        .collect();
    let said: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, "I look.");
    let [.., called, last] = &chunks[..] else {
        panic!("{chunks:?}")
    };
    let called = &called["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(called["index"], 0);
    assert_eq!(
        called["function"],
        json!({"name": "weather", "arguments": call("Bern")})
    );
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");

    let flat = {
        let mut tool = weather();
        tool["type"] = "function".into();
        json!([tool])
    };
    let ask = json!({"model": "clerk", "stream": true, "tools": flat, "input": "How warm is it in Bern?"});
    let events: Vec<_> = daemon.post(RESPONSES, &ask).expect(200).events().collect();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        names[names.len() - 5..],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    let whole: Value = serde_json::from_str(&events.last().unwrap().data).unwrap();
    let output = whole["response"]["output"].as_array().unwrap().clone();
    assert_eq!(output[0]["type"], "message");
    assert_eq!(output[1]["type"], "function_call");
    assert_eq!(output[1]["name"], "weather");

    // Two calls of one reply stand one after the other, and so do their outputs.
    let mut other = output[1].clone();
    other["call_id"] = "call_2".into();
    let result = |call: &Value, output: &str| json!({"type": "function_call_output", "call_id": call["call_id"], "output": output});
    let input = json!([{"role": "user", "content": "How warm is it?"}, output[0], output[1], other,
                       result(&output[1], "12"), result(&other, "14")]);
    let ask = json!({"model": "clerk", "tools": flat, "input": input});
    let reply = daemon.post(RESPONSES, &ask).expect(200).json();
    assert_eq!(
        reply["output"][0]["content"][0]["text"], "Told: #3 12 | #3 14",
        "{reply}"
    );
    daemon.stop();
}

#[test]
fn a_session_keeps_the_calls_and_a_restart_does_not_forget_them() {
    let scene = Scene::new(vec![Answer::empty().and_call("weather", call("Bern"))]);
    let daemon = Daemon::start(&scene.place);
    let id: &str = &daemon.session(&json!({"title": "Weather"}));
    let ask = |messages: Value| json!({"model": "clerk", "tools": tools(), "metadata": {"session": id}, "messages": messages});
    let left = daemon.posted(
        CHAT,
        &ask(json!([{"role": "user", "content": "How warm is it?"}])),
    );
    let said = left["choices"][0]["message"].clone();
    assert_eq!(said["content"], Value::Null, "{left}");
    let call = said["tool_calls"][0].clone();
    let result = |id: &Value| json!({"role": "tool", "tool_call_id": id, "content": "12"});
    daemon.stop();

    let daemon = Daemon::start(&scene.place);
    let wrong = daemon
        .post(CHAT, &ask(json!([said, result(&"call_7".into())])))
        .expect(422)
        .json();
    assert!(
        wrong["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no call \"call_7\" waits"),
        "{wrong}"
    );
    let reply = daemon.posted(CHAT, &ask(json!([result(&call["id"])])));
    assert_eq!(
        reply["choices"][0]["message"]["content"], "Told: #3 12",
        "{reply}"
    );

    let turns = daemon.json(&format!("/v1/sessions/{id}/turns"));
    let first = &turns["items"][1];
    assert_eq!(first["state"], "answered");
    assert_eq!(
        first["calls"],
        json!([{"id": call["id"], "tool": "weather", "arguments": call["function"]["arguments"]}])
    );
    let of = |at: usize| turns["items"][at]["turn"].as_str().unwrap().to_owned();
    let turns = [of(0), of(1)];
    daemon.stop();
    for turn in turns {
        let replayed = scene
            .place
            .call(&["replay", &turn, "--json"])
            .expect(0)
            .json();
        assert_eq!(replayed["mismatches"], 0, "{replayed}");
    }
}

#[test]
fn a_call_that_does_not_fit_is_the_models_to_mend() {
    let wrong = Answer::empty()
        .and_call("weather", "{}")
        .and_call("weather", call("Bern"));
    let right = Answer::empty().and_call("weather", call("Bern"));
    let scene = Scene::new(vec![wrong, right]);
    let daemon = Daemon::start(&scene.place);
    let ask = json!({"model": "clerk", "tools": tools(), "parallel_tool_calls": false,
                     "tool_choice": {"type": "function", "function": {"name": "weather"}},
                     "messages": [{"role": "user", "content": "How warm is it?"}]});
    let left = daemon.post(CHAT, &ask).expect(200).json();
    assert_eq!(left["choices"][0]["finish_reason"], "tool_calls", "{left}");
    let sent = scene.sent();
    assert_eq!(sent.len(), 2);
    for body in &sent {
        assert_eq!(body["tool_choice"], ask["tool_choice"]);
    }
    let request = sent[1]["messages"].to_string();
    request.has_all(&["place", "is a required property"]);
    request.has_all(&["not made: another call of the same reply was wrong"]);
    daemon.stop();
}

#[test]
fn what_cannot_be_lent_is_refused_in_openais_shape() {
    let scene = Scene::new(Vec::new());
    let daemon = Daemon::start(&scene.place);
    let user = json!([{"role": "user", "content": "x"}]);
    let result = json!([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "1"}]);
    let recall = json!([{"type": "function", "function": {"name": "recall"}}]);
    for (ask, status, param, says) in rows! {
        (
            json!({"model": "team", "messages": user, "tools": tools()}),
            400,
            json!("tools"),
            "name an agent",
        ),
        (
            json!({"model": "clerk", "messages": user, "tools": recall}),
            400,
            json!("tools"),
            "tools[0]",
        ),
        (json!({"model": "clerk", "messages": user, "tools": 7}), 400, Value::Null, "tools"),
        (
            json!({"model": "clerk", "messages": user, "tool_choice": "required"}),
            400,
            json!("tool_choice"),
            "no tools",
        ),
        (
            json!({"model": "clerk", "messages": result, "tools": tools()}),
            422,
            json!("messages"),
            "a",
        ),
    } {
        let refused = daemon.post(CHAT, &ask).expect(status).json();
        let error = &refused["error"];
        assert_eq!(error["type"], "invalid_request_error", "{refused}");
        assert_eq!(error["param"], param, "{refused}");
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{refused}"
        );
    }
    assert!(scene.sent().is_empty());
    assert_eq!(
        daemon.get("/v1/sessions").expect(200).json()["items"],
        json!([])
    );
    daemon.stop();
}

#[test]
fn results_may_stand_before_what_is_said_next_in_a_session() {
    let scene = Scene::new(vec![Answer::empty().and_call("weather", call("Bern"))]);
    let daemon = Daemon::start(&scene.place);
    let id: &str = &daemon.session(&json!({"title": "Weather"}));
    let ask = |messages: Value| json!({"model": "clerk", "tools": tools(), "metadata": {"session": id}, "messages": messages});
    let first = json!({"role": "user", "content": "How warm is it?"});
    let left = daemon.post(CHAT, &ask(json!([first]))).expect(200).json();
    let said = left["choices"][0]["message"].clone();
    let result = |id: &Value| json!({"role": "tool", "tool_call_id": id, "content": "12"});
    let result = [
        result(&said["tool_calls"][0]["id"]),
        result(&"call_7".into()),
    ];
    let next = json!({"role": "user", "content": "And what of Basel?"});
    let wrong = ask(json!([first, said, result[1], next]));
    let wrong = daemon.post(CHAT, &wrong).expect(422).json();
    assert!(wrong.to_string().contains("call_7"), "{wrong}");

    let both = ask(json!([first, said, result[0], next]));
    let reply = daemon.post(CHAT, &both).expect(200).json();
    // Its model sees the call, what came of it, and what is said next.
    assert_eq!(
        reply["choices"][0]["message"]["content"], "Told: #3 12",
        "{reply}"
    );
    let sent = scene.sent().pop().unwrap();
    let roles = sent["messages"].as_array().unwrap().iter();
    let roles: Vec<&str> = roles.filter_map(|one| one["role"].as_str()).collect();
    let at = roles.iter().position(|role| *role == "tool").unwrap();
    assert_eq!(roles[at - 1..=at + 1], ["assistant", "tool", "user"]);
    let messages = daemon.json(&format!("/v1/sessions/{id}/messages"));
    let reply = messages["items"].as_array().unwrap().iter();
    let roles: Vec<&str> = reply.filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    daemon.stop();
}

#[test]
fn results_that_a_session_has_already_are_not_taken_twice() {
    let scene = Scene::scripted(Script::sequence([
        Act::answer(Answer::empty().and_call("weather", call("Bern"))),
        Act::json(400, r#"{"error": {"message": "not today"}}"#),
        Act::answer(Answer::text("Told.")),
    ]));
    let daemon = Daemon::start(&scene.place);
    let made = daemon.post("/v1/sessions", &json!({"title": "Weather"}));
    let id = made.expect(201).json()["session"].clone();
    let path = format!("/v1/sessions/{}", id.as_str().unwrap());
    let ask = |messages: Value| json!({"model": "clerk", "tools": tools(), "metadata": {"session": id}, "messages": messages});
    let first = json!({"role": "user", "content": "How warm is it?"});
    let left = daemon.post(CHAT, &ask(json!([first]))).expect(200).json();
    let said = left["choices"][0]["message"].clone();
    let result =
        json!({"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "12"});
    // The turn ends without an answer, and the session with the result.
    let failed = ask(json!([first, said, result]));
    daemon.post(CHAT, &failed).expect(424);
    let next = json!({"role": "user", "content": "Once more."});
    let reply = daemon.posted(CHAT, &ask(json!([first, said, result, next])));
    assert_eq!(reply["choices"][0]["message"]["content"], "Told.");
    assert_eq!(results(&scene.provider.requests()[2]), ["#3 12"]);
    let messages = daemon.get(&format!("{path}/messages")).expect(200).json();
    let reply = messages["items"].as_array().unwrap().iter();
    let roles: Vec<&str> = reply.filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    daemon.stop();
}

#[test]
fn a_turn_takes_client_tools_as_the_openai_endpoint_does() {
    let both = Answer::text("I look.").and_call("weather", call("Bern"));
    let scene = Scene::new(vec![both]);
    let daemon = Daemon::start(&scene.place);
    let made = daemon.session(&json!({"title": "Weather"}));
    let path = format!("/v1/sessions/{made}/turns");
    let asked = json!({"task": "How warm is it?", "tools": tools()});
    let left = daemon.post(&path, &asked).expect(200).json();
    assert_eq!(left["state"], "answered", "{left}");
    assert_eq!(left["calls"][0]["tool"], "weather");
    assert_eq!(left["calls"][0]["arguments"], call("Bern"));
    let came = json!([{"call_id": left["calls"][0]["id"], "content": "12"}]);
    let keyed = [("Idempotency-Key", "result")];
    let bring = json!({"tools": tools(), "results": came});
    let reply = daemon.request_with("POST", &path, &keyed, Some(&bring));
    let reply = reply.expect(200).json();
    assert_eq!(reply["answer"], "Told: #3 12", "{reply}");
    let again = daemon.request_with("POST", &path, &keyed, Some(&bring));
    assert_eq!(again.expect(200).json(), reply);

    for (asked, status, says) in rows! {
        (json!({"task": "x", "tools": [{}]}), 400, "tools[0]"),
        (json!({"task": "x", "tools": tools(), "tool_choice": "weather"}), 400, "tool_choice"),
        (json!({"task": "x", "tools": tools(), "agents": ["facts"]}), 400, "ask it alone"),
        (json!({"results": came}), 422, "no call"),
        (json!({}), 422, "empty"),
    } {
        let refused = daemon.post(&path, &asked).expect(status);
        let code = if status == 400 {
            "invalid_request"
        } else {
            "refused"
        };
        let detail = refused.problem(code);
        assert!(detail.contains(says), "{asked}: {detail}");
    }
    daemon.stop();
}
