//! Sessions of Gemini CLI: messages of `{"type", "content", "toolCalls"}`; and its checkpoints,
//! which contain `{"role", "parts"}` as Gemini's API does.
//!
//! In a session with one object per line, a message is repeated with the same id when more of it is
//! known; `$rewindTo` names the message to which a person went back: the following messages are a
//! branch.

use unisono_context::Role;
use unisono_context::message::Part;

use super::anthropic::runs;
use super::attachment::{in_base64, of_url};
use super::draft::{Draft, DraftMessage, Parent, Pending};
use super::fields::{self, Note};
use super::json::{Object, Value};
use super::source::Result;

/// Whether an object is a message of a session or of a checkpoint.
pub(super) fn is_message(object: &Object<'_>) -> bool {
    let kind = object.get("type").and_then(|kind| kind.text().ok());
    match kind.as_deref() {
        Some("user" | "gemini") => object.has("content") && !object.has("message"),
        // The program may have notices before the first message of a person.
        Some("info" | "warning" | "error") => {
            let keys = ["id", "timestamp", "content"];
            keys.iter().all(|key| object.has(key)) && !object.has("role")
        }
        Some(_) => false,
        None => object.has("parts") && object.has("role"),
    }
}

/// The notes that the program and its hooks write as messages of the user.
const CONTEXT: [Note; 2] = [
    ("<session_context>", "</session_context>"),
    ("<hook_context>", "</hook_context>"),
];

/// Reads a message, or a line about something else.
pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let keys = ["type", "role", "$rewindTo"];
    if !keys.iter().any(|key| object.has(key)) {
        // The header of a file of lines, or an update of it, which may stand between the repetitions
        // of a message.
        return match object.get("$set") {
            Some(update) => read_earlier(&update.object()?, draft),
            None => Ok(()),
        };
    }
    let id = object.opt_text("id")?.unwrap_or_default();
    let again = draft
        .line_context
        .pending
        .take_if(|pending| !id.is_empty() && pending.id == id);
    match again {
        Some(before) => draft.dropped_content = before.dropped_content,
        None => place_pending(item.raw(), draft),
    }
    if let Some(rewound) = object.opt_text("$rewindTo")? {
        let turn = draft.line_context.turns.get(&*rewound).copied();
        let end = turn.and_then(|turn| draft.line_context.turn_ends[turn]);
        draft.line_context.next = end.map_or(Parent::Root, Parent::Message);
        draft.main = end.or(draft.main);
        return Ok(());
    }
    let dropped_content = draft.dropped_content.clone();
    let messages = draft_messages(&object, draft)?;
    draft.line_context.pending = Some(Pending {
        id: id.into(),
        messages,
        dropped_content,
    });
    Ok(())
}

/// Reads the messages of an update, if it is the beginning of the conversation: a session that was
/// continued from a checkpoint. Later updates repeat messages in fewer words.
fn read_earlier<'t>(update: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let pending = draft.line_context.pending.as_ref();
    let has_pending = pending.is_some_and(|pending| !pending.messages.is_empty());
    if has_pending || !draft.import.messages.is_empty() {
        return Ok(());
    }
    let messages = update
        .get("messages")
        .map_or(Ok(Vec::new()), Value::array)?;
    for message in messages {
        // An update in an update would nest without end.
        let is_update = |object: Object<'t>| object.has("$set");
        let read = match message.object().map(is_update) {
            Ok(true) => Ok(()),
            Ok(false) => read(message, draft),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = read {
            draft.bad(problem);
        }
    }
    Ok(())
}

/// Places the pending message: it is not repeated.
pub(super) fn place_pending<'t>(at: &'t str, draft: &mut Draft<'t, '_, '_>) {
    let Some(pending) = draft.line_context.pending.take() else {
        return;
    };
    let turn = draft.line_context.turn_ends.len();
    draft.line_context.turns.insert(pending.id, turn);
    let before = match draft.line_context.next {
        Parent::Previous => draft.main,
        Parent::Root => None,
        Parent::Message(id) => Some(id),
    };
    draft.line_context.turn_ends.push(before);
    for message in pending.messages {
        let parent = std::mem::take(&mut draft.line_context.next);
        let placed = draft.place(at, DraftMessage { parent, ..message });
        draft.main = placed.or(draft.main);
    }
}

/// The messages of an object; empty for a line about something else.
fn draft_messages<'t>(
    object: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Vec<DraftMessage>> {
    let kind = object.opt_text("type")?.or(object.opt_text("role")?);
    let role = match kind.as_deref() {
        Some("user") => Role::User,
        Some("gemini" | "model") => Role::Assistant,
        Some(other) => {
            draft.omit(format!("{other:?} message"));
            return Ok(Vec::new());
        }
        None => return Ok(Vec::new()),
    };
    let content = object.get("parts").or(object.get("content"));
    let mut all = content.map_or(Ok(Vec::new()), |content| parts(content, draft))?;
    if role == Role::User {
        all.retain(|part| {
            let text = part.countable_text();
            let rest = fields::without_first_note(&text, &CONTEXT);
            let is_context = rest.is_some_and(|rest| rest.trim().is_empty());
            if is_context {
                draft.omit("context text");
            }
            !is_context
        });
    }
    if let Some(thoughts) = object.get("thoughts") {
        let thoughts = thoughts.array()?;
        thoughts.iter().for_each(|_| draft.omit("reasoning block"));
    }
    if let Some(calls) = object.get("toolCalls") {
        let (mut results, calls) = (Vec::new(), calls.array()?);
        if !calls.is_empty() {
            // The content may have the same calls.
            all.retain(|part| !matches!(part, Part::ToolCall { .. }));
        }
        for call in calls {
            let (call, result) = tool_call(&call.object()?)?;
            all.push(call);
            results.extend(result);
        }
        all.extend(results);
    }
    let at = fields::instant(object, "timestamp");
    let usage = object.get("tokens").and_then(|tokens| {
        let tokens = tokens.object().ok()?;
        fields::usage(&tokens, &["input"], &["output", "thoughts"])
    });
    let messages = runs(role, all).into_iter().map(|message| DraftMessage {
        at,
        usage: usage.filter(|_| message.role == Role::Assistant),
        is_loose: true,
        ..message
    });
    Ok(messages.collect())
}

/// A text, a part, or a list of parts.
fn parts<'t>(content: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Vec<Part>> {
    let values = match content.is_array() {
        true => content.array()?,
        false => vec![content],
    };
    let mut parts = Vec::new();
    for value in values {
        if value.is_text() {
            parts.push(Part::text(value.text()?));
            continue;
        }
        match part(&value.object()?)? {
            Ok(part) => parts.push(part),
            Err(lost) => draft.omit(lost),
        }
    }
    parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
    Ok(parts)
}

/// A part, or the kind of an unsupported part.
fn part<'t>(part: &Object<'t>) -> Result<'t, std::result::Result<Part, String>> {
    if part
        .get("thought")
        .is_some_and(|thought| thought.raw() == "true")
    {
        return Ok(Err("reasoning block".to_owned()));
    }
    if let Some(text) = part.opt_text("text")? {
        return Ok(Ok(Part::text(text)));
    }
    if let Some(call) = part.get("functionCall") {
        return Ok(Ok(tool_call(&call.object()?)?.0));
    }
    if let Some(answer) = part.get("functionResponse") {
        return response(&answer.object()?, "", false).map(Ok);
    }
    if let Some(data) = part.get("inlineData") {
        let data = data.object()?;
        let mime = data.opt_text("mimeType")?.unwrap_or_default();
        let bytes = data.opt_text("data")?.unwrap_or_default();
        return Ok(Ok(in_base64("file", &mime, &bytes)));
    }
    if let Some(file) = part.get("fileData") {
        let uri = file.object()?.text("fileUri")?;
        return Ok(Ok(of_url(&uri, "file")));
    }
    let kind = part.fields().next().map_or("", |(key, _)| key);
    Ok(Err(format!("{kind:?} part")))
}

fn tool_call<'t>(call: &Object<'t>) -> Result<'t, (Part, Option<Part>)> {
    let id = call.opt_text("id")?.unwrap_or_default();
    let arguments = call.get("args").map_or("{}", Value::raw);
    let status = call.opt_text("status")?.unwrap_or("success".into());
    let is_error = status == "error" || status == "cancelled";
    let values = match call.get("result") {
        Some(list) if list.is_array() => own_values(list.array()?, &id),
        result => result.into_iter().collect(),
    };
    let answer = match values.is_empty() {
        true if status == "success" => None,
        // Without a result, a call that was not carried out would look carried out.
        true => Some(Part::tool_result(
            &*id,
            missing_result(call, &status)?,
            true,
        )),
        false => Some(joined(&values, &id, is_error)?),
    };
    let call = Part::tool_call(&*id, call.text("name")?, arguments);
    Ok((call, answer))
}

/// The response to a call in a list, with the values behind it, such as images: the list may have the
/// responses to all calls of a reply.
fn own_values<'t>(list: Vec<Value<'t>>, id: &str) -> Vec<Value<'t>> {
    let answered = |value: &Value<'t>| {
        let response = value
            .object()
            .ok()?
            .get("functionResponse")?
            .object()
            .ok()?;
        Some(response.get("id")?.text().ok()?.into_owned())
    };
    let is_own = |value: &Value<'t>| answered(value).is_some_and(|answered| answered == id);
    let at = list.iter().position(is_own).unwrap_or_default();
    let mut values = list.into_iter().skip(at);
    let first = values.next();
    let behind = values.take_while(|value| answered(value).is_none());
    first.into_iter().chain(behind).collect()
}

/// The result of a call with these values, one per line.
fn joined<'t>(values: &[Value<'t>], id: &str, is_error: bool) -> Result<'t, Part> {
    let (mut lines, mut is_error) = (Vec::with_capacity(values.len()), is_error);
    for value in values {
        if value.is_text() {
            lines.push(value.text()?.into_owned());
            continue;
        }
        let object = value.object()?;
        let own = match part(&object)? {
            Ok(part) => part,
            Err(_) if object.has("response") => response(&object, id, is_error)?,
            // In another form: nothing of a result is lost.
            Err(_) => Part::text(value.raw()),
        };
        is_error |= matches!(own, Part::ToolResult { is_error: true, .. });
        lines.push(own.countable_text().into_owned());
    }
    Ok(Part::tool_result(id, lines.join("\n"), is_error))
}

/// The status of a call without a result, and the text that the program displayed.
fn missing_result<'t>(call: &Object<'t>, status: &str) -> Result<'t, String> {
    let displayed = call.get("resultDisplay").filter(|text| text.is_text());
    let displayed = displayed.map(Value::text).transpose()?;
    let note = format!("[no result; the status of the call: {status}]");
    Ok(match displayed.filter(|text| !text.trim().is_empty()) {
        Some(text) => format!("{note}\n{text}"),
        None => note,
    })
}

/// The result of a tool: the text in `output` or `error`, else the whole value; and the files in
/// `parts`.
fn response<'t>(answer: &Object<'t>, id: &str, is_error: bool) -> Result<'t, Part> {
    let own = answer.opt_text("id")?.unwrap_or_default();
    let body = answer.get("response").filter(|body| body.is_object());
    let body = body.map(Value::object).transpose()?;
    let text = |key: &str| {
        let value = body.as_ref()?.get(key).filter(|value| value.is_text());
        value.map(Value::text)
    };
    let error = text("error");
    let is_error = is_error || error.is_some();
    let content = match text("output").or(error).transpose()? {
        Some(text) => text.into_owned(),
        None => answer.get("response").map_or("", Value::raw).to_owned(),
    };
    let mut lines = vec![content];
    for value in answer.get("parts").map_or(Ok(Vec::new()), Value::array)? {
        let object = value.object()?;
        // A response in a response would nest without end.
        let file = match object.has("functionResponse") {
            true => None,
            false => part(&object)?.ok(),
        };
        lines.push(match file {
            Some(file) => file.countable_text().into_owned(),
            // In another form: nothing of a result is lost.
            None => value.raw().to_owned(),
        });
    }
    let id = if id.is_empty() { &*own } else { id };
    Ok(Part::tool_result(id, lines.join("\n"), is_error))
}
