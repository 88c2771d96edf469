//! Files in messages: their name, media type and size are kept, their content is not.

use unisono_context::message::Part;

/// The media type of unknown data.
const BYTES: &str = "application/octet-stream";

pub(super) fn attachment(filename: &str, mime: &str, size_bytes: u64) -> Part {
    Part::Attachment {
        filename: filename.into(),
        mime: mime.into(),
        size_bytes,
    }
}

/// A file of a kind such as `image` whose content is at or in `url`.
pub(super) fn of_url(url: &str, kind: &str) -> Part {
    if let Some((mime, bytes)) = data_url(url) {
        return attachment(kind, mime, bytes);
    }
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let filename = path.rsplit('/').find(|part| !part.is_empty());
    let mime = match kind {
        "document" | "file" => BYTES.to_owned(),
        kind => format!("{kind}/*"),
    };
    attachment(filename.unwrap_or(kind), &mime, 0)
}

/// Media type and size of `data:<mime>;base64,<data>`.
pub(super) fn data_url(url: &str) -> Option<(&str, u64)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime = head.split(';').next().filter(|mime| !mime.is_empty());
    Some((mime.unwrap_or(BYTES), base64_bytes(data)))
}

/// The number of bytes that a base64 text encodes.
pub(super) fn base64_bytes(data: &str) -> u64 {
    data.trim_end_matches('=').len() as u64 * 3 / 4
}
