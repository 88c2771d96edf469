//! Messages of a channel in Slack's export, a list per day; and users, whose names replace their
//! ids. A reply of a thread names the message that it answers, by its number and author.

mod layout;
mod names;

use std::collections::HashMap;

use unisono_context::message::Part;
use unisono_context::{AgentId, Role, Timestamp};

use super::Error;
use super::attachment::attachment;
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;
use super::text::role_of;

pub(super) use names::names;

/// The subtypes of messages with content.
const MESSAGE_SUBTYPES: [&str; 4] = [
    "thread_broadcast",
    "me_message",
    "bot_message",
    "file_share",
];

/// Whether an object is a message or a user.
pub(super) fn is_element(object: &Object<'_>) -> bool {
    let is_message = object
        .get("type")
        .is_some_and(|kind| kind.raw() == "\"message\"");
    is_message && object.has("ts") || is_user(object)
}

fn is_user(object: &Object<'_>) -> bool {
    object.has("id") && object.has("profile")
}

/// Reads a message or a user.
pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    match is_user(&object) {
        // All names are known before.
        true => object.need("profile")?.object().map(drop),
        false => message(item, &object, draft),
    }
}

fn message<'t>(
    item: Value<'t>,
    object: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, ()> {
    if let Some(subtype) = text_of(object, "subtype")?
        && !MESSAGE_SUBTYPES.contains(&&*subtype)
    {
        draft.omit(format!("{subtype:?} message"));
        return Ok(());
    }
    let name = author(object, draft)?;
    let mut parts = parts(object, draft)?;
    count_lost(object, draft)?;
    count_blocks(object, draft);
    if parts.is_empty() {
        draft.omit("empty message");
        return Ok(());
    }
    let (thread, ts) = (text_of(object, "thread_ts")?, text_of(object, "ts")?);
    let is_reply = thread.is_some() && thread != ts;
    if let Some(thread) = thread.as_ref().filter(|_| is_reply) {
        match draft.line_context.threads.get(thread) {
            Some(first) => fields::begin_with(&format!("[reply to {first}]"), &mut parts),
            None => draft.omit("thread link"),
        }
    }
    let (role, author) = role_and_author(object, name.as_deref().unwrap_or_default());
    let at = fields::seconds(object, "ts");
    if let (None, Some(ts)) = (at, object.get("ts")) {
        let reason = "`ts` is not a time; the message gets that of a message beside it";
        draft.warn(ts.wrong(reason));
    }
    let before = draft.import.messages.len();
    draft.push(
        item.raw(),
        DraftMessage {
            author,
            at,
            ..DraftMessage::new(role, parts)
        },
    );
    let number = draft.import.messages.len();
    if let Some(ts) = thread.filter(|_| !is_reply && number > before) {
        let by = name.map_or_else(String::new, |name| format!(" by {name}"));
        let first = format!("#{number}{by}");
        draft.line_context.threads.insert(ts, first);
    }
    Ok(())
}

/// An app with the name of a model is the assistant. Everyone else is a person, whatever the name.
fn role_and_author(object: &Object<'_>, name: &str) -> (Role, Option<AgentId>) {
    let is_posted = object
        .get("subtype")
        .is_some_and(|subtype| subtype.raw() == "\"bot_message\"");
    let has_app = ["bot_id", "bot_profile"]
        .iter()
        .any(|key| object.get(key).is_some());
    match role_of(name) {
        (Role::Assistant, _) if is_posted || has_app => (Role::Assistant, None),
        _ => (Role::User, fields::named(name)),
    }
}

/// Counts the reactions, and the previews of links in a message with a text.
fn count_lost<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let reactions = object
        .get("reactions")
        .map_or(Ok(Vec::new()), Value::array)?;
    reactions.iter().for_each(|_| draft.omit("reaction"));
    if text_of(object, "text")?.is_some_and(|text| !text.trim().is_empty()) {
        let previews = layout::previews(object);
        (0..previews).for_each(|_| draft.omit("link preview"));
    }
    Ok(())
}

/// Counts the blocks whose content is no text.
fn count_blocks(object: &Object<'_>, draft: &mut Draft<'_, '_, '_>) {
    let blocks = object.get("blocks").and_then(|list| list.array().ok());
    for block in blocks.unwrap_or_default() {
        let kind = block.object().ok().and_then(|block| block.get("type"));
        let kind = kind.and_then(|kind| kind.text().ok()).unwrap_or_default();
        if matches!(&*kind, "image" | "video" | "file" | "table") {
            draft.omit(format!("{kind:?} block"));
        }
    }
}

/// The sender's name of a message. A real name that is not part of it is left behind.
fn author<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, Option<String>> {
    let id = text_of(object, "user")?;
    let line_context = &mut draft.line_context;
    let known = id
        .as_ref()
        .and_then(|id| line_context.names.get(id).cloned());
    let real = id
        .as_ref()
        .and_then(|id| line_context.real_names.remove(id));
    if real.is_some() {
        draft.omit("real name");
    }
    let bot = object.get("bot_profile").map(Value::object).transpose()?;
    let bot = bot.map(|bot| text_of(&bot, "name")).transpose()?.flatten();
    Ok(known.or(text_of(object, "username")?).or(bot).or(id))
}

/// The text of a message, or of its blocks; the texts of its attachments; and a note for each of its
/// files.
fn parts<'t>(object: &Object<'t>, draft: &Draft<'t, '_, '_>) -> Result<'t, Vec<Part>> {
    let mut parts = Vec::new();
    let text = object.opt_text("text")?.unwrap_or_default();
    let text = match text.trim().is_empty() {
        true => layout::text(object).into(),
        false => match layout::attached_text(object) {
            attached if attached.is_empty() => text,
            attached => format!("{text}\n{attached}").into(),
        },
    };
    if !text.trim().is_empty() {
        parts.push(Part::text(plain_text(&text, &|id| {
            draft.line_context.names.get(id).cloned()
        })));
    }
    for file in object.get("files").map_or(Ok(Vec::new()), Value::array)? {
        let file = file.object()?;
        let name = file.opt_text("name")?.unwrap_or("file".into());
        let mime = file.opt_text("mimetype")?;
        let size = file.get("size").and_then(|size| size.number().ok());
        let mime = mime.as_deref().unwrap_or("application/octet-stream");
        parts.push(attachment(&name, mime, size.unwrap_or_default()));
    }
    Ok(parts)
}

fn text_of<'t>(object: &Object<'t>, key: &str) -> Result<'t, Option<String>> {
    let text = object.opt_text(key)?.filter(|text| !text.is_empty());
    Ok(text.map(String::from))
}

/// A text with resolved mentions, plain links, and no entities.
fn plain_text(text: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        out.push_str(before);
        let Some((inside, after)) = behind.split_once('>') else {
            rest = &rest[before.len()..];
            break;
        };
        rest = after;
        let (target, label) = match inside.split_once('|') {
            Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
            None => (inside, None),
        };
        let shown = match target.split_at_checked(1) {
            Some(("@", id)) => {
                let known = name(id).or_else(|| label.map(str::to_owned));
                format!("@{}", known.unwrap_or_else(|| id.to_owned()))
            }
            Some(("#", id)) => format!("#{}", label.unwrap_or(id)),
            Some(("!", word)) => match label {
                Some(label) => label.to_owned(),
                None => format!("@{word}"),
            },
            _ => match label {
                Some(label) if !target.ends_with(label) => format!("{label} ({target})"),
                _ => target.to_owned(),
            },
        };
        out.push_str(&shown);
    }
    out.push_str(rest);
    // `&amp;` is last, since it may produce one of the others.
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let unescape = |text: String, (entity, is): (&str, &str)| text.replace(entity, is);
    entities.into_iter().fold(out, unescape)
}

/// Joins the days of one channel to a list in chronological order, users first; the replies of a
/// thread follow its first message. Each file has a name, for errors, and its text.
///
/// # Errors
/// A file is not a list of messages or users.
pub fn join_channel(files: &[(String, Vec<u8>)]) -> std::result::Result<Vec<u8>, Error> {
    let (mut users, mut messages) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let refused = |reason: String| Error::Unrecognised {
            name: name.clone(),
            reason: format!(
                "it is not a list of Slack messages ({reason}), and only these are joined"
            ),
        };
        let text = std::str::from_utf8(bytes).map_err(|error| refused(error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let list = Value::parse(text).and_then(Value::array);
        for value in list.map_err(|problem| refused(problem.reason))? {
            let object = value.object().map_err(|problem| refused(problem.reason))?;
            if is_user(&object) {
                users.push(value.raw());
            } else if is_element(&object) {
                messages.push(Element::new(&object, value.raw()));
            } else {
                return Err(refused(
                    "an element is neither a message nor a user".to_owned(),
                ));
            }
        }
    }
    users.extend(in_threads(messages).into_iter().map(|message| message.text));
    Ok(format!("[{}]", users.join(",\n")).into_bytes())
}

/// A message of a channel, and its place.
struct Element<'t> {
    at: Option<Timestamp>,
    /// The thread that it belongs to or begins: the time of its first message as text.
    thread: String,
    text: &'t str,
}

impl<'t> Element<'t> {
    fn new(object: &Object<'t>, text: &'t str) -> Element<'t> {
        let named = |key| text_of(object, key).ok().flatten();
        Element {
            at: fields::seconds(object, "ts"),
            thread: named("thread_ts").or(named("ts")).unwrap_or_default(),
            text,
        }
    }
}

/// The messages in order of time, each thread where its earliest message is.
fn in_threads(mut messages: Vec<Element<'_>>) -> Vec<Element<'_>> {
    let mut begins: HashMap<String, Option<Timestamp>> = HashMap::new();
    messages.sort_by_key(|message| message.at);
    for message in &messages {
        begins.entry(message.thread.clone()).or_insert(message.at);
    }
    messages.sort_by_cached_key(|message| {
        let begin = begins.get(&message.thread).copied().flatten();
        (begin, message.thread.clone(), message.at)
    });
    messages
}
