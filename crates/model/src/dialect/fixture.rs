//! For tests: recorded streams, conversations of every kind, requests about them.

use crate::media::Accepts;
use proptest::prelude::*;
use serde_json::Value;
use unisono_context::alteration::Form;
use unisono_context::call::{Reply, ToolCall, ToolResult, Usage};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Part, Role, Snapshot, Tokens};

use super::{DecodedEvent, Decoder, Dialect, Failure, Head, Mode, Sending};
use crate::fixture::{Chat, call, failed, plan, request, result};
use crate::language::{Class, Exchange, Request};
use crate::prompt::{Group, Persona};
use crate::sse;

/// The events of a recording as names and data.
pub(super) fn events(recording: &str) -> Vec<(String, String)> {
    let blocks = recording.split("\n\n").filter(|block| !block.is_empty());
    let event = |block: &str| {
        let field = |name: &str| {
            let mut lines = block.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        let name = field("event: ").unwrap_or_else(|| "message".to_owned());
        (name, field("data: ").expect("an event without data"))
    };
    blocks.map(event).collect()
}

/// The result of a decoder for the first events of a recording, up to its end: the streamed text,
/// and the reply.
pub(super) fn decode(
    dialect: Dialect,
    events: &[(String, String)],
) -> (String, Result<Reply, Failure>) {
    let mut decoder = dialect.decoder();
    let mut heard = String::new();
    for (name, data) in events {
        match decoder.event(&sse::Event { name, data }) {
            Ok(DecodedEvent::Text(text)) => heard.push_str(text),
            Ok(DecodedEvent::Other | DecodedEvent::Status) => {}
            Ok(DecodedEvent::End) => break,
            Err(failure) => return (heard, Err(failure)),
        }
    }
    (heard, Decoder::finish(decoder))
}

/// The reply of a recording; cut after any event it is an incomplete stream, or the same reply.
pub(super) fn reply(dialect: Dialect, recording: &str) -> Reply {
    let events = events(recording);
    let (heard, reply) = decode(dialect, &events);
    let reply = reply.expect("a complete recording");
    if !heard.is_empty() {
        assert_eq!(heard, *reply.text, "what was heard is what was said");
    }
    for end in 0..events.len() {
        match decode(dialect, &events[..end]).1 {
            Ok(cut) => assert_eq!(cut, reply, "cut after {end} events"),
            Err(failure) => assert_eq!(
                failure.class,
                Class::IncompleteStream,
                "cut after {end} events: {failure:?}"
            ),
        }
    }
    reply
}

pub(super) fn decoded(dialect: Dialect, data: &[&str]) -> Result<Reply, Failure> {
    let event = |data: &&str| ("message".to_owned(), (*data).to_owned());
    decode(dialect, &data.iter().map(event).collect::<Vec<_>>()).1
}

pub(super) fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
    Usage {
        input: Tokens(input),
        output: Tokens(output),
        cache_read: Tokens(cache_read),
        cache_write: Tokens(cache_write),
        cost: None,
        ..Usage::NONE
    }
}

/// The id, the name and the arguments of each call.
pub(super) fn calls(reply: &Reply) -> Vec<(&str, &str, &str)> {
    let calls = reply.calls.iter();
    calls.map(|c| (&*c.id, &*c.name, &*c.arguments)).collect()
}

pub(super) fn read(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Requests of a group have one head, with and without breakpoints, whatever else differs.
pub(super) fn check_head_of_group(dialect: Dialect, exchange: Vec<Exchange>) {
    let one = Request {
        output_schema: Some(r#"{"type":"object","properties":{}}"#.into()),
        ..about(&everything(1).freeze(), Group::Shared)
    };
    let other = Request {
        persona: Persona {
            agent: AgentId::new("dates"),
            ..one.persona.clone()
        },
        task: "another".into(),
        max_output: Tokens(1),
        temperature_milli: None,
        allowed: [].into(),
        exchange,
        output_schema: one.output_schema.clone(),
        ..about(&everything(u64::MAX >> 2).freeze(), Group::Shared)
    };
    for breakpoints in [true, false] {
        let accepts = Accepts::default();
        let head =
            |request: &Request| head_bytes(dialect, SENDING.model, request, breakpoints, accepts);
        assert_eq!(head(&one), head(&other));
    }
    assert_ne!(dialect.tail(&one, &SENDING), dialect.tail(&other, &SENDING));
    for volatile in ["risks", "volatile", "Task", "0000-0000"] {
        assert!(!head(dialect, &one).contains(volatile), "{volatile}");
    }
}

/// Every kind of part: calls in parallel with ids used twice, a call without a result, a result
/// whose call was summarised, a failed one, masked and cut messages, an attachment, a system
/// message in mid-conversation, arguments that are no JSON. The model speaks first.
pub(super) fn everything(seed: u64) -> Chat {
    let twice = vec![
        Part::text("looking"),
        call("id", "search", r#"{"q":"key"}"#),
        call("id", "search", "key"),
        call("lost", "open.door", ""),
    ];
    let failed = failed("id", "no such \"place\"");
    Chat::new(seed)
        .tool(
            "search",
            r#"{"type":"object","properties":{"q":{"type":"string"}}}"#,
        )
        .tool("open", "not a schema")
        .say(Role::User, "where is the key?")
        .assistant(vec![call("a", "search", "{}")])
        .results(vec![result("a", "under the mat")])
        .say(Role::Assistant, "Under the mat.")
        .say(Role::System, "the door is blue")
        .say(Role::User, "and the other one?")
        .add(Role::Assistant, Some("finder"), twice)
        .results(vec![result("id", "in the door"), failed])
        .assistant(vec![call("b", "search", "{}")])
        .results(vec![result("b", " \n")])
        .user(vec![Part::text(" "), Part::text("see \"plan\"\n"), plan()])
        .say(Role::Assistant, &"x".repeat(40))
        .alter(
            8,
            Form::Masked {
                tokens: Tokens(1_200),
            },
        )
        .alter(12, Form::Cut { target_chars: 20 })
}

pub(super) fn persona() -> Persona {
    request().persona
}

pub(super) fn tools(snapshot: &Snapshot) -> Vec<ToolSpec> {
    snapshot.preamble().tools().to_vec()
}

/// A request of a group about a snapshot, with its tools.
pub(super) fn about(snapshot: &Snapshot, group: Group) -> Request {
    Request {
        group,
        tools: tools(snapshot).into(),
        allowed: ["search".into()].into(),
        snapshot: Some(snapshot.clone().into()),
        temperature_milli: Some(700),
        ..request()
    }
}

pub(super) fn made(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

/// Two moves: a reply as it came, with what its two calls brought, and one of another provider.
pub(super) fn exchange(verbatim: &str, ids: [&str; 2]) -> Vec<Exchange> {
    let made = |id: &str, place: &str| made(id, "search", &format!(r#"{{"place":"{place}"}}"#));
    vec![
        Exchange::Reply(Reply {
            text: "I look.".into(),
            calls: vec![made(ids[0], "attic"), made(ids[1], "cellar")],
            verbatim: Some(verbatim.into()),
            ..Reply::default()
        }),
        Exchange::Results(vec![
            ToolResult::new(ids[0], "dust", false),
            ToolResult::new(ids[1], "locked", true),
        ]),
        Exchange::Reply(Reply {
            text: "Again.".into(),
            calls: vec![made("functions.search:0", "shed"), made(ids[0], "roof")],
            verbatim: Some(r#"[{"type":"reasoning","encrypted_content":"zzz"}]"#.into()),
            ..Reply::default()
        }),
        Exchange::Results(vec![ToolResult::new("functions.search:0", "a rake", false)]),
    ]
}

pub(super) const SENDING: Sending<'static> = Sending {
    mode: Mode::Stream,
    model: "the-model",
    cache_key: Some("volatile"),
    reasoning: false,
    structured: true,
    accepts: Accepts {
        images: true,
        documents: true,
    },
};

/// The head of a request to a model that takes a schema.
pub(super) fn head_bytes(
    dialect: Dialect,
    model: &str,
    request: &Request,
    breakpoints: bool,
    accepts: Accepts,
) -> Vec<u8> {
    dialect.head(&Head {
        model,
        shared: request.shared(),
        breakpoints,
        structured: true,
        accepts,
    })
}

pub(super) fn head(dialect: Dialect, request: &Request) -> String {
    let head = head_bytes(dialect, SENDING.model, request, true, Accepts::default());
    String::from_utf8(head).unwrap()
}

pub(super) fn body(dialect: Dialect, request: &Request, sending: &Sending<'_>) -> String {
    let tail = dialect.tail(request, sending);
    head(dialect, request) + std::str::from_utf8(&tail).unwrap()
}

/// The body of a request to this model.
pub(super) fn sent(dialect: Dialect, model: &str, request: &Request) -> Value {
    let head = head_bytes(dialect, model, request, false, Accepts::default());
    let tail = dialect.tail(request, &Sending { model, ..SENDING });
    read(&String::from_utf8([head, tail].concat()).unwrap())
}

/// A text as a request shows it that is not the first of its day.
pub(super) fn labelled(number: u32, text: &str) -> String {
    match text.trim() {
        "" => text.to_owned(),
        _ => format!("#{number} {text}"),
    }
}

/// Valid JSON, broken into lines between messages, blocks and members that stand outside.
pub(super) fn lines(body: &str) -> String {
    read(body);
    body.replace("},{\"", "},\n{\"").replace("],\"", "],\n\"")
}

/// One message: who speaks, texts, and what else it carries.
pub(super) type Said = (u8, String, u8);

pub(super) fn said() -> impl Strategy<Value = Vec<Said>> {
    let text = prop_oneof![
        any::<String>(),
        "[\\x00-\\x1f\"\\\\a{}]{0,12}",
        "[ \\n]{0,2}"
    ];
    proptest::collection::vec((0..4u8, text, 0..6u8), 1..12)
}

/// The messages said, by any speaker with any part, in any order. A result stands only where a
/// call is open.
pub(super) fn chat(said: &[Said]) -> Chat {
    let chat = Chat::new(1).system(&said[0].1).tool("t", &said[0].1);
    let mut open = 0;
    said.iter().fold(chat, |chat, (speaker, text, carried)| {
        let roles = [Role::User, Role::Assistant, Role::Tool, Role::System];
        let (parts, opened, closed) = match carried {
            0 => (vec![Part::text(&**text)], 0, 0),
            1 => {
                let asked = call("id", text, text);
                (vec![Part::text("x"), asked, Part::text("y")], 1, 0)
            }
            2 => (vec![call("id", "f", text), call("id", "g", "{}")], 2, 0),
            3 if open > 0 => (vec![Part::text("beside"), result("id", text)], 0, 1),
            4 if open > 1 => {
                let (one, other) = (result("id", "one"), result("id", text));
                (vec![one, call("id", "f", ""), other], 1, 2)
            }
            _ => {
                let attached = Part::attachment(&**text, "text/plain", 1, None);
                (vec![attached], 0, 0)
            }
        };
        open = open + opened - closed;
        chat.add(roles[usize::from(*speaker)], Some("who"), parts)
    })
}

/// A persona that differs from the fixture's.
pub(super) fn own() -> Group {
    Group::Own(Persona {
        agent: AgentId::new("own"),
        ..persona()
    })
}
