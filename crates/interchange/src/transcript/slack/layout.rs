//! The texts that apps write in blocks and attachments, and forwarded messages.

use super::{Object, Value};

/// The texts of the blocks and the attachments, one per line, in the notation of Slack's texts: the
/// text of a message without one of its own.
pub(super) fn text(object: &Object<'_>) -> String {
    let mut lines: Vec<String> = list(object, "blocks").map(block).collect();
    for attached in objects(object) {
        lines.extend(attached_lines(&attached));
    }
    joined(lines)
}

/// The texts of a message's attachments, without the previews of links.
pub(super) fn attached_text(object: &Object<'_>) -> String {
    let attached = objects(object).filter(|attached| !is_preview(attached));
    joined(
        attached
            .flat_map(|attached| attached_lines(&attached))
            .collect(),
    )
}

/// The number of previews of links.
pub(super) fn previews(object: &Object<'_>) -> usize {
    objects(object).filter(is_preview).count()
}

fn objects<'t>(object: &Object<'t>) -> impl Iterator<Item = Object<'t>> + use<'t> {
    list(object, "attachments").filter_map(|attached| attached.object().ok())
}

/// Whether an attachment is a preview of a link in the text. Attachments of apps and forwarded messages are
/// none.
fn is_preview(attached: &Object<'_>) -> bool {
    let links = ["from_url", "original_url", "app_unfurl_url"];
    !is_true(attached, "is_share") && links.iter().any(|key| attached.get(key).is_some())
}

fn is_true(object: &Object<'_>, key: &str) -> bool {
    object.get(key).is_some_and(|value| value.raw() == "true")
}

/// Slack's words for an attachment that has no text.
const NO_PREVIEW: &str = "[no preview available]";

fn attached_lines(attached: &Object<'_>) -> Vec<String> {
    let is_forwarded = is_true(attached, "is_share") || is_true(attached, "is_msg_unfurl");
    let author = match own_text(attached, "author_name") {
        name if is_forwarded && !name.is_empty() => format!("[forwarded from {name}]"),
        name => name,
    };
    let own = |key| own_text(attached, key);
    let mut lines = vec![own("pretext"), author, own("title"), own("text")];
    lines.extend(list(attached, "fields").map(|field| match field.object() {
        Ok(field) => {
            let (title, value) = (own_text(&field, "title"), own_text(&field, "value"));
            format!("{title}: {value}")
        }
        Err(_) => String::new(),
    }));
    lines.extend(list(attached, "blocks").map(block));
    if lines.iter().all(String::is_empty) {
        let fallback = own("fallback");
        lines.extend((fallback != NO_PREVIEW).then_some(fallback));
    }
    lines
}

fn joined(mut lines: Vec<String>) -> String {
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n")
}

/// The text of a block or of an element in it; empty if it has none.
fn block(value: Value<'_>) -> String {
    let Ok(object) = value.object() else {
        return String::new();
    };
    let kind = own_text(&object, "type");
    match &*kind {
        "user" => return format!("<@{}>", own_text(&object, "user_id")),
        "emoji" => return format!(":{}:", own_text(&object, "name")),
        "broadcast" => return format!("<!{}>", own_text(&object, "range")),
        "channel" => return format!("<#{}>", own_text(&object, "channel_id")),
        "usergroup" => return format!("<!{}>", own_text(&object, "usergroup_id")),
        "date" => return own_text(&object, "fallback"),
        "link" => {
            let (url, label) = (own_text(&object, "url"), own_text(&object, "text"));
            return format!("<{url}|{label}>");
        }
        _ => {}
    }
    let own = object.get("text").map(|text| match text.is_object() {
        true => block(text),
        false => own_text(&object, "text"),
    });
    let parts = ["elements", "fields"].map(|key| list(&object, key).map(block));
    let parts = own.into_iter().chain(parts.into_iter().flatten());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    // The elements of these are pieces of one line.
    let is_line = [
        "rich_text_section",
        "rich_text_quote",
        "rich_text_preformatted",
    ];
    parts.join(if is_line.contains(&&*kind) { "" } else { "\n" })
}

fn own_text(object: &Object<'_>, key: &str) -> String {
    let text = object.opt_text(key).ok().flatten();
    text.map(String::from).unwrap_or_default()
}

fn list<'t>(object: &Object<'t>, key: &str) -> impl Iterator<Item = Value<'t>> + use<'t> {
    let list = object.get(key).and_then(|list| list.array().ok());
    list.unwrap_or_default().into_iter()
}
