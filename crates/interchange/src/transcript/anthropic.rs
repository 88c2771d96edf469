//! Anthropic's messages: `{"role", "content"}`; the content is a text or a list of blocks.

use unisono_context::Role;
use unisono_context::message::Part;

use super::attachment::{attachment, in_base64, of_url};
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;
use unisono_config::diagnostic::suggestion;

/// Block types that only this format has.
const OWN: [&str; 9] = [
    "tool_use",
    "tool_result",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "image",
    "document",
    "thinking",
    "redacted_thinking",
];

/// Whether a message with a `role` can only be of this format.
pub(super) fn is_own(message: &Object<'_>) -> bool {
    let blocks = message.get("content").filter(|content| content.is_array());
    let blocks = blocks.and_then(|content| content.array().ok());
    blocks.into_iter().flatten().any(|block| {
        let kind = block.object().ok().and_then(|block| kind(&block));
        kind.is_some_and(|kind| OWN.contains(&&*kind))
    })
}

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let role = object.need("role")?;
    let name = role.text()?;
    let as_role = match &*name {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        unknown => {
            let known = ["user", "assistant"].into_iter();
            let help = suggestion(unknown, known).unwrap_or_default();
            return Err(role.wrong(format!("unknown role {unknown:?}; {help}")));
        }
    };
    let content = object.need("content")?;
    let parts = parts(content, draft)?;
    if parts.is_empty() {
        // A message of reasoning alone is left behind with it.
        return match has_other_blocks(content) {
            true => Ok(()),
            false => Err(item.wrong("the message has no content")),
        };
    }
    for message in runs(as_role, parts) {
        draft.push_or_system(item.raw(), message);
    }
    Ok(())
}

/// Whether a content has blocks besides texts.
fn has_other_blocks(content: Value<'_>) -> bool {
    let blocks = content.array().unwrap_or_default().into_iter();
    let mut kinds = blocks.filter_map(|block| kind(&block.object().ok()?));
    kinds.any(|kind| kind != "text")
}

/// Splits a message: tool results become separate messages.
pub(super) fn runs(role: Role, parts: Vec<Part>) -> Vec<DraftMessage> {
    let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
    let mut runs: Vec<DraftMessage> = Vec::new();
    for part in parts {
        let role = match is_result(&part) {
            true => Role::Tool,
            false => role,
        };
        match runs.last_mut() {
            Some(run) if run.role == role => run.parts.push(part),
            _ => runs.push(DraftMessage::new(role, vec![part])),
        }
    }
    runs
}

/// The system text: a text, or blocks of text.
pub(super) fn system(value: Value<'_>) -> Result<'_, String> {
    if !value.is_array() {
        return Ok(value.text()?.into());
    }
    let texts: Result<'_, Vec<_>> = value
        .array()?
        .into_iter()
        .map(|block| block.object()?.text("text"))
        .collect();
    Ok(texts?.join("\n\n"))
}

/// The parts of a content, in order. Unsupported blocks are omitted.
pub(super) fn parts<'t>(
    content: Value<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Vec<Part>> {
    if !content.is_array() {
        return Ok(vec![Part::text(content.text()?)]);
    }
    let mut all = Vec::new();
    for value in content.array()? {
        let part = value.object().and_then(|block| {
            let citations = block.get("citations").and_then(|list| list.array().ok());
            let citations = citations.unwrap_or_default();
            citations.iter().for_each(|_| draft.omit("citation"));
            part(&block)
        });
        match part {
            Ok(Some(Ok(part))) => {
                all.push(Ok(part));
                all.extend(document_text(value)?.map(|text| Ok(Part::text(text))));
            }
            Ok(Some(Err(lost))) => draft.omit(lost),
            Ok(None) => {}
            Err(problem) => all.push(Err(problem)),
        }
    }
    draft.parts(all)
}

fn kind<'t>(block: &Object<'t>) -> Option<std::borrow::Cow<'t, str>> {
    block.get("type").and_then(|kind| kind.text().ok())
}

/// A part, or the kind of an unsupported block; `None` for an empty text.
fn part<'t>(block: &Object<'t>) -> Result<'t, Option<std::result::Result<Part, String>>> {
    let kind = block.need("type")?.text()?;
    let part = match &*kind {
        "text" => {
            let text = block.text("text")?;
            if text.trim().is_empty() {
                return Ok(None);
            }
            Part::text(text)
        }
        // Words that a person spoke, in exports of Claude.
        "voice_note" => match block.opt_text("text")? {
            Some(text) if !text.trim().is_empty() => Part::text(text),
            _ => return Ok(Some(Err("voice note".to_owned()))),
        },
        "thinking" | "redacted_thinking" => return Ok(Some(Err("reasoning block".to_owned()))),
        "image" | "document" | "audio" => file(block, &kind)?,
        call if call.ends_with("tool_use") => Part::ToolCall {
            id: block.opt_text("id")?.unwrap_or_default().into(),
            name: block.text("name")?.into(),
            arguments: match block.get("input") {
                Some(text) if text.is_text() => fields::arguments(&text.text()?),
                Some(input) => input.raw().into(),
                None => "{}".into(),
            },
        },
        result if result.ends_with("tool_result") => {
            let is_error = block.get("is_error").map(Value::bool).transpose()?;
            Part::ToolResult {
                call_id: block.opt_text("tool_use_id")?.unwrap_or_default().into(),
                content: block.get("content").map_or(Ok("".into()), result_text)?,
                is_error: is_error.unwrap_or_default(),
            }
        }
        unknown => return Ok(Some(Err(format!("{unknown:?} block")))),
    };
    Ok(Some(Ok(part)))
}

/// The result of a tool: texts, file names, and other values verbatim, one per line.
fn result_text(content: Value<'_>) -> Result<'_, std::sync::Arc<str>> {
    if content.is_text() {
        return Ok(content.text()?.into());
    }
    if !content.is_array() {
        return Ok(content.raw().into());
    }
    let mut lines = Vec::new();
    for value in content.array()? {
        let block = match value.is_object() {
            true => part(&value.object()?)?,
            false => None,
        };
        match block {
            Some(Ok(part @ (Part::Text(_) | Part::Attachment { .. }))) => {
                lines.push(part.countable_text().into_owned());
                lines.extend(document_text(value)?.map(|text| text.to_string()));
            }
            None if value.is_object() => {}
            None if value.is_text() => lines.push(value.text()?.into()),
            _ => lines.push(value.raw().to_owned()),
        }
    }
    Ok(lines.join("\n").into())
}

/// The text of a document whose source is a text or a list of blocks.
fn document_text(block: Value<'_>) -> Result<'_, Option<std::sync::Arc<str>>> {
    let block = block.object()?;
    let is_document = kind(&block).is_some_and(|kind| kind == "document");
    let source = block.get("source").filter(|_| is_document);
    let Some(source) = source.map(Value::object).transpose()? else {
        return Ok(None);
    };
    let text = match kind(&source).as_deref() {
        Some("text") => source.get("data"),
        Some("content") => source.get("content"),
        _ => None,
    };
    let text = text.map(result_text).transpose()?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// An attachment, whose `source` is base64 with its media type, a text, or a URL.
fn file<'t>(block: &Object<'t>, kind: &str) -> Result<'t, Part> {
    let source = block.get("source").map(Value::object).transpose()?;
    let title = block.opt_text("title")?;
    let name = title.as_deref().unwrap_or(kind);
    let Some(source) = source else {
        return Ok(attachment(name, "application/octet-stream", 0));
    };
    if let Some(url) = source.opt_text("url")? {
        return Ok(of_url(&url, kind));
    }
    let mime = source.opt_text("media_type")?;
    let data = source.opt_text("data")?.unwrap_or_default();
    let is_text = source.opt_text("type")?.is_some_and(|kind| kind == "text");
    if is_text {
        let mime = mime.as_deref().unwrap_or("text/plain");
        return Ok(attachment(name, mime, data.len() as u64));
    }
    let mime = mime.as_deref().unwrap_or("application/octet-stream");
    Ok(in_base64(name, mime, &data))
}
