//! The content of a prompt as the text of a task and its attachments.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_api::turn::NewAttachment;

use crate::client::Error;
use crate::protocol::{Block, Resource};

/// The text of a prompt. It contains the text files of the prompt, each under its address.
///
/// # Errors
///
/// A part is not text.
pub(crate) fn text(blocks: &[Block]) -> Result<String, Error> {
    let said = blocks.iter().filter(|block| attachment(block).is_none());
    let parts: Result<Vec<String>, Error> = said.map(part).collect();
    let text = parts?.join("\n").trim().to_owned();
    match text.is_empty() && attachments(blocks).is_empty() {
        true => Err(Error::invalid("the prompt has no text")),
        false => Ok(text),
    }
}

/// The images and documents of a prompt. Their content is checked when they are stored.
pub(crate) fn attachments(blocks: &[Block]) -> Vec<NewAttachment> {
    blocks.iter().filter_map(attachment).collect()
}

fn attachment(block: &Block) -> Option<NewAttachment> {
    let (uri, mime, data) = match block {
        Block::Image {
            data,
            mime_type,
            uri,
        } => (uri.as_deref(), mime_type.as_str(), data),
        Block::Resource { resource } => {
            let data = resource
                .blob
                .as_ref()
                .filter(|_| file_text(resource).is_none())?;
            let mime = resource.mime_type.as_deref().unwrap_or_default();
            (Some(&*resource.uri), mime, data)
        }
        _ => return None,
    };
    let name = uri.and_then(|uri| uri.rsplit('/').next());
    Some(NewAttachment {
        filename: name.unwrap_or_default().to_owned(),
        mime: mime.to_owned(),
        data: Some(data.clone()),
        digest: None,
        url: None,
    })
}

fn part(block: &Block) -> Result<String, Error> {
    let wrong = match block {
        Block::Text { text } => return Ok(text.clone()),
        Block::ResourceLink { name, uri } => return Ok(format!("[{name}]({uri})")),
        Block::Resource { resource } => match file_text(resource) {
            Some(text) => {
                let fence = fence(&text);
                let (uri, text) = (&resource.uri, text.trim_end());
                return Ok(format!("\n{uri}:\n{fence}\n{text}\n{fence}\n"));
            }
            None => "only text files are supported",
        },
        Block::Image { .. } => "images are not supported here",
        Block::Audio {} => "audio is not supported",
        Block::Unknown => "a part of the prompt has an unknown type",
    };
    Err(Error::invalid(wrong))
}

/// The text of a file, which may have been sent as binary content.
fn file_text(resource: &Resource) -> Option<Cow<'_, str>> {
    if let Some(text) = &resource.text {
        return Some(text.into());
    }
    let mime = resource.mime_type.as_deref();
    let content = resource.blob.as_ref().filter(|_| mime.is_some_and(is_text));
    let bytes = STANDARD.decode(content?).ok()?;
    Some(String::from_utf8(bytes).ok()?.into())
}

fn is_text(mime: &str) -> bool {
    mime.starts_with("text/") || mime == "application/json"
}

/// A fence that does not occur in the text.
fn fence(text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or(0).max(2) + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text_of(blocks: &Value) -> Result<String, Error> {
        let blocks: Vec<Block> = serde_json::from_value(blocks.clone()).unwrap();
        text(&blocks)
    }

    #[test]
    fn images_and_documents_are_attachments() {
        let prompt = json!([
            {"type": "image", "data": "AA==", "mimeType": "image/png", "uri": "file:///w/a.png"},
            {"type": "resource", "resource": {"uri": "file:///w/b.pdf", "blob": "AQ==",
                "mimeType": "application/pdf"}},
        ]);
        assert_eq!(text_of(&prompt).unwrap(), "");
        let blocks: Vec<Block> = serde_json::from_value(prompt).unwrap();
        let files = attachments(&blocks);
        let files = files
            .iter()
            .map(|file| (&*file.filename, &*file.mime, file.data.as_deref()));
        let files: Vec<_> = files.collect();
        let expected = [
            ("a.png", "image/png", Some("AA==")),
            ("b.pdf", "application/pdf", Some("AQ==")),
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn files_stand_in_the_text_and_what_is_no_text_is_refused() {
        let prompt = json!([
            {"type": "text", "text": "Review", "annotations": {"priority": 1}},
            {"type": "resource_link", "name": "plan.md", "uri": "file:///w/plan.md", "size": 7},
            {"type": "resource", "resource": {"uri": "file:///w/a.md", "text": "```sh\nls\n```\n"}},
        ]);
        assert_eq!(
            text_of(&prompt).unwrap(),
            "Review\n[plan.md](file:///w/plan.md)\n\nfile:///w/a.md:\n````\n```sh\nls\n```\n````"
        );
        let binary = |mime: &str, blob: &str| {
            json!([{"type": "resource", "resource": {"uri": "file:///w/b", "mimeType": mime,
                "blob": blob}}])
        };
        let text = text_of(&binary("text/plain", "w5Y=")).unwrap();
        assert_eq!(text, "file:///w/b:\n```\nÖ\n```");
        // Those are stored as they are, and refused then.
        for (mime, blob) in [("text/plain", "/w=="), ("application/zip", "w5Y=")] {
            let blocks: Vec<Block> = serde_json::from_value(binary(mime, blob)).unwrap();
            assert_eq!(attachments(&blocks).len(), 1, "{mime}");
        }
        let table = [
            (json!([]), "the prompt has no text"),
            (
                json!([{"type": "text", "text": " "}]),
                "the prompt has no text",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "file:///a"}}]),
                "only text files are supported",
            ),
            (
                json!([{"type": "scent"}]),
                "a part of the prompt has an unknown type",
            ),
        ];
        for (prompt, reason) in table {
            assert_eq!(text_of(&prompt).unwrap_err(), Error::invalid(reason));
        }
    }
}
