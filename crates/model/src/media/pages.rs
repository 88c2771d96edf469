//! The number of pages of a PDF.
//!
//! Since PDF 1.5 page objects may be inside compressed streams of objects. These streams are unpacked
//! up to a limit. If one cannot be unpacked, the other streams limit the number of pages: each page has
//! a stream with its content, and the names of streams are never compressed.

use memchr::memmem;

use super::{MARK_WITHIN, find};

/// Maximum bytes of all streams of objects that are unpacked.
const MAX_UNPACKED_BYTES: usize = 32 << 20;

/// The number of pages, or an upper bound; none if the document has no end.
pub(super) fn count_pages(bytes: &[u8]) -> Option<u32> {
    let end = bytes.len().saturating_sub(MARK_WITHIN);
    find(bytes.get(end..)?, b"%%EOF")?;
    let plain = entries(bytes, b"/Type", b"/Page");
    let pages = match packed_pages(bytes).map(|packed| plain + packed) {
        Some(pages) if pages > 0 => pages,
        _ => plain.max(content_streams(bytes)).max(1),
    };
    Some(u32::try_from(pages).unwrap_or(u32::MAX))
}

/// The page objects inside streams of objects; none if a stream cannot be unpacked.
fn packed_pages(bytes: &[u8]) -> Option<usize> {
    const BEGIN: &[u8] = b"stream";
    let (mut pages, mut left, mut rest) = (0, MAX_UNPACKED_BYTES, bytes);
    let is_encrypted = find(bytes, b"/Encrypt").is_some();
    while let Some(at) = find(rest, b"/ObjStm") {
        if is_encrypted {
            return None;
        }
        rest = rest.get(at..)?;
        rest = rest.get(find(rest, BEGIN)? + BEGIN.len()..)?;
        let packed = rest.get(..find(rest, b"endstream")?)?;
        let unpacked = unpack(packed.trim_ascii_start(), left)?;
        pages += entries(&unpacked, b"/Type", b"/Page");
        left = left.saturating_sub(unpacked.len());
        rest = rest.get(packed.len() + b"endstream".len()..)?;
    }
    Some(pages)
}

#[cfg(feature = "pdf")]
fn unpack(packed: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    let filter = lopdf::dictionary! { "Filter" => "FlateDecode" };
    let stream = lopdf::Stream::new(filter, packed.to_vec());
    let unpacked = stream.decompressed_content_with_limit(max_bytes).ok()?;
    (!unpacked.is_empty()).then_some(unpacked)
}

#[cfg(not(feature = "pdf"))]
fn unpack(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}

/// The number of streams that may be the content of a page.
fn content_streams(bytes: &[u8]) -> usize {
    let others: [(&[u8], &[u8]); 3] = [
        (b"/Type", b"/ObjStm"),
        (b"/Type", b"/XRef"),
        (b"/Subtype", b"/Image"),
    ];
    let others = others.map(|(key, name)| entries(bytes, key, name));
    let all = memmem::find_iter(bytes, b"endstream").count();
    all.saturating_sub(others.into_iter().sum())
}

/// The number of entries with this key and this name as their value.
fn entries(bytes: &[u8], key: &[u8], name: &[u8]) -> usize {
    let keys = memmem::find_iter(bytes, key);
    let values = keys.filter_map(|at| bytes.get(at + key.len()..));
    let is_named = |value: &&[u8]| {
        let rest = value.trim_ascii_start().strip_prefix(name);
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    values.filter(is_named).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdf(parts: &[&[u8]]) -> Vec<u8> {
        [&b"%PDF-1.7\n"[..], &parts.concat()[..], b"\n%%EOF\n"].concat()
    }

    fn stream(of: &str, content: &[u8]) -> Vec<u8> {
        let head = format!("<< {of} >>\nstream\r\n");
        [head.as_bytes(), content, b"\nendstream\n"].concat()
    }

    #[test]
    fn pages_that_cannot_be_read_are_at_most_the_streams_of_content() {
        let packed = stream("/Type /ObjStm /Filter /FlateDecode", b"encrypted");
        let (content, image) = (stream("", b"text"), stream("/Subtype/Image", b"pixels"));
        let table = stream("/Type/XRef", b"table");
        let contents = content.repeat(7);
        let file = pdf(&[&packed, &contents, &image, &table, b"/Encrypt 9 0 R"]);
        assert_eq!(count_pages(&file), Some(7));
        let page = b"<< /Type /Page >> << /Type /PageLabel >> << /Type /Pages >>";
        assert_eq!(count_pages(&pdf(&[page, &contents])), Some(1));
        assert_eq!(count_pages(&pdf(&[])), Some(1));
        assert_eq!(count_pages(b"%PDF-1.7"), None);
    }

    #[cfg(feature = "pdf")]
    #[test]
    fn pages_in_streams_of_objects_are_counted_within_a_limit() {
        let packed = |content: Vec<u8>| {
            let mut packed = lopdf::Stream::new(lopdf::Dictionary::new(), content);
            packed.compress().unwrap();
            stream("/Filter /FlateDecode /Type /ObjStm", &packed.content)
        };
        let pages = packed(b"<< /Type /Page /Parent 1 0 R >> ".repeat(40));
        let more = packed(b"<</Type/Page/Parent 1 0 R>> ".repeat(20));
        let page = b"<< /Type /Page >>";
        let content = stream("", b"text").repeat(90);
        let file = pdf(&[&pages, page, &content, &more]);
        assert_eq!(count_pages(&file), Some(61));
        let bomb = packed(vec![b' '; MAX_UNPACKED_BYTES + 1]);
        let file = pdf(&[&pages, &content, &bomb]);
        assert!(file.len() < 256 << 10, "{}", file.len());
        assert_eq!(count_pages(&file), Some(90));
    }
}
