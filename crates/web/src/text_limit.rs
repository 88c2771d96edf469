//! Limits the texts of a page: a page stays small however long its texts are.

use std::cell::Cell;

use crate::parts::truncate;

/// Bytes of a text that is longer than its page has room for.
const PREVIEW_BYTES: usize = 400;
/// Bytes of all previews of a page.
const MAX_PREVIEWS_BYTES: usize = 12 * 1024;
/// Maximum shown bytes of one text.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The remaining bytes of a page. Texts that come first are shown as a whole while they fit; the others
/// begin only.
pub(crate) struct TextLimit {
    whole: Cell<usize>,
    previews: Cell<usize>,
}

impl TextLimit {
    /// Room for these bytes of texts, and for previews.
    pub(crate) fn new(whole: usize) -> TextLimit {
        TextLimit {
            whole: Cell::new(whole),
            previews: Cell::new(MAX_PREVIEWS_BYTES),
        }
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
}

#[cfg(test)]
mod tests {
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
}
