//! The results of tools as texts for a model.

use std::fmt::Write as _;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use unisono_session::run::calls::CallOutput;

/// The text of a result: its texts line by line; other content is described.
pub(super) fn from_result(result: CallToolResult) -> CallOutput {
    let mut text = String::new();
    for block in &result.content {
        if !text.is_empty() {
            text.push('\n');
        }
        add(&mut text, block);
    }
    // Servers with structured content repeat it as text for older clients.
    if let (true, Some(structure)) = (text.is_empty(), &result.structured_content) {
        text = structure.to_string();
    }
    if text.is_empty() {
        text.push_str("[the tool gave no result]");
    }
    CallOutput {
        content: text.into(),
        is_error: result.is_error.unwrap_or_default(),
    }
}

fn add(text: &mut String, block: &ContentBlock) {
    // Writing to a string cannot fail.
    let _ = match block {
        ContentBlock::Text(part) => write!(text, "{}", part.text),
        ContentBlock::Image(part) => not_shown(text, "image", &part.mime_type, part.data.len()),
        ContentBlock::Audio(part) => not_shown(text, "audio", &part.mime_type, part.data.len()),
        ContentBlock::Resource(part) => match &part.resource {
            ResourceContents::TextResourceContents { uri, text: own, .. } => {
                write!(text, "{uri}:\n{own}")
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let kind = mime_type.as_deref().unwrap_or("of unknown type");
                let _ = write!(text, "{uri}: ");
                not_shown(text, "file", kind, blob.len())
            }
            _ => write!(text, "[a resource of a kind that is not known]"),
        },
        ContentBlock::ResourceLink(link) => write!(text, "[see {}: {}]", link.uri, link.name),
        #[allow(unreachable_patterns, reason = "the protocol may grow")]
        _ => write!(text, "[a part of a kind that is not known]"),
    };
}

fn not_shown(text: &mut String, what: &str, kind: &str, encoded: usize) -> std::fmt::Result {
    let bytes = encoded / 4 * 3;
    write!(text, "[{what}, {kind}, about {bytes} bytes, not shown]")
}

/// The text, or its beginning and end around a note about the omitted part.
pub(crate) fn truncate_middle(text: &Arc<str>, chars: usize) -> Arc<str> {
    let total = text.chars().count();
    if total <= chars {
        return text.clone();
    }
    let head = chars / 3 * 2;
    let tail = chars - head;
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (first, last) = (place(head), place(total - tail));
    let left_out = total - chars;
    format!(
        "{}\n[… {left_out} of {total} characters left out; ask the tool for less …]\n{}",
        &text[..first],
        &text[last..]
    )
    .into()
}

#[cfg(test)]
mod tests {
    //! Results as texts.

    use serde_json::json;

    use super::*;

    fn rendered(result: serde_json::Value) -> String {
        let output = from_result(serde_json::from_value(result).unwrap());
        format!("{}: {}", output.is_error, output.content)
    }

    #[test]
    fn texts_are_joined_and_other_content_is_described() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let cases = [
            (
                json!({"content": [text("one"), text("two")]}),
                "false: one\ntwo",
            ),
            (
                json!({"content": [text("no")], "isError": true}),
                "true: no",
            ),
            (json!({"content": []}), "false: [the tool gave no result]"),
            (
                json!({"content": [], "structuredContent": {"n": 1}}),
                "false: {\"n\":1}",
            ),
            (
                json!({"content": [text("same")], "structuredContent": {"n": 1}}),
                "false: same",
            ),
            (
                json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
                "false: [image, image/png, about 3 bytes, not shown]",
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "A"}}]}),
                "false: file:///a:\nA",
            ),
        ];
        for (result, expected) in cases {
            assert_eq!(rendered(result), expected);
        }
    }

    #[test]
    fn a_long_text_keeps_head_and_tail() {
        let whole: Arc<str> = "äbcdefghij".into();
        assert_eq!(truncate_middle(&whole, 10), whole);
        let shown = truncate_middle(&whole, 6);
        assert_eq!(
            &*shown,
            "äbcd\n[… 4 of 10 characters left out; ask the tool for less …]\nij"
        );
    }
}
