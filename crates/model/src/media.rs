//! Which bytes are an attachment: type, extent and wholeness, read without decoding.
//!
//! A type is recognised by the first bytes. Formats that consist of blocks are walked from block to
//! block, so a file that was cut short is recognised, and one that moves.

pub mod document;
mod jpeg;

use std::sync::Arc;

use unisono_context::attachment::{Content, Extent};

/// The longest edge of an image, in pixels. No provider takes larger ones.
pub const MAX_EDGE: u32 = 8_000;
/// The largest attachment where nothing else is set, in bytes.
pub const MAX_BYTES: usize = 20 << 20;
/// The largest attachment that any setting allows, in bytes.
pub const LARGEST: usize = 48 << 20;
/// A page of a document whose pages cannot be counted has about so many bytes.
const PAGE_BYTES: usize = 50_000;
/// Where the mark of a document is looked for, from its beginning and from its end, in bytes.
const MARK_WITHIN: usize = 1_024;

/// A type of attachment whose content is kept.
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

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Png, Kind::Jpeg, Kind::Gif, Kind::Webp, Kind::Pdf];

    /// Its media type.
    pub const fn mime(self) -> &'static str {
        match self {
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::Webp => "image/webp",
            Kind::Pdf => "application/pdf",
        }
    }

    /// The kind of a media type, whose parameters do not matter.
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

/// Which attachments a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accepts {
    /// Images.
    pub images: bool,
    /// Documents: PDF.
    pub documents: bool,
}

impl Accepts {
    /// Whether it takes a content of that extent.
    pub const fn takes(self, extent: Extent) -> bool {
        match extent {
            Extent::Pixels { .. } => self.images,
            Extent::Pages(_) => self.documents,
        }
    }
}

/// Why bytes are not taken as an attachment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are none.
    #[error("the file is empty")]
    Empty,
    /// There are too many.
    #[error("the file has {bytes} bytes, at most {most} are taken (`attachments.max_bytes`)")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Its type is not taken.
    #[error("the type of the file is not known: PNG, JPEG, GIF, WebP and PDF are taken")]
    UnknownType,
    /// It is of another type than was said.
    #[error("the file is said to be {said} and is {found}")]
    OtherType {
        /// What was said.
        said: String,
        /// What it is.
        found: &'static str,
    },
    /// It ends early, or its blocks make no sense.
    #[error("the {0} file is damaged or cut short")]
    Damaged(&'static str),
    /// It moves.
    #[error("the {0} file is an animation: send one picture")]
    Animated(&'static str),
    /// It has too many pixels.
    #[error("the image has {width} x {height} pixels, an edge has 1 to {MAX_EDGE}")]
    Pixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
}

/// Checks bytes that are said to be of a media type, if anything is said. Gives their type and their
/// content.
///
/// # Errors
/// Why they are not taken.
pub fn check(bytes: Arc<[u8]>, said: Option<&str>, most: usize) -> Result<(Kind, Content), Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    if bytes.len() > most {
        return Err(Error::TooLarge {
            bytes: bytes.len(),
            most,
        });
    }
    let kind = Kind::of_bytes(&bytes).ok_or(Error::UnknownType)?;
    // Programs that do not know a type say so with this one, or with a star.
    let says_nothing = |said: &&str| {
        said.trim().is_empty() || said.contains('*') || *said == "application/octet-stream"
    };
    if let Some(said) = said.filter(|said| !says_nothing(said))
        && Kind::of_mime(said) != Some(kind)
    {
        return Err(Error::OtherType {
            said: said.to_owned(),
            found: kind.mime(),
        });
    }
    let damaged = || Error::Damaged(kind.mime());
    let seen = match kind {
        Kind::Png => png(&bytes),
        Kind::Jpeg => jpeg::size(&bytes).map(Seen::still),
        Kind::Gif => gif(&bytes),
        Kind::Webp => webp(&bytes),
        Kind::Pdf => {
            let pages = pages(&bytes).ok_or_else(damaged)?;
            return Ok((kind, Content::new(bytes, Extent::Pages(pages))));
        }
    };
    let Seen {
        size: (width, height),
        moves,
    } = seen.ok_or_else(damaged)?;
    if moves {
        return Err(Error::Animated(kind.mime()));
    }
    if !(1..=MAX_EDGE).contains(&width) || !(1..=MAX_EDGE).contains(&height) {
        return Err(Error::Pixels { width, height });
    }
    Ok((kind, Content::new(bytes, Extent::Pixels { width, height })))
}

/// What the blocks of an image say.
struct Seen {
    size: (u32, u32),
    moves: bool,
}

impl Seen {
    fn still(size: (u32, u32)) -> Seen {
        Seen { size, moves: false }
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
fn png(bytes: &[u8]) -> Option<Seen> {
    let (mut at, mut size, mut moves) = (8, None, false);
    loop {
        let length = usize::try_from(be32(bytes, at)?).ok()?;
        let name = bytes.get(at + 4..at + 8)?;
        // All of it has to be there.
        bytes.get(at + 8..at.checked_add(length)?.checked_add(12)?)?;
        match name {
            b"IHDR" if size.is_none() => {
                size = Some((be32(bytes, at + 8)?, be32(bytes, at + 12)?));
            }
            b"acTL" => moves = be32(bytes, at + 8)? > 1,
            b"IEND" => return Some(Seen { size: size?, moves }),
            _ if size.is_none() => return None,
            _ => {}
        }
        at += length + 12;
    }
}

/// Blocks up to the trailer (CompuServe, "GIF89a", sections 17 to 27).
fn gif(bytes: &[u8]) -> Option<Seen> {
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
                return (images > 0).then_some(Seen {
                    size,
                    moves: images > 1,
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

/// The first chunk tells the size (Google, "WebP Container Specification"; RFC 6386 and the lossless
/// bitstream for the simple forms).
fn webp(bytes: &[u8]) -> Option<Seen> {
    let length = usize::try_from(le24(bytes, 4)? | u32::from(*bytes.get(7)?) << 24).ok()?;
    bytes.get(..length.checked_add(8)?)?;
    let body = bytes.get(20..)?;
    match bytes.get(12..16)? {
        b"VP8X" => Some(Seen {
            size: (le24(body, 4)? + 1, le24(body, 7)? + 1),
            moves: body.first()? & 2 != 0,
        }),
        b"VP8 " => {
            let size = (le16(body, 6)? & 0x3fff, le16(body, 8)? & 0x3fff);
            (body.get(3..6)? == b"\x9d\x01\x2a").then_some(Seen::still(size))
        }
        b"VP8L" => {
            let bits = le24(body, 1)? | u32::from(*body.get(4)?) << 24;
            let size = ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1);
            (body.first()? == &0x2f).then_some(Seen::still(size))
        }
        _ => None,
    }
}

/// The pages of a document: its page objects, or a guess by its size where these are compressed.
fn pages(bytes: &[u8]) -> Option<u32> {
    let end = bytes.len().saturating_sub(MARK_WITHIN);
    find(bytes.get(end..)?, b"%%EOF")?;
    let (mut pages, mut rest) = (0_u32, bytes);
    while let Some(at) = find(rest, b"/Type") {
        rest = rest.get(at + 5..)?;
        let name = rest.trim_ascii_start();
        let is_page = name.starts_with(b"/Page") && name.get(5) != Some(&b's');
        pages = pages.saturating_add(u32::from(is_page));
    }
    let guess = u32::try_from(bytes.len() / PAGE_BYTES).unwrap_or(u32::MAX);
    Some(if pages > 0 { pages } else { guess.max(1) })
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, mark)
}

#[cfg(test)]
mod tests;
