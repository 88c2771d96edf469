//! The text of PDFs, for models that take none.
//!
//! The streams of a PDF are compressed, so a small file can unpack to gigabytes, and objects can refer
//! to each other in any number. Limits therefore apply to each stream, each page and the whole document,
//! and to the time. Without the feature `pdf` no text is extracted.

use std::time::Duration;

/// Maximum bytes of all streams that are unpacked when a document is opened.
#[cfg(feature = "pdf")]
const MAX_OPENING_BYTES: usize = 32 << 20;
const MAX_STREAMS: usize = 4_000;
/// Maximum unpacked bytes of the content of a page, and of each table of a font.
#[cfg(feature = "pdf")]
const MAX_PAGE_BYTES: usize = 512 << 10;
/// Maximum number of fonts on a page.
#[cfg(feature = "pdf")]
const MAX_FONTS: usize = 32;
/// Maximum number of pages that are read.
#[cfg(feature = "pdf")]
const MAX_PAGES: usize = 500;
#[cfg(feature = "pdf")]
const MAX_TEXT_BYTES: usize = 512 << 10;
/// The time limit of a document. It is checked between pages only: a caller that cannot wait longer
/// reads on a thread of its own.
pub const TIME: Duration = Duration::from_secs(20);

/// The reason why a document has no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// This program cannot read documents.
    #[error("this program was built without `pdf`")]
    Absent,
    /// It cannot be opened, or unpacks to too much.
    #[error("it cannot be opened: {0}")]
    Unreadable(String),
    /// It has too many streams.
    #[error("it has {0} streams, at most {MAX_STREAMS} are read")]
    Streams(usize),
    /// It needs a password.
    #[error("it needs a password")]
    Encrypted,
    /// It took too long.
    #[error("it was not read within {} s", TIME.as_secs())]
    Slow,
    /// Other documents took longer than they may and are still being read.
    #[error("other documents take too long to read")]
    Busy,
    /// It has pictures only.
    #[error("its pages have no text")]
    Empty,
}

/// Extracts the text of a PDF, page by page. A hostile document can take longer than
/// [`TIME`], and some hundred megabytes.
///
/// # Errors
/// The document has no readable text.
#[cfg(not(feature = "pdf"))]
pub fn text(_: &[u8]) -> Result<String, Error> {
    Err(Error::Absent)
}

/// Extracts the text of a PDF, page by page. A hostile document can take longer than
/// [`TIME`], and some hundred megabytes.
///
/// # Errors
/// The document has no readable text.
#[cfg(feature = "pdf")]
pub fn text(bytes: &[u8]) -> Result<String, Error> {
    use lopdf::{Document, LoadOptions};

    let began = std::time::Instant::now();
    // Each stream is named twice, where it begins and where it ends.
    let streams = memchr::memmem::find_iter(bytes, b"stream").count() / 2;
    if streams > MAX_STREAMS {
        return Err(Error::Streams(streams));
    }
    let each = MAX_OPENING_BYTES / streams.max(1);
    let options = LoadOptions::with_max_decompressed_size(each);
    let document = Document::load_mem_with_options(bytes, options);
    let document = document.map_err(|error| Error::Unreadable(error.to_string()))?;
    if document.is_encrypted() {
        return Err(Error::Encrypted);
    }
    let mut out = String::new();
    let mut has_text = false;
    let pages = document.get_pages();
    let left = pages.len().saturating_sub(MAX_PAGES);
    for (number, page) in pages.into_iter().take(MAX_PAGES) {
        if began.elapsed() > TIME {
            return Err(Error::Slow);
        }
        let text = page_text(&document, number, page);
        has_text |= text.as_ref().is_ok_and(|text| !text.trim().is_empty());
        let text = text.unwrap_or_else(|why| format!("[left out: {why}]"));
        out.push_str(&format!("[page {number}]\n{}\n", text.trim()));
        if out.len() > MAX_TEXT_BYTES {
            let end = (0..=MAX_TEXT_BYTES)
                .rev()
                .find(|at| out.is_char_boundary(*at));
            out.truncate(end.unwrap_or_default());
            out.push_str("\n[the rest is left out]");
            return Ok(out);
        }
    }
    if left > 0 {
        out.push_str(&format!("[{left} more pages are left out]"));
    }
    match has_text {
        true => Ok(out),
        false => Err(Error::Empty),
    }
}

/// The text of one page, or why it is left out.
#[cfg(feature = "pdf")]
fn page_text(
    document: &lopdf::Document,
    number: u32,
    page: lopdf::ObjectId,
) -> Result<String, String> {
    let unreadable = |error: lopdf::Error| error.to_string();
    let fonts = document.get_page_fonts(page).map_err(unreadable)?.len();
    if fonts > MAX_FONTS {
        return Err(format!("it has {fonts} fonts"));
    }
    let text = document.extract_text_with_limit(&[number], MAX_PAGE_BYTES);
    text.map_err(unreadable)
}

#[cfg(test)]
#[cfg(feature = "pdf")]
mod tests {
    use lopdf::content::{Content, Operation};
    use lopdf::{
        Document, EncryptionState, EncryptionVersion, Object, Permissions, Stream, dictionary,
    };

    use super::*;

    /// A document with one page for each of these contents.
    fn document(contents: Vec<Vec<u8>>, fonts: usize) -> Document {
        let mut document = Document::with_version("1.5");
        let pages = document.new_object_id();
        let font = document.add_object(dictionary! {
            "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Courier",
        });
        let named = (0..fonts).map(|at| (format!("F{at}"), Object::Reference(font)));
        let mut all = lopdf::Dictionary::new();
        named.for_each(|(name, font)| all.set(name, font));
        let resources = document.add_object(dictionary! { "Font" => all });
        let kids: Vec<Object> = contents
            .into_iter()
            .map(|content| {
                let mut stream = Stream::new(dictionary! {}, content);
                stream.compress().unwrap();
                let content = document.add_object(stream);
                let page = dictionary! {
                    "Type" => "Page", "Parent" => pages, "Contents" => content,
                };
                Object::Reference(document.add_object(page))
            })
            .collect();
        let count = i64::try_from(kids.len()).unwrap();
        let tree = dictionary! {
            "Type" => "Pages", "Kids" => kids, "Count" => count, "Resources" => resources,
            "MediaBox" => vec![0.into(), 0.into(), 595.into(), 842.into()],
        };
        document.objects.insert(pages, Object::Dictionary(tree));
        let catalogue = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => pages });
        document.trailer.set("Root", catalogue);
        document
    }

    fn bytes(mut document: Document) -> Vec<u8> {
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        bytes
    }

    fn page_content(text: &str) -> Vec<u8> {
        let operations = vec![
            Operation::new("BT", vec![]),
            Operation::new("Tf", vec!["F0".into(), 12.into()]),
            Operation::new("Td", vec![72.into(), 700.into()]),
            Operation::new("Tj", vec![Object::string_literal(text)]),
            Operation::new("ET", vec![]),
        ];
        Content { operations }.encode().unwrap()
    }

    #[test]
    fn the_text_of_each_page_is_read() {
        let file = bytes(document(
            vec![
                page_content("We ship on Friday."),
                page_content("Nine orders."),
            ],
            1,
        ));
        let read = text(&file).unwrap();
        let at = |said: &str| read.find(said).unwrap_or_else(|| panic!("{said}: {read}"));
        assert!(at("[page 1]") < at("We ship on Friday.") && at("[page 2]") < at("Nine orders."));
    }

    #[test]
    fn pages_that_are_not_read_are_counted() {
        let file = bytes(document(vec![page_content("Hello."); MAX_PAGES + 2], 1));
        let read = text(&file).unwrap();
        assert!(
            read.contains(&format!("[page {MAX_PAGES}]\nHello.")),
            "{read}"
        );
        assert!(read.ends_with("[2 more pages are left out]"), "{read}");
    }

    #[test]
    fn an_encrypted_document_is_read_if_it_opens_without_a_password() {
        for (user_password, expected) in [("", Ok(())), ("open", Err(Error::Encrypted))] {
            let mut document = document(vec![page_content("We ship on Friday.")], 1);
            let id = Object::string_literal("0123456789abcdef");
            document.trailer.set("ID", vec![id.clone(), id]);
            let version = EncryptionVersion::V2 {
                document: &document,
                owner_password: "owner",
                user_password,
                key_length: 128,
                permissions: Permissions::all(),
            };
            let state = EncryptionState::try_from(version).unwrap();
            document.encrypt(&state).unwrap();
            let read = text(&bytes(document));
            let is_read = read
                .as_ref()
                .is_ok_and(|text| text.contains("We ship on Friday."));
            assert_eq!(is_read, expected.is_ok(), "{read:?}");
            assert_eq!(read.map(drop), expected);
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        // A page of a few kilobytes that unpacks to 16 MiB, beside one that says something.
        let bomb = vec![b' '; 16 << 20];
        let file = bytes(document(
            vec![bomb.clone(), page_content("We ship on Friday.")],
            1,
        ));
        assert!(file.len() < 64 << 10, "{}", file.len());
        let read = text(&file).unwrap();
        assert!(
            read.contains("[left out: ") && read.contains("We ship on Friday."),
            "{read}"
        );
        // One that is unpacked when the document is opened: objects inside a stream.
        let mut document = document(vec![page_content("Hello.")], 1);
        let inside = dictionary! { "Type" => "ObjStm", "N" => 1, "First" => 4 };
        let mut stream = Stream::new(inside, [b"9 0 ".to_vec(), vec![b' '; 48 << 20]].concat());
        stream.compress().unwrap();
        document.add_object(stream);
        let file = bytes(document);
        assert!(file.len() < 256 << 10, "{}", file.len());
        let read = text(&file);
        let bounded = match &read {
            Ok(read) => read.len() < 1_000,
            Err(error) => matches!(error, Error::Unreadable(_)),
        };
        assert!(bounded, "{read:?}");
    }

    #[test]
    fn what_is_made_to_take_long_is_left_out() {
        let file = bytes(document(vec![page_content("Hello.")], MAX_FONTS + 1));
        assert_eq!(text(&file), Err(Error::Empty));
        let long = page_content(&"word ".repeat(80_000));
        let pages = vec![long.clone(), long];
        let read = text(&bytes(document(pages, 1))).unwrap();
        assert!(read.len() < MAX_TEXT_BYTES + 100, "{}", read.len());
        assert!(read.ends_with("[the rest is left out]"));
        let streams = b"stream\nendstream\n".repeat(MAX_STREAMS + 1);
        assert_eq!(text(&streams), Err(Error::Streams(MAX_STREAMS + 1)));
        let pictures = bytes(document(vec![b"0 0 1 rg 10 10 50 50 re f".to_vec()], 1));
        assert_eq!(text(&pictures), Err(Error::Empty));
        for damaged in [&b"%PDF-1.7\n/Type /Page\n%%EOF\n"[..], b"", b"%PDF-"] {
            assert!(text(damaged).is_err(), "{damaged:?}");
        }
    }
}
