//! What OpenAI's clients say of the form of an answer: its length, its shape, where it ends, what it
//! is asked with.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, Script, Stop};

use crate::client_tools::Scene;
use crate::http::Daemon;
use crate::support::{HasAll as _, Place};

const CHAT: &str = "/openai/v1/chat/completions";
const RESPONSES: &str = "/openai/v1/responses";

fn asked(more: Value) -> Value {
    let mut body = json!({
        "model": "clerk", "messages": [{"role": "user", "content": "Which day?"}],
        "input": "Which day?",
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// The text of a stream, and why it ended.
fn streamed(daemon: &Daemon, more: Value) -> (String, Value) {
    let mut body = asked(more);
    body["stream"] = true.into();
    let events = daemon.post(CHAT, &body).expect(200).events();
    let (mut text, mut finish) = (String::new(), Value::Null);
    for event in events {
        let Ok(chunk) = serde_json::from_str::<Value>(&event.data) else {
            continue;
        };
        let choice = &chunk["choices"][0];
        text += choice["delta"]["content"].as_str().unwrap_or_default();
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    (text, finish)
}

#[test]
fn a_reply_is_as_long_as_is_asked_and_says_that_it_was_cut_off() {
    let cut = Answer::text("It is on").stop(Stop::CutOff);
    let scene = Scene::scripted(Script::always(Act::answer(cut)));
    let daemon = Daemon::start(&scene.place);
    for field in ["max_tokens", "max_completion_tokens"] {
        let reply = daemon.posted(CHAT, &asked(json!({field: 5})));
        assert_eq!(reply["choices"][0]["finish_reason"], "length", "{reply}");
        assert_eq!(reply["choices"][0]["message"]["content"], "It is on");
    }
    assert_eq!(
        streamed(&daemon, json!({"max_tokens": 5})),
        ("It is on".into(), json!("length"))
    );
    let reply = daemon.posted(RESPONSES, &asked(json!({"max_output_tokens": 20})));
    assert_eq!(reply["status"], "incomplete", "{reply}");
    assert_eq!(reply["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(reply["output"][0]["status"], "incomplete", "{reply}");
    let mut body = asked(json!({"max_output_tokens": 20}));
    body["stream"] = true.into();
    let events = daemon.post(RESPONSES, &body).expect(200).events();
    let mut done = events.filter(|event| event.name == "response.output_item.done");
    let done: Value = serde_json::from_str(&done.next().unwrap().data).unwrap();
    assert_eq!(done["item"]["status"], "incomplete", "{done}");
    let most = scene
        .sent()
        .into_iter()
        .map(|body| body["max_tokens"].clone());
    assert_eq!(
        most.collect::<Vec<_>>(),
        [json!(5), json!(5), json!(5), json!(20), json!(20)]
    );
    daemon.stop();
}

#[test]
fn the_name_of_a_message_is_its_author_also_of_the_newest() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    let said = json!([
        {"role": "user", "name": "Ana", "content": "Can we ship?"},
        {"role": "user", "name": "Ben", "content": "No, Tuesday."},
    ]);
    daemon
        .post(CHAT, &asked(json!({"messages": said})))
        .expect(200);
    let sent = scene.sent().pop().unwrap().to_string();
    sent.has_all(&["#1 Ana: Can we ship?", "#2 Ben: No, Tuesday."]);
    daemon.stop();
}

#[test]
fn a_name_that_cannot_be_an_author_is_refused() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    let long = "x".repeat(201);
    for name in [
        json!("Ana\u{7}"),
        json!("Ana\u{202e}"),
        json!("a\nb"),
        json!(" "),
        json!(long),
        json!(7),
    ] {
        let said = json!([{"role": "user", "name": name, "content": "Which day?"}]);
        let reply = daemon.post(CHAT, &asked(json!({"messages": said})));
        let error = reply.expect(400).json()["error"].clone();
        assert_eq!(error["param"], "messages", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("message 1: `name`"), "{message}");
    }
    assert!(scene.sent().is_empty());
    daemon.stop();
}

#[test]
fn a_field_that_would_change_the_answer_is_refused_and_others_are_ignored() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    for (path, field, value) in [
        (CHAT, "functions", json!([{"name": "weather"}])),
        (CHAT, "functions", json!({})),
        (CHAT, "function_call", json!("auto")),
        (CHAT, "logprobs", json!(true)),
        (CHAT, "top_logprobs", json!(2)),
        (CHAT, "logit_bias", json!({"50256": -100})),
        (CHAT, "modalities", json!(["text", "audio"])),
        (CHAT, "audio", json!({"voice": "alloy", "format": "mp3"})),
        (CHAT, "web_search_options", json!({})),
        (RESPONSES, "background", json!(true)),
        (RESPONSES, "prompt", json!({"id": "pmpt_1"})),
        (RESPONSES, "max_tool_calls", json!(3)),
        (
            RESPONSES,
            "include",
            json!(["message.output_text.logprobs"]),
        ),
        (RESPONSES, "top_logprobs", json!(2)),
        // Fields of the other endpoint.
        (CHAT, "max_output_tokens", json!(20)),
        (CHAT, "instructions", json!("Be brief.")),
        (CHAT, "text", json!({"format": {"type": "json_object"}})),
        (CHAT, "text", json!("json")),
        (CHAT, "previous_response_id", json!("resp_1")),
        (CHAT, "conversation", json!("conv_1")),
        (CHAT, "prompt", json!({"id": "pmpt_1"})),
        (CHAT, "background", json!(true)),
        (CHAT, "max_tool_calls", json!(3)),
        (RESPONSES, "response_format", json!({"type": "json_object"})),
        (RESPONSES, "max_tokens", json!(20)),
        (RESPONSES, "max_completion_tokens", json!(20)),
        (RESPONSES, "stop", json!("END")),
        (RESPONSES, "n", json!(2)),
        (RESPONSES, "functions", json!([{"name": "weather"}])),
        (RESPONSES, "function_call", json!("auto")),
        (RESPONSES, "logprobs", json!(true)),
        (RESPONSES, "logit_bias", json!({"50256": -100})),
        (RESPONSES, "modalities", json!(["text", "audio"])),
        (
            RESPONSES,
            "audio",
            json!({"voice": "alloy", "format": "mp3"}),
        ),
        (RESPONSES, "web_search_options", json!({})),
    ] {
        let reply = daemon.post(path, &asked(json!({field: value})));
        let error = reply.expect(400).json()["error"].clone();
        assert_eq!(error["param"], field, "{error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    assert!(scene.sent().is_empty());
    let chat = json!({"logprobs": false, "top_logprobs": 0, "logit_bias": {}, "modalities": ["text"],
                      "functions": null, "temperature": 0.2, "seed": 7, "reasoning_effort": "low"});
    let response = json!({"background": false, "include": ["reasoning.encrypted_content"],
                          "top_logprobs": 0, "prompt": null, "store": false, "temperature": 0.2});
    for (path, more) in [(CHAT, chat), (RESPONSES, response)] {
        daemon.post(path, &asked(more)).expect(200);
    }
    assert_eq!(scene.sent().len(), 2);
    daemon.stop();
}

#[test]
fn a_value_that_asks_for_nothing_is_taken() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    let both = json!({
        "functions": [], "function_call": "none", "tools": [], "tool_choice": "none", "stop": [],
        "n": 1, "logit_bias": {}, "logprobs": false, "top_logprobs": 0, "modalities": ["text"],
        "audio": null, "web_search_options": null, "store": false, "metadata": {},
        "stream_options": null, "service_tier": "auto", "parallel_tool_calls": true, "user": "ana",
        "instructions": "", "text": {"format": {"type": "text"}}, "response_format": {"type": "text"},
        "include": [], "background": false, "seed": 7,
    });
    let more = json!({
        "tool_choice": "auto", "service_tier": "default", "text": {}, "modalities": [],
        "stream_options": {"include_usage": null}, "store": true, "parallel_tool_calls": false,
    });
    for (path, wishes) in [CHAT, RESPONSES]
        .into_iter()
        .flat_map(|path| [(path, &both), (path, &more)])
    {
        for model in ["clerk", "team"] {
            let mut body = asked(wishes.clone());
            body["model"] = model.into();
            let reply = daemon.post(path, &body).expect(200).json();
            assert!(reply.to_string().contains("So."), "{reply}");
        }
    }
    // A call is wanted, but there is nothing to call.
    for model in ["clerk", "team"] {
        let reply = daemon.post(
            CHAT,
            &asked(json!({"model": model, "tool_choice": "required"})),
        );
        let error = reply.expect(400).json()["error"].clone();
        assert_eq!(error["param"], "tool_choice", "{error}");
    }
    daemon.stop();
}

#[test]
fn null_is_no_wish() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    let both = json!({"stream": null, "metadata": null, "tools": null, "tool_choice": null});
    let chat = json!({"max_tokens": null, "max_completion_tokens": null, "stop": null,
                      "response_format": null, "stream_options": null, "n": null});
    let response = json!({"max_output_tokens": null, "text": null, "instructions": null,
                          "previous_response_id": null, "conversation": null});
    for (path, own) in [(CHAT, chat), (RESPONSES, response)] {
        let mut body = asked(both.clone());
        for (key, value) in own.as_object().unwrap() {
            body[key] = value.clone();
        }
        let reply = daemon.post(path, &body).expect(200).json();
        assert!(reply.to_string().contains("So."), "{reply}");
    }
    daemon.stop();
}

#[test]
fn a_response_continues_nothing_but_a_session() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let daemon = Daemon::start(&scene.place);
    for (field, earlier, named) in [
        ("previous_response_id", json!("resp_1"), "names a response"),
        ("conversation", json!("conv_1"), "names a conversation"),
        (
            "conversation",
            json!({"id": "conv_1"}),
            "names a conversation",
        ),
    ] {
        let reply = daemon.post(RESPONSES, &asked(json!({field: earlier})));
        let error = reply.expect(400).json()["error"].clone();
        assert_eq!(error["param"], field, "{error}");
        assert!(
            error["message"].as_str().unwrap().contains(named),
            "{error}"
        );
    }
    daemon.stop();
}

#[test]
fn a_reply_ends_at_a_stop_text_whatever_its_provider_does() {
    let pieces = Answer::pieces(["On Fri", "day. E", "ND of it"]);
    let scene = Scene::scripted(Script::always(Act::answer(pieces)));
    let daemon = Daemon::start(&scene.place);
    for stop in [json!("END"), json!(["nowhere", "END"])] {
        let reply = daemon.posted(CHAT, &asked(json!({"stop": stop})));
        assert_eq!(
            reply["choices"][0]["message"]["content"], "On Friday. ",
            "{reply}"
        );
        let reply = streamed(&daemon, json!({"stop": stop}));
        assert_eq!(reply, ("On Friday. ".into(), json!("stop")));
    }
    let sent = scene.sent();
    assert_eq!(sent[0]["stop"], json!(["END"]));
    assert_eq!(sent[2]["stop"], json!(["nowhere", "END"]));
    daemon.stop();
}

#[test]
fn a_reply_that_ends_before_its_first_character_is_an_empty_answer_that_is_paid_once() {
    let cut = Answer::text("").stop(Stop::CutOff);
    for (answer, bound, finish) in [
        (Answer::text("\nEND"), json!({"stop": ["\n"]}), "stop"),
        (cut, json!({"max_tokens": 1}), "length"),
    ] {
        let scene = Scene::scripted(Script::always(Act::answer(answer)));
        let daemon = Daemon::start(&scene.place);
        let reply = daemon.post(CHAT, &asked(bound.clone())).expect(200).json();
        let choice = &reply["choices"][0];
        assert_eq!(choice["message"]["content"], "", "{reply}");
        assert_eq!(choice["finish_reason"], finish);
        let reply = streamed(&daemon, bound);
        assert_eq!(reply, (String::new(), json!(finish)));
        assert_eq!(scene.sent().len(), 2);
        daemon.stop();
    }
}

#[test]
fn the_offline_model_keeps_to_the_length_that_is_asked() {
    let place = Place::with_config("[models]\ndefault = \"extractive\"\n");
    let daemon = Daemon::start(&place);
    let mut body = asked(json!({"max_tokens": 3}));
    body["model"] = "lead".into();
    let reply = daemon.post(CHAT, &body).expect(200).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length", "{reply}");
    assert_eq!(reply["usage"]["completion_tokens"], 3);
    daemon.stop();
}

#[test]
fn any_schema_stands_in_place_of_the_agents_own() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text(
        r#"{"day":"Friday"}"#,
    ))));
    let daemon = Daemon::start(&scene.place);
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Day", "type": "object",
        "properties": {"day": {"type": "string", "description": "The day's name"}},
        "required": ["day"], "additionalProperties": false,
    });
    let chat = json!({"type": "json_schema", "json_schema": {"name": "day", "schema": schema}});
    let flat = json!({"type": "json_schema", "name": "day", "schema": schema});
    let reply = daemon.posted(CHAT, &asked(json!({"response_format": chat})));
    assert_eq!(
        reply["choices"][0]["message"]["content"],
        r#"{"day":"Friday"}"#
    );
    let reply = daemon.posted(RESPONSES, &asked(json!({"text": {"format": flat}})));
    assert_eq!(
        reply["output"][0]["content"][0]["text"],
        r#"{"day":"Friday"}"#
    );
    let any = json!({"response_format": {"type": "json_object"}});
    daemon.post(CHAT, &asked(any)).expect(200);
    let sent = scene.sent();
    for body in &sent[..2] {
        let reply = &body["response_format"]["json_schema"];
        assert_eq!(reply["strict"], true, "{body}");
        assert_eq!(reply["schema"]["title"], "Day");
        assert!(reply["schema"].get("$schema").is_none());
    }
    assert_eq!(
        sent[2]["response_format"]["json_schema"]["schema"],
        json!({"type": "object"})
    );
    let other = json!({"type": "json_schema", "schema": {"type": "object", "required": ["hour"]}});
    let unfit = daemon.post(RESPONSES, &asked(json!({"text": {"format": other}})));
    // Clients ask again by themselves after 500.
    assert!(
        unfit.expect(422).json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("schema")
    );
    daemon.stop();
}

#[test]
fn a_structured_answer_that_is_tried_again_is_streamed_as_one_json() {
    let replies = ["{\"day\":", "```json\n{\"day\":\"Friday\"}\n```"];
    let replies = replies.map(|text| Act::answer(Answer::text(text)));
    let scene = Scene::scripted(Script::sequence([replies.clone(), replies].concat()));
    let daemon = Daemon::start(&scene.place);
    let schema = json!({"type": "object", "required": ["day"]});
    let named = json!({"name": "day", "schema": schema});
    let format = json!({"type": "json_schema", "json_schema": named});
    let answer = r#"{"day":"Friday"}"#;
    assert_eq!(
        streamed(&daemon, json!({"response_format": format})),
        (answer.into(), json!("stop"))
    );
    let flat = json!({"type": "json_schema", "name": "day", "schema": schema});
    let mut body = asked(json!({"text": {"format": flat}}));
    body["stream"] = true.into();
    let events = daemon.post(RESPONSES, &body).expect(200).events();
    let deltas = events.filter(|event| event.name == "response.output_text.delta");
    let deltas: Vec<Value> = deltas
        .map(|event| serde_json::from_str::<Value>(&event.data).unwrap()["delta"].take())
        .collect();
    assert_eq!(deltas, [answer]);
    assert_eq!(scene.sent().len(), 4);
    daemon.stop();
}

#[test]
fn an_agent_with_a_schema_of_its_own_takes_another() {
    let answer = Answer::text(r#"{"day":"Friday","hour":9}"#);
    let scene = Scene::scripted(Script::always(Act::answer(answer)));
    let own = r#"{"title": "Own", "type": "object", "required": ["day", "hour"]}"#;
    let config = scene.place.config();
    let diarist = "[agents.diarist]\ndescription = \"keeps the diary\"";
    let settings = format!("{config}{diarist}\noutput_schema = '{own}'\n");
    scene.place.set_config(settings);
    let daemon = Daemon::start(&scene.place);
    let other = json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Other",
                       "type": "object", "required": ["hour", "day"]});
    let other = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": other}});
    for (format, title) in [
        (other, "Other"),
        (json!({"type": "json_object"}), "Own"),
        (json!({"type": "text"}), "Own"),
    ] {
        let body = asked(json!({"model": "diarist", "response_format": format}));
        daemon.post(CHAT, &body).expect(200);
        let sent = scene.sent().pop().unwrap();
        let schema = &sent["response_format"]["json_schema"]["schema"];
        assert_eq!(schema["title"], title, "{sent}");
    }
    daemon.stop();
}

#[test]
fn one_model_is_told_and_one_that_is_not_there_is_named_as_openai_does() {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("So."))));
    let settings = scene.place.config();
    let same = "[agents.team]\ndescription = \"has the name of the team\"\n";
    scene.place.set_config(format!("{settings}{same}"));
    let daemon = Daemon::start(&scene.place);
    let models = daemon.json("/openai/v1/models");
    let models = models["data"].as_array().unwrap().iter();
    assert_eq!(models.filter(|model| model["id"] == "team").count(), 1);
    for name in ["clerk", "team"] {
        let response = daemon.json(&format!("/openai/v1/models/{name}"));
        assert_eq!(
            (&response["id"], &response["object"]),
            (&json!(name), &json!("model"))
        );
    }
    let mut nobody = asked(json!({}));
    nobody["model"] = "nobody".into();
    for reply in [
        daemon.get("/openai/v1/models/nobody"),
        daemon.post(CHAT, &nobody),
    ] {
        let error = reply.expect(404).json()["error"].clone();
        assert_eq!(error["code"], "model_not_found", "{error}");
        assert_eq!(error["param"], "model");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("team") || message.contains("lists all"),
            "{message}"
        );
    }
    daemon.stop();
}

/// A scene whose server, if so, takes a note for an attachment.
fn noting(note: bool) -> Scene {
    let scene = Scene::scripted(Script::always(Act::answer(Answer::text("A cat."))));
    if note {
        let settings = scene.place.config();
        let more = "[server]\nattachments = \"note\"\n";
        scene.place.set_config(format!("{settings}{more}"));
    }
    scene
}

#[test]
fn an_image_is_refused_unless_a_note_will_do() {
    let image = json!({"url": "https://example.org/cat.png"});
    let text = json!({"type": "text", "text": "What is this?"});
    let chat = json!([text, {"type": "image_url", "image_url": image}]);
    let flat = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": image["url"]},
    ]}]);
    let chat = asked(json!({"messages": [{"role": "user", "content": chat}]}));
    let response = asked(json!({"input": flat}));
    for note in [false, true] {
        let scene = noting(note);
        let daemon = Daemon::start(&scene.place);
        for (path, field, body) in [(CHAT, "messages", &chat), (RESPONSES, "input", &response)] {
            if note {
                daemon.post(path, body).expect(200);
                let sent = scene.sent().pop().unwrap().to_string();
                sent.has_all(&["[attachment cat.png image/* 0 bytes]"]);
            } else {
                let error = daemon.post(path, body).expect(400).json()["error"].clone();
                assert_eq!(error["param"], field, "{error}");
                assert!(
                    error["message"]
                        .as_str()
                        .unwrap()
                        .contains("server.attachments")
                );
            }
        }
        daemon.stop();
    }
}

#[test]
fn a_file_in_the_result_of_a_client_tool_is_refused_unless_a_note_will_do() {
    let image = "https://example.org/cat.png";
    let call = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let output = json!([{"type": "input_image", "image_url": image}]);
    let items = json!([
        {"role": "user", "content": "What is this?"},
        call,
        {"type": "function_call_output", "call_id": "c", "output": output},
    ]);
    let tools = json!([{"type": "function", "name": "look"}]);
    let body = asked(json!({"input": items, "tools": tools}));
    for note in [false, true] {
        let scene = noting(note);
        let daemon = Daemon::start(&scene.place);
        if note {
            daemon.post(RESPONSES, &body).expect(200);
            let sent = scene.sent().pop().unwrap().to_string();
            let said = "[attachment cat.png image/* 0 bytes]";
            assert!(sent.contains(said), "{sent}");
        } else {
            let error = daemon.post(RESPONSES, &body).expect(400).json()["error"].clone();
            assert_eq!(error["param"], "input", "{error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with("the result of call \"c\""), "{error}");
            assert!(scene.sent().is_empty());
        }
        daemon.stop();
    }
}
