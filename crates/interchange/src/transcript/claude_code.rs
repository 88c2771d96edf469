//! Sessions of Claude Code: a line per block of a message, among lines about other things.
//!
//! Lines name the previous line. If a model calls several tools at once, these lines form a tree
//! that is not a branch of the conversation. Lines are therefore read in file order, and only a
//! message of a person after going back begins a branch, after the turn that it names.

use unisono_context::Role;
use unisono_context::message::{Part, ReportedUsage};

use super::anthropic;
use super::draft::{Draft, Drafted, Parent};
use super::fields;
use super::json::{Object, Value};
use super::source::Problem;

type Result<'t, T> = std::result::Result<T, Problem<'t>>;

/// Tokens of a request: the new ones, those that were put into the cache, and those from it.
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
    if let Some(left) = left_behind(&object, &kind, draft) {
        draft.leave(left);
        return stand_in(&object, draft);
    }
    let message = object.need("message")?.object()?;
    let parts = anthropic::parts(message.need("content")?, draft)?;
    if parts.is_empty() {
        return stand_in(&object, draft);
    }
    let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
    let (role, is_asked) = match &*kind {
        "user" => (Role::User, !parts.iter().any(is_result)),
        _ => (Role::Assistant, false),
    };
    let mut parent = match is_asked {
        true => asked_after(&object, draft)?,
        false => Parent::Previous,
    };
    let usage = match role {
        Role::Assistant => spent(&message, draft)?,
        _ => None,
    };
    let at = fields::instant(&object, "timestamp");
    for said in anthropic::runs(role, parts) {
        let said = Drafted {
            parent: std::mem::take(&mut parent),
            at,
            usage: usage.filter(|_| said.role == Role::Assistant),
            is_loose: true,
            ..said
        };
        let placed = draft.place(item.raw(), said);
        draft.main = placed.or(draft.main);
    }
    let main = draft.main;
    match draft.earlier.turn_ends.last_mut() {
        Some(end) if !is_asked => *end = main,
        _ => draft.earlier.turn_ends.push(main),
    }
    if let Some(id) = object.opt_text("uuid")? {
        let turn = draft.earlier.turn_ends.len() - 1;
        draft.earlier.turns.insert(id.into(), turn);
    }
    Ok(())
}

/// What a line is that has no place in a conversation; none: it has.
fn left_behind(object: &Object<'_>, kind: &str, draft: &mut Draft<'_, '_, '_>) -> Option<String> {
    if !matches!(kind, "user" | "assistant") {
        return Some(format!("{kind:?} line"));
    }
    let says = |key: &str| {
        let value = object.get(key);
        value.is_some_and(|value| value.raw() == "true")
    };
    let is_side = says("isSidechain");
    // A file of a sub-agent has no others.
    if is_side != *draft.earlier.is_side.get_or_insert(is_side) {
        return Some("sub-agent message".to_owned());
    }
    let notes = [
        ("isMeta", "program note"),
        ("isCompactSummary", "compaction summary"),
        ("isApiErrorMessage", "error message"),
    ];
    let note = notes.into_iter().find(|(key, _)| says(key));
    note.map(|(_, what)| what.to_owned())
}

/// The tokens of the request that a line came of, once for all of its lines.
fn spent<'t>(
    message: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<ReportedUsage>> {
    let request = message.opt_text("id")?.map(String::from);
    let is_told = request.is_some() && request == draft.earlier.request;
    draft.earlier.request = request;
    let usage = message.get("usage").filter(|_| !is_told);
    let usage = usage.map(Value::object).transpose()?;
    Ok(usage.and_then(|usage| fields::usage(&usage, &INPUT, &["output_tokens"])))
}

/// What a person's message follows: the message before it, or where they went back to.
fn asked_after<'t>(object: &Object<'t>, draft: &Draft<'t, '_, '_>) -> Result<'t, Parent> {
    let Some(parent) = object.opt_text("parentUuid")? else {
        return Ok(Parent::Root);
    };
    let turn = draft.earlier.turns.get(&*parent).copied();
    let earlier = turn.filter(|turn| turn + 1 < draft.earlier.turn_ends.len());
    let end = earlier.and_then(|turn| draft.earlier.turn_ends[turn]);
    Ok(end.map_or(Parent::Previous, Parent::Message))
}

/// A line that is left behind stands for the turn that it follows.
fn stand_in<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let parent = object.opt_text("logicalParentUuid")?;
    let parent = parent.or(object.opt_text("parentUuid")?);
    let known = parent.and_then(|parent| draft.earlier.turns.get(&*parent).copied());
    let now = draft.earlier.turn_ends.len().saturating_sub(1);
    if let Some(id) = object.opt_text("uuid")? {
        draft.earlier.turns.insert(id.into(), known.unwrap_or(now));
    }
    Ok(())
}
