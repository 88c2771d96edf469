//! The content of an attachment: its digest, its extent, and what it costs a model.
//!
//! The bytes themselves are blobs beside the journal. A message names them by their digest, and so
//! does a snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::digest::Digest;
use crate::tokens::Tokens;

mod rules;

pub use rules::{FileRules, FileTokens};

/// Tokens of a page of a document, with its text and its picture, at most.
const PAGE_TOKENS: u64 = 3_000;
/// Tokens of a page where a provider counts a fixed number.
const GEMINI_PAGE_TOKENS: u64 = 258;

/// The content of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// BLAKE3 of its bytes.
    pub digest: Digest,
    /// How large it is to a model.
    pub extent: Extent,
    /// Its bytes, on their way to the store. A journaled message has none.
    pub loaded: LoadedBytes,
    /// The text of a document in a message, for models that take no documents; none: it has none.
    pub text: Option<DocumentText>,
}

/// The text of a document, or the note in its place. It is stored before its message is recorded, so
/// every request that shows it has the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DocumentText {
    /// BLAKE3 of its bytes, in UTF-8.
    pub digest: Digest,
    /// Its tokens in the encoding that needs most, at most.
    pub tokens: Tokens,
}

impl Content {
    /// The content of these bytes.
    pub fn new(bytes: Arc<[u8]>, extent: Extent) -> Content {
        Content {
            digest: Digest::of_bytes(&bytes),
            extent,
            loaded: LoadedBytes(Some(bytes)),
            text: None,
        }
    }
}

/// A file in the result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttachedFile {
    /// Its name, without a path.
    pub filename: Arc<str>,
    /// Media type.
    pub mime: Arc<str>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Its content.
    pub content: Content,
    /// The text of a document, for models that take no documents.
    pub text: Option<Arc<str>>,
}

impl AttachedFile {
    /// The text that stands for it where its content is not shown.
    pub fn note(&self) -> String {
        note(
            &self.filename,
            &self.mime,
            self.size_bytes,
            Some(&self.content),
        )
    }
}

/// The text of a document as a model that takes no documents gets it.
pub fn document_text(filename: &str, text: &str) -> String {
    format!("{TEXT}{filename}]\n{text}")
}

const NOTE: &str = "[attachment ";
/// The beginning of the line above the text of a document.
const TEXT: &str = "[text of attachment ";

/// Whether a text begins as a note of an attachment does, or as the line above the text of a document.
pub fn is_note(text: &str) -> bool {
    [NOTE, TEXT].iter().any(|start| text.starts_with(start))
}

/// The text that stands for an attachment where its content is not shown.
pub(crate) fn note(
    filename: &str,
    mime: &str,
    size_bytes: u64,
    content: Option<&Content>,
) -> String {
    let extent = content.map(|content| format!(", {}", content.extent));
    let extent = extent.unwrap_or_default();
    format!("{NOTE}{filename} {mime} {size_bytes} bytes{extent}]")
}

/// How large a content is to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// An image.
    Pixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// A document.
    Pages(u32),
}

/// The rule by which a provider counts the tokens of an attachment. Records have its position
/// ([`FileRules::bits`]), so a new one comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A pixel costs 1/750 token, after scaling to a long edge of 1,568 and 1,600 tokens.
    Anthropic,
    /// 85 tokens, and 170 for each tile of 512 x 512, after scaling into 2,048 x 2,048 and to a short
    /// edge of 768.
    OpenAi,
    /// 258 tokens, for each tile of 768 x 768 if an edge is longer than 384, after scaling into
    /// 3,072 x 3,072.
    Gemini,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 3] = [Rule::Anthropic, Rule::OpenAi, Rule::Gemini];
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Pixels { width, height } => write!(f, "{width} x {height} pixels"),
            Extent::Pages(1) => f.write_str("1 page"),
            Extent::Pages(pages) => write!(f, "{pages} pages"),
        }
    }
}

impl Extent {
    /// Its tokens by the rule of one provider.
    pub fn tokens(self, rule: Rule) -> Tokens {
        Tokens(match (self, rule) {
            (Extent::Pixels { width, height }, Rule::Anthropic) => {
                let (width, height) = within(width, height, 1_568);
                (width * height).div_ceil(750).min(1_600)
            }
            (Extent::Pixels { width, height }, Rule::OpenAi) => {
                let (width, height) = within(width, height, 2_048);
                let short = width.min(height);
                let (width, height) = match short > 768 {
                    true => (width * 768 / short, height * 768 / short),
                    false => (width, height),
                };
                85 + 170 * tiles(width, height, 512)
            }
            (Extent::Pixels { width, height }, Rule::Gemini) if width.max(height) <= 384 => 258,
            (Extent::Pixels { width, height }, Rule::Gemini) => {
                let (width, height) = within(width, height, 3_072);
                258 * tiles(width, height, 768)
            }
            (Extent::Pages(pages), Rule::Gemini) => GEMINI_PAGE_TOKENS * u64::from(pages.max(1)),
            (Extent::Pages(pages), _) => PAGE_TOKENS * u64::from(pages.max(1)),
        })
    }

    /// Its tokens by the rule that gives the most: the count of a message has these, since it is
    /// the same for all models. [`FileRules`] replace them.
    pub fn at_most(self) -> Tokens {
        let all = Rule::ALL.into_iter().map(|rule| self.tokens(rule));
        all.max().unwrap_or_default()
    }
}

/// An image scaled down so that no edge is longer than that; an edge is at least one pixel.
fn within(width: u32, height: u32, edge: u64) -> (u64, u64) {
    let (width, height) = (u64::from(width), u64::from(height));
    let long = width.max(height);
    if long <= edge {
        return (width.max(1), height.max(1));
    }
    let scaled = |side: u64| (side * edge / long).max(1);
    (scaled(width), scaled(height))
}

fn tiles(width: u64, height: u64, edge: u64) -> u64 {
    width.div_ceil(edge) * height.div_ceil(edge)
}

/// Bytes that are not part of a value: they make no difference to equality, digests or records.
#[derive(Clone, Default)]
pub struct LoadedBytes(pub Option<Arc<[u8]>>);

impl fmt::Debug for LoadedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => write!(f, "LoadedBytes({} bytes)", bytes.len()),
            None => f.write_str("LoadedBytes(none)"),
        }
    }
}

impl PartialEq for LoadedBytes {
    fn eq(&self, _: &LoadedBytes) -> bool {
        true
    }
}

impl Eq for LoadedBytes {}

impl Hash for LoadedBytes {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The bytes of contents and the texts of documents, by their digests. A copy shares them.
#[derive(Clone, Default)]
pub struct Files {
    bytes: BTreeMap<Digest, Arc<[u8]>>,
    texts: BTreeMap<Digest, Arc<str>>,
}

impl Files {
    /// The bytes of that digest, if they are here.
    pub fn get(&self, digest: &Digest) -> Option<&Arc<[u8]>> {
        self.bytes.get(digest)
    }

    /// Adds bytes of that digest.
    pub fn insert(&mut self, digest: Digest, bytes: Arc<[u8]>) {
        self.bytes.insert(digest, bytes);
    }

    /// The text of that digest, if it is here.
    pub fn text(&self, digest: &Digest) -> Option<&Arc<str>> {
        self.texts.get(digest)
    }

    /// Adds the text of that digest.
    pub fn insert_text(&mut self, digest: Digest, text: Arc<str>) {
        self.texts.insert(digest, text);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.bytes.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_an_image_follow_the_rule_of_its_provider() {
        // Width, height, and the tokens by the documents of Anthropic, OpenAI, Gemini.
        for (width, height, by) in [
            (1, 1, [1, 255, 258]),
            (200, 200, [54, 255, 258]),
            (384, 384, [197, 255, 258]),
            (385, 384, [198, 255, 258]),
            (1_000, 1_000, [1_334, 765, 1_032]),
            (1_024, 1_024, [1_399, 765, 1_032]),
            (2_048, 4_096, [1_600, 1_105, 2_064]),
            (30_000, 30_000, [1_600, 765, 4_128]),
            (u32::MAX, 1, [3, 765, 1_032]),
        ] {
            let extent = Extent::Pixels { width, height };
            let tokens = Rule::ALL.map(|rule| extent.tokens(rule).0);
            assert_eq!(tokens, by, "{width} x {height}");
            assert_eq!(extent.at_most().0, by.into_iter().max().unwrap());
        }
        let pages = |rule| Extent::Pages(10).tokens(rule).0;
        assert_eq!(Rule::ALL.map(pages), [30_000, 30_000, 2_580]);
    }

    #[test]
    fn what_is_held_makes_no_difference() {
        let content = Content::new(Arc::from(&b"bytes"[..]), Extent::Pages(1));
        let stored = Content {
            loaded: LoadedBytes::default(),
            ..content.clone()
        };
        assert_eq!(content, stored);
        assert_eq!(format!("{:?}", content.loaded), "LoadedBytes(5 bytes)");
    }
}
