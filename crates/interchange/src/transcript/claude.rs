//! Claude's export: an object per conversation with `chat_messages`. In newer exports a message
//! names the previous one.

use unisono_context::Role;
use unisono_context::message::Part;

use super::anthropic;
use super::attachment::attachment;
use super::branching::{self, Node};
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;

/// The beginning of the parent id of first messages.
const NOTHING: &str = "00000000-0000-";

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    draft.import.title = object.opt_text("name")?.unwrap_or_default().into();
    if fields::first_text(&object, &["summary"]).is_some() {
        draft.omit("conversation summary");
    }
    let current = object.opt_text("current_leaf_message_uuid")?;
    let mut nodes: Vec<Node<'t>> = Vec::new();
    for value in object.need("chat_messages")?.array()? {
        let message = value.object()?;
        let id = message.text("uuid")?.into();
        let parent = match message.opt_text("parent_message_uuid")? {
            Some(parent) if parent.starts_with(NOTHING) => None,
            Some(parent) => Some(parent.into()),
            None => nodes.last().map(|last| last.id.clone()),
        };
        nodes.push(Node { id, parent, value });
    }
    branching::read(&nodes, current.as_deref(), draft, message);
    Ok(())
}

fn message<'t>(value: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Vec<DraftMessage>> {
    let message = value.object()?;
    let sender = message.need("sender")?;
    let role = match &*sender.text()? {
        "human" => Role::User,
        "assistant" => Role::Assistant,
        unknown => return Err(sender.wrong(format!("unknown sender {unknown:?}"))),
    };
    let mut parts = match message.get("content") {
        Some(content) => anthropic::parts(content, draft)?,
        None => Vec::new(),
    };
    if parts.is_empty() {
        let text = message.opt_text("text")?.unwrap_or_default();
        parts.extend((!text.trim().is_empty()).then(|| Part::text(text)));
    }
    for key in ["attachments", "files"] {
        for file in message.get(key).map_or(Ok(Vec::new()), Value::array)? {
            attached(&file.object()?, &mut parts)?;
        }
    }
    let at = fields::instant(&message, "created_at");
    let messages = anthropic::runs(role, parts).into_iter();
    let messages = messages.map(|message| DraftMessage {
        at,
        is_loose: true,
        ..message
    });
    Ok(messages.collect())
}

/// Adds a file and its extracted text. Long pasted texts are files without a name.
fn attached<'t>(file: &Object<'t>, parts: &mut Vec<Part>) -> Result<'t, ()> {
    let name = file.opt_text("file_name")?.unwrap_or_default();
    let text = file.opt_text("extracted_content")?.unwrap_or_default();
    if !name.is_empty() || text.is_empty() {
        let name = if name.is_empty() { "file" } else { &name };
        let kind = file.opt_text("file_type")?.unwrap_or_default();
        let mime = match &*kind {
            kind if kind.contains('/') => kind,
            "txt" => "text/plain",
            _ => "application/octet-stream",
        };
        let size = file.get("file_size").and_then(|size| size.number().ok());
        parts.push(attachment(name, mime, size.unwrap_or_default()));
    }
    parts.extend((!text.is_empty()).then(|| Part::text(text)));
    Ok(())
}
