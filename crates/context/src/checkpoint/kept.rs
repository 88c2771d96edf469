//! The text of a person as a part of later summaries: it stays as it is, between two marks.

use std::ops::Range;

use crate::span::Span;

use super::{Body, Checkpoint};

/// The beginning of a mark. Readers of summaries skip lines that begin so.
const MARK: &str = "[summary of ";
const BEGIN: &str = ", as a person wrote it]";
/// How the last mark ends: below a whole text, and below the beginning of one.
const ENDS: [&str; 2] = [
    " ends]",
    " ends; the rest had no room and is condensed with the messages]",
];

impl Checkpoint {
    /// The covered messages, from the first to the last.
    pub fn range(&self) -> Span {
        Span::new(self.first(), self.cutoff)
    }

    /// The text that later summaries keep if a person wrote it: without the marks around texts that it
    /// kept itself.
    pub fn text_to_keep(&self) -> String {
        let Body::Summary(text) = &self.body else {
            return String::new();
        };
        let is_mark = |line: &&str| {
            let ends = |end: &&str| line.ends_with(*end);
            line.starts_with(MARK) && ENDS.iter().chain([&BEGIN]).any(ends)
        };
        let lines: Vec<&str> = text.lines().filter(|line| !is_mark(line)).collect();
        lines.join("\n").trim().to_owned()
    }

    /// Whether its text keeps the text of an earlier checkpoint between marks.
    pub fn keeps(&self, earlier: &Checkpoint) -> bool {
        match &self.body {
            Body::Summary(text) => kept_range(text, earlier.range()).is_some(),
            Body::Tombstone => false,
        }
    }
}

/// A text of a person about these messages, between marks. `is_whole`: it is not only the beginning.
pub fn kept_text(span: Span, text: &str, is_whole: bool) -> String {
    let [whole, beginning] = ENDS;
    let end = if is_whole { whole } else { beginning };
    format!("{MARK}{span}{BEGIN}\n{text}\n{MARK}{span}{end}")
}

/// A summary without the text that it keeps of a person's summary of these messages.
pub fn without_kept(text: &str, span: Span) -> String {
    match kept_range(text, span) {
        Some(kept) => {
            let after = text[kept.end..].trim_start_matches('\n');
            format!("{}{after}", &text[..kept.start])
        }
        None => text.to_owned(),
    }
}

/// The place of the kept text about these messages, with its marks.
fn kept_range(text: &str, span: Span) -> Option<Range<usize>> {
    let start = text.find(&format!("{MARK}{span}{BEGIN}\n"))?;
    let ends = ENDS.iter().filter_map(|end| {
        let mark = format!("{MARK}{span}{end}");
        Some(text[start..].find(&mark)? + mark.len())
    });
    Some(start..start + ends.min()?)
}

#[cfg(test)]
mod tests {
    //! What is put between marks is found again, and a summary without it is what is beside it.

    use proptest::prelude::*;

    use super::*;
    use crate::ids::Ordinal;

    fn span(first: u32, last: u32) -> Span {
        Span::new(Ordinal(first), Ordinal(last))
    }

    #[test]
    fn a_kept_text_is_between_marks() {
        let kept = kept_text(span(1, 9), "The gate is shut.", true);
        assert_eq!(
            kept,
            "[summary of #1–#9, as a person wrote it]\nThe gate is shut.\n[summary of #1–#9 ends]"
        );
        let summary = format!("{kept}\n\n## Key points\n- It rains.");
        assert_eq!(
            without_kept(&summary, span(1, 9)),
            "## Key points\n- It rains."
        );
        assert_eq!(without_kept(&summary, span(1, 8)), summary, "another range");
    }

    #[test]
    fn a_mark_without_its_end_keeps_nothing() {
        let text = "[summary of #1–#9, as a person wrote it]\nAll that follows.";
        assert_eq!(without_kept(text, span(1, 9)), text);
    }

    proptest! {
        #[test]
        fn every_kept_text_is_found_again(
            texts in proptest::collection::vec(("[a-z #\n\\[\\]]{0,40}", any::<bool>()), 0..4),
            rest in "[a-z#][a-z #\n]{0,40}",
        ) {
            let spans: Vec<Span> = (0..texts.len() as u32).map(|n| span(10 * n, 10 * n + n)).collect();
            let blocks = spans.iter().zip(&texts);
            let blocks: Vec<String> = blocks
                .map(|(span, (text, is_whole))| kept_text(*span, text, *is_whole))
                .chain([rest.clone()])
                .collect();
            let mut left = blocks.join("\n\n");
            for span in spans {
                prop_assert!(kept_range(&left, span).is_some());
                left = without_kept(&left, span);
            }
            prop_assert_eq!(left, rest);
        }
    }
}
