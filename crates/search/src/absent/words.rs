//! The words of a text without the search engine: runs of letters and digits in lower case.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) stem: String,
    /// Its position in bytes.
    pub(crate) at: Range<usize>,
}

pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut from = 0;
    for part in text.split(|c: char| !c.is_alphanumeric()) {
        let at = from..from + part.len();
        if !part.is_empty() {
            let stem = part.to_lowercase();
            words.push(Word {
                stem,
                at: at.clone(),
            });
        }
        let separator = text.get(at.end..).and_then(|rest| rest.chars().next());
        from = at.end + separator.map_or(0, char::len_utf8);
    }
    words
}
