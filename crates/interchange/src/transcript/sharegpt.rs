//! ShareGPT: turns of `{"from", "value"}`, or of `{"role", "content"}`.

use unisono_context::Role;
use unisono_context::message::Part;

use super::draft::{Draft, DraftMessage};
use super::json::Value;
use super::openai;
use super::source::Result;
use unisono_config::diagnostic::suggestion;

const SPEAKERS: [&str; 7] = [
    "human",
    "gpt",
    "system",
    "tool",
    "observation",
    "function_call",
    "function_response",
];

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    if object.has("role") && !object.has("from") {
        // Some data sets have chat messages as turns.
        return openai::read(item, draft);
    }
    let message = turn(item, &mut draft.calls)?;
    draft.push_or_system(item.raw(), message);
    Ok(())
}

/// One turn. Calls have no ids; they are numbered, and results are paired by position.
fn turn<'t>(item: Value<'t>, calls: &mut u32) -> Result<'t, DraftMessage> {
    let object = item.object()?;
    let from = object.need("from")?;
    let speaker = from.text()?;
    let value = object.need("value")?;
    let text = || value.text().map(|text| vec![Part::text(text)]);
    let message = match &*speaker {
        "human" | "user" => DraftMessage::new(Role::User, text()?),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => {
            DraftMessage::new(Role::Assistant, text()?)
        }
        "system" => DraftMessage::new(Role::System, text()?),
        "tool" | "observation" | "function_response" => {
            let part = Part::tool_result("", value.text()?, false);
            DraftMessage::new(Role::Tool, vec![part])
        }
        "function_call" => DraftMessage::new(Role::Assistant, function_calls(value, calls)?),
        unknown => {
            let help = suggestion(unknown, SPEAKERS.into_iter()).unwrap_or_default();
            return Err(from.wrong(format!("unknown speaker {unknown:?}; {help}")));
        }
    };
    Ok(message)
}

/// `{"name", "arguments"}` or a list of them, as JSON or as JSON in a text.
fn function_calls<'t>(value: Value<'t>, calls: &mut u32) -> Result<'t, Vec<Part>> {
    if !value.is_text() {
        return parts(value, calls);
    }
    let text = value.text()?;
    Value::parse(&text)
        .and_then(|inner| parts(inner, calls))
        .map_err(|problem| value.wrong(format!("in the function call: {}", problem.reason)))
}

fn parts<'t>(value: Value<'t>, calls: &mut u32) -> Result<'t, Vec<Part>> {
    let all = match value.is_array() {
        true => value.array()?,
        false => vec![value],
    };
    let call = |value: Value<'t>| {
        let object = value.object()?;
        let arguments = match object.get("arguments").or(object.get("parameters")) {
            Some(text) if text.is_text() => text.text()?.into(),
            Some(value) => value.raw().into(),
            None => "{}".into(),
        };
        *calls += 1;
        Ok(Part::ToolCall {
            id: format!("call_{calls}").into(),
            name: object.text("name")?.into(),
            arguments,
        })
    };
    all.into_iter().map(call).collect()
}
