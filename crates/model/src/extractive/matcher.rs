//! Phrases with their meanings, all found in one pass.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Phrases in any case of ASCII letters. Of phrases that overlap, the first and longest is found.
pub(super) struct Phrases<M> {
    matcher: AhoCorasick,
    meanings: Vec<M>,
}

impl<M: Copy> Phrases<M> {
    /// `None` if they are too many.
    pub(super) fn new<P: AsRef<[u8]>>(phrases: impl Iterator<Item = (P, M)>) -> Option<Phrases<M>> {
        let (phrases, meanings): (Vec<P>, Vec<M>) = phrases.unzip();
        let matcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(phrases)
            .ok()?;
        Some(Phrases { matcher, meanings })
    }

    /// The phrases of each meaning are separated by bars.
    pub(super) fn of_table(table: &[(M, &str)]) -> Option<Phrases<M>> {
        let each = table.iter();
        Phrases::new(each.flat_map(|&(of, bars)| bars.split('|').map(move |text| (text, of))))
    }

    /// The places of the phrases in a text that are no parts of other words, with their meanings.
    pub(super) fn find(&self, text: &str) -> impl Iterator<Item = (Range<usize>, M)> {
        let found = self.matcher.find_iter(text);
        let whole = found.filter(move |found| whole_words(text, found.range()));
        whole.map(move |found| (found.range(), self.meanings[found.pattern().as_usize()]))
    }
}

fn whole_words(text: &str, range: Range<usize>) -> bool {
    let letter = |at: usize| {
        text.as_bytes()
            .get(at)
            .is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let joined = |at: usize| at > 0 && letter(at - 1) && letter(at);
    !joined(range.start) && !joined(range.end)
}
