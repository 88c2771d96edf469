//! OpenAI's Responses (`/responses`).
//!
//! ```text
//! head  {"model":…,"text":{"format":…},"tools":[…],"input":[…,{"role":"user","content":"…
//! tail  # Task…"},{"type":"reasoning",…},{"type":"function_call",…},…],"store":false,…}
//! ```
//!
//! As in Chat Completions, the head ends inside the text of a user's message. The provider stores
//! nothing: it returns encrypted reasoning, and each request of a run sends it back unchanged,
//! before the calls that followed it.
//!
//! Sources: platform.openai.com, "Create a model response", "Get input token counts",
//! "Reasoning models", "Function calling", "Streaming events".

mod decode;
mod items;

use unisono_context::call::{Reply, ToolCall};
use unisono_context::snapshot::ToolSpec;

use super::exchange::{Ids, Step, steps};
use super::openai_chat::messages::{self, Messages};
use super::openai_chat::{sampling, schema};
use super::tail::assignment_with_schema;
use super::turns::{File, Piece, Speaker, Turn, result_text, turns};
use super::{Head, Mode, Sending, calls, schemas};
use crate::language::Request;
use crate::media::Accepts;
use crate::prompt::json::Json;

pub(super) use decode::{Decoder, parse_document, parse_token_count};

/// The minimum of `max_output_tokens`.
const MIN_OUTPUT: u64 = 16;

pub(super) fn path(mode: Mode) -> Option<String> {
    let path = match mode {
        Mode::Stream | Mode::Whole => "/responses",
        Mode::Count => "/responses/input_tokens",
    };
    Some(path.to_owned())
}

pub(super) fn head(head: &Head<'_>) -> Vec<u8> {
    let shared = &head.shared;
    let context = shared.context();
    let turns = context.map(|context| turns(context, head.accepts));
    let turns = turns.unwrap_or_default();
    let mut json = Json::with_capacity(messages::expected_bytes(shared, &turns));
    json.raw(r#"{"model":"#).string(head.model);
    let schema = shared.output_schema.filter(|_| head.structured);
    if let Some(schema) = schema.and_then(schema::output) {
        json.raw(r#","text":{"format":{"type":"json_schema","#);
        schema.write(&mut json).raw("}}");
    }
    tools(&mut json, shared.tools);
    json.raw(r#","input":["#);
    let mut messages = Messages::begin(&mut json, "input_text", head.breakpoints);
    messages.system(shared);
    for (turn, marked) in messages::marked(&turns) {
        write_turn(&mut messages, turn, marked);
    }
    messages.hand_over();
    json.into_bytes()
}

pub(super) fn tail(request: &Request, sending: &Sending<'_>) -> Vec<u8> {
    let assignment = assignment_with_schema(request, sending.structured);
    let mut json = Json::with_capacity(512 + assignment.len() + assignment.len() / 8);
    json.inside(&assignment)
        .raw(messages::closing(request.prefix.bytes()));
    let mut ids = Ids::default();
    for (at, step) in steps(&request.exchange).enumerate() {
        write_step(&mut json, &mut ids, (at, step), sending.accepts);
    }
    if let Some(why) = request.wrap_up.as_deref() {
        message(json.raw(","), "user", why);
    }
    json.raw("]");
    // A count request takes only members that change the length of the input.
    if sending.mode != Mode::Count {
        settings(&mut json, request, sending);
    }
    json.raw("}");
    json.into_bytes()
}

/// The members after the input. Between runs of a group only the length may differ; otherwise the
/// provider's cache is not used.
fn settings(json: &mut Json, request: &Request, sending: &Sending<'_>) {
    if request.max_output.0 > 0 {
        json.raw(r#","max_output_tokens":"#)
            .number(request.max_output.0.max(MIN_OUTPUT));
    }
    json.raw(r#","store":false"#);
    if sending.reasoning {
        json.raw(r#","include":["reasoning.encrypted_content"]"#);
    }
    let named = (r#"{"type":"function","name":"#, "}");
    sampling(json, request, sending, named);
    if sending.mode == Mode::Stream {
        json.raw(r#","stream":true"#);
    }
    if let Some(key) = sending.cache_key {
        json.raw(r#","prompt_cache_key":"#).string(key);
    }
}

/// Tools are strict by default. Strict tools need closed schemas, which few tools have.
fn tools(json: &mut Json, tools: &[ToolSpec]) {
    if tools.is_empty() {
        return;
    }
    json.raw(r#","tools":"#).list(tools, |json, tool| {
        let (description, arguments) = schemas::described(tool);
        json.raw(r#"{"type":"function","name":"#).string(&tool.name);
        json.raw(r#","description":"#).string(&description);
        json.raw(r#","parameters":"#)
            .raw(&schema::parameters(&arguments))
            .raw(r#","strict":false}"#);
    });
}

fn write_turn(messages: &mut Messages<'_>, turn: &Turn<'_>, marked: bool) {
    if turn.speaker == Speaker::User && messages::has_files(turn) {
        return messages.user_blocks(turn, marked, file);
    }
    if turn.speaker == Speaker::User {
        return messages.user(messages::texts(turn), marked);
    }
    for piece in &turn.pieces {
        let json = messages.message();
        match piece {
            Piece::Text(text) if turn.speaker == Speaker::System => message(json, "system", text),
            Piece::Text(text) => message(json, "assistant", text),
            // Only turns of the user have files.
            Piece::File(file) => message(json, "user", &file.name),
            Piece::Call {
                id,
                name,
                arguments,
            } => function_call(json, &id.to_string(), name, arguments),
            Piece::Result {
                id,
                content,
                is_error,
                ..
            } => call_output(json, &id.to_string(), &result_text(content, *is_error), &[]),
        }
    }
}

/// Writes a reply of the agent, unchanged if it has reasoning, and the results of its calls.
fn write_step(json: &mut Json, ids: &mut Ids, (at, step): (usize, Step<'_>), accepts: Accepts) {
    let reply: &Reply = step.reply;
    let calls = reply.calls.iter();
    let call_ids: Vec<String> = match items::own(reply) {
        Some(items) => {
            json.raw(",").raw(items);
            calls.map(|call| ids.keep(&call.id).to_owned()).collect()
        }
        None => {
            if !reply.text.trim().is_empty() {
                message(json.raw(","), "assistant", &reply.text);
            }
            let write = |(place, call): (usize, &ToolCall)| {
                let id = ids.unique_text(&call.id, at, place).into_owned();
                function_call(json.raw(","), &id, &call.name, &call.arguments);
                id
            };
            calls.enumerate().map(write).collect()
        }
    };
    for (id, answer) in call_ids.iter().zip(step.answers(accepts)) {
        let content = result_text(&answer.content, answer.is_error);
        call_output(json.raw(","), id, &content, &answer.files(accepts));
    }
}

/// A file as a data URL.
fn file(json: &mut Json, file: &File<'_>) {
    if file.is_image {
        json.raw(r#"{"type":"input_image","image_url":"data:"#);
    } else {
        json.raw(r#"{"type":"input_file","filename":"#)
            .string(&file.name);
        json.raw(r#","file_data":"data:"#);
    }
    json.inside(&file.mime).raw(";base64,");
    json.base64(file.bytes).raw(r#""}"#);
}

fn message(json: &mut Json, role: &str, text: &str) {
    json.raw(r#"{"role":"#).string(role);
    json.raw(r#","content":"#).string(text).raw("}");
}

/// Arguments are as the model wrote them, valid or not.
fn function_call(json: &mut Json, id: &str, name: &str, arguments: &str) {
    json.raw(r#"{"type":"function_call","call_id":"#).string(id);
    json.raw(r#","name":"#).string(&calls::name(name, &[]));
    let nothing = arguments.trim().is_empty();
    json.raw(r#","arguments":"#)
        .string(if nothing { "{}" } else { arguments })
        .raw("}");
}

fn call_output(json: &mut Json, id: &str, content: &str, files: &[File<'_>]) {
    json.raw(r#"{"type":"function_call_output","call_id":"#)
        .string(id);
    json.raw(r#","output":"#);
    if files.is_empty() {
        json.string(content).raw("}");
        return;
    }
    json.raw(r#"[{"type":"input_text","text":"#)
        .string(content)
        .raw("}");
    for shown in files {
        file(json.raw(","), shown);
    }
    json.raw("]}");
}

#[cfg(test)]
mod tests;
