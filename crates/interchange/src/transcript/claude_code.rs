//! Sessions of Claude Code: a line per block of a message, among lines about other things.
//!
//! Lines name the previous line. If a model calls several tools at once, these lines form a tree
//! that is not a branch of the conversation. Lines are therefore read in file order, and only a
//! message of a person after going back begins a branch, after the turn that it names.

use unisono_context::Role;
use unisono_context::message::{Part, ReportedUsage};

use super::anthropic;
use super::draft::{Draft, DraftMessage, Parent};
use super::fields;
use super::json::{Object, Value};
use super::source::Problem;

type Result<'t, T> = std::result::Result<T, Problem<'t>>;

/// The input tokens of a request: new ones, cache writes, and cache reads.
const INPUT: [&str; 3] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
];

/// Whether an object is a line of such a session.
pub(super) fn is_line(object: &Object<'_>) -> bool {
    let keys = ["parentUuid", "leafUuid", "sessionId", "snapshot"];
    object.has("type") && keys.iter().any(|key| object.has(key))
}

/// Reads a line.
pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let kind = object.text("type")?;
    if let "summary" | "ai-title" | "custom-title" = &*kind {
        let keys = ["summary", "aiTitle", "customTitle"];
        if let Some(title) = keys.into_iter().find_map(|key| object.get(key)) {
            draft.import.title = title.text()?.into();
        }
        return Ok(());
    }
    if let Some(left) = dropped_content(&object, &kind, draft) {
        draft.omit(left);
        return inherit_turn(&object, draft);
    }
    let message = object.need("message")?.object()?;
    let parts = anthropic::parts(message.need("content")?, draft)?;
    if parts.is_empty() {
        return inherit_turn(&object, draft);
    }
    let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
    let (role, is_input) = match &*kind {
        "user" => (Role::User, !parts.iter().any(is_result)),
        _ => (Role::Assistant, false),
    };
    let mut parent = match is_input {
        true => parent_of_input(&object, draft)?,
        false => Parent::Previous,
    };
    let usage = match role {
        Role::Assistant => reported_usage(&message, draft)?,
        _ => None,
    };
    let at = fields::instant(&object, "timestamp");
    for message_part in anthropic::runs(role, parts) {
        let message_part = DraftMessage {
            parent: std::mem::take(&mut parent),
            at,
            usage: usage.filter(|_| message_part.role == Role::Assistant),
            is_loose: true,
            ..message_part
        };
        let placed = draft.place(item.raw(), message_part);
        draft.main = placed.or(draft.main);
    }
    let main = draft.main;
    match draft.line_context.turn_ends.last_mut() {
        Some(end) if !is_input => *end = main,
        _ => draft.line_context.turn_ends.push(main),
    }
    if let Some(id) = object.opt_text("uuid")? {
        let turn = draft.line_context.turn_ends.len() - 1;
        draft.line_context.turns.insert(id.into(), turn);
    }
    Ok(())
}

/// The kind of a line that is not part of the conversation; `None` for one that is.
fn dropped_content(
    object: &Object<'_>,
    kind: &str,
    draft: &mut Draft<'_, '_, '_>,
) -> Option<String> {
    if !matches!(kind, "user" | "assistant") {
        return Some(format!("{kind:?} line"));
    }
    let says = |key: &str| {
        let value = object.get(key);
        value.is_some_and(|value| value.raw() == "true")
    };
    let is_sub_agent = says("isSidechain");
    // The file of a sub-agent has only its own lines.
    if is_sub_agent != *draft.line_context.is_sub_agent.get_or_insert(is_sub_agent) {
        return Some("sub-agent message".to_owned());
    }
    let notes = [
        ("isMeta", "program note"),
        ("isCompactSummary", "compaction summary"),
        ("isApiErrorMessage", "error message"),
    ];
    let note = notes.into_iter().find(|(key, _)| says(key));
    let note = note.map(|(_, what)| what.to_owned());
    note.or_else(|| program_text(object).filter(|_| kind == "user"))
}

/// The beginnings of texts that the program writes as a user's message.
const PROGRAM_TEXTS: [(&str, &str); 7] = [
    ("<command-name>", "command"),
    ("<command-message>", "command"),
    ("<bash-input>", "command"),
    ("<local-command-", "command output"),
    ("<bash-stdout>", "command output"),
    ("<bash-stderr>", "command output"),
    ("[Request interrupted by user", "interruption"),
];

/// The kind of a message whose only text is the program's.
fn program_text(object: &Object<'_>) -> Option<String> {
    let content = object.get("message")?.object().ok()?.get("content")?;
    let text = match content.is_array() {
        true => match content.array().ok()?.as_slice() {
            [block] => block.object().ok()?.text("text").ok()?,
            _ => return None,
        },
        false => content.text().ok()?,
    };
    let mut kinds = PROGRAM_TEXTS.into_iter();
    let kind = kinds.find(|(begin, _)| text.trim_start().starts_with(begin));
    kind.map(|(_, kind)| kind.to_owned())
}

/// The usage of a line's request, which the first message of its lines has. A later line of the same
/// request replaces it: while a reply is streamed, its tokens are not all counted.
fn reported_usage<'t>(
    message: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<ReportedUsage>> {
    let request = message.opt_text("id")?.map(String::from);
    let usage = message.get("usage").map(Value::object).transpose()?;
    let usage = usage.and_then(|usage| fields::usage(&usage, &INPUT, &["output_tokens"]));
    let known = draft.line_context.request.take();
    let known = known.filter(|(known, _)| request.as_ref() == Some(known));
    let (first, usage) = match known {
        Some((_, first)) => {
            if let (Some(_), Some((_, message))) = (usage, draft.import.messages.get_mut(first)) {
                message.usage = usage;
            }
            (first, None)
        }
        None => (draft.import.messages.len(), usage),
    };
    draft.line_context.request = request.map(|request| (request, first));
    Ok(usage)
}

/// The parent of a user's message: the previous message, or the point to which the user went back.
fn parent_of_input<'t>(object: &Object<'t>, draft: &Draft<'t, '_, '_>) -> Result<'t, Parent> {
    let Some(parent) = object.opt_text("parentUuid")? else {
        return Ok(Parent::Root);
    };
    let turn = draft.line_context.turns.get(&*parent).copied();
    let line_context = turn.filter(|turn| turn + 1 < draft.line_context.turn_ends.len());
    let end = line_context.and_then(|turn| draft.line_context.turn_ends[turn]);
    Ok(end.map_or(Parent::Previous, Parent::Message))
}

/// Assigns an omitted line to the turn that it follows.
fn inherit_turn<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let parent = object.opt_text("logicalParentUuid")?;
    let parent = parent.or(object.opt_text("parentUuid")?);
    let known = parent.and_then(|parent| draft.line_context.turns.get(&*parent).copied());
    let now = draft.line_context.turn_ends.len().saturating_sub(1);
    if let Some(id) = object.opt_text("uuid")? {
        draft
            .line_context
            .turns
            .insert(id.into(), known.unwrap_or(now));
    }
    Ok(())
}
