//! A chat in the JSON export of Messenger, Facebook or Instagram: messages of
//! `{"sender_name", "timestamp_ms", "content"}`, the newest first. The export writes each byte of
//! UTF-8 text as one character.

use unisono_context::message::Part;
use unisono_context::{Role, Timestamp};

use super::attachment::attachment;
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;

/// The lists of files.
const FILES: [&str; 5] = ["photos", "videos", "audio_files", "gifs", "files"];
/// The types of messages about people who join or leave.
const NOTICES: [&str; 2] = ["Subscribe", "Unsubscribe"];

pub(super) fn is_message(object: &Object<'_>) -> bool {
    // Other programs have these keys beside a role.
    object.has("sender_name") && object.has("timestamp_ms") && !object.has("role")
}

/// The time of a message, in milliseconds since 1970.
pub(super) fn sent_at(message: &str) -> Option<i64> {
    let object = Value::parse(message).ok()?.object().ok()?;
    object.get("timestamp_ms")?.number().ok()
}

/// A text with the characters of its bytes; a text in which this is not UTF-8 stays as it is.
pub(super) fn decoded(text: &str) -> String {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.unwrap_or_else(|| text.to_owned())
}

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    for _ in list(&object, "reactions")? {
        draft.omit("reaction");
    }
    if object.get("is_unsent").map(Value::bool).transpose()? == Some(true) {
        draft.omit("deleted message");
        return Ok(());
    }
    let kind = object.opt_text("type")?.unwrap_or_default();
    if NOTICES.contains(&&*kind) || object.has("call_duration") {
        draft.omit("notice");
        return Ok(());
    }
    let parts = parts(&object)?;
    if parts.is_empty() {
        draft.omit("empty message");
        return Ok(());
    }
    let message = DraftMessage {
        author: fields::named(&decoded(&object.text("sender_name")?)),
        at: Some(Timestamp(object.need("timestamp_ms")?.number()?)),
        ..DraftMessage::new(Role::User, parts)
    };
    draft.push(item.raw(), message);
    Ok(())
}

fn list<'t>(object: &Object<'t>, key: &str) -> Result<'t, Vec<Value<'t>>> {
    object.get(key).map_or(Ok(Vec::new()), Value::array)
}

/// The text with a shared link, and the files.
fn parts<'t>(object: &Object<'t>) -> Result<'t, Vec<Part>> {
    let mut text = decoded(&object.opt_text("content")?.unwrap_or_default());
    let share = object.get("share").map(Value::object).transpose()?;
    let link = share.map(|share| share.opt_text("link")).transpose()?;
    if let Some(link) = link.flatten().filter(|link| !text.contains(&**link)) {
        text = format!("{text}\n{link}");
    }
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(Part::text(text.trim()));
    }
    let mut files: Vec<Value<'t>> = object.get("sticker").into_iter().collect();
    for key in FILES {
        files.extend(list(object, key)?);
    }
    for file in files {
        let path = decoded(&file.object()?.text("uri")?);
        let name = path.rsplit('/').next().unwrap_or_default();
        parts.push(attachment(name, "application/octet-stream", 0));
    }
    Ok(parts)
}
