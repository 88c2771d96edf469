//! Limits the texts of a page: a page stays small however long its texts are.

use std::cell::Cell;

use unisono_api::fmt;
use unisono_api::harmless::is_harmful;

use crate::parts::truncate;

/// Bytes of a text that is longer than its page has room for.
const PREVIEW_BYTES: usize = 400;
/// Maximum bytes of all previews of a page. They have at most half as many as the whole texts.
const MAX_PREVIEWS_BYTES: usize = 12 * 1024;
/// Maximum shown bytes of one text.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Maximum shown attachments of a page.
const MAX_FILES: usize = 48;

/// The bytes of a character in a page, which escapes some and replaces harmful ones.
pub(crate) fn written(c: char) -> usize {
    match c {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        '"' => "&quot;".len(),
        c if is_harmful(c) => char::REPLACEMENT_CHARACTER.len_utf8(),
        c => c.len_utf8(),
    }
}

/// The remaining bytes and attachments of a page. Texts that come first are shown as a whole while
/// they fit; the others begin only.
pub(crate) struct TextLimit {
    whole: Cell<usize>,
    previews: Cell<usize>,
    files: Cell<usize>,
}

impl TextLimit {
    /// Room for these bytes of texts, and for previews.
    pub(crate) fn new(whole: usize) -> TextLimit {
        TextLimit {
            whole: Cell::new(whole),
            previews: Cell::new(MAX_PREVIEWS_BYTES.min(whole / 2)),
            files: Cell::new(MAX_FILES),
        }
    }

    /// Takes the room of an attachment, if there is any.
    pub(crate) fn take_file(&self) -> bool {
        let left = self.files.get();
        self.files.set(left.saturating_sub(1));
        left > 0
    }

    /// The shown beginning of a text, and the number of omitted bytes.
    pub(crate) fn cut<'t>(&self, text: &'t str) -> (&'t str, usize) {
        let wanted = text.len().min(MAX_TEXT_BYTES);
        let (left, most) = match wanted <= self.whole.get() {
            true => (&self.whole, MAX_TEXT_BYTES),
            false => (&self.previews, PREVIEW_BYTES.min(self.previews.get())),
        };
        let (shown, omitted) = truncate(text, most);
        left.set(left.get() - shown.len());
        (shown, omitted)
    }

    /// A text on one line of at most so many characters, and no more than there is room for.
    pub(crate) fn line(&self, text: &str, most: usize) -> String {
        let line = fmt::line(text, most);
        match self.cut(&line) {
            (_, 0) => line,
            (shown, _) => format!("{shown}…"),
        }
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::harmless::for_html;

    use super::*;

    #[test]
    fn texts_are_shown_while_there_is_room_and_then_begin_only() {
        let room = TextLimit::new(MAX_TEXT_BYTES + 1_000);
        let long = "x".repeat(3 * MAX_TEXT_BYTES);
        assert_eq!(room.cut(&long).1, 2 * MAX_TEXT_BYTES);
        assert_eq!(room.cut(&long).0.len(), PREVIEW_BYTES);
        assert_eq!(room.cut(&long[..1_000]), (&long[..1_000], 0));
        assert_eq!(room.cut("short"), ("short", 0));
        for _ in 0..MAX_PREVIEWS_BYTES {
            room.cut(&long);
        }
        assert_eq!(room.cut(&long), ("", long.len()));
        assert_eq!(room.cut(""), ("", 0));
    }

    #[test]
    fn a_character_counts_as_the_page_has_it() {
        for c in [
            'a', 'é', '🦀', '&', '<', '>', '"', '\'', '\u{202e}', '\u{1b}',
        ] {
            let page = maud::html! { (c) }.into_string();
            assert_eq!(written(c), for_html(&page).len(), "{c:?}");
        }
    }

    #[test]
    fn a_line_ends_where_the_room_does() {
        let room = TextLimit::new(10);
        assert_eq!(room.line("a  b\nc", 5), "a b c");
        // There are five bytes left for whole texts, and five for previews.
        for (text, shown) in [("0123456", "01234…"), ("0123456", "…"), ("0 1", "0 1")] {
            assert_eq!(room.line(text, 9), shown);
        }
    }
}
