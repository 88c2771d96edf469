//! A session that OpenAI's clients continue with the whole list of their messages.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, Script};

use crate::client_tools::Scene;
use crate::http::{Daemon, Reply};
use crate::support::Place;

const CHAT: &str = "/openai/v1/chat/completions";
const RESPONSES: &str = "/openai/v1/responses";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

/// A daemon with a session in it, asked as OpenAI's clients ask.
struct Client {
    daemon: Daemon,
    session: String,
    model: &'static str,
}

impl Client {
    fn of(place: &Place, model: &'static str, session: &Value) -> Client {
        let daemon = Daemon::start(place);
        let made = daemon.post("/v1/sessions", session).expect(201).json();
        Client {
            daemon,
            session: made["session"].as_str().unwrap().to_owned(),
            model,
        }
    }

    fn ask_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        let session = ("X-Unisono-Session", self.session.as_str());
        let headers: Vec<_> = headers.iter().copied().chain([session]).collect();
        let mut body = body.clone();
        body["model"] = self.model.into();
        self.daemon
            .request_with("POST", path, &headers, Some(&body))
    }

    fn ask(&self, messages: &[Value]) -> Reply {
        self.ask_with(CHAT, &[], &json!({"messages": messages}))
    }

    fn answer(&self, messages: &[Value]) -> Value {
        let reply = self.ask(messages).expect(200).json();
        reply["choices"][0]["message"].clone()
    }

    /// Why a list is refused.
    fn conflict(&self, messages: &[Value]) -> String {
        let before = self.kept();
        let error = self.ask(messages).expect(409).json()["error"].clone();
        assert_eq!(error["code"], "conflict", "{error}");
        assert_eq!(error["param"], "messages", "{error}");
        assert_eq!(self.kept(), before, "a refused list leaves nothing");
        error["message"].as_str().unwrap().to_owned()
    }

    /// Role and text of each message of the session but calls and results.
    fn kept(&self) -> Vec<String> {
        let path = format!("/v1/sessions/{}/messages", self.session);
        let messages = self.daemon.get(&path).expect(200).json();
        let items = messages["items"].as_array().unwrap().iter();
        let line = |message: &Value| {
            let part = &message["parts"][0];
            let said = [&part["text"], &part["name"], &part["content"]];
            let said = said.into_iter().find_map(Value::as_str).unwrap();
            format!("{}: {said}", message["role"].as_str().unwrap())
        };
        items.map(line).collect()
    }
}

/// An agent whose model counts its answers.
fn counting() -> Scene {
    let answers = ["one", "two", "three", "four", "five"];
    Scene::scripted(Script::sequence(
        answers.map(|text| Act::answer(Answer::text(text))),
    ))
}

#[test]
fn a_header_that_names_no_session_is_refused() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let ask = json!({"model": "team", "messages": [user("Which day?")]});
    for id in ["latest", "0192\u{e9}"] {
        let header = [("X-Unisono-Session", id)];
        let reply = daemon.request_with("POST", CHAT, &header, Some(&ask));
        let error = reply.expect(400).json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("is not the id of a session"), "{message}");
    }
    daemon.stop();
}

#[test]
fn what_a_list_has_new_is_appended_and_its_last_message_asked() {
    let scene = counting();
    let client = Client::of(&scene.place, "clerk", &json!({"system": "Be short."}));
    // A session without messages takes all of it.
    let before = [
        system("Be short."),
        user("We ship on Friday."),
        assistant("Noted."),
        user("From Bern."),
        user("Which day?"),
    ];
    let reply = client.ask(&before).expect(200);
    assert_eq!(reply.header("x-unisono-session"), Some(&*client.session));
    let said = reply.json()["choices"][0]["message"].clone();
    assert_eq!(said["content"], "one");
    let mut expected = vec![
        "user: We ship on Friday.",
        "assistant: Noted.",
        "user: From Bern.",
        "user: Which day?",
        "assistant: one",
    ];
    assert_eq!(client.kept(), expected);
    // Its model has seen all of that, once.
    let sent = scene.sent().pop().unwrap().to_string();
    for text in ["We ship on Friday.", "Noted.", "From Bern.", "Which day?"] {
        assert_eq!(sent.matches(text).count(), 1, "{text}: {sent}");
    }

    // The same list with more behind it: calls of tools that the client made, too.
    let call = json!({"id": "c1", "type": "function",
                      "function": {"name": "stock", "arguments": "{\"item\": 1}"}});
    let more = [
        &before[..],
        &[
            said,
            user("How many?"),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "12"}),
            user("Say it."),
        ],
    ]
    .concat();
    assert_eq!(client.answer(&more)["content"], "two");
    expected.extend([
        "user: How many?",
        "assistant: stock",
        "tool: 12",
        "user: Say it.",
        "assistant: two",
    ]);
    assert_eq!(client.kept(), expected);

    // One message is new, and so is the end of the conversation with something behind it.
    assert_eq!(client.answer(&[user("Which day?")])["content"], "three");
    let end = [assistant("three"), user("Sure?")];
    assert_eq!(client.answer(&end)["content"], "four");
    // A client without tools need not tell of them.
    let without: Vec<Value> = more
        .iter()
        .filter(|said| said["role"] != "tool" && said["content"] != Value::Null)
        .cloned()
        .chain([assistant("two"), user("Which day?"), assistant("three")])
        .chain([user("Sure?"), assistant("four"), user("So?")])
        .collect();
    assert_eq!(client.answer(&without)["content"], "five");
    expected.extend([
        "user: Which day?",
        "assistant: three",
        "user: Sure?",
        "assistant: four",
        "user: So?",
        "assistant: five",
    ]);
    assert_eq!(client.kept(), expected);
    client.daemon.stop();
}

#[test]
fn a_list_that_contradicts_the_session_is_refused_with_the_message() {
    let scene = counting();
    let messages = [
        system("Be short."),
        user("We ship on Friday."),
        assistant("Noted."),
    ];
    let client = Client::of(&scene.place, "clerk", &json!({"messages": messages}));
    let next = user("Which day?");
    for (list, says) in [
        (
            vec![
                system("Be long."),
                messages[1].clone(),
                messages[2].clone(),
                next.clone(),
            ],
            "the system text of the request is not that of the session",
        ),
        (
            vec![system("Be long."), next.clone()],
            "the system text of the request is not that of the session",
        ),
        (
            vec![
                user("We ship on Monday."),
                messages[2].clone(),
                next.clone(),
            ],
            "message 1 is not what the session has there: that is its message #1 (user)",
        ),
        (
            vec![
                messages[0].clone(),
                messages[1].clone(),
                assistant("Noted. "),
                next.clone(),
            ],
            "message 3 is not what the session has there: that is its message #2 (assistant)",
        ),
        (
            vec![messages[0].clone(), messages[1].clone(), next.clone()],
            "message 3 is not what the session has there",
        ),
        (vec![next.clone(), next.clone()], "message 1 is not"),
    ] {
        let why = client.conflict(&list);
        assert!(why.contains(says), "{why}");
        assert!(why.contains("session"), "{why}");
    }
    // Where the list ends, the session goes on.
    let all = [&messages[..], std::slice::from_ref(&next)].concat();
    assert_eq!(client.answer(&all)["content"], "one");
    let why = client.conflict(&all);
    assert!(why.contains("goes on behind message 4"), "{why}");
    let last = [&all[..], &[assistant("one")]].concat();
    let refused = client.ask(&last).expect(400).json();
    assert!(
        refused.to_string().contains("the last message"),
        "{refused}"
    );
    // The result of a call that nobody made, behind what is new.
    let result = json!({"role": "tool", "tool_call_id": "c7", "content": "1"});
    let wrong = [&last[..], &[user("x"), result, user("y")]].concat();
    let before = client.kept();
    client.ask(&wrong).expect(422);
    assert_eq!(client.kept(), before);
    assert_eq!(scene.sent().len(), 1);

    // In the other shape, with the same words.
    let input = json!([user("We ship on Monday."), assistant("Noted."), next]);
    let refused = client.ask_with(RESPONSES, &[], &json!({"input": input}));
    let error = refused.expect(409).json()["error"].clone();
    assert_eq!(error["param"], "input", "{error}");
    let input = json!([
        user("We ship on Friday."),
        assistant("Noted."),
        next,
        assistant("one"),
        user("So?")
    ]);
    let reply = client.ask_with(
        RESPONSES,
        &[],
        &json!({"input": input, "instructions": "Be short."}),
    );
    let reply = reply.expect(200);
    assert_eq!(reply.header("x-unisono-session"), Some(&*client.session));
    assert_eq!(reply.json()["output"][0]["content"][0]["text"], "two");
    client.daemon.stop();
}

#[test]
fn the_same_list_under_the_same_key_is_one_turn() {
    let scene = counting();
    let client = Client::of(&scene.place, "clerk", &json!({"title": "Shop"}));
    let key = [("Idempotency-Key", "shop-1")];
    let list =
        json!({"messages": [user("We ship on Friday."), assistant("Noted."), user("Which day?")]});
    let first = client.ask_with(CHAT, &key, &list).expect(200).json();
    let kept = client.kept();
    assert_eq!(kept.len(), 4);
    let again = client.ask_with(CHAT, &key, &list).expect(200);
    assert_eq!(again.header("x-unisono-session"), Some(&*client.session));
    let again = again.json();
    assert_eq!(
        (&again["id"], &again["choices"]),
        (&first["id"], &first["choices"])
    );
    // However it is told.
    let mut streamed = list.clone();
    streamed["stream"] = true.into();
    let events = client.ask_with(CHAT, &key, &streamed).expect(200);
    assert_eq!(events.header("x-unisono-session"), Some(&*client.session));
    let events: Vec<_> = events.events().collect();
    assert!(
        events.iter().any(|event| event.data.contains("\"one\"")),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let other = json!({"messages": [user("Which day?")]});
    let refused = client.ask_with(CHAT, &key, &other).expect(422).json();
    assert_eq!(refused["error"]["code"], "key_reused", "{refused}");
    let Client {
        daemon, session, ..
    } = client;
    daemon.stop();

    // Nor does a restart make another of it.
    let client = Client {
        daemon: Daemon::start(&scene.place),
        session,
        model: "clerk",
    };
    let again = client.ask_with(CHAT, &key, &list).expect(200).json();
    assert_eq!(again["id"], first["id"]);
    assert_eq!(client.kept(), kept);
    assert_eq!(scene.sent().len(), 1);
    client.daemon.stop();
}

#[test]
fn a_question_that_came_to_nothing_is_asked_again() {
    let scene = Scene::scripted(Script::sequence([
        Act::json(400, r#"{"error": {"message": "not today"}}"#),
        Act::answer(Answer::text("Friday.")),
        Act::answer(Answer::text("Yes.")),
    ]));
    let client = Client::of(&scene.place, "clerk", &json!({"title": "Shop"}));
    let mut list = vec![
        user("We ship on Friday."),
        assistant("Noted."),
        user("Which day?"),
    ];
    let failed = client.ask(&list).expect(424);
    assert_eq!(failed.header("x-unisono-session"), Some(&*client.session));
    let said = client.answer(&list);
    assert_eq!(said["content"], "Friday.");
    list.extend([said, user("Sure?")]);
    assert_eq!(client.answer(&list)["content"], "Yes.");
    client.daemon.stop();
}

#[test]
fn the_work_of_a_team_is_not_missed_in_a_list() {
    let place = Place::with_config("[turn]\nlead = \"lead\"\nagents = [\"facts\", \"risks\"]\n");
    let client = Client::of(&place, "team", &json!({"title": "Shop"}));
    let mut list = vec![
        user("We ship on Friday."),
        assistant("Noted."),
        user("Which day do we ship?"),
    ];
    let said = client.answer(&list);
    let roles: Vec<String> = client.kept();
    assert!(
        roles.iter().any(|line| line.starts_with("tool:")),
        "{roles:?}"
    );
    list.extend([said, user("From where?")]);
    client.answer(&list);
    let asked = client.kept();
    let asked: Vec<_> = asked
        .iter()
        .filter(|line| line.starts_with("user:"))
        .collect();
    assert_eq!(
        asked,
        [
            "user: We ship on Friday.",
            "user: Which day do we ship?",
            "user: From where?"
        ]
    );
    // Without a session, none is named.
    let body = json!({"model": "team", "messages": list});
    let reply = client.daemon.post(CHAT, &body).expect(200);
    assert_eq!(reply.header("x-unisono-session"), None);
    client.daemon.stop();
}
