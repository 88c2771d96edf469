//! OpenAI's Chat Completions (`/chat/completions`), which Azure, Ollama, vLLM, llama.cpp and many
//! other servers speak too.
//!
//! ```text
//! head  {"model":…,"response_format":…,"tools":[…],"messages":[…,{"role":"user","content":"…
//! tail  # Task…"},{"role":"assistant",…},{"role":"tool",…},…],"max_tokens":…,"stream":true}
//! ```
//!
//! The head ends inside the text of a user's message; the tail continues it with the assignment.
//! Chat templates of open models refuse two messages of a user in a row, a message of the model
//! before the first one of a user, and more than one system message or one in mid-conversation
//! (Gemma, Mistral, Qwen), so the head has one system message at its beginning, then the user
//! speaks, and roles alternate over the whole request.
//!
//! Sources: platform.openai.com, "Create chat completion", "Prompt caching", "Structured
//! outputs", "Error codes"; the servers' own error shapes as their issue trackers show them.

mod decode;
mod details;
pub(super) mod messages;
mod mistral;
pub(super) mod refusal;
pub(super) mod reply;
pub(super) mod schema;

use std::borrow::Cow;

use unisono_context::call::{Choice, Reply};
use unisono_context::snapshot::ToolSpec;

use super::contents::CONTINUES;
use super::exchange::{Ids, Step, steps};
use super::tail::assignment_with_schema;
use super::turns::{CallId, File, Piece, Speaker, Turn, result_text, turns};
use super::{Head, Mode, Sending, calls, schemas, thinking};
use crate::language::Request;
use crate::media::Accepts;
use crate::prompt::json::Json;
use messages::Messages;

pub(super) use decode::{Decoder, parse_document};
pub(super) use refusal::refusal;

/// Texts that end a reply, at most.
const MOST_STOPS: usize = 4;
/// The text before the files of results.
const FILES_OF_TOOLS: &str = "[The attachments of the tool results above.]";

/// The member of a message in the place of its reasoning, after a comma. An empty text counts as
/// none.
const NO_REASONING: &str = r#","reasoning_content":"[no reasoning recorded]""#;

/// Parts of the names of the models at Cloudflare.
const CLOUDFLARE: &[&str] = &["@cf/", "@hf/"];

/// What the provider of a model accepts, by the model's name.
#[derive(Clone, Copy)]
struct Rules {
    /// As [`mistral`] says.
    is_mistral: bool,
    /// As [`thinking`] says.
    needs_reasoning: bool,
    /// A message with calls needs a text, which may be empty. Others refuse an empty one.
    needs_text: bool,
}

impl Rules {
    fn for_model(model: &str) -> Rules {
        Rules {
            is_mistral: mistral::is_mistral(model),
            needs_reasoning: thinking::needs_reasoning(model),
            needs_text: CLOUDFLARE.iter().any(|name| model.contains(name)),
        }
    }

    /// The member with the reasoning of a message with these calls: its own, or another if it needs
    /// one.
    fn reasoning<'r>(self, own: &'r str, calls: &[Call<'_>]) -> &'r str {
        if own.is_empty() && self.needs_reasoning && !calls.is_empty() {
            NO_REASONING
        } else {
            own
        }
    }
}

pub(super) fn path(mode: Mode) -> Option<String> {
    match mode {
        Mode::Stream | Mode::Whole => Some("/chat/completions".to_owned()),
        Mode::Count => None,
    }
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
        json.raw(r#","response_format":{"type":"json_schema","json_schema":{"#);
        schema.write(&mut json).raw("}}");
    }
    tools(&mut json, shared.tools);
    json.raw(r#","messages":["#);
    let mut messages = Messages::begin(&mut json, "text", head.breakpoints);
    messages.system(shared);
    if turns.first().map(|turn| turn.speaker) == Some(Speaker::Assistant) {
        messages.user([CONTINUES], false);
    }
    let rules = Rules::for_model(head.model);
    let mut needs_bridge = false;
    for (turn, marked) in messages::marked(&turns) {
        if needs_bridge && turn.speaker != Speaker::Assistant {
            messages.message().raw(mistral::BRIDGE);
        }
        needs_bridge = rules.is_mistral && turn.speaker == Speaker::Tools;
        write_turn(&mut messages, turn, marked, rules);
    }
    if needs_bridge {
        messages.message().raw(mistral::BRIDGE);
    }
    messages.hand_over();
    json.into_bytes()
}

pub(super) fn tail(request: &Request, sending: &Sending<'_>) -> Vec<u8> {
    let assignment = assignment_with_schema(request, sending.structured);
    let mut json = Json::with_capacity(512 + assignment.len() + assignment.len() / 8);
    json.inside(&assignment);
    let wrap_up = request.wrap_up.as_deref();
    let mut steps = steps(&request.exchange).enumerate().peekable();
    let alone = steps.peek().is_none();
    if let Some(why) = wrap_up.filter(|_| alone) {
        json.raw(messages::GAP).inside(why);
    }
    json.raw(messages::closing(request.prefix.bytes()));
    let mut ids = Ids::default();
    let rules = Rules::for_model(sending.model);
    let mut needs_bridge = false;
    for (at, step) in steps {
        needs_bridge = rules.is_mistral && !step.reply.calls.is_empty();
        write_step(&mut json, &mut ids, (at, step), sending.accepts, rules);
    }
    if let Some(why) = wrap_up.filter(|_| !alone) {
        if needs_bridge {
            json.raw(",").raw(mistral::BRIDGE);
        }
        json.raw(r#",{"role":"user","content":"#)
            .string(why)
            .raw("}");
    }
    json.raw("]");
    settings(&mut json, request, sending);
    json.raw("}");
    json.into_bytes()
}

/// The members after the messages. Between runs of a group only the length may differ; otherwise
/// the provider's cache is not used.
fn settings(json: &mut Json, request: &Request, sending: &Sending<'_>) {
    if request.max_output.0 > 0 {
        json.raw(limit_key(sending)).number(request.max_output.0);
    }
    // OpenAI's reasoning models refuse `stop`, and the others take at most four texts.
    let stops = &request.client_options.stop[..];
    if !stops.is_empty() && stops.len() <= MOST_STOPS && !sending.reasoning {
        json.raw(r#","stop":"#).list(stops, |json, stop| {
            json.string(stop);
        });
    }
    let named = (r#"{"type":"function","function":{"name":"#, "}}");
    sampling(json, request, sending, named);
    if sending.mode == Mode::Stream {
        json.raw(r#","stream":true,"stream_options":{"include_usage":true}"#);
    }
    if let Some(key) = sending.cache_key {
        json.raw(r#","prompt_cache_key":"#).string(key);
    }
}

/// The key of the maximum length of a reply. OpenAI refuses both keys together, its reasoning
/// models refuse `max_tokens`, Mistral refuses `max_completion_tokens`, and Ollama ignores it; all
/// others take `max_tokens`.
fn limit_key(sending: &Sending<'_>) -> &'static str {
    if sending.reasoning && !mistral::is_mistral(sending.model) {
        r#","max_completion_tokens":"#
    } else {
        r#","max_tokens":"#
    }
}

/// Writes temperature and tools, for both of OpenAI's dialects. Reasoning models refuse a
/// temperature, and some of them `parallel_tool_calls`: they call tools in parallel anyway.
/// llama.cpp needs `parallel_tool_calls`. `named` is the text around the name of the one function
/// to call.
pub(super) fn sampling(
    json: &mut Json,
    request: &Request,
    sending: &Sending<'_>,
    named: (&str, &str),
) {
    if let Some(milli) = request.temperature_milli.filter(|_| !sending.reasoning) {
        json.raw(r#","temperature":"#).thousandths(milli);
    }
    if request.tools.is_empty() {
        return;
    }
    if !sending.reasoning {
        json.raw(r#","parallel_tool_calls":true"#);
    }
    match request.choice() {
        Some(Choice::This(tool)) => {
            let (before, after) = named;
            json.raw(r#","tool_choice":"#).raw(before);
            json.string(tool).raw(after);
        }
        Some(_) => {
            json.raw(r#","tool_choice":"required""#);
        }
        // A call of a client's tool ends the run, so it is allowed in the last request too.
        None if request.wrap_up.is_some() && request.client_options.tools.is_empty() => {
            json.raw(r#","tool_choice":"none""#);
        }
        None => {}
    }
}

fn tools(json: &mut Json, tools: &[ToolSpec]) {
    if tools.is_empty() {
        return;
    }
    json.raw(r#","tools":"#).list(tools, |json, tool| {
        let (description, arguments) = schemas::described(tool);
        json.raw(r#"{"type":"function","function":{"name":"#)
            .string(&tool.name);
        json.raw(r#","description":"#).string(&description);
        json.raw(r#","parameters":"#)
            .raw(&schema::parameters(&arguments))
            .raw("}}");
    });
}

fn write_turn(messages: &mut Messages<'_>, turn: &Turn<'_>, marked: bool, rules: Rules) {
    let id_text = |id: &CallId| match rules.is_mistral {
        true => mistral::call_id(*id),
        false => id.to_string(),
    };
    match turn.speaker {
        Speaker::User if messages::has_files(turn) => messages.user_blocks(turn, marked, file),
        Speaker::User => messages.user(messages::texts(turn), marked),
        Speaker::System => {
            let note: Vec<&str> = messages::texts(turn).collect();
            messages.user([&*format!("[system note]\n{}", note.join("\n\n"))], false);
        }
        Speaker::Assistant => {
            let text: Vec<&str> = messages::texts(turn).collect();
            let calls = turn.pieces.iter().filter_map(|piece| match piece {
                Piece::Call {
                    id,
                    name,
                    arguments,
                } => Some(Call {
                    id: id_text(id).into(),
                    name: calls::name(name, &[]),
                    arguments,
                    extra_content: None,
                }),
                Piece::Text(_) | Piece::File(_) | Piece::Result { .. } => None,
            });
            let calls: Vec<Call<'_>> = calls.collect();
            let reasoning = rules.reasoning("", &calls);
            let text = match &text[..] {
                [text] => Cow::Borrowed(*text),
                texts => Cow::Owned(texts.join("\n\n")),
            };
            assistant(messages.message(), &text, reasoning, calls, rules);
        }
        Speaker::Tools => {
            for piece in &turn.pieces {
                if let Piece::Result {
                    id,
                    content,
                    is_error,
                    ..
                } = piece
                {
                    let content = result_text(content, *is_error);
                    tool_result(messages.message(), &id_text(id), &content);
                }
            }
        }
    }
}

/// A file as a data URL.
fn file(json: &mut Json, file: &File<'_>) {
    if file.is_image {
        json.raw(r#"{"type":"image_url","image_url":{"url":"data:"#);
    } else {
        json.raw(r#"{"type":"file","file":{"filename":"#)
            .string(&file.name);
        json.raw(r#","file_data":"data:"#);
    }
    json.inside(&file.mime).raw(";base64,");
    json.base64(file.bytes).raw(r#""}}"#);
}

struct Call<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    arguments: &'a str,
    /// What its server wants back with it.
    extra_content: Option<&'a str>,
}

/// Writes a reply of the agent and the results of its calls. Its reasoning is sent back under the
/// key or in the content from which it was read, because a server may refuse calls without it, and
/// what a call had besides comes back with it.
/// Results are texts; their files follow in a message of the user.
fn write_step(
    json: &mut Json,
    ids: &mut Ids,
    (at, step): (usize, Step<'_>),
    accepts: Accepts,
    rules: Rules,
) {
    let reply: &Reply = step.reply;
    let own = reply::Own::parse(reply.verbatim.as_deref());
    let calls = reply.calls.iter().enumerate().map(|(place, call)| {
        let id = ids.unique_text(&call.id, at, place);
        Call {
            id: match rules.is_mistral && !mistral::is_accepted(&id) {
                true => mistral::run_call_id(at, place).into(),
                false => id,
            },
            name: calls::name(&call.name, &[]),
            arguments: &call.arguments,
            extra_content: own.extra_content(place),
        }
    });
    let calls: Vec<Call<'_>> = calls.collect();
    let answered: Vec<String> = calls.iter().map(|call| call.id.to_string()).collect();
    let content = own.content.as_ref().map_or(&*reply.text, |own| &*own.0);
    let reasoning = own.reasoning();
    let reasoning = rules.reasoning(&reasoning, &calls);
    json.raw(",");
    assistant(json, content, reasoning, calls, rules);
    let mut files = Vec::new();
    for (id, answer) in answered.iter().zip(step.answers(accepts)) {
        json.raw(",");
        tool_result(json, id, &result_text(&answer.content, answer.is_error));
        files.extend(answer.files(accepts));
    }
    if !files.is_empty() {
        if rules.is_mistral {
            json.raw(",").raw(mistral::BRIDGE);
        }
        json.raw(r#",{"role":"user","content":[{"type":"text","text":"#);
        json.string(FILES_OF_TOOLS).raw("}");
        for shown in &files {
            file(json.raw(","), shown);
        }
        json.raw("]}");
    }
}

/// `besides` has further members of the message, each after a comma.
fn assistant(json: &mut Json, text: &str, besides: &str, calls: Vec<Call<'_>>, rules: Rules) {
    json.raw(r#"{"role":"assistant","content":"#);
    // Claude refuses a blank text, also behind a proxy with this dialect.
    if text.trim().is_empty() && !calls.is_empty() && !rules.needs_text {
        json.raw("null");
    } else {
        json.string(text);
    }
    json.raw(besides);
    if !calls.is_empty() {
        json.raw(r#","tool_calls":"#).list(calls, |json, call| {
            json.raw(r#"{"id":"#).string(&call.id);
            json.raw(r#","type":"function","function":{"name":"#)
                .string(&call.name);
            // As the model wrote them, valid or not. An empty text is not JSON, and a server may
            // parse it.
            let nothing = call.arguments.trim().is_empty();
            let arguments = if nothing { "{}" } else { call.arguments };
            json.raw(r#","arguments":"#).string(arguments).raw("}");
            if let Some(extra) = call.extra_content {
                json.raw(r#","extra_content":"#).raw(extra);
            }
            json.raw("}");
        });
    }
    json.raw("}");
}

fn tool_result(json: &mut Json, id: &str, content: &str) {
    json.raw(r#"{"role":"tool","tool_call_id":"#).string(id);
    json.raw(r#","content":"#).string(content).raw("}");
}

#[cfg(test)]
mod tests;
