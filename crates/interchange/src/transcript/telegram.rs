//! A chat in the JSON export of Telegram Desktop: messages of `{"id", "type", "from", "text"}`. A reply
//! names the message that it answers, by its number and author.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use unisono_context::message::Part;
use unisono_context::{Role, Timestamp};

use super::attachment::attachment;
use super::draft::{Draft, DraftMessage};
use super::fields;
use super::json::{Object, Value};
use super::source::Result;

/// Whether an object is a message, or a notice of the program.
pub(super) fn is_message(object: &Object<'_>) -> bool {
    let kind = object.get("type").and_then(|kind| kind.text().ok());
    match kind.as_deref() {
        Some("message") => object.has("from_id") && object.has("text"),
        Some("service") => object.has("action") && object.has("date"),
        Some("unsupported") => object.has("id"),
        _ => false,
    }
}

pub(super) fn read<'t>(item: Value<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, ()> {
    let object = item.object()?;
    let kind = object.need("type")?;
    match &*kind.text()? {
        "message" => message(item, &object, draft),
        "service" => {
            draft.omit("notice");
            Ok(())
        }
        "unsupported" => {
            draft.omit("unsupported message");
            Ok(())
        }
        unknown => Err(kind.wrong(format!("unknown type {unknown:?}"))),
    }
}

fn message<'t>(
    item: Value<'t>,
    object: &Object<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<'t, ()> {
    let reactions = object.get("reactions");
    for _ in reactions.map_or(Ok(Vec::new()), Value::array)? {
        draft.omit("reaction");
    }
    if object.get("edited").is_some() {
        draft.omit("edit mark");
    }
    let mut parts = parts(object)?;
    if parts.is_empty() {
        draft.omit("empty message");
        return Ok(());
    }
    if object.has("forwarded_from") {
        let note = match object.opt_text("forwarded_from")? {
            Some(name) => format!("[forwarded from {name}]"),
            None => "[forwarded]".to_owned(),
        };
        fields::begin_with(&note, &mut parts);
    }
    if let Some(answered) = object.get("reply_to_message_id") {
        // A message of another chat may have the same id.
        let is_elsewhere = object.get("reply_to_peer_id").is_some();
        let known = draft.line_context.threads.get(answered.raw());
        match known.filter(|_| !is_elsewhere) {
            Some(first) => fields::begin_with(&format!("[reply to {first}]"), &mut parts),
            None => draft.omit("reply link"),
        }
    }
    let name = sender(object, draft)?;
    let before = draft.import.messages.len();
    draft.push(
        item.raw(),
        DraftMessage {
            author: fields::named(&name),
            at: time(object),
            ..DraftMessage::new(Role::User, parts)
        },
    );
    let number = draft.import.messages.len();
    if let Some(id) = object.get("id").filter(|_| number > before) {
        let message = format!("#{number} by {name}");
        let threads = &mut draft.line_context.threads;
        threads.insert(id.raw().to_owned(), message);
    }
    Ok(())
}

/// The name of the sender. The second of two people with one name has the id behind it, and a deleted
/// account has only the id.
fn sender<'t>(object: &Object<'t>, draft: &mut Draft<'t, '_, '_>) -> Result<'t, String> {
    let id = object.get("from_id").or_else(|| object.get("from"));
    let id = id.map_or("", Value::raw).trim_matches('"').to_owned();
    let context = &mut draft.line_context;
    if let Some(known) = context.names.get(&id) {
        return Ok(known.clone());
    }
    let name = object.opt_text("from")?.map(String::from);
    let name = match name.filter(|name| !name.trim().is_empty()) {
        Some(name) if !context.taken_names.insert(name.clone()) => format!("{name} ({id})"),
        Some(name) => name,
        None => id.clone(),
    };
    context.names.insert(id, name.clone());
    Ok(name)
}

/// The time in seconds, or the date as UTC, which is all that older exports have.
fn time(object: &Object<'_>) -> Option<Timestamp> {
    fields::seconds(object, "date_unixtime").or_else(|| {
        let date: DateTime = object.get("date")?.text().ok()?.parse().ok()?;
        let zoned = date.to_zoned(TimeZone::UTC).ok()?;
        Some(Timestamp(zoned.timestamp().as_millisecond()))
    })
}

fn parts<'t>(object: &Object<'t>) -> Result<'t, Vec<Part>> {
    let mut texts = vec![object.get("text").map_or(Ok(String::new()), text)?];
    texts.extend(poll(object)?);
    texts.extend(place(object)?);
    texts.extend(contact(object)?);
    texts.retain(|text| !text.trim().is_empty());
    let mut parts = Vec::new();
    if !texts.is_empty() {
        parts.push(Part::text(texts.join("\n")));
    }
    parts.extend(file(object)?);
    Ok(parts)
}

/// A text, or a list of texts and of objects with a text, such as links.
fn text(value: Value<'_>) -> Result<'_, String> {
    if !value.is_array() {
        return value.text().map(String::from);
    }
    let mut whole = String::new();
    for piece in value.array()? {
        if piece.is_text() {
            whole.push_str(&piece.text()?);
            continue;
        }
        let piece = piece.object()?;
        let shown = piece.text("text")?;
        whole.push_str(&shown);
        let address = piece.opt_text("href")?;
        if let Some(address) = address.filter(|address| *address != shown) {
            whole.push_str(&format!(" ({address})"));
        }
    }
    Ok(whole)
}

fn poll<'t>(object: &Object<'t>) -> Result<'t, Option<String>> {
    let Some(poll) = object.get("poll").map(Value::object).transpose()? else {
        return Ok(None);
    };
    let mut lines = vec![format!("[poll] {}", text(poll.need("question")?)?)];
    for answer in poll.get("answers").map_or(Ok(Vec::new()), Value::array)? {
        let answer = answer.object()?;
        let voters = answer.get("voters").map_or("0", Value::raw);
        lines.push(format!("- {} ({voters})", text(answer.need("text")?)?));
    }
    Ok(Some(lines.join("\n")))
}

fn place<'t>(object: &Object<'t>) -> Result<'t, Option<String>> {
    let place = object.get("location_information").map(Value::object);
    let Some(place) = place.transpose()? else {
        return Ok(None);
    };
    let number = |key: &str| place.get(key).map_or("?", Value::raw);
    let mut words = vec![format!("{}, {}", number("latitude"), number("longitude"))];
    words.extend(fields::first_text(object, &["place_name"]));
    words.extend(fields::first_text(object, &["address"]));
    Ok(Some(format!("[location {}]", words.join(", "))))
}

fn contact<'t>(object: &Object<'t>) -> Result<'t, Option<String>> {
    let contact = object.get("contact_information").map(Value::object);
    let Some(contact) = contact.transpose()? else {
        return Ok(None);
    };
    let keys = ["first_name", "last_name", "phone_number"].into_iter();
    let words = keys.filter_map(|key| fields::first_text(&contact, &[key]));
    let words: Vec<String> = words.collect();
    Ok(Some(format!("[contact {}]", words.join(" "))))
}

/// The note of a file. The path of one that was not exported is a sentence in brackets.
fn file<'t>(object: &Object<'t>) -> Result<'t, Option<Part>> {
    let found = (object.opt_text("photo")?, object.opt_text("file")?);
    let (path, kind, mime, size) = match found {
        (Some(photo), _) => (photo, "photo", "image/jpeg", "photo_file_size"),
        (None, Some(file)) => (file, "file", "application/octet-stream", "file_size"),
        (None, None) => return Ok(None),
    };
    let kind = object.opt_text("media_type")?.unwrap_or(kind.into());
    let mime = object.opt_text("mime_type")?.unwrap_or(mime.into());
    let size = object.get(size).and_then(|size| size.number().ok());
    let names = (
        object.opt_text("sticker_emoji")?,
        object.opt_text("file_name")?,
    );
    let name = match names {
        (Some(emoji), _) => format!("{kind} {emoji}"),
        (None, Some(name)) => name.into_owned(),
        (None, None) if path.starts_with('(') => kind.into_owned(),
        (None, None) => path.rsplit('/').next().unwrap_or_default().to_owned(),
    };
    Ok(Some(attachment(&name, &mime, size.unwrap_or_default())))
}
