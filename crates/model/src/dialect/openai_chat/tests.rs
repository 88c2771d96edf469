//! Requests as servers take them, byte for byte where a group shares them; replies of recorded
//! streams and documents, cut anywhere between two events.

use crate::media::Accepts;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use unisono_context::call::Stop;
use unisono_context::{Part, Role, Snapshot, Tokens};

use super::*;
use crate::dialect::fixture::{
    self, SENDING, about, chat, decode, events, everything, head_bytes, labelled, lines, made, own,
    read, said, usage,
};
use crate::dialect::label::LEGEND;
use crate::dialect::{DecodedEvent, Dialect, Failure};
use crate::fixture::{Chat, call, result};
use crate::language::{Class, Exchange};
use crate::prompt::Group;

const CHAT: Dialect = Dialect::OpenAiChat;

const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"type":"string"}},"required":["risk"],"additionalProperties":false}"#;

fn head_of(request: &Request, breakpoints: bool) -> String {
    let head = head_bytes(CHAT, "gpt-4o", request, breakpoints, Accepts::default());
    String::from_utf8(head).unwrap()
}

fn body(request: &Request, sending: &Sending<'_>) -> String {
    let tail = CHAT.tail(request, sending);
    head_of(request, false) + std::str::from_utf8(&tail).unwrap()
}

fn snapshot() -> Snapshot {
    everything(1)
        .summarise(2, "They looked for a key.")
        .freeze()
}

fn answered(snapshot: &Snapshot) -> Request {
    Request {
        exchange: fixture::exchange(r#"{"reasoning_content":"hm \"so\""}"#, ["call_1", "call_2"]),
        output_schema: Some(SCHEMA.into()),
        ..about(snapshot, Group::Shared)
    }
}

#[test]
fn a_request_in_full() {
    let snapshot = snapshot();
    insta::assert_snapshot!(lines(&body(&answered(&snapshot), &SENDING)));
}

#[test]
fn a_head_with_breakpoints() {
    let chat = everything(1).summarise(2, "They looked for a key.");
    let snapshot = chat.say(Role::User, "well?").freeze();
    let request = about(&snapshot, Group::Shared);
    let tail = CHAT.tail(&request, &SENDING);
    let body = head_of(&request, true) + std::str::from_utf8(&tail).unwrap();
    insta::assert_snapshot!(lines(&body));
}

#[test]
fn an_own_persona_stands_before_the_context() {
    let snapshot = Chat::new(1).say(Role::User, "hi").freeze();
    let request = about(&snapshot, own());
    insta::assert_snapshot!(lines(&body(&request, &SENDING)));
}

#[test]
fn a_task_alone_has_no_context_and_all_tools() {
    let snapshot = snapshot();
    let request = about(&snapshot, Group::TaskOnly);
    insta::assert_snapshot!(lines(&body(&request, &SENDING)));
}

#[test]
fn the_last_call_of_a_run_is_told_to_answer() {
    let snapshot = Chat::new(1).say(Role::User, "hi").tool("t", "{}").freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.wrap_up = Some("The limit of 20 turns is reached: answer \"now\".".into());
    let alone = read(&body(&request, &SENDING));
    assert_eq!(alone["messages"].as_array().unwrap().len(), 2, "{alone}");
    let text = alone["messages"][1]["content"].as_str().unwrap();
    assert!(text.ends_with("\n\nThe limit of 20 turns is reached: answer \"now\"."));
    assert_eq!(alone["tool_choice"], "none");

    request.exchange = fixture::exchange("[]", ["a", "b"]);
    let later = read(&body(&request, &SENDING));
    let last = later["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "user");
    assert_eq!(
        last["content"],
        "The limit of 20 turns is reached: answer \"now\"."
    );

    request.tools = Arc::from([]);
    let plain = read(&body(&request, &SENDING));
    assert_eq!(plain.get("tool_choice"), None);
    assert_eq!(plain.get("parallel_tool_calls"), None);
}

#[test]
fn models_that_reason_are_asked_otherwise() {
    let snapshot = Chat::new(1).say(Role::User, "hi").tool("t", "{}").freeze();
    let request = about(&snapshot, Group::Shared);
    let sending = Sending {
        reasoning: true,
        mode: Mode::Whole,
        cache_key: None,
        ..SENDING
    };
    let asked = read(&body(&request, &sending));
    let keys: Vec<&String> = asked.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["max_completion_tokens", "messages", "model", "tools"]
    );
    assert_eq!(asked["max_completion_tokens"], 4_096);
    let model = "magistral-medium-latest";
    let of_mistral = read(&body(&request, &Sending { model, ..sending }));
    assert_eq!(of_mistral["max_tokens"], 4_096);
    assert_eq!(of_mistral.get("max_completion_tokens"), None);
    let usual = read(&body(&request, &SENDING));
    assert_eq!(usual["max_tokens"], 4_096);
    assert_eq!(usual["temperature"], 0.7);
    assert_eq!(usual["parallel_tool_calls"], true);
    assert_eq!(usual["stream_options"]["include_usage"], true);
    assert_eq!(usual["prompt_cache_key"], "volatile");
}

#[test]
fn a_group_shares_its_head() {
    fixture::check_head_of_group(CHAT, fixture::exchange("[]", ["call_1", "call_2"]));
}

#[test]
fn the_buffer_is_allocated_once() {
    let text = "a line of ordinary prose, \"quoted\" once\n".repeat(200);
    let mut chat = Chat::new(1);
    for index in 0..40 {
        chat = chat.say([Role::User, Role::Assistant][index % 2], &text);
    }
    let snapshot = chat.freeze();
    let request = about(&snapshot, Group::Shared);
    let head = head_bytes(CHAT, "m", &request, false, Accepts::default());
    let room = head.capacity();
    assert!(room < head.len() * 5 / 4, "{} of {room}", head.len());
}

#[test]
fn only_requests_for_replies_have_a_path() {
    let path = |mode| CHAT.path("m", mode);
    assert_eq!(path(Mode::Stream).as_deref(), Some("/chat/completions"));
    assert_eq!(path(Mode::Whole), path(Mode::Stream));
    assert_eq!(path(Mode::Count), None);
    assert!(CHAT.parse_token_count(b"{}").is_err());
}

macro_rules! recording {
    ($name:literal) => {
        include_str!(concat!("../testdata/openai/chat/", $name))
    };
}

#[test]
fn text_streamed_and_whole() {
    let expected = Reply {
        text: "Three risks:\n a \"late\" start — ü 🙂.".into(),
        usage: usage(1_117, 46, 1_024, 64),
        ..Reply::default()
    };
    assert_eq!(fixture::reply(CHAT, recording!("text.sse")), expected);
    assert_eq!(
        CHAT.parse_document(recording!("text.json").as_bytes()),
        Ok(expected)
    );
}

#[test]
fn parallel_calls_streamed_and_whole() {
    let expected = Reply {
        calls: vec![
            made("call_uWcN1", "search", r#"{"q":"key"}"#),
            made("call_b8Tp2", "open", r#"{"path":"a/\"b\".md"}"#),
            made("call_c0Dz3", "now", "{}"),
        ],
        usage: usage(310, 52, 0, 0),
        ..Reply::default()
    };
    assert_eq!(
        fixture::reply(CHAT, recording!("parallel_tools.sse")),
        expected
    );
    let whole = CHAT.parse_document(recording!("parallel_tools.json").as_bytes());
    assert_eq!(whole, Ok(expected));
}

#[test]
fn why_a_reply_ended() {
    let refused = fixture::reply(CHAT, recording!("refusal.sse"));
    assert_eq!(refused.stop, Stop::Refused);
    assert_eq!(&*refused.text, "I'm sorry, I cannot help with that.");
    let cut = fixture::reply(CHAT, recording!("length.sse"));
    assert_eq!((cut.stop, &*cut.text), (Stop::CutOff, "The first of many"));
    let filtered = fixture::reply(CHAT, recording!("filtered.sse"));
    assert_eq!(
        (filtered.stop, &*filtered.text),
        (Stop::Refused, "It begins")
    );
    for (reason, stop) in [
        ("eos", Stop::Complete),
        ("max_tokens", Stop::CutOff),
        ("model_length", Stop::CutOff),
    ] {
        let body = ended(reason);
        assert_eq!(CHAT.parse_document(body.as_bytes()).unwrap().stop, stop);
    }
}

fn ended(reason: &str) -> String {
    format!(r#"{{"choices":[{{"message":{{"content":"It"}},"finish_reason":"{reason}"}}]}}"#)
}

#[test]
fn a_reply_that_the_server_broke_off_is_no_answer() {
    for reason in ["abort", "error", "insufficient_system_resource"] {
        let whole = CHAT.parse_document(ended(reason).as_bytes()).unwrap_err();
        assert_eq!(whole.class, Class::UNAVAILABLE, "{reason}");
        let last = ended(reason).replace("message", "delta");
        let streamed = fixture::decoded(CHAT, &[&*last, "[DONE]"]).unwrap_err();
        assert_eq!(streamed, whole);
        assert!(whole.reason.ends_with(reason), "{}", whole.reason);
    }
}

/// The requests that Mistral's models take, before and after a call of the run.
#[test]
fn mistral_gets_ids_and_an_order_of_roles_that_it_accepts() {
    let snapshot = Chat::new(1)
        .say(Role::User, "hi")
        .assistant(vec![call("a", "f", "{}")])
        .results(vec![result("a", "one")])
        .say(Role::User, "and?")
        .assistant(vec![call("b", "f", "{}")])
        .results(vec![result("b", "two")])
        .freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.exchange = vec![Exchange::Reply(Reply {
        calls: vec![made("call_1", "f", "{}"), made("aB3dE6gH9", "f", "{}")],
        ..Reply::default()
    })];
    request.wrap_up = Some("Answer now.".into());
    let body = fixture::sent(CHAT, "mistral-large-latest", &request);
    let expected = rows! {
        "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
        "assistant", "user", "assistant", "tool", "tool", "assistant", "user",
    };
    assert_eq!(roles(&body), expected);
    let messages = body["messages"].as_array().unwrap();
    let calls = messages
        .iter()
        .filter_map(|one| one["tool_calls"].as_array());
    let calls: Vec<&Value> = calls.flatten().map(|one| &one["id"]).collect();
    let results = messages.iter().filter(|one| one["role"] == "tool");
    let results: Vec<&Value> = results.map(|one| &one["tool_call_id"]).collect();
    assert_eq!(calls, results);
    assert!(
        calls
            .iter()
            .all(|id| mistral::is_accepted(id.as_str().unwrap()))
    );
    assert_eq!(calls[3], "aB3dE6gH9");
}

/// The requests that thinking models take: calls of earlier turns, of another model, and with empty
/// reasoning have none.
#[test]
fn calls_without_reasoning_have_a_text_in_its_place_where_it_is_required() {
    let snapshot = Chat::new(1)
        .say(Role::User, "hi")
        .assistant(vec![call("a", "f", "{}")])
        .results(vec![result("a", "one")])
        .say(Role::Assistant, "One.")
        .say(Role::User, "and?")
        .freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.exchange = fixture::exchange(r#"{"reasoning_content":"So."}"#, ["b", "c"]);
    let noted = "[no reasoning recorded]";
    for (model, expected) in [
        ("kimi-k2.5", [Some(noted), None, Some("So."), Some(noted)]),
        ("the-model", [None, None, Some("So."), None]),
    ] {
        let body = fixture::sent(CHAT, model, &request);
        let messages = body["messages"].as_array().unwrap();
        let of_model = messages.iter().filter(|one| one["role"] == "assistant");
        let reasoning: Vec<Option<&str>> = of_model
            .map(|one| one["reasoning_content"].as_str())
            .collect();
        assert_eq!(reasoning, expected, "{model}");
    }
}

#[test]
fn reasoning_goes_back_under_its_key_and_nowhere_else() {
    let reply = fixture::reply(CHAT, recording!("reasoning.sse"));
    assert_eq!(&*reply.text, "One moment.");
    assert_eq!(reply.usage, usage(400, 60, 384, 0));
    let kept = r#"{"reasoning_content":"The person wants the \"time\"."}"#;
    assert_eq!(reply.verbatim.as_deref(), Some(kept));
    let sent = sent_back(reply);
    let said = &sent[2];
    assert_eq!(said["reasoning_content"], "The person wants the \"time\".");
    assert_eq!(said["content"], "One moment.");
    assert_eq!(said["tool_calls"][0]["id"], "call_00_time");
    assert_eq!(sent[3]["content"], "[no result recorded]");

    let local = fixture::reply(CHAT, recording!("ollama.sse"));
    assert_eq!(
        local.verbatim.as_deref(),
        Some(r#"{"reasoning":"Two at once."}"#)
    );
    let last = fixture::reply(CHAT, recording!("text.sse"));
    assert_eq!(last.verbatim, None);
}

#[test]
fn a_blank_text_beside_calls_is_not_sent_back() {
    let sent = sent_back(Reply {
        text: "\n\n".into(),
        calls: vec![made("call_1", "f", "{}")],
        ..Reply::default()
    });
    assert_eq!(sent[2]["role"], "assistant");
    assert_eq!(sent[2]["content"], Value::Null);
}

#[test]
fn calls_without_a_text_have_an_empty_one_at_cloudflare() {
    let snapshot = Chat::new(1)
        .say(Role::User, "hi")
        .assistant(vec![call("a", "f", "{}")])
        .results(vec![result("a", "one")])
        .say(Role::User, "and?")
        .freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.exchange = vec![Exchange::Reply(Reply {
        calls: vec![made("b", "f", "{}")],
        ..Reply::default()
    })];
    for (model, expected) in [
        ("the-model", Value::Null),
        ("@cf/openai/gpt-oss-120b", Value::from("")),
    ] {
        let body = fixture::sent(CHAT, model, &request);
        let messages = body["messages"].as_array().unwrap();
        let calling = messages.iter().filter(|one| one["tool_calls"].is_array());
        let texts: Vec<&Value> = calling.map(|one| &one["content"]).collect();
        assert_eq!(texts, [&expected, &expected], "{model}");
    }
}

fn reply_of(events: &[String]) -> Reply {
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    fixture::decoded(CHAT, &events).unwrap()
}

/// The messages with which a reply is sent back.
fn sent_back(reply: Reply) -> Value {
    let snapshot = Chat::new(1).say(Role::User, "hi").freeze();
    let mut request = about(&snapshot, Group::Shared);
    request.exchange = vec![Exchange::Reply(reply)];
    read(&body(&request, &SENDING))["messages"].take()
}

/// Gemini refuses a request in which its call has lost the signature.
#[test]
fn what_a_call_has_besides_goes_back_with_it() {
    let signed = serde_json::json!({"google": {"thought_signature": "sig+/="}});
    let call = |index: u32, extra: &Value| {
        serde_json::json!({
            "index": index, "id": format!("c{index}"), "extra_content": extra,
            "function": {"name": "search", "arguments": "{}"},
        })
    };
    for reasoning in [None, Some("So.")] {
        let calls = [call(0, &signed), call(1, &Value::Null)];
        let delta = serde_json::json!({"reasoning_content": reasoning, "tool_calls": calls});
        let choice = serde_json::json!({"delta": delta, "finish_reason": "tool_calls"});
        let events = [
            serde_json::json!({"choices": [choice]}).to_string(),
            "[DONE]".to_owned(),
        ];
        let message = sent_back(reply_of(&events))[2].take();
        let calls = message["tool_calls"].as_array().unwrap();
        assert_eq!(calls[0]["extra_content"], signed);
        assert_eq!(calls[1].get("extra_content"), None);
        assert_eq!(message["reasoning_content"].as_str(), reasoning);
    }
}

/// OpenRouter sends reasoning twice, and refuses calls of Gemini without its blocks.
#[test]
fn blocks_of_reasoning_go_back_instead_of_its_text() {
    let delta = |delta: Value| serde_json::json!({"choices": [{"delta": delta}]}).to_string();
    let block = serde_json::json!({"type": "reasoning.text", "text": "So", "index": 0});
    let sealed = serde_json::json!({"type": "reasoning.encrypted", "data": "x", "id": "c"});
    let call = serde_json::json!({"index": 0, "id": "c", "function": {"name": "search"}});
    let events = [
        delta(serde_json::json!({"content": "", "reasoning": "So", "reasoning_details": [block]})),
        delta(serde_json::json!({"content": "", "reasoning": "So", "reasoning_details": [block]})),
        delta(serde_json::json!({"content": "I look.", "reasoning_details": []})),
        delta(serde_json::json!({"tool_calls": [call], "reasoning_details": [sealed]})),
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    let message = sent_back(reply_of(&events))[2].take();
    let joined = serde_json::json!({"type": "reasoning.text", "text": "SoSo", "index": 0});
    assert_eq!(
        message["reasoning_details"],
        serde_json::json!([joined, sealed])
    );
    assert_eq!(message.get("reasoning"), None);
    assert_eq!(message["content"], "I look.");
}

/// An event with a piece of the content.
fn delta(text: &str) -> String {
    serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string()
}

/// A stream of such pieces, whose reply ends so.
fn streamed(pieces: &[&str], end: &str) -> (String, Reply) {
    let mut events: Vec<String> = pieces.iter().map(|piece| delta(piece)).collect();
    events.extend([end.to_owned(), "[DONE]".to_owned()]);
    let events: Vec<_> = events
        .into_iter()
        .map(|data| ("message".to_owned(), data))
        .collect();
    let (heard, reply) = decode(CHAT, &events);
    (heard, reply.unwrap())
}

#[test]
fn reasoning_in_the_content_is_no_part_of_the_answer_and_goes_back_within_a_run() {
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    for pieces in [
        &["<think>\nA \"key\"?\n</think>\n\nUnder the mat."][..],
        &[
            "<th",
            "ink>\nA \"key\"?",
            "\n</thi",
            "nk>",
            "\n",
            "\nUnder",
            " the mat.",
        ],
    ] {
        let (heard, reply) = streamed(pieces, end);
        assert_eq!(
            (&*heard, &*reply.text),
            ("Under the mat.", "Under the mat.")
        );
        assert_eq!(
            reply.verbatim, None,
            "only a reply with calls is ever sent back"
        );
    }
    let (heard, reply) = streamed(&["<think>on and on"], &end.replace("stop", "length"));
    assert_eq!((&*heard, &*reply.text, reply.stop), ("", "", Stop::CutOff));

    let calls = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":
        {"name":"search","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let (_, reply) = streamed(&["<think>A \"key\"?</think>\n", "I look."], calls);
    assert_eq!(&*reply.text, "I look.");
    let sent = sent_back(reply);
    let said = &sent[2];
    assert_eq!(said["content"], "<think>A \"key\"?</think>\nI look.");
    assert_eq!(said["tool_calls"][0]["id"], "c");

    let whole = CHAT.parse_document(
        br#"{"choices":[{"finish_reason":"stop","message":{"content":"<think>x</think>\n\nYes."}}]}"#,
    );
    assert_eq!(&*whole.unwrap().text, "Yes.");
}

#[test]
fn thoughts_that_the_prompt_opened_are_no_part_of_the_answer() {
    let whole = |message: &str, stop: &str| {
        let body = format!(r#"{{"choices":[{{"finish_reason":"{stop}","message":{message}}}]}}"#);
        CHAT.parse_opened_document(body.as_bytes()).unwrap()
    };
    for (message, stop, expected) in rows! {
        (r#"{"content":"A key?</think>\n\nYes."}"#, "stop", "Yes."),
        (r#"{"content":"<think>A key?</think>Yes."}"#, "stop", "Yes."),
        // The server reads reasoning out, or there was none.
        (r#"{"content":"Yes.","reasoning_content":"A key?"}"#, "stop", "Yes."),
        (r#"{"content":"Yes.","reasoning":"A key?"}"#, "length", "Yes."),
        (r#"{"content":"Yes."}"#, "stop", "Yes."),
        (r#"{"content":"A key? Or"}"#, "length", ""),
    } {
        assert_eq!(&*whole(message, stop).text, expected, "{message}");
    }
    let calls = r#"{"content":"A key?","tool_calls":[{"id":"c","function":{"name":"search"}}]}"#;
    let reply = whole(calls, "tool_calls");
    assert_eq!((&*reply.text, reply.calls.len()), ("", 1));
    let sent_back = reply::Own::parse(reply.verbatim.as_deref());
    assert_eq!(sent_back.content.unwrap().0, "A key?");
}

#[test]
fn reasoning_of_other_dialects_is_not_sent() {
    for foreign in [
        "[]",
        "{}",
        "null",
        r#"[{"type":"thinking","thinking":"x","signature":"s"}]"#,
        r#"{"role":"model","parts":[]}"#,
        r#"{"reasoning":"x","reasoning_content":"x"}"#,
        "no json",
    ] {
        let own = reply::Own::parse(Some(foreign));
        assert_eq!(own.reasoning(), "", "{foreign}");
        assert!(own.content.is_none(), "{foreign}");
        assert_eq!(own.extra_content(0), None, "{foreign}");
    }
    assert_eq!(reply::Own::parse(None).reasoning(), "");
}

#[test]
fn calls_of_servers_with_ways_of_their_own() {
    let local = fixture::reply(CHAT, recording!("ollama.sse"));
    let expected = [
        made("call_6j2", "search", r#"{"q":"key"}"#),
        made("call_9xk", "search", r#"{"q":"mat"}"#),
    ];
    assert_eq!(local.calls, expected);
    let nameless = fixture::reply(CHAT, recording!("without_ids.sse"));
    let expected = [
        made("call_0", "search", r#"{"q":"key"}"#),
        made("call_1", "open", r#"{"n":1}"#),
    ];
    assert_eq!(nameless.calls, expected);
    assert_eq!(nameless.usage, usage(0, 0, 0, 0));
    let legacy = fixture::reply(CHAT, recording!("function_call.sse"));
    assert_eq!(legacy.calls, [made("call_0", "search", r#"{"q":1}"#)]);
    let same_id = r#"{"choices":[{"finish_reason":"stop","message":{"tool_calls":[
        {"id":"x","function":{"name":"a","arguments":"{}"}},
        {"id":"x","index":1,"function":{"name":"b","arguments":"{}"}}]}}]}"#;
    let calls = CHAT.parse_document(same_id.as_bytes()).unwrap().calls;
    assert_eq!(calls, [made("x", "a", "{}"), made("x_1", "b", "{}")]);
}

/// The second call begins with the index of the first one, and its arguments have the next.
#[test]
fn arguments_with_a_new_index_belong_to_the_newest_call() {
    let piece = |call: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{call}]}}}}]}}"#);
    let events = [
        piece(r#"{"index":0,"id":"a","function":{"name":"search","arguments":"{\"q\":"}}"#),
        piece(r#"{"index":0,"function":{"arguments":"1}"}}"#),
        piece(r#"{"index":0,"id":"b","function":{"name":"open","arguments":"{\"n\":"}}"#),
        piece(r#"{"index":1,"id":null,"function":{"name":null,"arguments":"2}"}}"#),
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    let reply = reply_of(&events);
    let expected = [
        made("a", "search", r#"{"q":1}"#),
        made("b", "open", r#"{"n":2}"#),
    ];
    assert_eq!(reply.calls, expected);
}

#[test]
fn calls_with_one_index_and_no_ids_are_told_apart() {
    let piece = |name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": 0, "id": "", "function": function});
        json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string()
    };
    let events = [
        piece("search", r#"{"q":1}"#),
        piece("search", r#"{"q":2}"#),
        piece("open", ""),
        piece("open", r#"{"n":"#),
        piece("open", "3}"),
        piece("open", ""),
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
        "[DONE]".to_owned(),
    ];
    let expected = [
        made("call_0", "search", r#"{"q":1}"#),
        made("call_1", "search", r#"{"q":2}"#),
        made("call_2", "open", r#"{"n":3}"#),
    ];
    assert_eq!(reply_of(&events).calls, expected);
}

#[test]
fn usage_may_be_in_the_choice_and_cached_tokens_beside_the_others() {
    let body = r#"{"choices":[{"index":0,"delta":{},"message":{"content":"yes"},"finish_reason":"stop",
        "usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"cached_tokens":4}}]}"#;
    let said = delta("yes");
    let streamed = fixture::decoded(
        CHAT,
        &[
            &*said,
            body.replace("\"message\"", "\"x\"").as_str(),
            "[DONE]",
        ],
    );
    let whole = CHAT.parse_document(body.as_bytes());
    for reply in [streamed.unwrap(), whole.unwrap()] {
        assert_eq!((&*reply.text, reply.usage), ("yes", usage(10, 3, 4, 0)));
    }
}

#[test]
fn a_total_that_counts_reasoning_is_believed() {
    let body = r#"{"choices":[{"finish_reason":"stop","message":{"content":[{"type":"thinking","thinking":[]},
        {"type":"text","text":"yes"}]}}],
        "usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":20}}"#;
    let reply = CHAT.parse_document(body.as_bytes()).unwrap();
    assert_eq!((&*reply.text, reply.usage), ("yes", usage(10, 10, 0, 0)));
}

#[test]
fn a_usage_that_is_no_number_loses_no_reply() {
    let most = u64::MAX.to_string();
    for (prompt, input) in [
        ("12.0", 12),
        ("-5", 0),
        ("\"12\"", 0),
        ("null", 0),
        (&*most, 0),
    ] {
        let body = format!(
            r#"{{"choices":[{{"finish_reason":"stop","message":{{"content":"yes"}}}}],
                "usage":{{"prompt_tokens":{prompt},"completion_tokens":3}}}}"#
        );
        let reply = CHAT.parse_document(body.as_bytes()).unwrap();
        let expected = ("yes", usage(input, 3, 0, 0));
        assert_eq!((&*reply.text, reply.usage), expected, "{prompt}");
    }
}

#[test]
fn errors_in_mid_stream_have_their_class() {
    let (heard, failed) = decode(CHAT, &events(recording!("error_in_stream.sse")));
    let unavailable = Class::UNAVAILABLE;
    assert_eq!(heard, "It was");
    assert_eq!(failed.unwrap_err().class, unavailable);
    for (data, class) in rows! {
        (r#"{"error":{"message":"boom"}}"#, unavailable),
        (
            r#"{"object":"error","message":"This model's maximum context length is 8 tokens"}"#,
            Class::Overflow { limit: Some(Tokens(8)) },
        ),
        (r#"{"error":{"code":502,"message":"Provider returned error"}}"#, unavailable),
        (r#"{"error":{"code":401,"message":"No auth"}}"#, Class::Unauthorised),
        (
            r#"{"choices":[{"finish_reason":"error","error":{"code":429,"message":"busy"}}]}"#,
            Class::RATE_LIMITED,
        ),
        ("<html><title>Bad Gateway</title>", Class::BadReply),
        (r#"{"choices":[{"delta":{"content":7}}]}"#, Class::BadReply),
    } {
        let mut decoder = CHAT.decoder();
        let failed = decoder.event(&crate::sse::Event {
            name: "message",
            data,
        });
        assert_eq!(failed.unwrap_err().class, class, "{data}");
        let whole = CHAT.parse_document(data.as_bytes());
        assert_eq!(whole.unwrap_err().class, class, "{data}");
    }
}

#[test]
fn what_a_reply_lacks_is_named() {
    let missing = |field| Err(Failure::missing(field));
    for (body, field) in [
        ("{}", "choices"),
        (r#"{"choices":null}"#, "choices"),
        (r#"{"choices":[]}"#, "choices[0]"),
        (r#"{"choices":[{"index":0}]}"#, "choices[0].message"),
        (
            r#"{"choices":[{"finish_reason":"tool_calls",
                "message":{"tool_calls":[{"id":"x","function":{}}]}}]}"#,
            "choices[0].message.tool_calls[0].function.name",
        ),
        (
            r#"{"choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":1}}"#,
            "choices[0].finish_reason",
        ),
        (
            r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":""}]}"#,
            "choices[0].finish_reason",
        ),
    ] {
        assert_eq!(
            CHAT.parse_document(body.as_bytes()),
            missing(field),
            "{body}"
        );
    }
    let done = [("message".to_owned(), "[DONE]".to_owned())];
    assert_eq!(decode(CHAT, &done).1, missing("choices[0]"));
    let said = ("message".to_owned(), delta("Hello"));
    let unfinished = [said, done[0].clone()];
    assert_eq!(
        decode(CHAT, &unfinished).1,
        missing("choices[0].finish_reason")
    );
    for body in rows! {
        "", "<html>", "data: {}", "\u{feff}{}", "{\"choices\":[", "[1]",
    } {
        let failed = CHAT.parse_document(body.as_bytes()).unwrap_err();
        assert_eq!(failed.class, Class::BadReply, "{body}");
    }
    let reported =
        CHAT.parse_document(br#"{"error":{"message":"no","code":"insufficient_quota"}}"#);
    assert_eq!(reported.unwrap_err().class, Class::OutOfQuota);
}

#[test]
fn events_without_data_and_after_the_end_are_read_over() {
    let mut decoder = CHAT.decoder();
    let event = |data| crate::sse::Event {
        name: "message",
        data,
    };
    for (data, seen) in [
        ("", DecodedEvent::Other),
        (" ", DecodedEvent::Other),
        ("{}", DecodedEvent::Status),
        (r#"{"choices":[]}"#, DecodedEvent::Status),
        (
            r#"{"choices":[{"index":1,"delta":{"content":"no"}}]}"#,
            DecodedEvent::Other,
        ),
    ] {
        assert_eq!(decoder.event(&event(data)), Ok(seen), "{data}");
    }
    let piece = r#"{"choices":[{"delta":{"content":"yes"}}]}"#;
    assert_eq!(decoder.event(&event(piece)), Ok(DecodedEvent::Text("yes")));
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    assert_eq!(decoder.event(&event(stop)), Ok(DecodedEvent::Other));
    assert_eq!(decoder.event(&event(" [DONE]")), Ok(DecodedEvent::End));
    assert_eq!(decoder.event(&event("after")), Ok(DecodedEvent::Other));
    assert_eq!(&*decoder.finish().unwrap().text, "yes");
}

fn roles(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().unwrap();
    messages
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect()
}

proptest! {
    #[test]
    fn any_conversation_is_one_that_chat_templates_take(
        said in said(), breakpoints: bool, answered: bool,
    ) {
        let snapshot = chat(&said).freeze();
        let mut request = about(&snapshot, Group::Shared);
        if answered {
            request.exchange = fixture::exchange("[]", ["a", "b"]);
        }
        let tail = CHAT.tail(&request, &SENDING);
        let tail = std::str::from_utf8(&tail).unwrap();
        let body = read(&(head_of(&request, breakpoints) + tail));
        let roles = roles(&body);
        prop_assert_eq!(roles.iter().find(|role| **role != "system"), Some(&"user"));
        for (at, pair) in roles.windows(2).enumerate() {
            prop_assert_ne!(pair[1], "system", "at {}", at + 1);
            prop_assert!(breakpoints || pair[0] != "user" || pair[1] != "user");
            prop_assert!(pair[1] != "tool" || pair[0] == "tool" || pair[0] == "assistant");
        }
        let messages = body["messages"].as_array().unwrap();
        for (at, message) in messages.iter().enumerate() {
            let calls = message["tool_calls"].as_array().map_or(&[][..], |calls| calls);
            let results = messages[at + 1..].iter().take_while(|m| m["role"] == "tool");
            let mut answered: Vec<&Value> = results.map(|m| &m["tool_call_id"]).collect();
            if message["role"] != "tool" {
                prop_assert_eq!(answered.len(), calls.len());
                answered.retain(|id| !calls.iter().any(|call| call["id"] == **id));
                prop_assert!(answered.is_empty());
            }
        }
        let marks = head_of(&request, breakpoints).matches("\"prompt_cache_breakpoint\":{").count();
        prop_assert!(marks <= 3 * usize::from(breakpoints));
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
        let body = read(&body(&about(&snapshot, Group::Shared), &SENDING));
        let system = body["messages"][0]["content"].as_str().unwrap();
        prop_assert_eq!(system, format!("{said}\n\n{LEGEND}"));
        prop_assert_eq!(&body["messages"][1]["content"], CONTINUES);
        let asked = &body["messages"][2];
        prop_assert_eq!(&asked["content"], &format!("[2026-05-07]\n#1 {said}"));
        prop_assert_eq!(&asked["tool_calls"][0]["function"]["arguments"], &arguments);
        prop_assert_eq!(&body["messages"][3]["content"], &labelled(2, &found));
        let last = body["messages"][4]["content"].as_str().unwrap();
        prop_assert_eq!(last.strip_prefix(&*labelled(3, &said)).map(|rest| &rest[..10]), Some("\n\n# Your r"));
    }

    #[test]
    fn no_bytes_are_too_strange(body in any::<Vec<u8>>(), status in 400..600u16) {
        let _ = CHAT.parse_document(&body);
        let reason = CHAT.refusal(status, &body).reason;
        prop_assert!(reason.chars().count() < 400 && !reason.contains(char::is_control));
    }
}
