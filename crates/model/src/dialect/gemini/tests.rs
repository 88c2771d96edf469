//! The `generateContent` dialect: golden requests and streams, what errors mean, and that any
//! conversation is a request the API accepts.

mod acceptable;

use proptest::prelude::*;
use serde_json::{Value, json};
use unisono_context::call::{Reply, Stop};
use unisono_context::{Part, Role, Tokens};

use super::super::fixture::*;
use super::super::{Dialect, Failure, Mode, Sending};
use crate::fixture::{Chat, call, request, result};
use crate::language::{Class, Request};
use crate::prompt::Group;

const DIALECT: Dialect = Dialect::Gemini;

const SIGNED: &str = concat!(
    r#"[{"text":"Near doors.","thought":true},{"text":"I look."},"#,
    r#"{"functionCall":{"id":"fc-1","name":"search","args":{"place":"attic"}},"#,
    r#""thoughtSignature":"CiQB=="},"#,
    r#"{"functionCall":{"name":"search","args":{"place":"cellar"}}}]"#
);

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"minimum":1}}}"#;

#[test]
fn a_shared_request() {
    let snapshot = everything(1)
        .summarise(2, "They looked for a key.")
        .freeze();
    let request = Request {
        output_schema: Some(SCHEMA.into()),
        ..about(&snapshot, Group::Shared)
    };
    insta::assert_snapshot!(lines(&body(DIALECT, &request, &SENDING)));
}

#[test]
fn a_request_of_an_agents_own_with_its_exchange() {
    let snapshot = Chat::new(1).say(Role::Assistant, "Good day.").freeze();
    let request = Request {
        exchange: exchange(SIGNED, ["fc-1", "g1"]),
        wrap_up: Some("Answer now, without calling tools.".into()),
        temperature_milli: None,
        ..about(&snapshot, own())
    };
    insta::assert_snapshot!(lines(&body(DIALECT, &request, &SENDING)));
}

#[test]
fn a_tool_whose_name_begins_with_a_digit_is_declared_and_found_again() {
    let chat = Chat::new(1).tool("7z__list", "{}").tool("see", "{}");
    let snapshot = chat.say(Role::User, "hi").freeze();
    let request = about(&snapshot, Group::Shared);
    let sent = read(&body(DIALECT, &request, &SENDING));
    let declared = &sent["tools"][0]["functionDeclarations"];
    assert_eq!(
        (&declared[0]["name"], &declared[1]["name"]),
        (&json!("_7z__list"), &json!("see"))
    );
    let mut reply = Reply {
        calls: ["_7z__list", "see", "_other"]
            .map(|name| made("a", name, "{}"))
            .into(),
        ..Reply::default()
    };
    DIALECT.restore_names(&mut reply, &request.tools);
    let called: Vec<&str> = reply.calls.iter().map(|call| &*call.name).collect();
    assert_eq!(called, ["7z__list", "see", "_other"]);
}

#[test]
fn a_task_without_a_context_is_counted() {
    let sending = Sending {
        mode: Mode::Count,
        ..SENDING
    };
    let (before, after) = DIALECT.count_wrapper();
    let body = format!("{before}{}{after}", body(DIALECT, &request(), &sending));
    let expected = concat!(
        r##"{"generateContentRequest":{"contents":[{"role":"user","parts":[{"text":"##,
        r##""# Your role\n\nYou are the agent \"risks\": finds risks\n\nName every \"risk\"."##,
        r##"\n\n# Task\n\nlist\nthe risks"}]}],"model":"models/the-model"}}"##,
    );
    assert_eq!(body, expected);
}

#[test]
fn a_schema_beside_tools_is_told_in_words_to_models_that_refuse_both() {
    let with_tools = Request {
        output_schema: Some(SCHEMA.into()),
        ..about(&everything(1).freeze(), Group::Shared)
    };
    let without = Request {
        tools: [].into(),
        ..with_tools.clone()
    };
    for (model, request, mode, in_words) in [
        ("gemini-2.5-flash", &with_tools, Mode::Stream, true),
        ("models/gemini-2.5-flash", &with_tools, Mode::Count, true),
        ("gemini-2.5-flash", &without, Mode::Stream, false),
        ("gemini-3.1-pro", &with_tools, Mode::Stream, false),
        ("gemini-3.1-pro", &with_tools, Mode::Count, false),
    ] {
        let sending = Sending {
            model,
            mode,
            ..SENDING
        };
        let read = read(&body(DIALECT, request, &sending));
        let contents = read["contents"].as_array().unwrap();
        let parts = contents.last().unwrap()["parts"].as_array().unwrap();
        let task = parts.last().unwrap()["text"].as_str().unwrap();
        assert_eq!(task.contains(SCHEMA), in_words, "{model}: {task}");
        let config = &read["generationConfig"];
        let mime = config.get("responseMimeType").is_some();
        assert_eq!(mime, !in_words, "{model}: {config}");
        let schema = config.get("responseJsonSchema");
        assert_eq!(schema.is_some(), !in_words, "{model}: {config}");
    }
}

#[test]
fn a_hostile_schema_does_not_break_the_request() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for schema in [&*deep, "{", "{}}", "null", "[]", "{\0}"] {
        let chat = Chat::new(1).tool("t", schema).say(Role::User, "hi");
        let request = Request {
            output_schema: Some(schema.into()),
            ..about(&chat.freeze(), Group::Shared)
        };
        let read = read(&body(DIALECT, &request, &SENDING));
        assert_eq!(
            read["tools"][0]["functionDeclarations"][0],
            json!({"name": "t", "description": "does t"})
        );
        assert_eq!(read["generationConfig"].get("responseJsonSchema"), None);
    }
}

#[test]
fn a_head_is_the_groups_alone() {
    check_head_of_group(DIALECT, exchange(SIGNED, ["fc-1", "g1"]));
}

#[test]
fn paths() {
    let path = |model, mode| DIALECT.path(model, mode).unwrap();
    assert_eq!(
        path("gemini-2.5-flash", Mode::Stream),
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    );
    assert_eq!(
        path("tunedModels/mine", Mode::Whole),
        "/v1beta/tunedModels/mine:generateContent"
    );
    assert_eq!(
        path("odd name?é", Mode::Count),
        "/v1beta/models/odd%20name%3F%C3%A9:countTokens"
    );
}

#[test]
fn a_stream_of_text() {
    let reply = reply(DIALECT, include_str!("../testdata/gemini/text.sse"));
    assert_eq!(
        reply,
        Reply {
            text: "The key lies \"under\" the mat,\nsays Zoë 🔑.".into(),
            usage: usage(35_214, 21 + 186, 34_000, 0),
            request_id: Some("AdVRaMmDCYek".into()),
            ..Reply::default()
        }
    );
}

#[test]
fn the_same_call_twice_is_two_calls() {
    let part = r#"{"functionCall":{"name":"search","args":{"n":1}}}"#;
    let body = format!(
        r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[{part},{part}]}}}}],
            "usageMetadata":{{"promptTokenCount":1}}}}"#
    );
    let reply = DIALECT.parse_document(body.as_bytes()).unwrap();
    assert_eq!(
        calls(&reply),
        [
            ("g0", "search", r#"{"n":1}"#),
            ("g1", "search", r#"{"n":1}"#)
        ]
    );
}

#[test]
fn a_stream_of_calls() {
    let reply = reply(DIALECT, include_str!("../testdata/gemini/tools.sse"));
    assert_eq!(&*reply.text, "I look in both places.");
    assert_eq!(
        calls(&reply),
        [
            ("g0", "search", r#"{"place": "the mat","depth": 2}"#),
            ("fc-7", "open", "{}"),
        ]
    );
    assert_eq!(reply.stop, Stop::Complete);
    assert_eq!(reply.usage, usage(480, 31, 0, 0));
    assert_eq!(reply.verbatim, None);
}

#[test]
fn a_stream_with_signatures_is_kept_as_it_came() {
    let reply = reply(DIALECT, include_str!("../testdata/gemini/thinking.sse"));
    assert_eq!(&*reply.text, "I look.");
    let verbatim = concat!(
        r#"[{"text": "**Where keys are**\n\nNear doors.","thought": true},{"text":"I look."},"#,
        r#"{"functionCall": {"name": "search","args": {"place": "attic"}},"#,
        r#""thoughtSignature": "CiQB0e2Kb1+/=="},"#,
        r#"{"functionCall": {"name": "search","args": {"place": "cellar"}}},"#,
        r#"{"text": "","thoughtSignature": "CiQB0e2Kb2=="}]"#,
    );
    assert_eq!(reply.verbatim.as_deref(), Some(verbatim));
    let (_, ids) = super::own_parts(&reply).expect("it is sent back");
    assert_eq!(ids, [None, None]);
    assert_eq!(calls(&reply)[1].0, "g1");
    assert_eq!(reply.usage, usage(60, 122, 0, 0));
}

#[test]
fn usage_may_come_after_the_finish_reason() {
    let reply = reply(DIALECT, include_str!("../testdata/gemini/usage_later.sse"));
    assert_eq!(reply.stop, Stop::CutOff);
    assert_eq!(&*reply.text, "Once upon a");
    assert_eq!(reply.usage, usage(9, 64, 0, 0));
}

#[test]
fn a_refusal_says_what_the_provider_says() {
    let safety = reply(DIALECT, include_str!("../testdata/gemini/safety.sse"));
    assert_eq!(safety.stop, Stop::Refused);
    assert_eq!(
        &*safety.text,
        "the provider stopped the reply: SAFETY: harassment"
    );
    let blocked = reply(DIALECT, include_str!("../testdata/gemini/blocked.sse"));
    assert_eq!(blocked.stop, Stop::Refused);
    assert_eq!(
        &*blocked.text,
        "the provider blocked the prompt: PROHIBITED_CONTENT"
    );
    assert_eq!(blocked.usage, usage(13, 0, 0, 0));
}

#[test]
fn errors_in_mid_stream_end_it() {
    let unavailable = Class::UNAVAILABLE;
    let events_of = [
        (
            include_str!("../testdata/gemini/unavailable.sse"),
            "The key",
            "UNAVAILABLE: The model is overloaded. Please try again later.",
        ),
        (
            include_str!("../testdata/gemini/malformed.sse"),
            "I call",
            "the model's reply was not usable: MALFORMED_FUNCTION_CALL: Malformed function call: call:search{place",
        ),
    ];
    for (recording, said, reason) in events_of {
        let (heard, reply) = decode(DIALECT, &events(recording));
        assert_eq!(heard, said);
        assert_eq!(reply, Err(Failure::new(unavailable, reason)));
    }
}

#[test]
fn every_finish_reason() {
    let outcome = |reason: &str| {
        let chunk = json!({"candidates": [{"finishReason": reason}], "usageMetadata": {}});
        decoded(DIALECT, &[&chunk.to_string()])
    };
    for (reason, stop) in [
        ("STOP", Stop::Complete),
        ("MAX_TOKENS", Stop::CutOff),
        ("OTHER", Stop::CutOff),
        ("BORED", Stop::CutOff),
        ("SAFETY", Stop::Refused),
        ("RECITATION", Stop::Refused),
        ("LANGUAGE", Stop::Refused),
        ("BLOCKLIST", Stop::Refused),
        ("PROHIBITED_CONTENT", Stop::Refused),
        ("SPII", Stop::Refused),
    ] {
        assert_eq!(outcome(reason).unwrap().stop, stop, "{reason}");
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        assert!(
            outcome(reason).unwrap_err().class.is_transient(),
            "{reason}"
        );
    }
    let unspecified = outcome("FINISH_REASON_UNSPECIFIED").unwrap_err();
    assert_eq!(unspecified.class, Class::IncompleteStream);
}

#[test]
fn what_cannot_be_read_is_a_bad_reply() {
    let nameless = r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}"#;
    for (data, said) in rows! {
        (nameless, "`candidates[0].content.parts[].functionCall.name`"),
        ("<html><title>Login</title>", "a web page (\"Login\")"),
        ("nonsense", "cannot be read"),
    } {
        let failure = decoded(DIALECT, &[data]).unwrap_err();
        assert_eq!(failure.class, Class::BadReply, "{data}");
        assert!(failure.reason.contains(said), "{data}: {failure:?}");
    }
    let listed = r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#;
    let failure = decoded(DIALECT, &[listed]).unwrap_err();
    assert_eq!(failure.reason, "RESOURCE_EXHAUSTED: slow");
}

#[test]
fn a_whole_reply() {
    let body = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":{SIGNED}}},
        "finishReason":"STOP","novelty":1}}],"usageMetadata":{{"promptTokenCount":12,
        "cachedContentTokenCount":7,"candidatesTokenCount":9}},"responseId":"r1"}}"#
    );
    let reply = DIALECT.parse_document(body.as_bytes()).unwrap();
    assert_eq!(&*reply.text, "I look.");
    assert_eq!(reply.verbatim.as_deref(), Some(SIGNED));
    assert_eq!(calls(&reply)[1], ("g1", "search", r#"{"place":"cellar"}"#));
    assert_eq!(reply.usage, usage(12, 9, 7, 0));
    assert_eq!(reply.request_id.as_deref(), Some("r1"));
    let failure = |body: &[u8]| DIALECT.parse_document(body).unwrap_err();
    assert_eq!(
        failure(b"{}"),
        Failure::missing("candidates[0].finishReason")
    );
    assert_eq!(
        failure(br#"{"candidates":[{"finishReason":"STOP"}]}"#),
        Failure::missing("usageMetadata")
    );
    assert_eq!(failure(b"<html>").class, Class::BadReply);
    assert_eq!(failure(b"{\"x\":\"\xff\"}").class, Class::BadReply);
}

#[test]
fn a_usage_that_is_no_number_loses_no_reply() {
    let most = u64::MAX.to_string();
    for (given, input) in [("12.0", 12), ("-5", 0), ("null", 0), (&*most, 0)] {
        let body = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"yes"}}]}},"finishReason":"STOP"}}],
                "usageMetadata":{{"promptTokenCount":{given},"candidatesTokenCount":3}}}}"#
        );
        let reply = DIALECT.parse_document(body.as_bytes()).unwrap();
        let expected = ("yes", usage(input, 3, 0, 0));
        assert_eq!((&*reply.text, reply.usage), expected, "{given}");
    }
}

#[test]
fn counts() {
    assert_eq!(
        DIALECT.parse_token_count(br#"{"totalTokens":31}"#),
        Ok(Tokens(31))
    );
    assert_eq!(
        DIALECT.parse_token_count(b"{}"),
        Err(Failure::missing("totalTokens"))
    );
}

fn refused(status: u16, code: &str, message: &str, details: Value) -> Class {
    let error = json!({"error": {"code": status, "message": message, "status": code,
        "details": details}});
    let alone = DIALECT.refusal(status, error.to_string().as_bytes());
    let listed = DIALECT.refusal(status, json!([error]).to_string().as_bytes());
    assert_eq!(alone, listed);
    assert_eq!(alone.reason, format!("{code}: {message}"));
    alone.class
}

#[test]
fn the_window_in_words_of_vertex() {
    let said = "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count and try again.";
    let limit = Some(Tokens(1_048_576));
    let class = refused(400, "INVALID_ARGUMENT", said, json!([]));
    assert_eq!(class, Class::Overflow { limit });
}

#[test]
fn refusals() {
    let limited = |retry_after_ms| Class::RateLimited { retry_after_ms };
    let unavailable = |retry_after_ms| Class::Unavailable { retry_after_ms };
    let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": "20.0441s"});
    let info = |reason: &str| {
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason, "domain": "googleapis.com"}])
    };
    let quota = |id: &str| {
        json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaMetric": "m", "quotaId": id}]}, retry])
    };
    let too_long = "The input token count (1200000) exceeds the maximum number of tokens allowed";
    for (status, code, message, details, class) in rows! {
        (
            400,
            "INVALID_ARGUMENT",
            "API key not valid.",
            info("API_KEY_INVALID"),
            Class::Unauthorised,
        ),
        (400, "INVALID_ARGUMENT", "API key not valid.", json!([]), Class::Unauthorised),
        (401, "UNAUTHENTICATED", "who?", json!(null), Class::Unauthorised),
        (403, "PERMISSION_DENIED", "no", info("SERVICE_DISABLED"), Class::Unauthorised),
        (404, "NOT_FOUND", "models/x is not found", json!([]), Class::UnknownModel),
        (400, "INVALID_ARGUMENT", "contents[0]: no", json!([]), Class::BadRequest),
        (
            400,
            "INVALID_ARGUMENT",
            &*format!("{too_long} (1048576)."),
            json!([]),
            Class::Overflow { limit: Some(Tokens(1_048_576)) },
        ),
        (
            400,
            "INVALID_ARGUMENT",
            &*format!("{too_long} 1048576."),
            json!([]),
            Class::Overflow { limit: Some(Tokens(1_048_576)) },
        ),
        (400, "FAILED_PRECONDITION", "not in your country", json!([]), Class::BadRequest),
        (429, "RESOURCE_EXHAUSTED", "slow down", json!([]), limited(None)),
        (429, "RESOURCE_EXHAUSTED", "slow down", json!([null, 3, retry]), limited(Some(20_045))),
        (429, "RESOURCE_EXHAUSTED", "quota", quota("PerMinutePerProject"), limited(Some(20_045))),
        (429, "RESOURCE_EXHAUSTED", "quota", quota("RequestsPerDayPerProject"), Class::OutOfQuota),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "metric, limit: 0, model: m",
            json!([retry]),
            Class::OutOfQuota,
        ),
        (500, "INTERNAL", "oh", json!([]), unavailable(None)),
        (503, "UNAVAILABLE", "overloaded", json!([retry]), unavailable(Some(20_045))),
        (504, "DEADLINE_EXCEEDED", "too long", json!([]), unavailable(None)),
        (429, "NOVEL", "slow down", json!([]), limited(None)),
        (418, "NOVEL", "short and stout", json!([]), Class::BadRequest),
    } {
        let got = refused(status, code, message, details);
        assert_eq!(got, class, "{status} {code} {message}");
    }
    for body in ["[]", "{}", "[3]", r#"{"error":{}}"#, r#"{"error":"no"}"#] {
        let failure = DIALECT.refusal(503, body.as_bytes());
        assert_eq!(failure.class, unavailable(None));
        assert_eq!(failure.reason, format!("HTTP 503: {body}"));
    }
    let page = DIALECT.refusal(404, b"<html><title>Not here</title></html>");
    assert_eq!(page.class, Class::BadRequest);
    assert!(page.reason.contains("Not here"), "{page:?}");
}
