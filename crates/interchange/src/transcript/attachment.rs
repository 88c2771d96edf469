//! Files in messages. Images and documents whose bytes are in the conversation keep their content;
//! of others name, media type and size are kept.

use std::sync::Arc;

use unisono_context::message::Part;
use unisono_model::media::{self, Kind, LARGEST};

/// The media type of unknown data.
const BYTES: &str = "application/octet-stream";

/// A file of which only this is known.
pub(super) fn attachment(filename: &str, mime: &str, size_bytes: u64) -> Part {
    Part::attachment(filename, mime, size_bytes, None)
}

/// A file with its bytes in base64. One whose content is not kept, or is damaged, becomes a note: a
/// conversation is not refused for an image in it.
pub(super) fn in_base64(filename: &str, mime: &str, data: &str) -> Part {
    let note = || attachment(filename, mime, base64_bytes(data));
    checked(filename, mime, data).unwrap_or_else(|_| note())
}

/// Why a `data:` URL is not taken, if it is said to be of a type that is kept and is not a whole file
/// of that type.
pub fn unfit(url: &str) -> Option<String> {
    let (mime, data) = data_url(url)?;
    checked("image", mime, data).err()
}

/// The same as [`in_base64`].
///
/// # Errors
/// It is said to be of a type that is kept, and is not a whole file of that type.
pub(super) fn checked(filename: &str, mime: &str, data: &str) -> Result<Part, String> {
    let note = || attachment(filename, mime, base64_bytes(data));
    let is_known = Kind::of_mime(mime).is_some();
    if data.is_empty() || !(is_known || mime == BYTES || mime.contains('*')) {
        return Ok(note());
    }
    let checked = match media::decode_base64(data) {
        Some(bytes) => {
            let bytes: Arc<[u8]> = bytes.into();
            let checked = media::check(bytes.clone(), Some(mime), LARGEST);
            checked.map_err(|error| error.to_string())
        }
        None => Err("its data are not base64".to_owned()),
    };
    match checked {
        Ok((kind, content)) => Ok(Part::Attachment {
            filename: filename.into(),
            mime: kind.mime().into(),
            size_bytes: content
                .loaded
                .0
                .as_ref()
                .map_or(0, |bytes| bytes.len() as u64),
            content: Some(content),
        }),
        Err(why) if is_known => Err(format!("attachment {filename:?}: {why}")),
        Err(_) => Ok(note()),
    }
}

/// A file of a kind such as `image` whose content is at or in `url`.
pub(super) fn of_url(url: &str, kind: &str) -> Part {
    if let Some((mime, data)) = data_url(url) {
        return in_base64(kind, mime, data);
    }
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let filename = path.rsplit('/').find(|part| !part.is_empty());
    let mime = match kind {
        "document" | "file" => BYTES.to_owned(),
        kind => format!("{kind}/*"),
    };
    attachment(filename.unwrap_or(kind), &mime, 0)
}

/// Media type and data of `data:<mime>;base64,<data>`. The scheme is of any case.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (scheme, content) = url.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("data") {
        return None;
    }
    let (head, data) = content.split_once(',')?;
    let mime = head.split(';').next().filter(|mime| !mime.is_empty());
    Some((mime.unwrap_or(BYTES), data))
}

/// The number of bytes that a base64 text encodes.
pub(super) fn base64_bytes(data: &str) -> u64 {
    data.trim_end_matches('=').len() as u64 * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_in_lines_of_base64_is_kept() {
        let data = "R0lGODlhAQABAIAAAAAAAP///yH5\r\nBAEAAAAALAAAAAABAAEAAAIBRAA7\n";
        let url = format!("data:image/gif;charset=utf-8;base64,{data}");
        assert_eq!(unfit(&url), None);
        let part = of_url(&url, "image");
        assert!(part.file().is_some(), "{part:?}");
        let wrong = unfit("data:image/gif;base64,R0lG%%%").unwrap();
        assert!(wrong.contains("are not base64"), "{wrong}");
    }

    #[test]
    fn the_scheme_of_a_data_url_is_of_any_case() {
        for scheme in ["data", "DATA", "Data"] {
            let url = format!("{scheme}:image/png;base64,AAAA");
            assert_eq!(data_url(&url), Some(("image/png", "AAAA")));
        }
        for url in [
            "https://example.org/a,b",
            "data",
            "data:image/png",
            "x-data:,A",
        ] {
            assert_eq!(data_url(url), None, "{url}");
        }
    }
}
