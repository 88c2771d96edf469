//! Sessions of Claude Code: a line per block of a message, among lines about other things.
//!
//! Lines name the previous line. If a model calls several tools at once, these lines form a tree
//! that is not a branch of the conversation. Lines are therefore read in file order, and only a
//! message of a person after going back begins a branch, after the turn that it names. What a person
//! types while the model works is an attachment (`queued_command`), and a part of the model's turn.
//! Older versions write no attachments: there the text is only in the queue (`queue-operation`), which
//! the model empties while it works. A line may be written again, also much later: the first one counts.

mod teammates;

use std::collections::{HashMap, HashSet};

use unisono_context::Role;
use unisono_context::message::{Part, ReportedUsage};

use super::anthropic;
use super::draft::{Draft, DraftMessage, LineContext, Parent};
use super::fields::{self, Note};
use super::json::{Object, Value};
use super::source::Result;

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

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let kind = object.text("type")?;
    if let "summary" | "ai-title" | "custom-title" = &*kind {
        return read_title(&object, &kind, draft);
    }
    if kind == "queue-operation" {
        return queue_operation(&object, draft);
    }
    draft.line_context.has_attachments |= kind == "attachment";
    if let Some(left) = dropped_content(&object, &kind, draft) {
        draft.omit(left);
        return inherit_turn(&object, draft);
    }
    let (message, key) = match queued(&object) {
        Some(queued) => (queued, "prompt"),
        None => (object.need("message")?.object()?, "content"),
    };
    let parts = said_parts(message.need(key)?, &kind, draft)?;
    let is_result = |part: &Part| matches!(part, Part::ToolResult { .. });
    let (role, is_input) = match &*kind {
        "assistant" => (Role::Assistant, false),
        "user" => (Role::User, !parts.iter().any(is_result)),
        _ => (Role::User, false),
    };
    let messages = match role {
        Role::User => teammates::messages(parts, draft),
        role => anthropic::runs(role, parts),
    };
    if messages.is_empty() {
        return inherit_turn(&object, draft);
    }
    if is_input || role == Role::Assistant {
        place_typed(item.raw(), draft);
    }
    let mut parent = match is_input {
        true => parent_of_input(&object, draft)?,
        false => Parent::Previous,
    };
    let usage = match role {
        Role::Assistant => reported_usage(&message, draft)?,
        _ => None,
    };
    let at = fields::instant(&object, "timestamp");
    for message_part in messages {
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
    assign_turn(&object, is_input, draft)
}

/// The parts of a line of this kind, without what the program wrote.
fn said_parts<'t>(
    content: Value<'t>,
    kind: &str,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Vec<Part>> {
    let parts = anthropic::parts(content, draft)?;
    if kind == "assistant" {
        return Ok(parts);
    }
    for part in &parts {
        if let Part::Text(text) = part {
            leave_queue(text, kind == "attachment", draft);
        }
    }
    Ok(without_program_texts(parts, draft))
}

/// Assigns a line to its turn, which ends with the last message so far. A message of a person begins
/// a turn.
fn assign_turn<'t>(
    object: &Object<'t>,
    is_input: bool,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, ()> {
    let main = draft.main;
    match draft.line_context.turn_ends.last_mut() {
        Some(end) if !is_input => *end = main,
        _ => draft.line_context.turn_ends.push(main),
    }
    if let Some(id) = object.opt_text("uuid")?.map(String::from) {
        let turn = draft.line_context.turn_ends.len() - 1;
        draft.line_context.said.insert(id.clone());
        draft.line_context.turns.insert(id, turn);
    }
    Ok(())
}

/// Notes a title. A person's own replaces one that the program made; both replace a summary.
fn read_title<'t>(
    object: &Object<'t>,
    kind: &str,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, ()> {
    let keys = ["summary", "aiTitle", "customTitle"];
    let title = keys.into_iter().find_map(|key| object.get(key));
    let title = title.map(Value::text).transpose()?.unwrap_or_default();
    if title.is_empty() {
        return Ok(());
    }
    match kind {
        "summary" => {
            let end = object.opt_text("leafUuid")?.map(String::from);
            draft.line_context.summaries.push((end, title.into()));
        }
        "custom-title" => {
            draft.line_context.has_given_title = true;
            draft.import.title = title.into();
        }
        _ if !draft.line_context.has_given_title => draft.import.title = title.into(),
        _ => {}
    }
    Ok(())
}

/// Uses the last summary of a session as its title, if it has none. The file also has summaries of other
/// sessions: their last lines are in other files.
pub(super) fn name_by_summary(draft: &mut Draft<'_, '_, '_>) {
    let summaries = std::mem::take(&mut draft.line_context.summaries);
    let turns = &draft.line_context.turns;
    let is_own = |end: &Option<String>| end.as_ref().is_none_or(|end| turns.contains_key(end));
    let own = summaries.into_iter().rfind(|(end, _)| is_own(end));
    if let Some((_, title)) = own.filter(|_| draft.import.title.is_empty()) {
        draft.import.title = title.into();
    }
}

/// Notes a change of the queue of texts that a person typed while the model worked. A text that left
/// it without being sent as a message was taken by the model, or, in versions with attachments and
/// without a reason, taken back by the person.
fn queue_operation<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let content = object.get("content").filter(|content| content.is_text());
    let content = content.map(Value::text).transpose()?.map(String::from);
    let reason = object.opt_text("reason")?;
    let at = fields::instant(object, "timestamp");
    let operation = object.opt_text("operation")?;
    let line_context = &mut draft.line_context;
    let queued = &mut line_context.queued;
    match operation.as_deref() {
        Some("enqueue") => queued.extend(content),
        Some("dequeue") => {
            queued.drain(..queued.len().min(1));
        }
        Some("popAll") => line_context.unsent.append(queued),
        Some("remove") => {
            let is_said = match reason.as_deref() {
                None => !line_context.has_attachments,
                Some(reason) => reason == "absorbed_mid_turn" && content.is_some(),
            };
            let is_note = |text: &String| text.starts_with("<task-notification>");
            let place = match &content {
                Some(text) => queued.iter().position(|waiting| waiting == text),
                None => queued.iter().position(|waiting| !is_note(waiting)),
            };
            let oldest = place.or((content.is_none() && !queued.is_empty()).then_some(0));
            let left = oldest.map(|place| queued.remove(place));
            // A command has lines of its own.
            let text = content.or(left).filter(|text| !is_command(text));
            match is_said {
                true => line_context.typed.extend(text.map(|text| (text, at))),
                false => line_context.unsent.extend(text),
            }
        }
        Some(other) => draft.omit(format!("{other:?} operation")),
        None => draft.omit("operation"),
    }
    Ok(())
}

/// Whether a text is a command, such as `/mcp`, and not about a path.
fn is_command(text: &str) -> bool {
    let name = text.split_whitespace().next().unwrap_or_default();
    name.strip_prefix('/')
        .is_some_and(|name| !name.contains('/'))
}

/// Removes a text from the queue: it has a line of its own.
fn leave_queue(text: &str, is_attachment: bool, draft: &mut Draft<'_, '_, '_>) {
    let line_context = &mut draft.line_context;
    line_context.queued.retain(|waiting| waiting != text);
    line_context.unsent.retain(|unsent| unsent != text);
    if is_attachment {
        line_context.typed.retain(|(typed, _)| typed != text);
    }
}

/// Places the texts that the model took while it worked, behind the results of its calls.
pub(super) fn place_typed<'t>(at: &'t str, draft: &mut Draft<'t, '_, '_>) {
    for (text, time) in std::mem::take(&mut draft.line_context.typed) {
        let parts = without_program_texts(vec![Part::text(text)], draft);
        if parts.is_empty() {
            continue;
        }
        let message = DraftMessage {
            at: time,
            is_loose: true,
            ..DraftMessage::new(Role::User, parts)
        };
        let placed = draft.place(at, message);
        draft.main = placed.or(draft.main);
        let main = draft.main;
        if let Some(end) = draft.line_context.turn_ends.last_mut() {
            *end = main;
        }
    }
}

/// Counts the texts that the model did not get: the person took them back, or the session ended.
pub(super) fn count_unsent(draft: &mut Draft<'_, '_, '_>) {
    let line_context = &mut draft.line_context;
    let mut unsent = std::mem::take(&mut line_context.unsent);
    unsent.append(&mut line_context.queued);
    unsent.retain(|text| !is_command(text));
    for text in unsent {
        if !without_program_texts(vec![Part::text(text)], draft).is_empty() {
            draft.omit("unsent text");
        }
    }
}

/// The attachment with what a person typed while the model worked.
fn queued<'t>(object: &Object<'t>) -> Option<Object<'t>> {
    let attachment = object.get("attachment")?.object().ok()?;
    let prompt = attachment.get("prompt")?;
    let is_prompt = prompt.is_text() || prompt.is_array();
    let is_queued = object.text("type").ok()? == "attachment"
        && attachment.text("type").ok()? == "queued_command";
    (is_prompt && is_queued).then_some(attachment)
}

/// The kind of a line that is not part of the conversation; `None` for one that is.
fn dropped_content(
    object: &Object<'_>,
    kind: &str,
    draft: &mut Draft<'_, '_, '_>,
) -> Option<String> {
    let queued = queued(object);
    if !matches!(kind, "user" | "assistant") && queued.is_none() {
        return Some(format!("{kind:?} line"));
    }
    let says = |key: &str| {
        let mut places = [Some(object), queued.as_ref()].into_iter().flatten();
        places.any(|place| place.get(key).is_some_and(|value| value.raw() == "true"))
    };
    let is_sub_agent = says("isSidechain");
    let is_main = object
        .get("isSidechain")
        .is_some_and(|value| value.raw() == "false");
    if is_main && !is_sub_agent && draft.line_context.is_sub_agent == Some(true) {
        leave_sub_agent(draft);
    }
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
    let mode = queued.and_then(|queued| queued.opt_text("commandMode").ok()?);
    let mut modes = MODES.into_iter();
    let mode = modes.find(|(name, _)| mode.as_deref() == Some(*name));
    let again = is_repeated(object, draft).then(|| "repeated message".to_owned());
    note.or(mode.map(|(_, what)| what.to_owned())).or(again)
}

/// Whether an earlier message has the id of this one: the program may write a conversation again, with
/// the ids that it has.
fn is_repeated(object: &Object<'_>, draft: &Draft<'_, '_, '_>) -> bool {
    let id = object.get("uuid").and_then(|id| id.text().ok());
    id.is_some_and(|id| draft.line_context.said.contains(&*id))
}

/// Drops the messages so far: a sub-agent ran before the session's first message, as versions did that
/// filled the provider's cache in advance.
fn leave_sub_agent(draft: &mut Draft<'_, '_, '_>) {
    let title = std::mem::take(&mut draft.import.title);
    let dropped_content = std::mem::take(&mut draft.dropped_content);
    let line_context = std::mem::take(&mut draft.line_context);
    let messages = draft.import.messages.len();
    draft.forget();
    draft.import.title = title;
    draft.dropped_content = dropped_content;
    draft.line_context = LineContext {
        turns: HashMap::new(),
        said: HashSet::new(),
        turn_ends: Vec::new(),
        request: None,
        is_sub_agent: Some(false),
        ..line_context
    };
    (0..messages).for_each(|_| draft.omit("sub-agent message"));
}

/// The modes of queued commands that are no messages of a person.
const MODES: [(&str, &str); 2] = [("bash", "command"), ("task-notification", "program note")];

/// The beginnings of texts that the program writes as a user's message.
const PROGRAM_TEXTS: [(&str, &str); 9] = [
    ("<command-name>", "command"),
    ("<command-message>", "command"),
    ("<bash-input>", "command"),
    ("<local-command-", "command output"),
    ("<bash-stdout>", "command output"),
    ("<bash-stderr>", "command output"),
    ("[Request interrupted by user", "interruption"),
    ("<task-notification>", "program note"),
    // Older versions do not mark it.
    (
        "This session is being continued from a previous conversation",
        "compaction summary",
    ),
];

/// The notes that the program and its editors write before a user's text.
const NOTES: [Note; 3] = [
    REMINDER,
    ("<ide_opened_file>", "</ide_opened_file>"),
    ("<ide_selection>", "</ide_selection>"),
];

/// The note that the program also writes behind a user's text.
const REMINDER: Note = ("<system-reminder>", "</system-reminder>");

/// The parts of a user's message without the texts of the program, which are counted. A command that
/// is a prompt of its own is what the user said: `/review the last commit`.
fn without_program_texts(parts: Vec<Part>, draft: &mut Draft<'_, '_, '_>) -> Vec<Part> {
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        let Part::Text(text) = &part else {
            kept.push(part);
            continue;
        };
        let (said, notes) = without_notes(text);
        (0..notes).for_each(|_| draft.omit("program note"));
        let mut kinds = PROGRAM_TEXTS.into_iter();
        let kind = kinds.find(|(begin, _)| said.trim_start().starts_with(begin));
        if let Some(command) = prompt_command(said) {
            kept.push(Part::text(command));
        } else if let Some((_, kind)) = kind {
            draft.omit(kind);
        } else if notes == 0 {
            kept.push(part);
        } else if !said.is_empty() {
            kept.push(Part::text(said));
        }
    }
    kept
}

/// The name and the arguments of a command whose text the program sends to the model. The text of
/// another command, such as `/compact`, begins with its name.
fn prompt_command(text: &str) -> Option<String> {
    let message = text.trim_start().strip_prefix("<command-message>")?;
    let (_, command) = message.split_once("</command-message>")?;
    let name = tagged(command, "<command-name>", "</command-name>")?;
    let arguments = tagged(command, "<command-args>", "</command-args>");
    let said = format!("{name} {}", arguments.unwrap_or_default());
    Some(said.trim().to_owned())
}

fn tagged<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, inner) = text.split_once(begin)?;
    let (inner, _) = inner.split_once(end)?;
    Some(inner.trim())
}

/// A text without the notes at its beginning and the reminders at its end, and their number.
fn without_notes(text: &str) -> (&str, usize) {
    let (mut said, mut notes) = (text, 0);
    while let Some(shorter) =
        fields::without_first_note(said, &NOTES).or_else(|| without_last_reminder(said))
    {
        (said, notes) = (shorter.trim(), notes + 1);
    }
    (said, notes)
}

/// A text without the reminder at its end, if this begins a line: others may be a question about it.
fn without_last_reminder(text: &str) -> Option<&str> {
    let reminder = text.trim_end().strip_suffix(REMINDER.1)?;
    let (said, _) = reminder.rsplit_once(REMINDER.0)?;
    said.ends_with('\n').then_some(said)
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
    let id = object.opt_text("uuid")?.map(String::from);
    // A repeated message stays in its turn.
    if let Some(id) = id.filter(|id| !draft.line_context.said.contains(id)) {
        let turn = known.unwrap_or(now);
        draft.line_context.turns.insert(id, turn);
    }
    Ok(())
}
