//! The parts of a client's message, as the history of its task shows them.
//!
//! A turn has the text and the files of its task. The layout of the message is stored beside them: it
//! says which piece of the text, or which file, each part was.

use std::collections::BTreeMap;

use a2a::{Message, Part, PartContent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unisono_api::turn::{Turn, TurnAttachment};

use super::references;

/// The text between two parts in the text of a task.
pub(super) const SEPARATOR: &str = "\n\n";
/// Maximum number of bytes of a stored layout: names, types and metadata may have any length.
const LAYOUT_BYTES: usize = 65_536;

/// The division of a message into parts.
#[derive(Debug, Serialize, Deserialize)]
struct Layout {
    parts: Vec<PartLayout>,
    /// The tasks to which it refers. The text about them is the end of the task's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    references: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<String>,
}

/// A part without its content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartLayout {
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, Value>,
}

/// The place of the content of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    /// The next bytes of the task's text.
    Text(usize),
    /// The same, as JSON.
    Data(usize),
    /// The next file of the task.
    File,
}

/// The layout of a message as JSON. None if the message is a single text and nothing else, or if its
/// names, types and metadata are too long to be stored.
pub(super) fn layout(message: &Message) -> Option<String> {
    let says = |part: &Part| match &part.content {
        PartContent::Text(text) => !text.trim().is_empty(),
        PartContent::Data(_) => true,
        PartContent::Raw(_) | PartContent::Url(_) => false,
    };
    // A task of files alone has no text, not even blanks.
    let has_text = message.parts.iter().any(says);
    let is_kept = |part: &&Part| has_text || is_file(part);
    let parts = message.parts.iter().filter(is_kept);
    let parts: Vec<PartLayout> = parts.map(PartLayout::from_part).collect();
    let metadata = message.metadata.iter().flatten();
    let layout = Layout {
        parts,
        references: references::of_message(message).to_vec(),
        metadata: metadata
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        extensions: message.extensions.clone().unwrap_or_default(),
    };
    if layout.is_plain_text() {
        return None;
    }
    let layout = serde_json::to_string(&layout).ok()?;
    (layout.len() <= LAYOUT_BYTES).then_some(layout)
}

/// The parts of the message that began a turn. Without a layout they are its text, then its files.
/// `origin`: scheme and host of the addresses of files.
pub(super) fn of_turn(turn: &Turn, origin: &str) -> Vec<Part> {
    let task = turn.task.as_deref().unwrap_or_default();
    let layout = stored_layout(turn);
    let divided = layout.and_then(|layout| divide(layout, task, &turn.attachments, origin));
    divided.unwrap_or_else(|| {
        let files = turn.attachments.iter().map(|each| file(each, origin));
        std::iter::once(Part::text(task)).chain(files).collect()
    })
}

/// The message that began a turn, with the client's fields besides its parts.
pub(super) fn with_fields(message: Message, turn: &Turn) -> Message {
    let Some(layout) = stored_layout(turn) else {
        return message;
    };
    let filled = |texts: Vec<String>| (!texts.is_empty()).then_some(texts);
    let has_metadata = !layout.metadata.is_empty();
    Message {
        reference_task_ids: filled(layout.references),
        metadata: has_metadata.then(|| layout.metadata.into_iter().collect()),
        extensions: filled(layout.extensions),
        ..message
    }
}

fn stored_layout(turn: &Turn) -> Option<Layout> {
    serde_json::from_str(turn.client_parts.as_deref()?).ok()
}

/// Whether a part is a file, in the message or at an address.
pub(super) fn is_file(part: &Part) -> bool {
    matches!(part.content, PartContent::Raw(_) | PartContent::Url(_))
}

/// The parts of a layout; none if it does not fit the text and the files.
fn divide(layout: Layout, task: &str, files: &[TurnAttachment], origin: &str) -> Option<Vec<Part>> {
    let has_text = layout
        .parts
        .iter()
        .any(|part| part.content != Content::File);
    // Without a text the task is a note of its files, or the text about its references.
    let mut rest = has_text.then_some(task);
    let mut files = files.iter();
    let mut parts = Vec::new();
    for place in layout.parts {
        let part = match place.content {
            Content::Text(bytes) => Part::text(next_text(&mut rest, bytes)?),
            Content::Data(bytes) => {
                let data = serde_json::from_str(next_text(&mut rest, bytes)?);
                Part::data(data.ok()?)
            }
            Content::File => file(files.next()?, origin),
        };
        parts.push(place.describe(part));
    }
    let is_read = rest.is_none() || !layout.references.is_empty();
    let is_whole = is_read && files.next().is_none();
    is_whole.then_some(parts)
}

/// Takes the text of the next part from the rest of a task's text.
fn next_text<'t>(rest: &mut Option<&'t str>, bytes: usize) -> Option<&'t str> {
    let (text, behind) = (*rest)?.split_at_checked(bytes)?;
    *rest = match behind {
        "" => None,
        behind => Some(behind.strip_prefix(SEPARATOR)?),
    };
    Some(text)
}

/// A file, with the address of its content here.
fn file(file: &TurnAttachment, origin: &str) -> Part {
    let part = match &file.digest {
        Some(digest) => Part::url(format!("{origin}/v1/blobs/{digest}")),
        // Its content is not kept.
        None => Part::data(json!({"sizeBytes": file.size_bytes})),
    };
    part.with_filename(file.filename.as_str())
        .with_media_type(file.mime.as_str())
}

impl Layout {
    /// Whether it is a text and nothing else.
    fn is_plain_text(&self) -> bool {
        let is_alone =
            self.references.is_empty() && self.metadata.is_empty() && self.extensions.is_empty();
        matches!(&*self.parts, [only] if is_alone && only.is_plain_text())
    }
}

impl PartLayout {
    fn from_part(part: &Part) -> PartLayout {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let metadata = part.metadata.iter().flatten();
        PartLayout {
            content: match &part.content {
                PartContent::Text(text) => Content::Text(text.len()),
                PartContent::Data(data) => Content::Data(data.to_string().len()),
                PartContent::Raw(_) | PartContent::Url(_) => Content::File,
            },
            filename: given(&part.filename),
            media_type: given(&part.media_type),
            metadata: metadata
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// Whether it is a text without a name, type and metadata.
    fn is_plain_text(&self) -> bool {
        matches!(self.content, Content::Text(_))
            && self.filename.is_none()
            && self.media_type.is_none()
            && self.metadata.is_empty()
    }

    /// Adds the client's file name, media type and metadata to a part. A file without a media type gets
    /// the type of its content.
    fn describe(self, part: Part) -> Part {
        let is_described = !self.metadata.is_empty();
        Part {
            content: part.content,
            filename: self.filename,
            media_type: self.media_type.or(part.media_type),
            metadata: is_described.then(|| self.metadata.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn message(parts: &Value) -> Message {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
        from_value(message).unwrap()
    }

    /// A turn with this text and these files.
    fn turn(layout: Option<&str>, task: &str, files: &[(&str, &str)]) -> Turn {
        let files = files.iter().map(
            |(name, mime)| json!({"filename": name, "mime": mime, "size_bytes": 3, "digest": "d0"}),
        );
        let turn = json!({"session": "s", "turn": "t", "branch": "main", "task": task,
            "attachments": files.collect::<Vec<_>>(), "state": "working", "error": null,
            "answer": null, "snapshot": null, "snapshot_agents": 0, "checkpoints": [], "runs": [],
            "cost_usd": null, "accepted_at": "2026-05-07T00:00:00Z", "ended_at": null});
        Turn {
            client_parts: layout.map(str::to_owned),
            ..from_value(turn).unwrap()
        }
    }

    /// The parts of it that the history shows.
    fn shown(layout: Option<&str>, task: &str, files: &[(&str, &str)]) -> Value {
        let turn = turn(layout, task, files);
        serde_json::to_value(of_turn(&turn, "http://h")).unwrap()
    }

    #[test]
    fn parts_come_back_as_they_were_sent() {
        let url = "http://h/v1/blobs/d0";
        let png = |name: &str| json!({"url": url, "filename": name, "mediaType": "image/png"});
        let raw = |name: &str| json!({"raw": "AAAA", "filename": name});
        let data = json!({"data": {"b": [1, null]}});
        let pieces = json!([{"text": "Ö\n\n"}, {"text": ""}, data, {"text": "Two"}]);
        let rows = rows! {
            (json!([{"text": "One"}]), "One", json!([{"text": "One"}])),
            (json!([{"text": "One", "mediaType": "text/markdown", "metadata": {"a": [1]}}]), "One",
             json!([{"text": "One", "mediaType": "text/markdown", "metadata": {"a": [1]}}])),
            (pieces.clone(), "Ö\n\n\n\n\n\n{\"b\":[1,null]}\n\nTwo", pieces),
            (json!([raw("a"), {"text": "See", "mediaType": ""}, raw("b")]), "See",
             json!([png("a"), {"text": "See"}, png("b")])),
            (json!([{"text": " "}, raw("a")]), "[attachment a image/png 3 bytes]",
             json!([png("a")])),
            (json!([{"data": null}]), "null", json!([{"data": null}])),
        };
        for (sent, task, expected) in rows {
            let layout = layout(&message(&sent));
            let files = sent.as_array().unwrap().iter();
            let files = files.filter(|part| part.get("raw").is_some());
            let files: Vec<_> = files.map(|_| ("stored", "image/png")).collect();
            assert_eq!(shown(layout.as_deref(), task, &files), expected);
        }
    }

    #[test]
    fn the_text_about_references_is_no_part_of_the_message() {
        let refers = |parts: Value| {
            let message = Message {
                reference_task_ids: Some(vec!["s.t".to_owned()]),
                ..message(&parts)
            };
            layout(&message)
        };
        let about = "[referenced task 1: Why?]\nSo.";
        let two = json!([{"text": "One"}, {"text": ""}]);
        for (parts, task) in [
            (json!([{"text": "One"}]), format!("One\n\n{about}")),
            (two, format!("One\n\n\n\n{about}")),
        ] {
            let layout = refers(parts.clone());
            assert_eq!(shown(layout.as_deref(), &task, &[]), parts);
        }
        let layout = refers(json!([{"text": " "}, {"raw": "AAAA", "filename": "a"}]));
        let image =
            json!({"url": "http://h/v1/blobs/d0", "filename": "a", "mediaType": "image/png"});
        let files = [("stored", "image/png")];
        assert_eq!(shown(layout.as_deref(), about, &files), json!([image]));
    }

    #[test]
    fn a_message_comes_back_with_its_fields() {
        let fields = json!({"metadata": {"trace": [1]}, "extensions": ["https://e.example/x"],
            "referenceTaskIds": ["s.t"]});
        for (name, value) in fields.as_object().unwrap() {
            let mut sent =
                json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Why?"}]});
            sent[name] = value.clone();
            let layout = layout(&from_value(sent.clone()).unwrap());
            assert!(layout.is_some(), "{name}");
            let turn = turn(layout.as_deref(), "Why?", &[]);
            let message = with_fields(message(&json!([{"text": "Why?"}])), &turn);
            assert_eq!(serde_json::to_value(message).unwrap(), sent);
        }
    }

    #[test]
    fn a_message_without_a_layout_is_its_text_and_its_files() {
        let file = json!({"url": "http://h/v1/blobs/d0", "filename": "a.png",
            "mediaType": "image/png"});
        let whole = json!([{"text": "One\n\nTwo"}, file]);
        let two = message(&json!([{"text": "One"}, {"text": "Three"}, {"raw": "AAAA"}]));
        let other = layout(&two);
        for unfit in [None, Some("{}"), Some("["), other.as_deref()] {
            let files = [("a.png", "image/png")];
            assert_eq!(shown(unfit, "One\n\nTwo", &files), whole, "{unfit:?}");
        }
        let long = "m".repeat(LAYOUT_BYTES);
        assert_eq!(
            layout(&message(&json!([{"text": "x", "mediaType": long}]))),
            None
        );
    }
}
