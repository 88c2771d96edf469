//! ChatGPT's export: an object per conversation, whose `mapping` has every message under its id,
//! and whose `current_node` is the last displayed message. A message with a `recipient` is a call
//! of that tool; calls have no ids, so they are numbered, and results are paired by position.

use unisono_context::Role;
use unisono_context::message::Part;

use super::attachment::attachment;
use super::branching::{self, Node};
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    draft.import.title = object.opt_text("title")?.unwrap_or_default().into();
    let current = object.opt_text("current_node")?;
    let mut nodes = Vec::new();
    for (id, value) in object.need("mapping")?.object()?.fields() {
        let parent = value.object()?.opt_text("parent")?.map(String::from);
        nodes.push(Node {
            id: id.to_owned(),
            parent,
            value,
        });
    }
    branching::read(&nodes, current.as_deref(), draft, node);
    Ok(())
}

/// The number of chats with several people in `group_chats.json` of an export. They are not read.
pub fn group_chats(json: &[u8]) -> u64 {
    let text = std::str::from_utf8(json).unwrap_or_default();
    let object = Value::parse(text.trim_start_matches('\u{feff}')).and_then(Value::object);
    let chats = object
        .ok()
        .and_then(|object| object.get("chats")?.array().ok());
    chats.map_or(0, |chats| chats.len() as u64)
}

/// The message of a node. The first node and deleted ones have none.
fn node<'t>(value: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Vec<DraftMessage>> {
    let node = value.object()?;
    let Some(message) = node.get("message") else {
        return Ok(Vec::new());
    };
    let message = message.object()?;
    let metadata = message.get("metadata").map(Value::object).transpose()?;
    let content = message.get("content").map(Value::object).transpose()?;
    if let Some(metadata) = &metadata {
        count_drawn_images(metadata, draft);
    }
    let mut parts = match &content {
        Some(content) => parts(content, metadata.as_ref(), draft)?,
        None => Vec::new(),
    };
    // Exports of 2023 have custom instructions beside an empty text of the system.
    let is_beside = metadata
        .as_ref()
        .is_some_and(|metadata| metadata.get("user_context_message_data").is_some());
    let is_custom = parts.is_empty() && is_beside;
    if let (Some(content), true) = (&content, is_custom) {
        parts = custom_instructions(content, metadata.as_ref())?;
        parts.retain(|part| !part.countable_text().trim().is_empty());
        if parts.is_empty() {
            draft.omit("hidden message");
        }
    }
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let is_hidden = metadata.as_ref().and_then(|metadata| {
        let hidden = metadata.get("is_visually_hidden_from_conversation")?;
        hidden.bool().ok()
    });
    let kind = content.map(|content| content.opt_text("content_type"));
    let kind = kind.transpose()?.flatten().unwrap_or_default();
    // What a person or the model wrote for all conversations is hidden in each of them.
    if is_hidden == Some(true) && !(is_custom || kind.ends_with("_editable_context")) {
        draft.omit("hidden message");
        return Ok(Vec::new());
    }
    let Some(draft_message) = draft_message(&message, parts, draft)? else {
        return Ok(Vec::new());
    };
    Ok(vec![DraftMessage {
        role: match is_custom {
            true => Role::User,
            false => draft_message.role,
        },
        at: fields::seconds(&message, "create_time"),
        is_loose: true,
        ..draft_message
    }])
}

/// Counts the images that a program of the model drew: the export has only their addresses.
fn count_drawn_images(metadata: &Object<'_>, draft: &mut Draft<'_, '_, '_>) {
    let result = metadata
        .get("aggregate_result")
        .and_then(|it| it.object().ok());
    let made = result.and_then(|result| result.get("messages")?.array().ok());
    for made in made.unwrap_or_default() {
        if made
            .object()
            .is_ok_and(|made| made.get("image_url").is_some())
        {
            draft.omit("drawn image");
        }
    }
}

/// The message with its role, or a tool call or result.
fn draft_message<'t>(
    message: &Object<'t>,
    parts: Vec<Part>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<DraftMessage>> {
    let author = message.need("author")?.object()?;
    let recipient = message.opt_text("recipient")?;
    let recipient = recipient.filter(|recipient| recipient != "all");
    let (role, parts) = match (&*author.text("role")?, recipient) {
        ("system", _) => (Role::System, parts),
        ("user", _) => (Role::User, parts),
        ("assistant", None) => (Role::Assistant, parts),
        ("assistant", Some(tool)) => {
            let call = Part::tool_call("", tool, fields::arguments(&texts(&parts)));
            (Role::Assistant, vec![call])
        }
        ("tool", _) => {
            let result = Part::tool_result("", texts(&parts), false);
            (Role::Tool, vec![result])
        }
        (unknown, _) => {
            draft.omit(format!("{unknown:?} message"));
            return Ok(None);
        }
    };
    Ok(Some(DraftMessage {
        author: fields::author(&author),
        ..DraftMessage::new(role, parts)
    }))
}

fn texts(parts: &[Part]) -> String {
    let texts: Vec<_> = parts.iter().map(Part::countable_text).collect();
    texts.join("\n")
}

/// The parts of a content: texts and attachments.
fn parts<'t>(
    content: &Object<'t>,
    metadata: Option<&Object<'t>>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Vec<Part>> {
    let attached = match metadata.and_then(|metadata| metadata.get("attachments")) {
        Some(attached) => attached.array()?,
        None => Vec::new(),
    };
    let kind = content.opt_text("content_type")?.unwrap_or_default();
    let mut parts = Vec::new();
    match &*kind {
        "thoughts" | "reasoning_recap" => draft.omit("reasoning block"),
        "user_editable_context" => parts.extend(custom_instructions(content, metadata)?),
        "model_editable_context" => {
            parts.extend(content.opt_text("model_set_context")?.map(Part::text));
        }
        _ => {
            if matches!(&*kind, "tether_quote" | "sonic_webpage") {
                parts.extend(quoted_page(content)?);
            }
            let keys = ["text", "result", "output_str", "parts"];
            let given = keys.into_iter().filter_map(|key| content.get(key));
            let given: Vec<Value<'t>> = given.collect();
            let is_empty = |value: &&Value<'t>| matches!(value.raw(), "\"\"" | "[]");
            let filled = given.iter().find(|value| !is_empty(value));
            match filled.or(given.first()).copied() {
                Some(text) if text.is_text() => parts.push(Part::text(text.text()?)),
                Some(list) if list.is_array() => {
                    for value in list.array()? {
                        parts.extend(piece(value, !attached.is_empty(), draft)?);
                    }
                }
                _ => draft.omit(format!("{kind:?} content")),
            }
        }
    }
    for part in &mut parts {
        if let Part::Text(text) = part
            && text.contains(is_markup)
        {
            *text = without_citations(text, draft).into();
        }
    }
    parts.retain(|part| !part.countable_text().trim().is_empty());
    for file in attached {
        let file = file.object()?;
        let name = file.opt_text("name")?.or(file.opt_text("id")?);
        let mime = file.opt_text("mime_type")?.or(file.opt_text("mimeType")?);
        let size = file.get("size").and_then(|size| size.number().ok());
        let mime = mime.as_deref().unwrap_or("application/octet-stream");
        let name = name.as_deref().unwrap_or("file");
        parts.push(attachment(name, mime, size.unwrap_or_default()));
    }
    Ok(parts)
}

/// What a person wrote about themselves and about the answers that they want.
fn custom_instructions<'t>(
    content: &Object<'t>,
    metadata: Option<&Object<'t>>,
) -> Result<'t, Vec<Part>> {
    let written = metadata.and_then(|metadata| metadata.get("user_context_message_data"));
    let written = written.map(Value::object).transpose()?;
    let mut parts = Vec::new();
    if written
        .as_ref()
        .is_some_and(|written| written.fields().next().is_none())
    {
        // The person wrote none: the others are the program's.
        return Ok(parts);
    }
    for (key, framed) in [
        ("about_user_message", "user_profile"),
        ("about_model_message", "user_instructions"),
    ] {
        let own = written.as_ref().map(|written| written.opt_text(key));
        if let Some(own) = own.transpose()?.flatten() {
            parts.push(Part::text(own));
        } else if let Some(text) = content.opt_text(framed)? {
            // Words of the program are around the fence.
            let rest = text.split_once("```").map(|(_, rest)| rest);
            let fenced = rest.and_then(|rest| rest.rsplit_once("```"));
            parts.push(Part::text(fenced.map_or(&*text, |(own, _)| own.trim())));
        }
    }
    Ok(parts)
}

/// The title and the address of the page from which a text is.
fn quoted_page<'t>(content: &Object<'t>) -> Result<'t, Option<Part>> {
    let named = [content.opt_text("title")?, content.opt_text("url")?];
    let named: Vec<_> = named.into_iter().flatten().collect();
    Ok((!named.is_empty()).then(|| Part::text(named.join(": "))))
}

/// The characters around markup, such as `cite` and the names of its sources, which the export has
/// not; and the one between its fields.
const CITATION_BEGINS: char = '\u{e200}';
const CITATION_ENDS: char = '\u{e201}';
const FIELD_ENDS: char = '\u{e202}';

/// Whether a character begins markup, or stands before or behind the words to which a citation
/// belongs.
fn is_markup(c: char) -> bool {
    c == CITATION_BEGINS || is_highlight(c)
}

fn is_highlight(c: char) -> bool {
    matches!(c, '\u{e203}'..='\u{e206}')
}

/// A text without citations, and with the words that other markup shows.
fn without_citations(text: &str, draft: &mut Draft<'_, '_, '_>) -> String {
    let mut pieces = text.split(CITATION_BEGINS);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (markup, after) = piece.split_once(CITATION_ENDS).unwrap_or(("", piece));
        match shown_words(markup) {
            Some(words) => out.push_str(&words),
            None => {
                draft.omit("citation");
                out.truncate(out.trim_end_matches(' ').len());
            }
        }
        out.push_str(after);
    }
    out.retain(|c| !is_highlight(c));
    out
}

/// The name of `entity`, `["city","Bergen"]`, or the words of a link.
fn shown_words(markup: &str) -> Option<String> {
    let (kind, fields) = markup.split_once(FIELD_ENDS)?;
    match kind {
        "entity" => match Value::parse(fields).and_then(Value::array) {
            Ok(list) => list.get(1)?.text().ok().map(String::from),
            Err(_) => Some(fields.to_owned()),
        },
        "url" | "link_title" => {
            let (words, target) = fields.split_once(FIELD_ENDS).unwrap_or((fields, ""));
            match target.starts_with("http") {
                true => Some(format!("{words} ({target})")),
                false => Some(words.to_owned()),
            }
        }
        _ => None,
    }
}

/// A text, a transcription, or a file; a file only if attachments are not listed separately.
fn piece<'t>(
    value: Value<'t>,
    has_attached: bool,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, Option<Part>> {
    if value.is_text() {
        return Ok(Some(Part::text(value.text()?)));
    }
    if !value.is_object() {
        if !value.is_null() {
            draft.omit("content piece");
        }
        return Ok(None);
    }
    let object = value.object()?;
    if let Some(text) = object.opt_text("text")? {
        return Ok(Some(Part::text(text)));
    }
    let kind = object.opt_text("content_type")?.unwrap_or_default();
    let Some(pointer) = object.opt_text("asset_pointer")? else {
        draft.omit(format!("{kind:?} content"));
        return Ok(None);
    };
    let made = object.get("metadata").and_then(|made| made.object().ok());
    let made = made.and_then(|made| made.get("dalle")?.object().ok());
    if made.is_some_and(|made| made.get("prompt").is_some()) {
        draft.omit("image prompt");
    }
    if has_attached {
        return Ok(None);
    }
    let size = object.get("size_bytes").and_then(|size| size.number().ok());
    let kind = kind.split('_').next().unwrap_or_default();
    let (_, name) = pointer.rsplit_once('/').unwrap_or(("", &pointer));
    let mime = format!("{kind}/*");
    Ok(Some(attachment(name, &mime, size.unwrap_or_default())))
}
