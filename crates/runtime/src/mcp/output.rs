//! The results of tools as texts and files for a model.

use std::fmt::Write as _;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use unisono_context::attachment::AttachedFile;
use unisono_model::media;
use unisono_session::run::calls::CallOutput;

/// Maximum number of files in one result.
const MAX_FILES: usize = 16;
/// Maximum number of characters in a file's name.
const NAME_CHARS: usize = 120;

/// A result: its texts line by line, and its images and documents of at most `max_file_bytes` bytes
/// each. The text has a note for each file and for all other content.
pub(super) fn from_result(result: CallToolResult, max_file_bytes: u64) -> CallOutput {
    let is_error = result.is_error.unwrap_or_default();
    let mut read = Reading {
        max_bytes: usize::try_from(max_file_bytes).unwrap_or(usize::MAX),
        is_error,
        text: String::new(),
        files: Vec::new(),
    };
    let mut structure = result.structured_content.filter(|whole| !whole.is_null());
    for block in result.content {
        // Servers with structured content repeat it as text for older clients.
        if matches!(&block, ContentBlock::Text(part) if !part.text.is_empty()) {
            structure = None;
        }
        if !read.text.is_empty() {
            read.text.push('\n');
        }
        read.add(block);
    }
    let mut text = read.text;
    if let Some(structure) = structure {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&structure.to_string());
    }
    if text.is_empty() {
        text.push_str("[the tool gave no result]");
    }
    CallOutput {
        content: text.into(),
        is_error,
        files: read.files,
    }
}

/// The state of reading a result.
struct Reading {
    max_bytes: usize,
    is_error: bool,
    text: String,
    files: Vec<AttachedFile>,
}

impl Reading {
    fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(part) => self.text.push_str(&part.text),
            ContentBlock::Image(part) => {
                self.file(None, "image", Some(&part.mime_type), &part.data)
            }
            ContentBlock::Audio(part) => {
                let why = "audio is not supported";
                self.not_shown("audio", Some(&part.mime_type), &part.data, why);
            }
            ContentBlock::Resource(part) => self.resource(part.resource),
            ContentBlock::ResourceLink(link) => {
                self.write(format_args!("[see {}: {}]", link.uri, link.name));
            }
            #[allow(unreachable_patterns, reason = "the protocol may grow")]
            _ => self.text.push_str("[a part of a kind that is not known]"),
        }
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.write(format_args!("{uri}:\n{text}"));
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                self.write(format_args!("{uri}: "));
                self.file(Some(&uri), "file", mime_type.as_deref(), &blob);
            }
            _ => self
                .text
                .push_str("[a resource of a kind that is not known]"),
        }
    }

    /// Keeps a file if it is an image or a document, and says so; else says why not.
    fn file(&mut self, uri: Option<&str>, what: &str, mime: Option<&str>, data: &str) {
        match self.checked(uri, mime, data) {
            Ok(file) => {
                self.text.push_str(&file.note());
                self.files.push(file);
            }
            Err(why) => self.not_shown(what, mime, data, &why),
        }
    }

    fn checked(
        &self,
        uri: Option<&str>,
        mime: Option<&str>,
        data: &str,
    ) -> Result<AttachedFile, String> {
        if self.is_error {
            return Err("it belongs to an error".to_owned());
        }
        if self.files.len() == MAX_FILES {
            return Err(format!("a result may have at most {MAX_FILES} files"));
        }
        let bytes = decoded_bytes(data);
        if bytes > self.max_bytes {
            let max_bytes = self.max_bytes;
            return Err(media::Error::TooLarge { bytes, max_bytes }.to_string());
        }
        let decoded = media::decode_base64(data);
        let bytes: Arc<[u8]> = decoded.ok_or("it is not base64")?.into();
        let size_bytes = bytes.len() as u64;
        let checked = media::check(bytes, mime, self.max_bytes);
        let (kind, content) = checked.map_err(|error| error.to_string())?;
        let named = uri.and_then(last_name);
        let number = self.files.len() + 1;
        Ok(AttachedFile {
            filename: named.map_or_else(|| format!("file-{number}").into(), Into::into),
            mime: kind.mime().into(),
            size_bytes,
            content,
            text: None,
        })
    }

    fn not_shown(&mut self, what: &str, mime: Option<&str>, data: &str, why: &str) {
        let mime = mime.unwrap_or("of unknown type");
        let bytes = decoded_bytes(data);
        self.write(format_args!(
            "[{what}, {mime}, about {bytes} bytes, not shown: {why}]"
        ));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// The approximate number of bytes in this base64 text.
fn decoded_bytes(data: &str) -> usize {
    data.len() / 4 * 3
}

/// The last part of an address, if it is the name of a file.
fn last_name(uri: &str) -> Option<&str> {
    let path = uri.split(['?', '#']).next()?;
    let name = path.rsplit(['/', '\\']).next()?.trim();
    let fits = (1..=NAME_CHARS).contains(&name.chars().count());
    (fits && !name.contains(char::is_control)).then_some(name)
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

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    /// The most bytes of a file in these tests.
    const MAX_BYTES: u64 = 4_096;

    fn read(result: serde_json::Value) -> CallOutput {
        from_result(serde_json::from_value(result).unwrap(), MAX_BYTES)
    }

    fn rendered(result: serde_json::Value) -> String {
        let output = read(result);
        format!("{}: {}", output.is_error, output.content)
    }

    #[test]
    fn texts_are_joined_and_other_content_is_described() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let cases = rows! {
            (json!({"content": [text("one"), text("two")]}), "false: one\ntwo"),
            (json!({"content": [text("no")], "isError": true}), "true: no"),
            (json!({"content": []}), "false: [the tool gave no result]"),
            (json!({"content": [], "structuredContent": {"n": 1}}), "false: {\"n\":1}"),
            (json!({"content": [text("same")], "structuredContent": {"n": 1}}), "false: same"),
            (json!({"content": [text("")], "structuredContent": {"n": 1}}), "false: {\"n\":1}"),
            (
                json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "A"}], "structuredContent": {"n": 1}}),
                "false: [see file:///a: A]\n{\"n\":1}",
            ),
            (
                json!({"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]}),
                "false: [audio, audio/wav, about 3 bytes, not shown: audio is not supported]",
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "A"}}]}),
                "false: file:///a:\nA",
            ),
        };
        for (result, expected) in cases {
            assert_eq!(rendered(result), expected);
        }
    }

    fn png(width: u32, height: u32, data: &[u8]) -> Vec<u8> {
        let chunk = |name: &[u8], data: &[u8]| {
            let length = u32::try_from(data.len()).unwrap().to_be_bytes();
            [&length[..], name, data, &[0; 4]].concat()
        };
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        let header = [&size[..], &[8, 6, 0, 0, 0]].concat();
        let parts = [
            b"\x89PNG\r\n\x1a\n".to_vec(),
            chunk(b"IHDR", &header),
            chunk(b"IDAT", data),
            chunk(b"IEND", b""),
        ];
        parts.concat()
    }

    fn image(mime: &str, bytes: &[u8]) -> serde_json::Value {
        json!({"type": "image", "data": STANDARD.encode(bytes), "mimeType": mime})
    }

    #[test]
    fn images_and_embedded_files_are_kept_beside_their_notes() {
        let (shot, plan) = (png(10, 20, b"shot"), b"%PDF-1.7\n/Type /Page\n%%EOF\n");
        let blob = |uri: &str, bytes: &[u8]| {
            let blob = STANDARD.encode(bytes);
            json!({"type": "resource", "resource": {"uri": uri, "blob": blob}})
        };
        let output = read(json!({"content": [
            {"type": "text", "text": "Here:"},
            image("image/png", &shot),
            blob("file:///plans/plan.pdf?v=2", plan),
            blob("file:///", &shot),
        ]}));
        let files: Vec<_> = output.files.iter().map(|file| &*file.filename).collect();
        assert_eq!(files, ["file-1", "plan.pdf", "file-3"]);
        let held = |at: usize| output.files[at].content.loaded.0.as_deref();
        assert_eq!((held(0), held(1)), (Some(&shot[..]), Some(&plan[..])));
        let bytes = shot.len();
        assert_eq!(
            &*output.content,
            format!(
                "Here:\n[attachment file-1 image/png {bytes} bytes, 10 x 20 pixels]\n\
                 file:///plans/plan.pdf?v=2: [attachment plan.pdf application/pdf 27 bytes, 1 page]\n\
                 file:///: [attachment file-3 image/png {bytes} bytes, 10 x 20 pixels]"
            )
        );
    }

    #[test]
    fn a_file_that_is_not_taken_is_a_note_with_its_reason() {
        let whole = png(9, 9, b"x");
        let large = png(9, 9, &vec![0; 5_000]);
        for (part, reason) in rows! {
            (image("image/png", &whole[..30]), "damaged or truncated"),
            (image("image/jpeg", &whole), "is image/jpeg, but its content is image/png"),
            (image("image/png", &png(10_000, 10_000, b"")), "10000 x 10000 pixels"),
            (image("image/png", &large), "the limit is 4096"),
            (image("image/svg+xml", b"<svg/>"), "is not supported"),
            (json!({"type": "image", "data": "%%%%", "mimeType": "image/png"}), "is not base64"),
        } {
            let output = read(json!({"content": [part]}));
            assert!(output.files.is_empty(), "{output:?}");
            assert!(output.content.starts_with("[image, image/"), "{output:?}");
            assert!(output.content.contains(reason), "{output:?}: {reason}");
        }
        let failed = read(json!({"content": [image("image/png", &whole)], "isError": true}));
        assert!(failed.files.is_empty(), "{failed:?}");
        let many = vec![image("image/png", &whole); MAX_FILES + 2];
        let many = read(json!({"content": many}));
        assert_eq!(many.files.len(), MAX_FILES);
        assert_eq!(many.content.matches("at most 16 files").count(), 2);
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
