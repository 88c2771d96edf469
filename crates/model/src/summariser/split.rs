//! Splits a text into pieces with a maximum number of tokens each, at the best positions.

use crate::extractive::CountTokens;

/// The separators after which a text may be cut, best first.
const PARAGRAPH: [&str; 1] = ["\n\n"];
const LINE: [&str; 1] = ["\n"];
const SENTENCE: [&str; 6] = [". ", "! ", "? ", "。", "！", "？"];
const WORD: [&str; 2] = [" ", "\t"];
const KINDS: [&[&str]; 4] = [&PARAGRAPH, &LINE, &SENTENCE, &WORD];

/// The number of interpolations; after them it bisects.
const INTERPOLATIONS: usize = 6;
/// A piece that fills this percentage of its room is long enough.
const FULL_PERCENT: u64 = 97;
/// Bytes per token, for the first guess only.
const BYTES_PER_TOKEN: u64 = 3;

/// The bytes of the longest beginning of `text` with at most `room` tokens, except for a few
/// percent. At least one character, and always at a character boundary.
pub(super) fn fitting(text: &str, room: u64, count: CountTokens<'_>) -> usize {
    // Bytes and tokens of the longest beginning known to fit, and of the shortest known not to fit.
    let (mut low, mut high) = ((0, 0), (text.len() + 1, None));
    let mut guess = bytes(room * BYTES_PER_TOKEN);
    for step in 0.. {
        if high.0 - low.0 < 2 || low.1 * 100 >= room * FULL_PERCENT && low.0 > 0 {
            break;
        }
        let at = floor(text, guess.clamp(low.0 + 1, high.0 - 1));
        if at <= low.0 {
            break;
        }
        let tokens = count(&text[..at]);
        if tokens <= room {
            low = (at, tokens);
        } else {
            high = (at, Some(tokens));
        }
        guess = match high.1 {
            Some(over) if step < INTERPOLATIONS && over > low.1 => {
                let span = (high.0 - low.0) as u64;
                low.0 + bytes(span * (room - low.1) / (over - low.1))
            }
            // No upper bound is known yet: extrapolates from the part that fits.
            None if low.1 > 0 => bytes(low.0 as u64 * room / low.1),
            _ => low.0.midpoint(high.0),
        };
    }
    let left = text.len() - low.0;
    if high.1.is_none() && left <= low.0 / 16 + 16 && count(text) <= room {
        return text.len();
    }
    let one = text.chars().next().map_or(0, char::len_utf8);
    low.0.max(one)
}

fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The position to cut a text that fits up to `limit`: after the last paragraph, line, sentence or
/// word in the second half, the first kind that occurs; else the limit.
pub(super) fn boundary(text: &str, limit: usize) -> usize {
    let half = floor(text, limit / 2);
    let window = &text[half..limit];
    let last = |kind: &[&str]| {
        let ends = kind
            .iter()
            .filter_map(|end| Some(window.rfind(end)? + end.len()));
        ends.max()
    };
    KINDS
        .iter()
        .find_map(|kind| last(kind))
        .map_or(limit, |found| half + found)
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut ends = (0..=at.min(text.len())).rev();
    ends.find(|&end| text.is_char_boundary(end)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Tests that the pieces fit and that cuts are at the best places.

    use proptest::prelude::*;

    use super::*;

    /// Counts each word and each other character as a token.
    fn words(text: &str) -> u64 {
        let starts = text.chars().scan(false, |inside, c| {
            let letter = c.is_ascii_alphanumeric();
            let starts = !(letter && *inside) && c != ' ';
            *inside = letter;
            Some(starts)
        });
        starts.filter(|starts| *starts).count() as u64
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let text = "one two three four five";
        assert_eq!(fitting(text, 5, &words), text.len());
        assert_eq!(words(&text[..fitting(text, 3, &words)]), 3);
        assert_eq!(fitting("é", 0, &words), 2);
        let long = "a ".repeat(10_000) + &"bcd".repeat(10_000);
        let kept = fitting(&long, 1_000, &words);
        assert!((970..=1_000).contains(&words(&long[..kept])), "{kept}");
    }

    #[test]
    fn the_best_place_is_chosen() {
        let rows = [
            ("aaaaaaaa. b\nc\n\nd e", "aaaaaaaa. b\nc\n\n"),
            ("aaaaaaaa b. c\nd ee", "aaaaaaaa b. c\n"),
            ("aaaaaaaa b. cc dddd", "aaaaaaaa b. "),
            ("aaaa bbbbbbbbb cccc", "aaaa bbbbbbbbb "),
            ("aaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa"),
            ("あああ。あい。いいい", "あああ。"),
        ];
        for (text, expected) in rows {
            let limit = floor(text, 17);
            assert_eq!(&text[..boundary(text, limit)], expected);
        }
    }

    proptest! {
        #[test]
        fn a_cut_fits_and_goes_on(text in r"([a-c]{1,9}|[ .!?\n]|é|。){1,60}", room in 1_u64..40) {
            let limit = fitting(&text, room, &words);
            prop_assert!(limit > 0 && text.is_char_boundary(limit));
            prop_assert!(words(&text[..limit]) <= room);
            let cut = boundary(&text, limit);
            prop_assert!(cut > 0 && cut <= limit && text.is_char_boundary(cut));
        }
    }
}
