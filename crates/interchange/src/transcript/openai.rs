//! OpenAI chat messages.

use std::borrow::Cow;

use unisono_context::Role;
use unisono_context::message::Part;

use super::attachment::{attachment, base64_bytes, data_url, in_base64, of_url};
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;
use unisono_config::diagnostic::suggestion;

const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let message = message(item, draft)?;
    // A message of reasoning alone is left behind with it.
    if !message.parts.is_empty() || !has_reasoning(&item.object()?) {
        draft.push_or_system(item.raw(), message);
    }
    Ok(())
}

/// Whether a message has the model's reasoning, as DeepSeek's and OpenRouter's have.
fn has_reasoning(object: &Object<'_>) -> bool {
    let keys = ["reasoning_content", "reasoning"];
    let has_text = keys.into_iter().any(|key| {
        let text = object.get(key).and_then(|value| value.text().ok());
        text.is_some_and(|text| !text.trim().is_empty())
    });
    has_text || !list(object, "reasoning_details").is_empty()
}

/// The values of a list; empty if there is none.
fn list<'t>(object: &Object<'t>, key: &str) -> Vec<Value<'t>> {
    let list = object.get(key).and_then(|list| list.array().ok());
    list.unwrap_or_default()
}

fn message<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, DraftMessage> {
    let object = item.object()?;
    let role = object.need("role")?;
    let name = role.text()?;
    match &*name {
        "system" | "developer" => Ok(DraftMessage::new(Role::System, content(&object, draft)?)),
        "user" => Ok(DraftMessage {
            author: fields::author(&object),
            ..DraftMessage::new(Role::User, content(&object, draft)?)
        }),
        "assistant" => assistant(&object, draft),
        "tool" | "function" => result(&object, draft),
        unknown => {
            let help = suggestion(unknown, ROLES.into_iter()).unwrap_or_default();
            Err(role.wrong(format!("unknown role {unknown:?}; {help}")))
        }
    }
}

fn assistant<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, DraftMessage> {
    let mut parts = content(object, draft)?;
    if let Some(refusal) = object.opt_text("refusal")? {
        parts.push(Part::text(refusal.as_ref()));
    }
    if let Some(audio) = object.get("audio") {
        let transcript = audio.object()?.opt_text("transcript")?;
        parts.extend(transcript.map(Part::text));
        draft.omit("spoken answer");
    }
    if has_reasoning(object) {
        draft.omit("reasoning block");
    }
    for _ in list(object, "annotations") {
        draft.omit("citation");
    }
    let images = list(object, "images").into_iter().map(part).collect();
    parts.extend(draft.parts(images)?);
    let mut calls = Vec::new();
    for call in object
        .get("tool_calls")
        .map(Value::array)
        .transpose()?
        .unwrap_or_default()
    {
        calls.push(tool_call(&call.object()?)?);
    }
    if let Some(call) = object.get("function_call") {
        let call = call.object()?;
        calls.push(function(&call, "".into())?);
    }
    if !calls.is_empty() {
        // An empty text next to calls has no content.
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    }
    parts.extend(calls);
    Ok(DraftMessage {
        author: fields::author(object),
        ..DraftMessage::new(Role::Assistant, parts)
    })
}

fn tool_call<'t>(call: &Object<'t>) -> Result<'t, Part> {
    if let Some(kind) = call.get("type") {
        let name = kind.text()?;
        if !matches!(&*name, "function" | "custom") {
            return Err(kind.wrong(format!(
                "unknown kind of tool call {name:?}; known: function, custom"
            )));
        }
    }
    let id = call.opt_text("id")?.unwrap_or_default();
    if let Some(custom) = call.get("custom") {
        // Its input is a text in any notation.
        let custom = custom.object()?;
        let (name, input) = (custom.text("name")?, custom.text("input")?);
        return Ok(Part::tool_call(id, name, fields::arguments(&input)));
    }
    function(&call.need("function")?.object()?, id)
}

fn function<'t>(function: &Object<'t>, id: Cow<'t, str>) -> Result<'t, Part> {
    let arguments = match function.get("arguments") {
        Some(text) if text.is_text() => text.text()?,
        Some(value) => Cow::Borrowed(value.raw()),
        None => Cow::Borrowed("{}"),
    };
    Ok(Part::tool_call(id, function.text("name")?, arguments))
}

fn result<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, DraftMessage> {
    let call_id = object.opt_text("tool_call_id")?.unwrap_or_default();
    let texts: Vec<String> = content(object, draft)?
        .iter()
        .map(|p| p.countable_text().into())
        .collect();
    let part = Part::tool_result(call_id, texts.join("\n"), false);
    Ok(DraftMessage::new(Role::Tool, vec![part]))
}

/// The parts of a message's content: text, null, or a list of parts.
fn content<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Vec<Part>> {
    match object.get("content") {
        None => Ok(Vec::new()),
        Some(text) if text.is_text() => Ok(vec![Part::text(text.text()?)]),
        Some(list) if list.is_array() => draft.parts(list.array()?.into_iter().map(part).collect()),
        Some(other) => Err(other.wrong("`content` must be text, null, or a list of parts")),
    }
}

fn part(value: Value<'_>) -> Result<'_, Part> {
    let object = value.object()?;
    let kind = object.need("type")?;
    let name = kind.text()?;
    match &*name {
        "text" | "input_text" | "output_text" => Ok(Part::text(object.text("text")?)),
        "refusal" => Ok(Part::text(object.text("refusal")?)),
        "image_url" => image(&object),
        "input_audio" => audio(&object),
        "file" => file(&object),
        unknown => {
            let known = ["text", "refusal", "image_url", "input_audio", "file"];
            let help = suggestion(unknown, known.into_iter()).unwrap_or_default();
            Err(kind.wrong(format!("unknown part type {unknown:?}; {help}")))
        }
    }
}

fn image<'t>(object: &Object<'t>) -> Result<'t, Part> {
    let image = object.need("image_url")?;
    let url = match image.is_text() {
        true => image.text()?,
        false => image.object()?.text("url")?,
    };
    Ok(of_url(&url, "image"))
}

fn audio<'t>(object: &Object<'t>) -> Result<'t, Part> {
    let audio = object.need("input_audio")?.object()?;
    let format = audio.opt_text("format")?.unwrap_or("*".into());
    let bytes = audio
        .opt_text("data")?
        .map_or(0, |data| base64_bytes(&data));
    Ok(attachment("audio", &format!("audio/{format}"), bytes))
}

fn file<'t>(object: &Object<'t>) -> Result<'t, Part> {
    let file = object.need("file")?.object()?;
    let filename = file.opt_text("filename")?.or(file.opt_text("file_id")?);
    let data = file.opt_text("file_data")?.unwrap_or_default();
    let (mime, bytes) = data_url(&data).unwrap_or(("application/octet-stream", &data));
    Ok(in_base64(&filename.unwrap_or("file".into()), mime, bytes))
}
