//! Checks attachments without decoding them: their type, extent and completeness.
//!
//! The first bytes determine the type. For formats of blocks the check reads each block header, so it
//! recognises truncated files and animations. Only the streams of objects of a PDF are unpacked, up to
//! a limit, to count its pages.

pub mod document;
mod jpeg;
mod pages;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_context::attachment::{Content, Extent};

/// The longest edge of an image, in pixels. No provider accepts a longer one.
pub const MAX_EDGE: u32 = 8_000;
/// The default limit of an attachment, in bytes.
pub const MAX_BYTES: usize = 20 << 20;
/// The highest limit of an attachment that a setting may have, in bytes.
pub const LARGEST: usize = 48 << 20;
/// How far from its beginning and its end the marks of a document may be, in bytes.
const MARK_WITHIN: usize = 1_024;

/// A supported type of attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
    /// PDF.
    Pdf,
}

unisono_context::names!(Kind.mime {
    Png = "image/png",
    Jpeg = "image/jpeg",
    Gif = "image/gif",
    Webp = "image/webp",
    Pdf = "application/pdf",
});

impl Kind {
    /// The kind of a media type; ignores its parameters.
    pub fn of_mime(mime: &str) -> Option<Kind> {
        let name = mime.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("image/jpg") {
            return Some(Kind::Jpeg);
        }
        let mut all = Kind::ALL.into_iter();
        all.find(|kind| name.eq_ignore_ascii_case(kind.mime()))
    }

    /// The kind of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Kind> {
        let begins = |mark: &[u8]| bytes.starts_with(mark);
        if begins(b"\x89PNG\r\n\x1a\n") {
            return Some(Kind::Png);
        }
        if begins(b"\xff\xd8\xff") {
            return Some(Kind::Jpeg);
        }
        if begins(b"GIF87a") || begins(b"GIF89a") {
            return Some(Kind::Gif);
        }
        if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some(Kind::Webp);
        }
        let head = bytes.get(..MARK_WITHIN).unwrap_or(bytes);
        find(head, b"%PDF-").map(|_| Kind::Pdf)
    }
}

/// The attachments that a model accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accepts {
    /// Images.
    pub images: bool,
    /// Documents: PDF.
    pub documents: bool,
}

impl Accepts {
    /// Whether the model accepts a content of that extent.
    pub const fn takes(self, extent: Extent) -> bool {
        match extent {
            Extent::Pixels { .. } => self.images,
            Extent::Pages(_) => self.documents,
        }
    }
}

/// Why bytes are no valid attachment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no bytes.
    #[error("the file is empty: send its content")]
    Empty,
    /// There are too many bytes.
    #[error("the file has {bytes} bytes, but the limit is {max_bytes} (`attachments.max_bytes`)")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// The type is not supported.
    #[error("the type of the file is not supported: send PNG, JPEG, GIF, WebP or PDF")]
    UnknownType,
    /// The declared type differs from the actual type.
    #[error(
        "the declared type of the file is {declared}, but its content is {found}: declare {found}"
    )]
    OtherType {
        /// The declared type.
        declared: String,
        /// The actual type.
        found: &'static str,
    },
    /// It ends early, or its blocks are invalid.
    #[error("the {0} file is damaged or truncated: send it again")]
    Damaged(&'static str),
    /// It is an animation.
    #[error("the {0} file is an animation: send a still image")]
    Animated(&'static str),
    /// It has too many pixels.
    #[error(
        "the image has {width} x {height} pixels: send one with edges of 1 to {MAX_EDGE} pixels"
    )]
    Pixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
}

/// Checks bytes against their declared media type, if any, and a limit of bytes. Returns their type
/// and content.
pub fn check(
    bytes: Arc<[u8]>,
    declared: Option<&str>,
    max_bytes: usize,
) -> Result<(Kind, Content), Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    if bytes.len() > max_bytes {
        return Err(Error::TooLarge {
            bytes: bytes.len(),
            max_bytes,
        });
    }
    let kind = Kind::of_bytes(&bytes).ok_or(Error::UnknownType)?;
    // Programs that do not know the type send this one, or one with a star.
    let is_unknown = |declared: &&str| {
        declared.trim().is_empty()
            || declared.contains('*')
            || *declared == "application/octet-stream"
    };
    if let Some(declared) = declared.filter(|declared| !is_unknown(declared))
        && Kind::of_mime(declared) != Some(kind)
    {
        return Err(Error::OtherType {
            declared: declared.to_owned(),
            found: kind.mime(),
        });
    }
    let damaged = || Error::Damaged(kind.mime());
    let seen = match kind {
        Kind::Png => png(&bytes),
        Kind::Jpeg => jpeg::size(&bytes).map(ImageInfo::still),
        Kind::Gif => gif(&bytes),
        Kind::Webp => webp(&bytes),
        Kind::Pdf => {
            let pages = pages::count_pages(&bytes).ok_or_else(damaged)?;
            return Ok((kind, Content::new(bytes, Extent::Pages(pages))));
        }
    };
    let ImageInfo {
        size: (width, height),
        is_animated,
    } = seen.ok_or_else(damaged)?;
    if is_animated {
        return Err(Error::Animated(kind.mime()));
    }
    if !(1..=MAX_EDGE).contains(&width) || !(1..=MAX_EDGE).contains(&height) {
        return Err(Error::Pixels { width, height });
    }
    Ok((kind, Content::new(bytes, Extent::Pixels { width, height })))
}

/// The bytes of a base64 text; none if it is invalid. White space has no meaning in it: many programs
/// break it into lines (RFC 2045, section 6.8).
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    if !text.as_bytes().iter().any(is_space) {
        return STANDARD.decode(text).ok();
    }
    let text: Vec<u8> = text.bytes().filter(|byte| !is_space(byte)).collect();
    STANDARD.decode(text).ok()
}

/// The size of an image, and whether it is animated.
struct ImageInfo {
    size: (u32, u32),
    is_animated: bool,
}

impl ImageInfo {
    fn still(size: (u32, u32)) -> ImageInfo {
        ImageInfo {
            size,
            is_animated: false,
        }
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*four))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    let two = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u32::from(u16::from_le_bytes(*two)))
}

fn le24(bytes: &[u8], at: usize) -> Option<u32> {
    Some(le16(bytes, at)? | u32::from(*bytes.get(at + 2)?) << 16)
}

/// Chunks up to `IEND`: length, name, data, checksum (W3C, "PNG", section 5).
fn png(bytes: &[u8]) -> Option<ImageInfo> {
    let (mut at, mut size, mut is_animated) = (8, None, false);
    loop {
        let length = usize::try_from(be32(bytes, at)?).ok()?;
        let name = bytes.get(at + 4..at + 8)?;
        // The whole chunk must be in the file.
        bytes.get(at + 8..at.checked_add(length)?.checked_add(12)?)?;
        match name {
            b"IHDR" if size.is_none() => {
                size = Some((be32(bytes, at + 8)?, be32(bytes, at + 12)?));
            }
            b"acTL" => is_animated = be32(bytes, at + 8)? > 1,
            b"IEND" => {
                return Some(ImageInfo {
                    size: size?,
                    is_animated,
                });
            }
            _ if size.is_none() => return None,
            _ => {}
        }
        at += length + 12;
    }
}

/// Blocks up to the trailer (CompuServe, "GIF89a", sections 17 to 27).
fn gif(bytes: &[u8]) -> Option<ImageInfo> {
    let table = |flags: u8| match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    };
    let size = (le16(bytes, 6)?, le16(bytes, 8)?);
    let mut at = 13 + table(*bytes.get(10)?);
    let mut images = 0;
    loop {
        match bytes.get(at)? {
            0x21 => at += 2,
            0x2c => {
                images += 1;
                at += 11 + table(*bytes.get(at + 9)?);
            }
            0x3b => {
                return (images > 0).then_some(ImageInfo {
                    size,
                    is_animated: images > 1,
                });
            }
            _ => return None,
        }
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1 + length;
            if length == 0 {
                break;
            }
        }
    }
}

/// The first chunk has the size (Google, "WebP Container Specification"; RFC 6386 and the lossless
/// bitstream for the simple forms).
fn webp(bytes: &[u8]) -> Option<ImageInfo> {
    let length = usize::try_from(le24(bytes, 4)? | u32::from(*bytes.get(7)?) << 24).ok()?;
    bytes.get(..length.checked_add(8)?)?;
    let body = bytes.get(20..)?;
    match bytes.get(12..16)? {
        b"VP8X" => Some(ImageInfo {
            size: (le24(body, 4)? + 1, le24(body, 7)? + 1),
            is_animated: body.first()? & 2 != 0,
        }),
        b"VP8 " => {
            let size = (le16(body, 6)? & 0x3fff, le16(body, 8)? & 0x3fff);
            (body.get(3..6)? == b"\x9d\x01\x2a").then_some(ImageInfo::still(size))
        }
        b"VP8L" => {
            let bits = le24(body, 1)? | u32::from(*body.get(4)?) << 24;
            let size = ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1);
            (body.first()? == &0x2f).then_some(ImageInfo::still(size))
        }
        _ => None,
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, mark)
}

#[cfg(test)]
mod tests;
