//! Anthropic's Messages (`/v1/messages`, version `2023-06-01`).
//!
//! ```text
//! head  {"model":…,"output_config":…,"tools":[…],"system":[…],"messages":[…,{"role":"user","content":[…,
//! tail  {"type":"text","text":"# Task…"}]},{"role":"assistant",…},…],"max_tokens":…,"stream":true}
//! ```
//!
//! The head ends inside a message of the user; the tail continues it with the assignment, so that
//! roles alternate over the whole request. Two blocks of a head are cache breakpoints: the last of
//! the system text (without one, of the tools) and the last of the conversation.
//!
//! `thinking` is never sent. `tool_choice` is sent only if it is the same for a whole group, or if
//! a client requires a call: a change of either drops the cache. Structured output is
//! `output_config.format`, which needs no beta header. Models without it get a tool with that
//! schema, [`ANSWER`], and must call tools until they call that one.
//!
//! Sources: docs.anthropic.com, "Messages", "Streaming messages", "Prompt caching", "Structured
//! outputs", "Handle tool calls", "Errors".

mod decode;
mod refusal;
mod schema;
mod wire;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use unisono_context::call::{Choice, Reply};
use unisono_context::snapshot::ToolSpec;

use super::contents::{self, Contents, Opening, Side};
use super::exchange::{Answer, Ids, Step, steps};
use super::tail::assignment;
use super::turns::{File, Piece};
use super::{Head, Mode, Sending, calls, schemas, thinking};
use crate::language::Request;
use crate::media::Accepts;
use crate::prompt::json::{self, Json};

pub(super) use decode::Decoder;
pub(super) use decode::{parse_document, parse_token_count};
pub(super) use refusal::refusal;

const BREAKPOINT: &str = r#","cache_control":{"type":"ephemeral"}"#;

const MESSAGE: Opening = Opening {
    user: r#"{"role":"user","content":["#,
    model: r#"{"role":"assistant","content":["#,
};

/// The tool for the answer of a model that takes no output schema.
pub(super) const ANSWER: &str = "answer";
const ANSWER_TOLD: &str = "Gives your answer, in the form that is asked for. Call it once, when you are done: it is the only way to answer, also where you are told to call no tools.";

/// The block in the place of the reasoning of a message with calls.
const NO_REASONING: &str =
    r#"{"type":"thinking","thinking":"[no reasoning recorded]","signature":""}"#;

/// The highest temperature that the API accepts, in thousandths. Other providers accept 2.
const HOTTEST_MILLI: u32 = 1_000;

/// The last message of a request that would otherwise end with a message of the model.
const CONTINUE: &str = "Go on.";

pub(super) fn path(mode: Mode) -> Option<String> {
    let path = match mode {
        Mode::Stream | Mode::Whole => "/v1/messages",
        Mode::Count => "/v1/messages/count_tokens",
    };
    Some(path.to_owned())
}

pub(super) fn head(head: &Head<'_>) -> Vec<u8> {
    let shared = &head.shared;
    let pieces = shared.context();
    let pieces = pieces.map(|context| contents::pieces(context, head.accepts));
    let pieces = pieces.unwrap_or_default();
    let system = contents::system(shared);
    let mut json = Json::with_capacity(contents::expected_bytes(shared, &system, &pieces));
    json.raw(r#"{"model":"#).string(head.model);
    let native = shared.output_schema.filter(|_| head.structured);
    if let Some(schema) = native.and_then(schema::strict) {
        json.raw(r#","output_config":{"format":{"type":"json_schema","schema":"#)
            .raw(&schema)
            .raw("}}");
    }
    let by_tool = shared.output_schema.filter(|_| !head.structured);
    tools(&mut json, shared.tools, by_tool, system.is_empty());
    if !system.is_empty() {
        json.raw(r#","system":"#);
        let last = system.len() - 1;
        json.list(system.iter().enumerate(), |json, (at, block)| {
            text(json, block, at == last);
        });
    }
    json.raw(r#","messages":["#);
    let mut messages = Contents::begin(&mut json, &MESSAGE);
    let last = pieces.len().saturating_sub(1);
    let needs_reasoning = thinking::needs_reasoning(head.model);
    for (at, (side, said)) in pieces.iter().enumerate() {
        if needs_reasoning && calls_begin(&pieces, at) {
            messages.piece(Side::Model).raw(NO_REASONING);
        }
        piece(messages.piece(*side), said, at == last);
    }
    messages.hand_over();
    json.into_bytes()
}

/// Whether a message of the model with calls begins there.
fn calls_begin(pieces: &[(Side, Piece<'_>)], at: usize) -> bool {
    let begins = at == 0 || pieces[at - 1].0 == Side::User;
    let rest = pieces[at..].iter();
    let mut message = rest.take_while(|(side, _)| *side == Side::Model);
    begins && message.any(|(_, said)| matches!(said, Piece::Call { .. }))
}

pub(super) fn tail(request: &Request, sending: &Sending<'_>) -> Vec<u8> {
    let assignment = assignment(request);
    let mut json = Json::with_capacity(512 + assignment.len() + assignment.len() / 8);
    let mut messages = Contents::resume(&mut json, &MESSAGE);
    text(messages.piece(Side::User), &assignment, false);
    let mut ids = Ids::default();
    let needs_reasoning = thinking::needs_reasoning(sending.model);
    for (at, step) in steps(&request.exchange).enumerate() {
        if needs_reasoning && !step.reply.calls.is_empty() && own_blocks(step.reply).is_none() {
            messages.piece(Side::Model).raw(NO_REASONING);
        }
        write_step(&mut messages, &mut ids, (at, step), sending.accepts);
    }
    let wrap_up = request.wrap_up.as_deref();
    let wrap_up = wrap_up.or((messages.side() == Side::Model).then_some(CONTINUE));
    if let Some(said) = wrap_up {
        text(messages.piece(Side::User), said, false);
    }
    messages.close();
    json.raw("]");
    if sending.mode != Mode::Count {
        json.raw(r#","max_tokens":"#)
            .number(request.max_output.0.max(1));
        // Reasoning models refuse a temperature.
        if let Some(milli) = request.temperature_milli.filter(|_| !sending.reasoning) {
            json.raw(r#","temperature":"#)
                .thousandths(milli.min(HOTTEST_MILLI));
        }
        // A blank one is refused.
        let stops = request.client_options.stop.iter();
        let stops: Vec<_> = stops.filter(|stop| !stop.trim().is_empty()).collect();
        if !stops.is_empty() {
            json.raw(r#","stop_sequences":"#)
                .list(&stops, |json, stop| {
                    json.string(stop);
                });
        }
        json.raw(r#","stream":"#).bool(sending.mode == Mode::Stream);
        let by_tool = request.output_schema.is_some() && !sending.structured;
        match request.choice() {
            Some(Choice::This(tool)) => {
                json.raw(r#","tool_choice":{"type":"tool","name":"#)
                    .string(tool)
                    .raw("}");
            }
            None if !by_tool => {}
            Some(_) | None => {
                json.raw(r#","tool_choice":{"type":"any"}"#);
            }
        }
    }
    json.raw("}");
    json.into_bytes()
}

fn tools(json: &mut Json, tools: &[ToolSpec], answer: Option<&str>, breakpoint: bool) {
    let answer = answer.map(|schema| ToolSpec::new(ANSWER, ANSWER_TOLD, schema.trim()));
    let count = tools.len() + usize::from(answer.is_some());
    if count == 0 {
        return;
    }
    json.raw(r#","tools":"#);
    let last = count - 1;
    json.list(
        tools.iter().chain(&answer).enumerate(),
        |json, (at, tool)| {
            let (description, arguments) = schemas::described_with_plain_names(tool);
            json.raw(r#"{"name":"#).string(&tool.name);
            json.raw(r#","description":"#).string(&description);
            json.raw(r#","input_schema":"#)
                .raw(&input_schema(&arguments));
            if breakpoint && at == last {
                json.raw(BREAKPOINT);
            }
            json.raw("}");
        },
    );
}

/// The schema of a tool's arguments: an object whose `type` is `object`.
fn input_schema(schema: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a serde_json::value::RawValue>,
    }
    let typed = json::is_object(schema)
        .then(|| serde_json::from_str::<Typed<'_>>(schema).ok())
        .flatten();
    match typed.map(|typed| typed.kind.map(|kind| kind.get())) {
        Some(Some(r#""object""#)) => schema.into(),
        Some(None) if schema[1..schema.len() - 1].trim().is_empty() => {
            r#"{"type":"object"}"#.into()
        }
        Some(None) => format!(r#"{{"type":"object",{}"#, &schema[1..]).into(),
        Some(Some(_)) | None => r#"{"type":"object"}"#.into(),
    }
}

fn piece(json: &mut Json, piece: &Piece<'_>, breakpoint: bool) {
    match piece {
        Piece::Text(said) => text(json, said, breakpoint),
        Piece::File(said) => file(json, said, breakpoint),
        Piece::Call {
            id,
            name,
            arguments,
        } => tool_use(json, &id.to_string(), name, arguments, breakpoint),
        Piece::Result {
            id,
            content,
            is_error,
            ..
        } => {
            let answer = Answer::text(content, *is_error);
            tool_result(json, &id.to_string(), answer, &[], breakpoint);
        }
    }
}

/// Writes a reply of the agent, unchanged if it has reasoning, and the results of its calls.
fn write_step(
    messages: &mut Contents<'_>,
    ids: &mut Ids,
    (at, step): (usize, Step<'_>),
    accepts: Accepts,
) {
    let Step { reply, .. } = step;
    let call_ids: Vec<Cow<'_, str>> = match own_blocks(reply) {
        Some(blocks) => {
            messages.piece(Side::Model).raw(blocks);
            let known = reply.calls.iter().map(|call| ids.keep(&call.id).into());
            known.collect()
        }
        None => {
            if !reply.text.trim().is_empty() {
                text(messages.piece(Side::Model), &reply.text, false);
            }
            let calls = reply.calls.iter().enumerate();
            let write = |(place, call): (usize, &'_ unisono_context::call::ToolCall)| {
                let id = ids.unique(&call.id, at, place).into_owned();
                let json = messages.piece(Side::Model);
                tool_use(json, &id, &call.name, &call.arguments, false);
                Cow::Owned(id)
            };
            calls.map(write).collect()
        }
    };
    for (id, answer) in call_ids.iter().zip(step.answers(accepts)) {
        let files = answer.files(accepts);
        tool_result(messages.piece(Side::User), id, answer, &files, false);
    }
}

/// The content blocks of a reply, unchanged and without brackets. None: it has only text and calls,
/// or is of another dialect.
fn own_blocks(reply: &Reply) -> Option<&str> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type")]
        kind: Kind,
        #[serde(borrow)]
        id: Option<Cow<'a, str>>,
    }
    #[derive(PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Text,
        Thinking,
        RedactedThinking,
        ToolUse,
    }
    let verbatim = reply.verbatim.as_deref()?;
    let blocks: Vec<Block<'_>> = serde_json::from_str(verbatim).ok()?;
    let calls = blocks.iter().filter(|block| block.kind == Kind::ToolUse);
    let ids: Vec<&str> = calls.filter_map(|block| block.id.as_deref()).collect();
    let unique = ids.iter().collect::<BTreeSet<_>>().len() == ids.len();
    let same = ids
        .iter()
        .copied()
        .eq(reply.calls.iter().map(|call| &*call.id));
    let inside = verbatim.trim().strip_prefix('[')?.strip_suffix(']')?;
    (unique && same && !blocks.is_empty()).then_some(inside)
}

fn text(json: &mut Json, said: &str, breakpoint: bool) {
    json.raw(r#"{"type":"text","text":"#).string(said);
    if breakpoint {
        json.raw(BREAKPOINT);
    }
    json.raw("}");
}

fn file(json: &mut Json, file: &File<'_>, breakpoint: bool) {
    json.raw(if file.is_image {
        r#"{"type":"image","source":{"type":"base64","media_type":"#
    } else {
        r#"{"type":"document","source":{"type":"base64","media_type":"#
    });
    json.string(&file.mime).raw(r#","data":""#);
    json.base64(file.bytes).raw(r#""}"#);
    if breakpoint {
        json.raw(BREAKPOINT);
    }
    json.raw("}");
}

fn tool_use(json: &mut Json, id: &str, name: &str, arguments: &str, breakpoint: bool) {
    json.raw(r#"{"type":"tool_use","id":"#).string(id);
    json.raw(r#","name":"#).string(&calls::name(name, &[]));
    json.raw(r#","input":"#);
    calls::arguments(json, arguments);
    if breakpoint {
        json.raw(BREAKPOINT);
    }
    json.raw("}");
}

fn tool_result(
    json: &mut Json,
    id: &str,
    answer: Answer<'_>,
    files: &[File<'_>],
    breakpoint: bool,
) {
    json.raw(r#"{"type":"tool_result","tool_use_id":"#)
        .string(id);
    // A result without text has no content, because the API refuses an empty text.
    let has_text = !answer.content.trim().is_empty();
    if !files.is_empty() {
        json.raw(r#","content":["#);
        if has_text {
            text(json, &answer.content, false);
        }
        for (at, shown) in files.iter().enumerate() {
            json.raw(if has_text || at > 0 { "," } else { "" });
            file(json, shown, false);
        }
        json.raw("]");
    } else if has_text {
        json.raw(r#","content":"#).string(&answer.content);
    }
    if answer.is_error {
        json.raw(r#","is_error":true"#);
    }
    if breakpoint {
        json.raw(BREAKPOINT);
    }
    json.raw("}");
}

#[cfg(test)]
mod tests;
