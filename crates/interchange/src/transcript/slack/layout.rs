//! The texts of messages without one of their own: apps write theirs in blocks and attachments.

use super::{Object, Value};

/// The texts of the blocks and the attachments, one per line, in the notation of Slack's texts.
pub(super) fn text(object: &Object<'_>) -> String {
    let mut lines: Vec<String> = list(object, "blocks").map(block).collect();
    for attached in list(object, "attachments") {
        let Ok(attached) = attached.object() else {
            continue;
        };
        let before = lines.len();
        lines.extend(["pretext", "title", "text"].map(|key| own_text(&attached, key)));
        lines.extend(list(&attached, "fields").map(|field| match field.object() {
            Ok(field) => {
                let (title, value) = (own_text(&field, "title"), own_text(&field, "value"));
                format!("{title}: {value}")
            }
            Err(_) => String::new(),
        }));
        lines.extend(list(&attached, "blocks").map(block));
        if lines.iter().skip(before).all(String::is_empty) {
            lines.push(own_text(&attached, "fallback"));
        }
    }
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
