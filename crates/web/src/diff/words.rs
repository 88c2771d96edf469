//! Marks the different words of two lines.

use std::time::{Duration, Instant};

use maud::{Markup, html};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::cut;

/// Lines with more bytes are not compared.
const MAX_BYTES: usize = 1_500;
/// The time limit for finding the shortest difference of two lines.
const PATIENCE: Duration = Duration::from_millis(20);
/// Lines with a smaller common part, in percent, are shown without marks.
const ALIKE: usize = 30;

/// A line with marks at the words that the other line lacks. Long lines, and lines with little in
/// common, have no marks.
pub(super) fn marked(line: &str, other: &str) -> Markup {
    if line.len() > MAX_BYTES || other.len() > MAX_BYTES {
        return cut(line);
    }
    let (own, theirs) = (words(line), words(other));
    let deadline = Instant::now().checked_add(PATIENCE);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &own, &theirs, deadline);
    let bytes = |words: &[&str]| words.iter().map(|word| word.len()).sum::<usize>();
    let same = ops.iter().map(|op| match op {
        DiffOp::Equal { old_index, len, .. } => bytes(&own[*old_index..old_index + len]),
        _ => 0,
    });
    if same.sum::<usize>() * 100 < line.len() * ALIKE {
        return cut(line);
    }
    html! {
        @for op in &ops {
            @let text = own[op.old_range()].concat();
            @match op {
                DiffOp::Equal { .. } => (text.trim_end_matches('\n')),
                _ => @if !text.trim_end_matches('\n').is_empty() { mark { (text.trim_end_matches('\n')) } },
            }
        }
    }
}

/// Splits a line into words, each with the spaces and punctuation after it.
fn words(line: &str) -> Vec<&str> {
    let (mut all, mut from) = (Vec::new(), 0);
    let mut last = None;
    for (at, c) in line.char_indices() {
        let kind = c.is_alphanumeric();
        if last.is_some_and(|last| last != kind || !kind) {
            all.push(&line[from..at]);
            from = at;
        }
        last = Some(kind);
    }
    if from < line.len() {
        all.push(&line[from..]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_to_their_line_and_only_those_that_differ_are_marked() {
        let (a, b) = (
            "The move is on Friday, 4 pm.\n",
            "The move is on Monday, 4 pm.\n",
        );
        assert_eq!(words(a).concat(), a);
        assert_eq!(
            marked(a, b).into_string(),
            "The move is on <mark>Friday</mark>, 4 pm."
        );
        assert_eq!(
            marked(b, a).into_string(),
            "The move is on <mark>Monday</mark>, 4 pm."
        );
        assert_eq!(marked("one two\n", "three\n").into_string(), "one two");
        assert_eq!(
            marked("<b> x y z", "<b> x y")
                .into_string()
                .matches("<b>")
                .count(),
            0
        );
        assert_eq!(words("").len(), 0);
    }
}
