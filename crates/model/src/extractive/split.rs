//! Splits a text into units: sentences, list items, table rows, and lines of code and logs.
//!
//! Every unit is a byte range of its text, so that a quote is always verbatim.

mod sentence;

use std::ops::Range;

use sentence::sentences;

/// Longer units are cut, so that quotes are readable and the work per unit is bounded.
const MAX_UNIT_BYTES: usize = 200;

/// The kind of text of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A sentence of running text.
    Prose,
    /// A list item, or a sentence of one.
    Item,
    /// A heading, which is never quoted.
    Heading,
    /// A row of a table.
    Row,
    /// A line inside a code fence.
    Code,
}

/// A unit's place in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<usize>,
    pub(super) block: Block,
    /// Whether it begins a line.
    pub(super) starts_line: bool,
}

/// The units of a text, in order.
pub(super) fn split(text: &str) -> Vec<Span> {
    let mut out = Vec::new();
    let mut is_fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let range = trim(text, at..at + line.len());
        at += line.len();
        let line = &text[range.clone()];
        if line.starts_with("```") || line.starts_with("~~~") {
            is_fenced = !is_fenced;
        } else if is_fenced {
            push_pieces(text, range, Block::Code, true, &mut out);
        } else if !line.is_empty() {
            split_line(text, range, &mut out);
        }
    }
    out.retain(|span| has_content(&text[span.range.clone()]));
    out
}

fn split_line(text: &str, range: Range<usize>, out: &mut Vec<Span>) {
    let line = &text[range.clone()];
    if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
        let range = cut_to(text, range);
        out.push(Span {
            range,
            block: Block::Heading,
            starts_line: true,
        });
        return;
    }
    if line.bytes().filter(|&b| b == b'|').count() >= 2 || line.contains(" | ") {
        push_pieces(text, range, Block::Row, true, out);
        return;
    }
    let marker = item_marker(line);
    let block = match marker {
        0 => Block::Prose,
        _ => Block::Item,
    };
    let body = trim(text, range.start + marker..range.end);
    for (index, sentence) in sentences(text, body).into_iter().enumerate() {
        push_pieces(text, sentence, block, index == 0, out);
    }
}

/// The length of a list marker: `- `, `* `, `3. `, `b) `, `- [x] `, `> `.
fn item_marker(line: &str) -> usize {
    let bytes = line.as_bytes();
    let mut at = match bytes {
        [b'-' | b'*' | b'+' | b'>', b' ', ..] => 2,
        [c, b'.' | b')', b' ', ..] if c.is_ascii_digit() => 3,
        [c, b')', b' ', ..] if c.is_ascii_lowercase() => 3,
        [a, b, b'.' | b')', b' ', ..] if a.is_ascii_digit() && b.is_ascii_digit() => 4,
        _ if line.starts_with("• ") => "• ".len(),
        _ => return 0,
    };
    let rest = &bytes[at.min(bytes.len())..];
    if let [b'[', b' ' | b'x' | b'X', b']', b' ', ..] = rest {
        at += 4;
    }
    at
}

/// Adds a unit, cut into pieces if it is too long.
fn push_pieces(
    text: &str,
    range: Range<usize>,
    block: Block,
    mut starts_line: bool,
    out: &mut Vec<Span>,
) {
    let mut rest = range;
    while !rest.is_empty() {
        let piece = cut_to(text, rest.clone());
        rest = trim(text, piece.end..rest.end);
        out.push(Span {
            range: trim(text, piece),
            block,
            starts_line,
        });
        starts_line = false;
    }
}

/// The longest good beginning of a range: up to a clause, else a word, else a character.
fn cut_to(text: &str, range: Range<usize>) -> Range<usize> {
    if range.len() <= MAX_UNIT_BYTES {
        return range;
    }
    let limit = (0..=range.start + MAX_UNIT_BYTES)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(range.end);
    let window = &text[range.start..limit];
    let least = window.len() / 3;
    let clause = ["; ", " — ", " – ", ": ", ", ", "，", "、"]
        .into_iter()
        .filter_map(|mark| window.rfind(mark).map(|at| at + mark.trim_end().len()))
        .find(|&at| at > least);
    let end = clause.or_else(|| window.rfind(char::is_whitespace).filter(|&at| at > least));
    range.start..range.start + end.unwrap_or(window.len())
}

/// The beginning of a text in at most so many bytes, in whole words if one fits.
pub(super) fn first_words(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|&end| text.is_char_boundary(end));
    let head = &text[..end.unwrap_or(0)];
    head.rfind(' ').map_or(head, |space| &head[..space])
}

/// The range without white space at its ends.
fn trim(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start().len());
    start..start + piece.trim().len()
}

/// Whether a unit has letters, digits or emoji.
fn has_content(unit: &str) -> bool {
    let is_emoji = |c: char| matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}');
    unit.chars().any(|c| c.is_alphanumeric() || is_emoji(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<&str> {
        split(text)
            .into_iter()
            .map(|span| &text[span.range])
            .collect()
    }

    #[test]
    fn kinds_of_blocks_are_distinguished() {
        let text = "# Plan\n- [x] first. item\n2) second\n| a | b |\n|---|---|\n```rs\nlet x = 1;\n}\n```\nend";
        let blocks: Vec<_> = split(text)
            .into_iter()
            .map(|s| (&text[s.range], s.block))
            .collect();
        assert_eq!(
            blocks,
            [
                ("# Plan", Block::Heading),
                ("first.", Block::Item),
                ("item", Block::Item),
                ("second", Block::Item),
                ("| a | b |", Block::Row),
                ("let x = 1;", Block::Code),
                ("end", Block::Prose),
            ]
        );
    }

    #[test]
    fn long_units_are_cut_at_clauses() {
        let clause = "a clause of some length that goes on, ";
        let text = clause.repeat(40);
        let pieces = units(&text);
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_UNIT_BYTES));
        assert!(pieces.iter().all(|piece| piece.starts_with("a clause")));
        assert!(units(&"x".repeat(10_000)).len() > 20);
        assert!(
            units(&"語".repeat(10_000))
                .iter()
                .all(|p| p.len() <= MAX_UNIT_BYTES)
        );
    }
}
