//! Gemini's `generateContent`.
//!
//! ```text
//! head  {"tools":[{"functionDeclarations":[…]}],"systemInstruction":{"parts":[…]},"contents":[…,{"role":"user","parts":[…,
//! tail  {"text":"# Task…"}]},{"role":"model",…},…],"generationConfig":{"maxOutputTokens":…}}
//! ```
//!
//! The head ends inside a content of the user; the tail continues it with the assignment, so that
//! roles alternate over the whole request. The path names the model. The provider caches prefixes
//! itself; there are no breakpoints.
//!
//! Tools have `parametersJsonSchema` and output schemas `responseJsonSchema`: both take JSON
//! schema, whereas `parameters` and `responseSchema` take a part of OpenAPI's.
//!
//! Sources: ai.google.dev, "Generating content", "Counting tokens", "Function calling",
//! "Structured output", "Thought signatures", "Troubleshooting".

mod decode;
mod refusal;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use unisono_context::call::{Choice, Reply};
use unisono_context::snapshot::ToolSpec;

use super::borrowed::Str;
use super::contents::{self, Contents, Opening, Side};
use super::exchange::{Answer, Ids, Step, steps};
use super::tail::assignment_with_schema;
use super::turns::{File, Piece};
use super::{Head, Mode, Sending, calls};
use crate::language::Request;
use crate::media::Accepts;
use crate::prompt::json::{self, Json};

pub(super) use decode::{Decoder, parse_document, parse_token_count};
pub(super) use refusal::refusal;

/// The version of the API, the first part of every path. The provider's base address comes before
/// it: `https://generativelanguage.googleapis.com`.
const VERSION: &str = "v1beta";

const CONTENT: Opening = Opening {
    user: r#"{"role":"user","parts":["#,
    model: r#"{"role":"model","parts":["#,
};

/// The last content of a request that would otherwise end with a content of the model.
const CONTINUE: &str = "Go on.";

/// The signature of a call that another provider's model made. Models from Gemini 3 on refuse a
/// call of the open turn without a signature; this is the documented value for calls without one
/// ("Thought signatures", "FAQs").
const NO_SIGNATURE: &str = r#","thoughtSignature":"skip_thought_signature_validator""#;

/// Models that refuse an output schema beside tools ("function calling with a response mime type
/// is unsupported"): their requests have the schema in words.
const SCHEMA_OR_TOOLS: &[&str] = &["gemini-1", "gemini-2"];

/// The characters of a function's name besides letters, digits, `_` and `-`.
const IN_NAMES: &[char] = &['.', ':'];

/// Texts that end a reply, at most.
const MOST_STOPS: usize = 5;

pub(super) fn path(model: &str, mode: Mode) -> String {
    let method = match mode {
        Mode::Stream => "streamGenerateContent?alt=sse",
        Mode::Whole => "generateContent",
        Mode::Count => "countTokens",
    };
    let mut path = format!("/{VERSION}/");
    for byte in resource(model).bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path + ":" + method
}

/// A model's resource name: `models/gemini-2.5-flash`, `tunedModels/mine`.
fn resource(model: &str) -> Cow<'_, str> {
    if model.contains('/') {
        model.into()
    } else {
        format!("models/{model}").into()
    }
}

pub(super) fn head(head: &Head<'_>) -> Vec<u8> {
    let shared = &head.shared;
    let pieces = shared.context();
    let pieces = pieces.map(|context| contents::pieces(context, head.accepts));
    let pieces = pieces.unwrap_or_default();
    let system = contents::system(shared);
    let mut json = Json::with_capacity(contents::expected_bytes(shared, &system, &pieces));
    json.raw("{");
    if !shared.tools.is_empty() {
        json.raw(r#""tools":[{"functionDeclarations":"#);
        json.list(shared.tools, declaration).raw("}],");
    }
    if !system.is_empty() {
        json.raw(r#""systemInstruction":{"parts":"#);
        json.list(&system, |json, block| text(json, block));
        json.raw("},");
    }
    json.raw(r#""contents":["#);
    let mut contents = Contents::begin(&mut json, &CONTENT);
    for (side, said) in &pieces {
        piece(contents.piece(*side), said);
    }
    contents.hand_over();
    json.into_bytes()
}

pub(super) fn tail(request: &Request, sending: &Sending<'_>) -> Vec<u8> {
    let schema = request.output_schema.as_deref().map(str::trim);
    let schema = schema.filter(|schema| json::is_object(schema));
    let refuses_both = SCHEMA_OR_TOOLS
        .iter()
        .any(|series| resource(sending.model).contains(series));
    let in_words = !sending.structured || (refuses_both && !request.tools.is_empty());
    let assignment = assignment_with_schema(request, !in_words);
    let mut json = Json::with_capacity(512 + assignment.len() + assignment.len() / 8);
    let mut contents = Contents::resume(&mut json, &CONTENT);
    text(contents.piece(Side::User), &assignment);
    let mut ids = Ids::default();
    for (at, step) in steps(&request.exchange).enumerate() {
        write_step(&mut contents, &mut ids, (at, step), sending.accepts);
    }
    let wrap_up = request.wrap_up.as_deref();
    let wrap_up = wrap_up.or((contents.side() == Side::Model).then_some(CONTINUE));
    if let Some(said) = wrap_up {
        text(contents.piece(Side::User), said);
    }
    contents.close();
    json.raw("]");
    if sending.mode == Mode::Count {
        // A request inside another one must name its model.
        json.raw(r#","model":"#).string(&resource(sending.model));
    }
    if sending.mode != Mode::Count
        && let Some(choice) = request.choice()
    {
        json.raw(r#","toolConfig":{"functionCallingConfig":{"mode":"ANY""#);
        if let Choice::This(tool) = choice {
            json.raw(r#","allowedFunctionNames":["#)
                .string(&calls::name(tool, IN_NAMES))
                .raw("]");
        }
        json.raw("}}");
    }
    config(&mut json, request, sending, schema.filter(|_| !in_words));
    json.raw("}");
    json.into_bytes()
}

/// `,"generationConfig":{…}`; for a count request, only members that change the count.
fn config(json: &mut Json, request: &Request, sending: &Sending<'_>, schema: Option<&str>) {
    let sampling = sending.mode != Mode::Count;
    if !sampling && schema.is_none() {
        return;
    }
    json.raw(r#","generationConfig":{"#);
    if sampling {
        json.raw(r#""maxOutputTokens":"#)
            .number(request.max_output.0);
        // Its newer models refuse a temperature.
        if let Some(milli) = request.temperature_milli.filter(|_| !sending.reasoning) {
            json.raw(r#","temperature":"#).thousandths(milli);
        }
        let stops = &request.client_options.stop[..];
        if !stops.is_empty() && stops.len() <= MOST_STOPS {
            json.raw(r#","stopSequences":"#).list(stops, |json, stop| {
                json.string(stop);
            });
        }
    }
    if let Some(schema) = schema {
        json.raw(if sampling { "," } else { "" });
        json.raw(r#""responseMimeType":"application/json","responseJsonSchema":"#)
            .raw(schema);
    }
    json.raw("}");
}

/// Gives calls the names of their tools. A tool whose name begins with a digit is declared with
/// another one.
pub(super) fn restore_names(reply: &mut Reply, tools: &[ToolSpec]) {
    for call in &mut reply.calls {
        if tools.iter().any(|tool| tool.name == call.name) {
            continue;
        }
        let mut tools = tools.iter();
        let called = tools.find(|tool| calls::name(&tool.name, IN_NAMES) == *call.name);
        if let Some(tool) = called {
            call.name = tool.name.clone();
        }
    }
}

fn declaration(json: &mut Json, tool: &ToolSpec) {
    json.raw(r#"{"name":"#)
        .string(&calls::name(&tool.name, IN_NAMES));
    json.raw(r#","description":"#).string(&tool.description);
    // A function without parameters has no schema.
    if json::is_object(&tool.input_schema) {
        json.raw(r#","parametersJsonSchema":"#)
            .raw(&tool.input_schema);
    }
    json.raw("}");
}

fn piece(json: &mut Json, piece: &Piece<'_>) {
    match piece {
        Piece::Text(said) => text(json, said),
        Piece::File(said) => file(json, said),
        Piece::Call {
            id,
            name,
            arguments,
        } => {
            call(json, &id.to_string(), name, arguments);
            json.raw("}");
        }
        Piece::Result {
            id,
            name,
            content,
            is_error,
        } => {
            let answer = Answer::text(content, *is_error);
            response(json, Some(&id.to_string()), name, answer);
        }
    }
}

fn file(json: &mut Json, file: &File<'_>) {
    json.raw(r#"{"inlineData":{"mimeType":"#).string(&file.mime);
    json.raw(r#","data":""#).base64(file.bytes).raw(r#""}}"#);
}

/// Writes a reply of the agent, unchanged if it has signatures, and the results of its calls. The
/// files of a result are separate parts after it, because models before Gemini 3 take none inside a
/// response.
fn write_step(
    contents: &mut Contents<'_>,
    ids: &mut Ids,
    (at, step): (usize, Step<'_>),
    accepts: Accepts,
) {
    let Step { reply, .. } = step;
    let call_ids: Vec<Option<Cow<'_, str>>> = match own_parts(reply) {
        Some((parts, own)) => {
            contents.piece(Side::Model).raw(parts);
            for id in own.iter().flatten() {
                ids.keep(id);
            }
            own
        }
        None => {
            if !reply.text.trim().is_empty() {
                text(contents.piece(Side::Model), &reply.text);
            }
            let mut given = Vec::new();
            for (place, made) in reply.calls.iter().enumerate() {
                let id = ids.unique(&made.id, at, place);
                let json = contents.piece(Side::Model);
                call(json, &id, &made.name, &made.arguments);
                json.raw(if place == 0 { NO_SIGNATURE } else { "" })
                    .raw("}");
                given.push(Some(id));
            }
            given
        }
    };
    let answered = reply.calls.iter().zip(call_ids).zip(step.answers(accepts));
    for ((call, id), answer) in answered {
        let json = contents.piece(Side::User);
        let files = answer.files(accepts);
        response(json, id.as_deref(), &call.name, answer);
        for shown in files {
            file(contents.piece(Side::User), &shown);
        }
    }
}

/// The parts of a reply, unchanged and without brackets, and the ids of its calls there. None: it
/// has only text and calls, or is of another dialect.
fn own_parts(reply: &Reply) -> Option<(&str, Vec<Option<Cow<'_, str>>>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Part<'a> {
        /// Parts have no type; items of other dialects have one.
        #[serde(rename = "type")]
        kind: Option<serde::de::IgnoredAny>,
        #[serde(borrow)]
        function_call: Option<Call<'a>>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: Option<Str<'a>>,
    }
    let verbatim = reply.verbatim.as_deref()?;
    let parts: Vec<Part<'_>> = serde_json::from_str(verbatim).ok()?;
    if parts.is_empty() || parts.iter().any(|part| part.kind.is_some()) {
        return None;
    }
    let calls = parts.into_iter().filter_map(|part| part.function_call);
    let ids: Vec<_> = calls.map(|call| call.id.map(|id| id.0)).collect();
    let inside = verbatim.trim().strip_prefix('[')?.strip_suffix(']')?;
    (ids.len() == reply.calls.len()).then_some((inside, ids))
}

fn text(json: &mut Json, said: &str) {
    json.raw(r#"{"text":"#).string(said).raw("}");
}

/// A function call whose part is left open for a signature.
fn call(json: &mut Json, id: &str, name: &str, arguments: &str) {
    json.raw(r#"{"functionCall":{"id":"#).string(id);
    json.raw(r#","name":"#).string(&calls::name(name, IN_NAMES));
    json.raw(r#","args":"#);
    calls::arguments(json, arguments);
    json.raw("}");
}

/// A function's response, as an object.
fn response(json: &mut Json, id: Option<&str>, name: &str, answer: Answer<'_>) {
    json.raw(r#"{"functionResponse":{"#);
    if let Some(id) = id {
        json.raw(r#""id":"#).string(id).raw(",");
    }
    json.raw(r#""name":"#).string(&calls::name(name, IN_NAMES));
    json.raw(r#","response":{"#)
        .raw(if answer.is_error {
            r#""error":"#
        } else {
            r#""result":"#
        })
        .string(&answer.content)
        .raw("}}}");
}

#[cfg(test)]
mod tests;
