//! Requests as the Responses API takes them, byte for byte where a group shares them; replies of
//! recorded streams and documents, cut anywhere between two events.

use crate::media::Accepts;
use proptest::prelude::*;
use serde_json::Value;
use unisono_context::call::Stop;
use unisono_context::{Part, Role, Snapshot, Tokens};

use super::*;
use crate::dialect::fixture::{
    self, SENDING, about, body, chat, decode, events, everything, head_bytes, labelled, lines,
    made, own, read, said, usage,
};
use crate::dialect::label::LEGEND;
use crate::dialect::{DecodedEvent, Dialect, Failure};
use crate::fixture::{Chat, call, result};
use crate::language::{Class, Exchange};
use crate::prompt::Group;

const RESPONSES: Dialect = Dialect::OpenAiResponses;

/// A model that reasons, as those asked in this dialect do.
const REASONING: Sending<'static> = Sending {
    reasoning: true,
    ..SENDING
};

const ITEMS: &str = r#"[{"id":"rs_9","type":"reasoning","encrypted_content":"gAAA+/=","summary":[]}, {"id":"fc_8","type":"function_call","call_id":"call_1","name":"search","arguments":"{\"place\":\"attic\"}"},{"id":"fc_9","type":"function_call","call_id":"call_2","name":"search","arguments":"{}"}]"#;

fn snapshot() -> Snapshot {
    let chat = everything(1).summarise(2, "They looked for a key.");
    chat.say(Role::User, "well?").freeze()
}

fn answered(snapshot: &Snapshot) -> Request {
    Request {
        exchange: fixture::exchange(ITEMS, ["call_1", "call_2"]),
        output_schema: Some(r#"{"type":"object","properties":{}}"#.into()),
        wrap_up: Some("Answer now.".into()),
        ..about(snapshot, Group::Shared)
    }
}

fn without_breakpoints(request: &Request) -> String {
    let head = head_bytes(RESPONSES, "gpt-5", request, false, Accepts::default());
    String::from_utf8(head).unwrap()
}

#[test]
fn a_request_in_full() {
    let snapshot = snapshot();
    insta::assert_snapshot!(lines(&body(RESPONSES, &answered(&snapshot), &REASONING)));
}

#[test]
fn a_head_without_breakpoints() {
    let snapshot = snapshot();
    let request = about(&snapshot, own());
    let tail = RESPONSES.tail(&request, &SENDING);
    let body = without_breakpoints(&request) + std::str::from_utf8(&tail).unwrap();
    insta::assert_snapshot!(lines(&body));
}

#[test]
fn a_task_alone_has_no_context_and_all_tools() {
    let snapshot = snapshot();
    let request = about(&snapshot, Group::TaskOnly);
    insta::assert_snapshot!(lines(&body(RESPONSES, &request, &REASONING)));
}

#[test]
fn a_count_request_has_the_input_alone() {
    let snapshot = snapshot();
    let sending = Sending {
        mode: Mode::Count,
        ..REASONING
    };
    let mut asked = read(&body(RESPONSES, &answered(&snapshot), &sending));
    let counted = asked.as_object_mut().unwrap();
    let full = read(&body(RESPONSES, &answered(&snapshot), &REASONING));
    assert_eq!(counted["input"], full["input"]);
    let keys: Vec<&String> = counted.keys().collect();
    assert_eq!(keys, ["input", "model", "text", "tools"]);
    let paths = [Mode::Stream, Mode::Whole, Mode::Count].map(|mode| RESPONSES.path("m", mode));
    let paths = paths.map(Option::unwrap);
    assert_eq!(
        paths,
        ["/responses", "/responses", "/responses/input_tokens"]
    );
    let counted = br#"{"object":"response.input_tokens","input_tokens":731}"#;
    assert_eq!(RESPONSES.parse_token_count(counted), Ok(Tokens(731)));
    assert_eq!(
        RESPONSES.parse_token_count(b"{}"),
        Err(Failure::missing("input_tokens"))
    );
    let refused = RESPONSES.parse_token_count(br#"{"error":{"code":"invalid_api_key"}}"#);
    assert_eq!(refused.unwrap_err().class, Class::Unauthorised);
    assert_eq!(
        RESPONSES.parse_token_count(b"<html>").unwrap_err().class,
        Class::BadReply
    );
}

#[test]
fn settings_of_models_that_do_not_reason() {
    let snapshot = snapshot();
    let mut request = about(&snapshot, Group::Shared);
    request.max_output = Tokens(1);
    let sending = Sending {
        mode: Mode::Whole,
        cache_key: None,
        ..SENDING
    };
    let asked = read(&body(RESPONSES, &request, &sending));
    assert_eq!(asked["max_output_tokens"], 16);
    assert_eq!(asked["temperature"], 0.7);
    assert_eq!(asked["parallel_tool_calls"], true);
    assert_eq!(asked["store"], false);
    for absent in ["include", "stream", "prompt_cache_key", "tool_choice"] {
        assert_eq!(asked.get(absent), None, "{absent}");
    }
}

#[test]
fn a_group_shares_its_head() {
    fixture::check_head_of_group(RESPONSES, fixture::exchange(ITEMS, ["call_1", "call_2"]));
}

macro_rules! recording {
    ($name:literal) => {
        include_str!(concat!("../testdata/openai/responses/", $name))
    };
}

/// The reply of a recording, and what was heard of it.
fn streamed(recording: &str) -> Reply {
    fixture::reply(RESPONSES, recording)
}

#[test]
fn text_streamed_and_whole() {
    let expected = Reply {
        text: "Three risks:\n a \"late\" start — ü 🙂.".into(),
        usage: usage(1_117, 46, 1_024, 64),
        ..Reply::default()
    };
    assert_eq!(streamed(recording!("text.sse")), expected);
    assert_eq!(
        RESPONSES.parse_document(recording!("text.json").as_bytes()),
        Ok(expected)
    );
}

#[test]
fn reasoning_and_calls_streamed_and_whole() {
    let reply = streamed(recording!("reasoning_tools.sse"));
    assert_eq!(&*reply.text, "Looking.");
    let calls = [
        made("call_a", "search", r#"{"q":"key"}"#),
        made("call_b", "open", "{}"),
    ];
    assert_eq!(reply.calls, calls);
    assert_eq!(reply.usage, usage(310, 120, 256, 0));
    let kept: Value = serde_json::from_str(reply.verbatim.as_deref().unwrap()).unwrap();
    let whole = recording!("reasoning_tools.json");
    assert_eq!(kept, read(whole)["output"]);
    let same = RESPONSES.parse_document(whole.as_bytes()).unwrap();
    assert_eq!(read(same.verbatim.as_deref().unwrap()), kept);
    assert_eq!((same.calls, same.usage), (reply.calls.clone(), reply.usage));

    let snapshot = Chat::new(1).say(Role::User, "hi").freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.exchange = vec![Exchange::Reply(reply)];
    let sent = read(&body(RESPONSES, &request, &REASONING));
    let input = sent["input"].as_array().unwrap();
    let types: Vec<&str> = input[3..]
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    let expected = rows! {
        "reasoning", "message", "function_call", "function_call", "function_call_output",
        "function_call_output",
    };
    assert_eq!(types, expected, "{sent}");
    assert_eq!(input[3], kept[0]);
    assert_eq!(input[7]["call_id"], "call_a");
}

#[test]
fn why_a_reply_ended() {
    let refused = streamed(recording!("refusal.sse"));
    assert_eq!(refused.stop, Stop::Refused);
    assert_eq!(&*refused.text, "I'm sorry, I cannot help with that.");
    let cut = streamed(recording!("length.sse"));
    assert_eq!((cut.stop, &*cut.text), (Stop::CutOff, "The first of many"));
    assert_eq!(cut.usage, usage(12, 16, 0, 0));
    let filtered = streamed(recording!("filtered.sse"));
    assert_eq!(filtered.stop, Stop::Refused);
    assert_eq!(&*filtered.text, "The first of many");
    let two = streamed(recording!("two_messages.sse"));
    assert_eq!(&*two.text, "I will look first.\n\nIt is there.");
}

#[test]
fn failures_in_mid_stream_have_their_class() {
    let class = |recording| decode(RESPONSES, &events(recording)).1.unwrap_err();
    let failed = class(recording!("failed.sse"));
    let unavailable = Class::UNAVAILABLE;
    let reason = "server_error: The model failed to generate a response";
    assert_eq!(failed, Failure::new(unavailable, reason));
    let limited = Class::RATE_LIMITED;
    assert_eq!(class(recording!("error.sse")).class, limited);
    for (name, data, class) in rows! {
        ("error", "{}", unavailable),
        (
            "error",
            r#"{"type":"error","error":{"code":"context_length_exceeded","message":"x"}}"#,
            Class::Overflow { limit: None },
        ),
        ("message", r#"{"error":{"code":"invalid_api_key"}}"#, Class::Unauthorised),
        ("message", "{}", Class::BadReply),
        ("message", "<html>", Class::BadReply),
        ("response.completed", "{}", Class::BadReply),
        ("response.output_text.delta", "{}", Class::BadReply),
        ("response.output_item.done", "{}", Class::BadReply),
        ("response.failed", r#"{"response":{"status":"failed","error":null}}"#, unavailable),
        ("response.completed", r#"{"response":{"status":"cancelled"}}"#, unavailable),
    } {
        let mut decoder = RESPONSES.decoder();
        let failed = decoder.event(&crate::sse::Event { name, data });
        assert_eq!(failed.unwrap_err().class, class, "{name} {data}");
    }
}

#[test]
fn servers_with_ways_of_their_own() {
    // No names, no items, `[DONE]` at the end.
    let event = |data: &str| ("message".to_owned(), data.to_owned());
    let bare = [
        event(r#"{"type":"response.created"}"#),
        event(r#"{"type":"response.output_text.delta","delta":"a"}"#),
        event(r#"{"type":"response.output_text.delta","delta":"","output_index":0}"#),
        event(r#"{"type":"response.output_text.delta","delta":"b"}"#),
        event(r#"{"type":"a.new.one","delta":{"x":1}}"#),
        event(r#"{"type":"response.completed","response":{"status":"completed"}}"#),
        event("[DONE]"),
    ];
    let (heard, reply) = decode(RESPONSES, &bare);
    assert_eq!((&*heard, &*reply.unwrap().text), ("ab", "ab"));
    // Items in the last event only.
    let last = r#"{"type":"response.completed","response":{"status":"completed","output":[
        {"type":"function_call","id":"fc","name":"f","arguments":""},
        {"type":"function_call","name":"g","arguments":"{"}]}}"#;
    let calls = decode(RESPONSES, &[event(last)]).1.unwrap().calls;
    let calls: Vec<[&str; 3]> = calls
        .iter()
        .map(|c| [&*c.id, &*c.name, &*c.arguments])
        .collect();
    assert_eq!(calls, [["fc", "f", "{}"], ["call_1", "g", "{"]]);
}

#[test]
fn a_usage_that_is_no_number_loses_no_reply() {
    let most = u64::MAX.to_string();
    for (given, input) in [("12.0", 12), ("-5", 0), ("\"12\"", 0), (&*most, 0)] {
        let body = format!(
            r#"{{"status":"completed","output":[{{"type":"message","content":[{{"text":"yes"}}]}}],
                "usage":{{"input_tokens":{given},"output_tokens":3,
                "input_tokens_details":{{"cached_tokens":-1}}}}}}"#
        );
        let reply = RESPONSES.parse_document(body.as_bytes()).unwrap();
        let expected = ("yes", usage(input, 3, 0, 0));
        assert_eq!((&*reply.text, reply.usage), expected, "{given}");
    }
}

#[test]
fn what_a_reply_lacks_is_named() {
    for (body, field) in rows! {
        ("{}", "output"),
        (r#"{"status":"completed"}"#, "output"),
        (r#"{"output":[{"type":"message","content":[{"text":"Hello"}]}],"usage":{}}"#, "status"),
        (
            r#"{"status":"completed","output":[{"type":"function_call","arguments":"{}"}]}"#,
            "output[0].name",
        ),
        (
            r#"{"status":"completed","output":[{"type":"reasoning"},{"type":"function_call","name":"f"}]}"#,
            "output[1].arguments",
        ),
    } {
        let failed = RESPONSES.parse_document(body.as_bytes());
        assert_eq!(failed, Err(Failure::missing(field)), "{body}");
    }
    let reported =
        RESPONSES.parse_document(br#"{"error":{"message":"no","code":"insufficient_quota"}}"#);
    assert_eq!(reported.unwrap_err().class, Class::OutOfQuota);
    let text = RESPONSES.parse_document(br#"{"error":"model 'x' not found"}"#);
    assert_eq!(text.unwrap_err().reason, "model 'x' not found");
    let queued = RESPONSES.parse_document(br#"{"status":"queued","output":[]}"#);
    let said = "the reply has the `status` queued, which is no end";
    assert_eq!(queued.unwrap_err().reason, said);
    for body in [
        "",
        "<html>",
        "[]",
        r#"{"status":"completed","output":[{}]}"#,
    ] {
        let failed = RESPONSES.parse_document(body.as_bytes()).unwrap_err();
        assert_eq!(failed.class, Class::BadReply, "{body}");
    }
}

#[test]
fn items_of_other_dialects_and_calls_are_built_anew() {
    let reply = |verbatim: &str| Reply {
        calls: vec![made("a", "f", "{}")],
        verbatim: Some(verbatim.into()),
        ..Reply::default()
    };
    for foreign in [
        "[]",
        "{}",
        r#"[{"type":"thinking"},{"type":"tool_use","id":"a"}]"#,
        r#"[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]"#,
        r#"[{"type":"reasoning","encrypted_content":"x"},{"type":"function_call","call_id":"b"}]"#,
        r#"[{"type":"reasoning","encrypted_content":"x"}]"#,
        r#"{"reasoning_content":"x"}"#,
        // Only the provider could know what the id stands for.
        r#"[{"type":"reasoning","id":"rs_1","encrypted_content":null,"summary":[]},
            {"type":"function_call","call_id":"a"}]"#,
        r#"[{"type":"reasoning","encrypted_content":"x"},{"type":"reasoning","content":[]},
            {"type":"function_call","call_id":"a"}]"#,
    ] {
        assert_eq!(items::own(&reply(foreign)), None, "{foreign}");
    }
    for own in [
        r#"[{"type":"reasoning","encrypted_content":"x"},{"type":"function_call","call_id":"a"}]"#,
        r#"[{"type":"reasoning","content":[{"type":"reasoning_text","text":"x"}]},
            {"type":"function_call","call_id":"a"}]"#,
    ] {
        assert_eq!(items::own(&reply(own)), Some(&own[1..own.len() - 1]));
    }
}

proptest! {
    #[test]
    fn any_conversation_is_one_that_the_provider_takes(said in said(), breakpoints: bool) {
        let snapshot = chat(&said).freeze();
        let mut request = about(&snapshot, Group::Shared);
        request.exchange = fixture::exchange(ITEMS, ["call_1", "call_2"]);
        let tail = RESPONSES.tail(&request, &REASONING);
        let head = match breakpoints {
            true => fixture::head(RESPONSES, &request),
            false => without_breakpoints(&request),
        };
        let body = read(&(head + std::str::from_utf8(&tail).unwrap()));
        let input = body["input"].as_array().unwrap();
        let ids = |kind: &str| -> Vec<&Value> {
            let items = input.iter().filter(|item| item["type"] == kind);
            items.map(|item| &item["call_id"]).collect()
        };
        let mut calls = ids("function_call");
        prop_assert_eq!(ids("function_call_output").len(), calls.len());
        calls.retain(|id| !ids("function_call_output").contains(id));
        prop_assert!(calls.is_empty());
        for (at, pair) in input.windows(2).enumerate() {
            let output = |item: &Value| item["type"] == "function_call_output";
            let call = |item: &Value| item["type"] == "function_call";
            prop_assert!(!output(&pair[1]) || output(&pair[0]) || call(&pair[0])
                || pair[0]["role"] == "assistant", "at {}", at);
            prop_assert!(breakpoints || pair[0]["role"] != "user" || pair[1]["role"] != "user");
        }
    }

    #[test]
    fn texts_arguments_and_results_are_sent_as_they_are(
        said in ".+", arguments in any::<String>(), found in any::<String>(),
    ) {
        prop_assume!(!said.trim().is_empty() && !arguments.trim().is_empty());
        let snapshot = Chat::new(1)
            .system(&said)
            .assistant(vec![Part::text(&*said), call("x", "f", &arguments)])
            .results(vec![result("x", &found)])
            .say(Role::User, &said)
            .freeze();
        let body = read(&body(RESPONSES, &about(&snapshot, Group::Shared), &SENDING));
        let input = &body["input"];
        prop_assert_eq!(&input[0]["content"][0]["text"], &format!("{said}\n\n{LEGEND}"));
        prop_assert_eq!(&input[1]["content"], &format!("[2026-05-07]\n#1 {said}"));
        prop_assert_eq!(&input[2]["arguments"], &arguments);
        prop_assert_eq!(&input[3]["output"], &labelled(2, &found));
        prop_assert_eq!(&input[4]["content"][0]["text"], &labelled(3, &said));
    }

    #[test]
    fn no_bytes_are_too_strange(body in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = RESPONSES.parse_document(&body);
        let _ = RESPONSES.parse_token_count(&body);
        for name in ["message", "error", "response.completed", "response.output_item.done"] {
            let data = &*text;
            let mut decoder = RESPONSES.decoder();
            let seen = decoder.event(&crate::sse::Event { name, data });
            prop_assert!(!matches!(seen, Ok(DecodedEvent::Text(_) | DecodedEvent::End)));
        }
    }
}
