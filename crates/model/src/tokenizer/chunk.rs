//! Splits a long text into pieces that can be counted one by one.
//!
//! Byte-pair encoding never merges across the pieces of the encoding's splitting pattern, so a cut
//! between two such pieces leaves the sum of the counts unchanged. Two positions are certain in
//! both encodings: after a line feed that is followed by a letter, and before a single space
//! between two letters. Only a text with neither for kilobytes is cut elsewhere.

pub(super) const MAX_BYTES: usize = 64 * 1024;

/// The range before the maximum end of a chunk in which a good cut is searched.
const SEARCH_BYTES: usize = 16 * 1024;

/// The chunks of a text, in order; they join to the text.
pub(super) fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (chunk, after) = rest.split_at(first_cut(rest));
        rest = after;
        Some(chunk)
    })
}

/// The byte length of the first chunk.
fn first_cut(text: &str) -> usize {
    let limit = floor_boundary(text, MAX_BYTES);
    if limit == text.len() {
        return limit;
    }
    let from = floor_boundary(text, limit.saturating_sub(SEARCH_BYTES)).max(1);
    (from..limit)
        .rev()
        .find(|&at| after_line(text, at))
        .or_else(|| (from..limit).rev().find(|&at| before_word(text, at)))
        .unwrap_or(limit)
}

fn after_line(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    bytes[at - 1] == b'\n' && bytes[at].is_ascii_alphabetic()
}

fn before_word(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    bytes[at] == b' '
        && bytes[at - 1].is_ascii_alphabetic()
        && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
}

/// The nearest character boundary at or before `at`; at most the text's end.
fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at)
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_to_the_text_and_stay_small() {
        let texts = [
            String::new(),
            "short".to_owned(),
            "word ".repeat(40_000),
            "é".repeat(100_000),
            " ".repeat(200_000),
            format!("{}x{}", "\t".repeat(5_000), "\n".repeat(70_000)),
        ];
        for text in texts {
            let parts: Vec<&str> = chunks(&text).collect();
            assert_eq!(parts.concat(), text);
            assert!(
                parts
                    .iter()
                    .all(|part| !part.is_empty() && part.len() <= MAX_BYTES)
            );
        }
    }

    #[test]
    fn prefers_the_start_of_a_line_over_a_word() {
        let text = format!("{}\nnext {}", "a b ".repeat(15_000), "c d ".repeat(3_000));
        let parts: Vec<&str> = chunks(&text).collect();
        assert!(parts[1].starts_with("next"));
    }
}
