//! Sessions of Codex: `{"timestamp", "type", "payload"}` per line. Messages and calls are
//! `response_item`s; an `event_msg` repeats them for display and reports their usage.

use unisono_context::Role;
use unisono_context::message::Part;

use super::attachment::of_url;
use super::draft::{Draft, Drafted};
use super::fields;
use super::json::{Object, Value};
use super::source::Problem;

type Result<'t, T> = std::result::Result<T, Problem<'t>>;

/// How messages begin that the program writes in a person's name.
const CONTEXT: [&str; 4] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md instructions",
];

/// Whether an object is a line of such a session.
pub(super) fn is_line(object: &Object<'_>) -> bool {
    object.has("payload") && object.has("type")
}

/// Reads a line.
pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let kind = object.text("type")?;
    let payload = object.need("payload")?.object()?;
    match &*kind {
        "response_item" => {
            if let Some(said) = said(&payload, draft)? {
                let at = fields::instant(&object, "timestamp");
                let is_loose = true;
                draft.push(
                    item.raw(),
                    Drafted {
                        at,
                        is_loose,
                        ..said
                    },
                );
            }
        }
        "event_msg" => spent(&payload, draft),
        "compacted" => draft.leave("compaction summary"),
        "session_meta" => {}
        other => draft.leave(format!("{other:?} line")),
    }
    Ok(())
}

fn said<'t>(item: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Option<Drafted>> {
    let kind = item.text("type")?;
    let call = |name: &str, arguments| {
        let id = item.opt_text("call_id")?.or(item.opt_text("id")?);
        let part = Part::ToolCall {
            id: id.unwrap_or_default().into(),
            name: name.into(),
            arguments,
        };
        Ok(Some(Drafted::new(Role::Assistant, vec![part])))
    };
    match &*kind {
        "message" => message(item, draft),
        "function_call" => {
            let arguments = fields::arguments(&item.text("arguments")?);
            call(&item.text("name")?, arguments)
        }
        "custom_tool_call" => {
            let input = fields::arguments(&item.text("input")?);
            call(&item.text("name")?, input)
        }
        "local_shell_call" => call("local_shell", item.need("action")?.raw().into()),
        "function_call_output" | "custom_tool_call_output" => {
            let part = Part::ToolResult {
                call_id: item.opt_text("call_id")?.unwrap_or_default().into(),
                content: output(item.need("output")?)?.into(),
                is_error: false,
            };
            Ok(Some(Drafted::new(Role::Tool, vec![part])))
        }
        "reasoning" => {
            draft.leave("reasoning block");
            Ok(None)
        }
        other => {
            draft.leave(format!("{other:?} item"));
            Ok(None)
        }
    }
}

fn message<'t>(item: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Option<Drafted>> {
    let role = item.need("role")?;
    let role = match &*role.text()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "developer" | "system" => {
            draft.leave("program instruction");
            return Ok(None);
        }
        unknown => return Err(role.wrong(format!("unknown role {unknown:?}"))),
    };
    let mut parts = Vec::new();
    for value in item.need("content")?.array()? {
        let piece = value.object()?;
        if let Some(text) = piece.opt_text("text")? {
            parts.push(Part::text(text));
        } else if let Some(url) = piece.opt_text("image_url")? {
            parts.push(of_url(&url, "image"));
        } else {
            draft.leave("piece of content");
        }
    }
    let is_context = |part: &Part| match part {
        Part::Text(text) => CONTEXT.iter().any(|begin| text.starts_with(begin)),
        _ => false,
    };
    if role == Role::User {
        parts.retain(|part| {
            let is_context = is_context(part);
            if is_context {
                draft.leave("context text");
            }
            !is_context
        });
    }
    Ok((!parts.is_empty()).then(|| Drafted::new(role, parts)))
}

/// A text, texts in a list, or an object with `content`.
fn output(value: Value<'_>) -> Result<'_, String> {
    if value.is_text() {
        return Ok(value.text()?.into());
    }
    if value.is_array() {
        let pieces = value.array()?.into_iter().map(|piece| {
            let text = piece.object()?.opt_text("text")?;
            Ok(text.map_or_else(|| piece.raw().to_owned(), String::from))
        });
        let pieces: Result<'_, Vec<String>> = pieces.collect();
        return Ok(pieces?.join("\n"));
    }
    match value.object()?.get("content") {
        Some(content) if content.is_text() => Ok(content.text()?.into()),
        _ => Ok(value.raw().to_owned()),
    }
}

/// The tokens of the request that the newest reply came of.
fn spent<'t>(event: &Object<'t>, draft: &mut Draft<'t, '_, '_>) {
    let last = event.get("info").and_then(|info| {
        let last = info.object().ok()?.get("last_token_usage")?;
        fields::usage(&last.object().ok()?, &["input_tokens"], &["output_tokens"])
    });
    let mut messages = draft.import.messages.iter_mut().rev();
    let reply = messages.find(|(_, message)| message.role == Role::Assistant);
    if let (Some(last), Some((_, reply))) = (last, reply) {
        reply.usage.get_or_insert(last);
    }
}
