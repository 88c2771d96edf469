//! The Messages dialect: golden requests and streams, what errors mean, and that any
//! conversation is a request the API accepts.

mod acceptable;

use crate::media::Accepts;
use proptest::prelude::*;
use serde_json::{Value, json};
use unisono_context::call::{Reply, Stop};
use unisono_context::{Part, Role, Tokens};

use super::super::fixture::*;
use super::super::label::LEGEND;
use super::super::{Dialect, Failure, Head, Mode, Sending};
use crate::fixture::{Chat, call, request, result};
use crate::language::{Class, Request};
use crate::prompt::Group;

const DIALECT: Dialect = Dialect::Anthropic;

const THINKING: &str = concat!(
    r#"[{"type":"thinking","thinking":"near \"doors\"","signature":"EqQB=="},"#,
    r#"{"type":"redacted_thinking","data":"Emw="},{"type":"text","text":"I look."},"#,
    r#"{"type":"tool_use","id":"toolu_1","name":"search","input":{"place":"attic"}},"#,
    r#"{"type":"tool_use","id":"toolu_2","name":"search","input":{"place":"cellar"}}]"#
);

#[test]
fn a_shared_request() {
    let snapshot = everything(1)
        .summarise(3, "They looked for a key.")
        .freeze();
    let request = Request {
        output_schema: Some(r#"{"type":"object","properties":{"n":{"minimum":1}}}"#.into()),
        ..about(&snapshot, Group::Shared)
    };
    insta::assert_snapshot!(lines(&body(DIALECT, &request, &SENDING)));
}

#[test]
fn a_conversation_that_the_model_begins() {
    let chat = Chat::new(1).say(Role::Assistant, "Good day.");
    let request = about(&chat.freeze(), Group::TaskOnly);
    assert!(!head(DIALECT, &request).contains("Good day."));
    let request = about(&chat.freeze(), Group::Shared);
    let expected = concat!(
        r#"{"model":"the-model","system":[{"type":"text","text":"be brief"},"#,
        r#"{"type":"text","text":"LEGEND","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":["#,
        r#"{"type":"text","text":"[The conversation goes on from here.]"}]},"#,
        r##"{"role":"assistant","content":[{"type":"text","text":"[2026-05-07]\n#1 Good day.","##,
        r#""cache_control":{"type":"ephemeral"}}]},{"role":"user","content":["#,
    );
    let legend = LEGEND.replace('"', r#"\""#);
    assert_eq!(head(DIALECT, &request), expected.replace("LEGEND", &legend));
}

#[test]
fn a_request_of_an_agents_own_with_its_exchange() {
    let snapshot = Chat::new(1).say(Role::User, "where is the key?").freeze();
    let request = Request {
        exchange: exchange(THINKING, ["toolu_1", "toolu_2"]),
        wrap_up: Some("Answer now, without calling tools.".into()),
        ..about(&snapshot, own())
    };
    let sending = Sending {
        mode: Mode::Whole,
        reasoning: true,
        ..SENDING
    };
    insta::assert_snapshot!(lines(&body(DIALECT, &request, &sending)));
}

#[test]
fn calls_without_thinking_have_a_text_in_its_place_where_it_is_required() {
    let snapshot = Chat::new(1)
        .say(Role::User, "hi")
        .assistant(vec![call("a", "f", "{}")])
        .results(vec![result("a", "one")])
        .say(Role::Assistant, "One.")
        .say(Role::User, "and?")
        .freeze();
    let request = Request {
        exchange: exchange(THINKING, ["toolu_1", "toolu_2"]),
        ..about(&snapshot, Group::Shared)
    };
    for (model, expected) in [
        (
            "deepseek-v4-pro",
            ["thinking", "text", "thinking", "thinking"],
        ),
        ("the-model", ["tool_use", "text", "thinking", "text"]),
    ] {
        let body = sent(DIALECT, model, &request);
        let messages = body["messages"].as_array().unwrap();
        let of_model = messages.iter().filter(|one| one["role"] == "assistant");
        let first: Vec<&Value> = of_model.map(|one| &one["content"][0]["type"]).collect();
        assert_eq!(first, expected, "{model}");
    }
}

#[test]
fn a_task_without_a_context_is_counted() {
    let sending = Sending {
        mode: Mode::Count,
        ..SENDING
    };
    let expected = concat!(
        r##"{"model":"the-model","messages":[{"role":"user","content":[{"type":"text","text":"##,
        r##""# Your role\n\nYou are the agent \"risks\": finds risks\n\nName every \"risk\"."##,
        r##"\n\n# Task\n\nlist\nthe risks"}]}]}"##,
    );
    assert_eq!(body(DIALECT, &request(), &sending), expected);
}

#[test]
fn the_last_of_system_text_and_tools_is_the_breakpoint() {
    let chat = Chat::new(1).system(" ").tool("a", r#"{"properties":{}}"#);
    let snapshot = chat.tool("b", "{}").say(Role::User, "hi").freeze();
    let read = read(&body(DIALECT, &about(&snapshot, Group::Shared), &SENDING));
    let breakpoint = json!({"type": "ephemeral"});
    let legend = json!([{"type": "text", "text": LEGEND, "cache_control": breakpoint}]);
    assert_eq!(read["system"], legend);
    assert_eq!(read["tools"][1].get("cache_control"), None);
    assert_eq!(
        read["tools"][0]["input_schema"],
        json!({"type": "object", "properties": {}})
    );
    assert_eq!(read["tools"][1]["input_schema"], json!({"type": "object"}));
    let content = &read["messages"][0]["content"];
    assert_eq!(content[0]["cache_control"], breakpoint);
    assert_eq!(content[1].get("cache_control"), None);
    let alone = self::read(&body(DIALECT, &about(&snapshot, Group::TaskOnly), &SENDING));
    assert_eq!(alone.get("system"), None);
    assert_eq!(alone["tools"][0].get("cache_control"), None);
    assert_eq!(alone["tools"][1]["cache_control"], breakpoint);
}

#[test]
fn a_temperature_is_within_the_range_of_the_api() {
    for (milli, sent) in [(300, json!(0.3)), (1_000, json!(1)), (1_300, json!(1))] {
        let request = Request {
            temperature_milli: Some(milli),
            ..request()
        };
        let read = read(&body(DIALECT, &request, &SENDING));
        assert_eq!(read["temperature"], sent);
    }
}

#[test]
fn a_hostile_schema_does_not_break_the_request() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for schema in [&*deep, "{", "{}}", "null", r#"{"type":"array"}"#, "{\0}"] {
        let chat = Chat::new(1).tool("t", schema).say(Role::User, "hi");
        let request = Request {
            output_schema: Some(schema.into()),
            ..about(&chat.freeze(), Group::Shared)
        };
        let read = read(&body(DIALECT, &request, &SENDING));
        assert_eq!(read["tools"][0]["input_schema"], json!({"type": "object"}));
    }
}

#[test]
fn a_head_is_the_groups_alone() {
    check_head_of_group(DIALECT, exchange(THINKING, ["toolu_1", "toolu_2"]));
}

#[test]
fn paths() {
    let path = |mode| DIALECT.path("m", mode).unwrap();
    assert_eq!(path(Mode::Stream), "/v1/messages");
    assert_eq!(path(Mode::Whole), "/v1/messages");
    assert_eq!(path(Mode::Count), "/v1/messages/count_tokens");
}

#[test]
fn a_stream_of_text() {
    let reply = reply(DIALECT, include_str!("../testdata/anthropic/text.sse"));
    assert_eq!(
        reply,
        Reply {
            text: "The key lies \"under\" the mat,\nsays Zoë 🔑.".into(),
            usage: usage(14 + 34_000 + 1_200, 21, 34_000, 1_200),
            ..Reply::default()
        }
    );
}

#[test]
fn a_stream_of_calls() {
    let reply = reply(DIALECT, include_str!("../testdata/anthropic/tools.sse"));
    assert_eq!(&*reply.text, "I look in both places.");
    assert_eq!(
        calls(&reply),
        [
            (
                "toolu_01Mat",
                "search",
                r#"{"place": "the mat", "depth": 2}"#
            ),
            ("toolu_02Door", "open", "{}"),
        ]
    );
    assert_eq!(reply.stop, Stop::Complete);
    assert_eq!(reply.usage, usage(472, 89, 0, 0));
    assert_eq!(reply.verbatim, None);
}

#[test]
fn a_stream_with_reasoning_is_kept_as_it_came() {
    let reply = reply(DIALECT, include_str!("../testdata/anthropic/thinking.sse"));
    assert_eq!(&*reply.text, "I look.");
    let verbatim = concat!(
        r#"[{"type":"thinking","thinking":"Keys are often \"near\" doors.\n","#,
        r#""signature":"EqQBCgIYAhIM+w=="},"#,
        r#"{"type":"redacted_thinking","data":"EmwKAhgBEgy3va/+"},"#,
        r#"{"type":"text","text":"I look."},"#,
        r#"{"type":"tool_use","id":"toolu_03Attic","name":"search","input":{"place":"attic"}}]"#,
    );
    assert_eq!(reply.verbatim.as_deref(), Some(verbatim));
    assert!(super::own_blocks(&reply).is_some(), "it is sent back");
}

#[test]
fn a_reply_that_was_cut_off_keeps_what_there_is() {
    let reply = reply(DIALECT, include_str!("../testdata/anthropic/cut_off.sse"));
    assert_eq!(reply.stop, Stop::CutOff);
    assert_eq!(
        calls(&reply),
        [("toolu_04Long", "write", r#"{"text":"once upon a"#)]
    );
}

#[test]
fn a_refusal_says_why() {
    let reply = reply(DIALECT, include_str!("../testdata/anthropic/refusal.sse"));
    assert_eq!(reply.stop, Stop::Refused);
    assert_eq!(&*reply.text, "I do not open other people's doors.");
}

#[test]
fn an_error_in_mid_stream_ends_it() {
    let events = events(include_str!("../testdata/anthropic/overloaded.sse"));
    let (heard, reply) = decode(DIALECT, &events);
    assert_eq!(heard, "The key");
    assert_eq!(
        reply,
        Err(Failure::new(
            Class::UNAVAILABLE,
            "overloaded_error: Overloaded"
        ))
    );
}

#[test]
fn an_error_without_a_type_is_read() {
    let too_long = "prompt is too long: 9 tokens > 8 maximum";
    let limit = Some(Tokens(8));
    for (error, failure) in [
        (
            format!(r#"{{"error":{{"message":"{too_long}","type":null,"code":"400"}}}}"#),
            Failure::new(Class::Overflow { limit }, too_long),
        ),
        (
            r#"{"error":{"message":"too busy","type":"None","param":"None","code":"429"}}"#.into(),
            Failure::new(Class::RATE_LIMITED, "too busy"),
        ),
    ] {
        assert_eq!(decoded(DIALECT, &[&*error]), Err(failure), "{error}");
    }
}

#[test]
fn every_stop_reason() {
    for (reason, stop) in [
        ("end_turn", Stop::Complete),
        ("tool_use", Stop::Complete),
        ("stop_sequence", Stop::Complete),
        ("max_tokens", Stop::CutOff),
        ("model_context_window_exceeded", Stop::CutOff),
        ("pause_turn", Stop::CutOff),
        ("bored", Stop::CutOff),
        ("refusal", Stop::Refused),
    ] {
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},
                "usage":{{"input_tokens":1,"output_tokens":1}}}}"#
        );
        let reply = decoded(DIALECT, &[&delta, r#"{"type":"message_stop"}"#]).unwrap();
        assert_eq!(reply.stop, stop, "{reason}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let stop = r#"{"type":"message_stop"}"#;
    let opened = r#"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#;
    let ended = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    for (data, field) in rows! {
        (vec!["{}"], "`type`"),
        (vec![r#"{"type":"message_start"}"#], "`message`"),
        (vec![opened, stop], "`message_delta.delta.stop_reason`"),
        (vec![opened, ended, stop], "`usage.output_tokens`"),
        (vec![ended, stop], "`usage.input_tokens`"),
        (vec![r#"{"type":"content_block_start"}"#], "`index`"),
        (vec![r#"{"type":"content_block_start","index":0}"#], "`content_block`"),
        (
            vec![r#"{"type":"content_block_start","index":0,"content_block":{}}"#],
            "`content_block.type`",
        ),
        (
            vec![r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}"#],
            "`content_block.id`",
        ),
        (
            vec![r#"{"type":"content_block_delta","index":3,"delta":{}}"#],
            "`content_block_start` for block 3",
        ),
        (vec![r#"{"type":"error"}"#], "`error`"),
        (vec!["<html><title>Login</title>"], "a web page (\"Login\")"),
        (vec!["nonsense"], "cannot be read"),
    } {
        let failure = decoded(DIALECT, &data).unwrap_err();
        assert_eq!(failure.class, Class::BadReply, "{data:?}");
        assert!(failure.reason.contains(field), "{data:?}: {failure:?}");
    }
}

#[test]
fn a_block_that_is_begun_twice_is_one() {
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#;
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},
        "usage":{"input_tokens":1,"output_tokens":1}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let reply = decoded(DIALECT, &[start, start, delta, stop]).unwrap();
    assert_eq!(&*reply.text, "a");
}

/// Some proxies give all blocks the index 0.
#[test]
fn an_index_is_used_again_after_its_block_has_ended() {
    let delta =
        |delta: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
    let start = |block: &str| {
        format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#)
    };
    let end = r#"{"type":"content_block_stop","index":0}"#.to_owned();
    let events = [
        start(r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(r#"{"type":"thinking_delta","thinking":"So."}"#),
        end.clone(),
        start(r#"{"type":"text","text":""}"#),
        delta(r#"{"type":"text_delta","text":"I "}"#),
        delta(r#"{"type":"text_delta","text":"look."}"#),
        end.clone(),
        start(r#"{"type":"tool_use","id":"t1","name":"search","input":{}}"#),
        delta(r#"{"type":"input_json_delta","partial_json":"{\"a\":1}"}"#),
        end.clone(),
        start(r#"{"type":"tool_use","id":"t2","name":"search","input":{}}"#),
        end,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},
        "usage":{"input_tokens":1,"output_tokens":1}}"#
            .to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let reply = decoded(DIALECT, &events).unwrap();
    assert_eq!(&*reply.text, "I look.");
    let expected = [("t1", "search", r#"{"a":1}"#), ("t2", "search", "{}")];
    assert_eq!(calls(&reply), expected);
}

#[test]
fn a_whole_reply() {
    let body = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","content":{THINKING},
        "stop_reason":"tool_use","usage":{{"input_tokens":5,"cache_read_input_tokens":7,
        "output_tokens":9}},"novelty":[1]}}"#
    );
    let reply = DIALECT.parse_document(body.as_bytes()).unwrap();
    assert_eq!(&*reply.text, "I look.");
    assert_eq!(reply.verbatim.as_deref(), Some(THINKING));
    assert_eq!(
        calls(&reply)[1],
        ("toolu_2", "search", r#"{"place":"cellar"}"#)
    );
    assert_eq!(reply.usage, usage(12, 9, 7, 0));
    let failure = |body: &str| DIALECT.parse_document(body.as_bytes()).unwrap_err();
    assert_eq!(failure("{}"), Failure::missing("content"));
    assert_eq!(
        failure(r#"{"content":[]}"#),
        Failure::missing("stop_reason")
    );
    assert_eq!(
        failure(r#"{"type":"error","error":{"type":"api_error","message":"oh"}}"#).class,
        Class::UNAVAILABLE
    );
    assert_eq!(failure("<html>").class, Class::BadReply);
    assert_eq!(failure("").class, Class::BadReply);
}

/// vLLM names the cached part of the input at the end; others leave out what they said before.
#[test]
fn the_last_usage_splits_the_input_and_does_not_add_to_it() {
    let stop = r#"{"type":"message_stop"}"#;
    for (first, last, expected) in rows! {
        (
            r#"{"input_tokens":1000,"output_tokens":0}"#,
            r#"{"input_tokens":200,"cache_read_input_tokens":800,"output_tokens":9}"#,
            usage(1_000, 9, 800, 0),
        ),
        (
            r#"{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":1}"#,
            r#"{"input_tokens":0,"output_tokens":9}"#,
            usage(100, 9, 90, 0),
        ),
        (
            r#"{"input_tokens":0,"output_tokens":0}"#,
            r#"{"input_tokens":11,"cache_creation_input_tokens":4,"output_tokens":5}"#,
            usage(15, 5, 0, 4),
        ),
    } {
        let opened = format!(r#"{{"type":"message_start","message":{{"usage":{first}}}}}"#);
        let ended = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{last}}}"#
        );
        let reply = decoded(DIALECT, &[&opened, &ended, stop]).unwrap();
        assert_eq!(reply.usage, expected, "{last}");
    }
}

#[test]
fn a_usage_with_fractions_and_impossible_numbers_loses_no_reply() {
    let body = r#"{"content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn",
        "usage":{"input_tokens":12.0,"cache_read_input_tokens":-1,"output_tokens":3}}"#;
    let reply = DIALECT.parse_document(body.as_bytes()).unwrap();
    assert_eq!((&*reply.text, reply.usage), ("yes", usage(12, 3, 0, 0)));
}

#[test]
fn counts() {
    assert_eq!(
        DIALECT.parse_token_count(br#"{"input_tokens":403}"#),
        Ok(Tokens(403))
    );
    assert_eq!(
        DIALECT.parse_token_count(b"{}"),
        Err(Failure::missing("input_tokens"))
    );
}

#[test]
fn refusals() {
    let overflow = |limit: Option<u64>| Class::Overflow {
        limit: limit.map(Tokens),
    };
    let limited = Class::RATE_LIMITED;
    let unavailable = Class::UNAVAILABLE;
    for (status, kind, message, class) in rows! {
        (401, "authentication_error", "invalid x-api-key", Class::Unauthorised),
        (403, "permission_error", "not for you", Class::Unauthorised),
        (402, "billing_error", "pay", Class::OutOfQuota),
        (404, "not_found_error", "model: claude-9", Class::UnknownModel),
        (413, "request_too_large", "over 32 MB", overflow(None)),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 207791 tokens > 200000 maximum",
            overflow(Some(200_000)),
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
            overflow(Some(200_000)),
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
            Class::OutOfQuota,
        ),
        (
            400,
            "invalid_request_error",
            "Input is too long for requested model.",
            overflow(None),
        ),
        (400, "invalid_request_error", "tools.0: no", Class::BadRequest),
        (429, "rate_limit_error", "slow down", limited),
        (500, "api_error", "Internal server error", unavailable),
        (504, "timeout_error", "too long", unavailable),
        (529, "overloaded_error", "Overloaded", unavailable),
        (418, "teapot_error", "short and stout", Class::BadRequest),
        (503, "teapot_error", "short and stout", unavailable),
    } {
        let body = json!({"type": "error", "error": {"type": kind, "message": message},
            "request_id": "req_1"});
        let failure = DIALECT.refusal(status, body.to_string().as_bytes());
        assert_eq!(failure.class, class, "{status} {kind} {message}");
        assert_eq!(failure.reason, format!("{kind}: {message}"));
    }
}

#[test]
fn refusals_of_another_form() {
    for (body, reason) in rows! {
        ("[]", "HTTP 503: []"),
        ("{}", "HTTP 503: {}"),
        ("[3]", "HTTP 503: [3]"),
        (r#"{"error":{}}"#, "an error without a reason"),
        (r#"{"error":"no"}"#, "no"),
    } {
        let failure = DIALECT.refusal(503, body.as_bytes());
        assert_eq!(failure.class, Class::UNAVAILABLE);
        assert_eq!(failure.reason, reason);
    }
    let page = DIALECT.refusal(502, b"<html><title>Bad Gateway</title></html>");
    assert_eq!(page.class, Class::UNAVAILABLE);
    assert!(page.reason.contains("Bad Gateway"), "{page:?}");
}

#[test]
fn refusals_of_other_servers() {
    let overflow = |limit: Option<u64>| Class::Overflow {
        limit: limit.map(Tokens),
    };
    for (status, error, class) in rows! {
        (
            400,
            json!({"code": 400, "type": "exceed_context_size_error", "n_ctx": 8192,
                "message": "request (24071 tokens) exceeds the available context size (8192 tokens), try increasing it"}),
            overflow(Some(8_192)),
        ),
        (
            400,
            json!({"type": null, "code": "400",
                "message": "This model's maximum context length is 40960 tokens. However, you requested 50000"}),
            overflow(Some(40_960)),
        ),
        (
            400,
            json!({"type": "invalid_request_error",
                "message": "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"}),
            overflow(Some(262_144)),
        ),
        (
            413,
            json!({"type": "invalid_request_error", "message": "Request size exceeds model context window"}),
            overflow(None),
        ),
        (
            429,
            json!({"type": "1113", "message": "Insufficient balance or no resource package."}),
            Class::OutOfQuota,
        ),
        (
            429,
            json!({"type": "rate_limit_error", "code": "1113",
                "message": "[1113][Insufficient balance or no resource package.]"}),
            Class::OutOfQuota,
        ),
    } {
        let body = json!({"type": "error", "error": error}).to_string();
        assert_eq!(
            DIALECT.refusal(status, body.as_bytes()).class,
            class,
            "{body}"
        );
    }
}

#[test]
fn the_limit_of_a_month_is_no_limit_of_a_minute() {
    let spent = json!({"type": "error", "error": {"type": "rate_limit_error",
        "message": "You will regain access on 2026-10-01 at 00:00 UTC.",
        "details": {"error_code": "enforced_spend_limit_reached"}}});
    let failure = DIALECT.refusal(429, spent.to_string().as_bytes());
    assert_eq!(failure.class, Class::OutOfQuota);
}

#[test]
fn a_model_that_takes_no_schema_answers_by_a_tool() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}"#;
    let asked = Request {
        output_schema: Some(schema.into()),
        ..about(&everything(1).freeze(), Group::Shared)
    };
    let head = DIALECT.head(&Head {
        model: SENDING.model,
        shared: asked.shared(),
        breakpoints: true,
        structured: false,
        accepts: Accepts::default(),
    });
    let sending = Sending {
        structured: false,
        ..SENDING
    };
    let tail = |request: &Request, sending| DIALECT.tail(request, sending);
    let body = String::from_utf8([head, tail(&asked, &sending)].concat()).unwrap();
    let body = read(&body);
    assert_eq!(body["output_config"], Value::Null);
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    let tools = body["tools"].as_array().unwrap();
    let answer = tools.last().unwrap();
    assert_eq!(answer["name"], "answer");
    assert_eq!(answer["input_schema"], read(schema));
    // A count forces no tool; a request without a schema is rendered as by other models.
    let count = Sending {
        mode: Mode::Count,
        ..sending
    };
    assert!(
        !String::from_utf8(tail(&asked, &count))
            .unwrap()
            .contains("tool_choice")
    );
    let plain = about(&everything(1).freeze(), Group::Shared);
    assert_eq!(tail(&plain, &sending), tail(&plain, &SENDING));

    let mut reply = Reply {
        text: "Here it is.".into(),
        calls: vec![
            made("look", "look", "{}"),
            made("answer", "answer", "{\"n\":3}"),
        ],
        verbatim: Some("[]".into()),
        ..Reply::default()
    };
    assert!(DIALECT.answered(&mut reply));
    let said = (&*reply.text, reply.calls.len(), reply.verbatim.clone());
    assert_eq!(said, ("{\"n\":3}", 0, None));
    let before = reply.clone();
    assert!(!DIALECT.answered(&mut reply));
    assert_eq!(reply, before);
}
