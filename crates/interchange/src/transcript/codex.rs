//! Sessions of Codex: `{"timestamp", "type", "payload"}` per line. Messages and calls are
//! `response_item`s; an `event_msg` repeats them for display, reports their usage, or says that a
//! person took back the newest turns: the following messages are a branch.
//!
//! In older sessions each item is a line, without a time, behind a line about the session.

use unisono_context::message::Part;
use unisono_context::{Role, Timestamp};

use super::attachment::of_url;
use super::draft::{Draft, DraftMessage, Parent};
use super::fields::{self, Note};
use super::json::{Object, Value};
use super::source::Result;

/// The notes that the program and its editors write in the user's name, before the user's text.
const CONTEXT: [Note; 16] = [
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<permissions instructions>", "</permissions instructions>"),
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<additional_context>", "</additional_context>"),
    ("<extension_context>", "</extension_context>"),
    ("<codex_internal_context", "</codex_internal_context>"),
    ("<goal_context>", "</goal_context>"),
    ("<recommended_plugins>", "</recommended_plugins>"),
    ("<skill>", "</skill>"),
    ("<hook_prompt", "</hook_prompt>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<in-app-browser-context>", "</in-app-browser-context>"),
    ("# Context from my IDE setup:", "## My request for Codex:"),
];

/// The beginnings of the names of events that repeat what items say, or tell of progress.
const REPEATED: [&str; 18] = [
    "user_message",
    "agent_message",
    "agent_reasoning",
    "task_",
    "turn_",
    "item_",
    "raw_response_item",
    "session_configured",
    "context_compacted",
    "exec_command_",
    "mcp_tool_call_",
    "dynamic_tool_call_",
    "web_search_",
    "patch_apply_",
    "view_image_tool_call",
    "image_generation_",
    "terminal_interaction",
    "thread_name_updated",
];

/// Counts the instructions of the program in a line about the session.
fn count_instructions(session: &Object<'_>, draft: &mut Draft<'_, '_, '_>) {
    let keys = ["instructions", "base_instructions"];
    for given in keys.iter().filter_map(|key| session.get(key)) {
        if given.raw() != "\"\"" {
            draft.omit("program instruction");
        }
    }
}

/// Whether an object is a line of such a session.
pub(super) fn is_line(object: &Object<'_>) -> bool {
    object.has("payload") && object.has("type")
}

/// Whether an object is the first line of an older session, or the mark of its state.
pub(super) fn is_older_line(object: &Object<'_>) -> bool {
    let keys = ["id", "timestamp", "instructions"];
    let is_first = !object.has("type") && keys.iter().all(|key| object.has(key));
    let mark = object.get("record_type");
    is_first || mark.is_some_and(|mark| mark.raw() == "\"state\"")
}

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    if is_older_line(&object) {
        let begun = fields::instant(&object, "timestamp");
        draft.line_context.begun = begun.or(draft.line_context.begun);
        count_instructions(&object, draft);
        return Ok(());
    }
    let kind = object.text("type")?;
    let at = fields::instant(&object, "timestamp");
    if !object.has("payload") && !matches!(&*kind, "response_item" | "event_msg") {
        return push(item, &object, at, draft);
    }
    let payload = object.need("payload")?.object()?;
    match &*kind {
        "response_item" => push(item, &payload, at, draft)?,
        "event_msg" => match payload.opt_text("type")?.as_deref() {
            Some("thread_rolled_back") => take_back(payload.need("num_turns")?.number()?, draft),
            Some("token_count") => reported_usage(&payload, draft),
            Some(known) if REPEATED.iter().any(|begin| known.starts_with(*begin)) => {}
            Some(other) => draft.omit(format!("{other:?} event")),
            None => draft.omit("event"),
        },
        "compacted" => draft.omit("compaction summary"),
        "session_meta" => count_instructions(&payload, draft),
        other => draft.omit(format!("{other:?} line")),
    }
    Ok(())
}

/// Adds the message of an item. Without a time, the first message has the session's.
fn push<'t>(
    line: Value<'t>,
    item: &Object<'t>,
    at: Option<Timestamp>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, ()> {
    if let Some(message) = draft_message(item, draft)? {
        let parent = std::mem::take(&mut draft.line_context.next);
        if message.role == Role::User {
            let before = match parent {
                Parent::Previous => draft.main,
                Parent::Root => None,
                Parent::Message(id) => Some(id),
            };
            draft.line_context.turn_ends.push(before);
        }
        let message = DraftMessage {
            parent,
            at: at.or(draft.line_context.begun.take()),
            is_loose: true,
            ..message
        };
        let placed = draft.place(line.raw(), message);
        draft.main = placed.or(draft.main);
    }
    Ok(())
}

/// Goes back to before the newest turns, each of which begins with a message of the user.
fn take_back(turns: usize, draft: &mut Draft<'_, '_, '_>) {
    let begins = &mut draft.line_context.turn_ends;
    let kept = begins.len().saturating_sub(turns);
    let Some(before) = begins.drain(kept..).next() else {
        return;
    };
    draft.line_context.next = before.map_or(Parent::Root, Parent::Message);
    draft.main = before.or(draft.main);
}

fn draft_message<'t>(
    item: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<DraftMessage>> {
    let kind = item.text("type")?;
    let call = |name: &str, arguments| {
        let id = item.opt_text("call_id")?.or(item.opt_text("id")?);
        let part = Part::tool_call(id.unwrap_or_default(), name, arguments);
        Ok(Some(DraftMessage::new(Role::Assistant, vec![part])))
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
            Ok(Some(DraftMessage::new(Role::Tool, vec![part])))
        }
        "reasoning" => {
            draft.omit("reasoning block");
            Ok(None)
        }
        other => {
            draft.omit(format!("{other:?} item"));
            Ok(None)
        }
    }
}

fn message<'t>(
    item: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<DraftMessage>> {
    let role = item.need("role")?;
    let role = match &*role.text()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "developer" | "system" => {
            draft.omit("program instruction");
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
            draft.omit("content piece");
        }
    }
    if role == Role::User {
        let written = std::mem::take(&mut parts).into_iter();
        parts.extend(written.filter_map(|part| spoken_part(part, draft)));
    }
    Ok((!parts.is_empty()).then(|| DraftMessage::new(role, parts)))
}

/// A part of a user's message without the notes before it, which are counted; `None` if nothing is
/// left. The tags around an image are not counted: the image is kept.
fn spoken_part(part: Part, draft: &mut Draft<'_, '_, '_>) -> Option<Part> {
    let Part::Text(text) = &part else {
        return Some(part);
    };
    if is_image_tag(text) {
        return None;
    }
    let (mut said, mut has_notes) = (&**text, false);
    while let Some(rest) = fields::without_first_note(said, &CONTEXT) {
        draft.omit("context text");
        (said, has_notes) = (rest.trim(), true);
    }
    match has_notes {
        false => Some(part),
        true => (!said.is_empty()).then(|| Part::text(said)),
    }
}

/// `<image>`, `<image name=[Image #1]>` or `</image>`.
fn is_image_tag(text: &str) -> bool {
    let inner = text.trim().strip_prefix('<');
    let inner = inner.and_then(|inner| inner.strip_suffix('>'));
    inner.is_some_and(|inner| {
        let is_named = inner.starts_with("image name=") && !inner.contains('>');
        is_named || matches!(inner, "image" | "/image")
    })
}

/// A text, texts and images in a list, or an object with `content`.
fn output(value: Value<'_>) -> Result<'_, String> {
    if value.is_text() {
        return Ok(value.text()?.into());
    }
    if value.is_array() {
        let pieces = value.array()?.into_iter().map(|piece| {
            let object = piece.object()?;
            let text = object.opt_text("text")?.map(String::from);
            let image = object.get("image_url").and_then(|url| url.text().ok());
            let image = image.map(|url| of_url(&url, "image").countable_text().into_owned());
            Ok(text.or(image).unwrap_or_else(|| piece.raw().to_owned()))
        });
        let pieces: Result<'_, Vec<String>> = pieces.collect();
        return Ok(pieces?.join("\n"));
    }
    match value.object()?.get("content") {
        Some(content) if content.is_text() => Ok(content.text()?.into()),
        _ => Ok(value.raw().to_owned()),
    }
}

/// Sets the usage of the newest reply's request.
fn reported_usage<'t>(event: &Object<'t>, draft: &mut Draft<'t, '_, '_>) {
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
