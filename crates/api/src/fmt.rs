//! Values in short form for people: texts, numbers, ratios, the use of a cache.

use crate::compaction::ratio;
use crate::context::UsableTokens;
use crate::harmless::{is_direction, is_harmful};
use crate::usage::{Amounts, SummaryUsage};

/// A text on one line, without [harmful](is_harmful) characters and those that [set its
/// direction](is_direction), cut to this number of characters.
pub fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole: String = words
        .join(" ")
        .chars()
        .filter(|c| !is_harmful(*c) && !is_direction(*c))
        .collect();
    if whole.chars().count() <= most {
        return whole;
    }
    let mut cut: String = whole.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Characters of a call's arguments that a question shows.
const ARGUMENTS_CHARS: usize = 2_000;

/// The arguments of a call as a question shows them. It says if some are not shown.
pub fn shown_arguments(arguments: &str) -> String {
    let shown: String = arguments.chars().take(ARGUMENTS_CHARS).collect();
    match arguments[shown.len()..].chars().count() {
        0 => shown,
        hidden => format!("{shown}… (the last {hidden} characters are not shown)"),
    }
}

/// The usable tokens of an agent's window and their calculation, in two lines.
pub fn usable(usable: &UsableTokens) -> [String; 2] {
    let whose = match usable.lead {
        true => String::new(),
        false => format!(" by agent {}, which leaves least", usable.agent),
    };
    let first = format!(
        "{}{whose}: window {} − reply {} − safety {}",
        number(usable.usable_tokens),
        number(usable.window_tokens),
        number(usable.reply_tokens),
        number(usable.safety_tokens),
    );
    let more = [
        ("system and tools", usable.preamble_tokens),
        ("instructions and task", usable.assignment_tokens),
        ("delegates' results", usable.results_tokens),
    ];
    let more = more
        .iter()
        .map(|(what, tokens)| format!("− {what} {}", number(*tokens)));
    let calibration = usable.calibration_tokens;
    let sign = if calibration < 0 { '−' } else { '+' };
    let calibration = (calibration != 0)
        .then(|| format!("{sign} calibration {}", number(calibration.unsigned_abs())));
    let second: Vec<String> = more.chain(calibration).collect();
    [first, second.join(" ")]
}

/// A number with thousands separators: `21,480`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Dollars, below a cent with all digits, so that a small amount is not shown as zero.
pub fn dollars(amount: f64) -> String {
    match amount > 0.0 && amount < 0.01 {
        true => format!("${amount:.6}"),
        false => format!("${amount:.4}"),
    }
}

/// A compression ratio for people, such as `8.2 : 1`; none if nothing was saved.
pub fn compression(before: u64, after: u64) -> Option<String> {
    let ratio = ratio(before, after).filter(|_| before > after)?;
    Some(match ratio {
        ratio if ratio < 10.0 => format!("{ratio:.1} : 1"),
        ratio => format!("{} : 1", number(ratio.round() as u64)),
    })
}

/// The warning that fewer messages are kept verbatim than requested; the context may have at most
/// this number of tokens.
pub fn tightened(most: u64) -> String {
    format!(
        "less is kept than requested: otherwise the context would exceed {} tokens",
        number(most)
    )
}

/// Tokens read from a provider's cache, tokens expected from it, and tokens written to it; none if
/// there is nothing to report.
pub fn cache(used: &Amounts) -> Option<String> {
    let (expected, read) = (used.cache_expected_tokens, used.cache_read_tokens);
    let written = used.cache_write_tokens;
    if [expected, read, written] == [0; 3] {
        return None;
    }
    let hoped = match expected {
        0 => String::new(),
        some => format!(" of {} expected", number(some)),
    };
    let missed = if used.cache_missed { " (missed)" } else { "" };
    Some(format!(
        "read {}{hoped}, {} written{missed}",
        number(read),
        number(written)
    ))
}

/// That a summary was tried and not used, with its tokens; none if all were used.
pub fn unused_summary(of: &SummaryUsage) -> Option<String> {
    let unused = of.unused?;
    let tokens = number(unused.input_tokens + unused.output_tokens);
    Some(format!("a summary was tried and not used: {tokens} tokens"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_harmless() {
        assert_eq!(line("a  b\n\x1b[31mc", 20), "a b [31mc");
        assert_eq!(line("abcdef", 4), "abc…");
        for c in "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            assert_eq!(line(&format!("a{c}b"), 20), "ab", "{c:?}");
        }
    }

    #[test]
    fn a_small_amount_is_not_shown_as_zero() {
        for (amount, shown) in [
            (0.0, "$0.0000"),
            (0.000_015, "$0.000015"),
            (0.012_34, "$0.0123"),
            (7.5, "$7.5000"),
        ] {
            assert_eq!(dollars(amount), shown);
        }
    }

    #[test]
    fn a_question_says_that_arguments_are_cut() {
        let most = "ä".repeat(ARGUMENTS_CHARS);
        assert_eq!(shown_arguments(&most), most);
        let cut = shown_arguments(&format!("{most}rm"));
        assert_eq!(
            cut,
            format!("{most}… (the last 2 characters are not shown)")
        );
    }

    #[test]
    fn a_ratio_says_how_many_tokens_became_one() {
        let rows = [
            ((16_696, 2_045), Some("8.2 : 1")),
            ((20_144, 31), Some("650 : 1")),
            ((31, 31), None),
            ((31, 40), None),
            ((31, 0), None),
        ];
        for ((before, after), said) in rows {
            assert_eq!(compression(before, after).as_deref(), said);
        }
    }

    #[test]
    fn a_cache_that_missed_what_it_was_expected_to_have_is_flagged() {
        let said = |expected, read, written| {
            cache(&Amounts {
                cache_expected_tokens: expected,
                cache_read_tokens: read,
                cache_write_tokens: written,
                cache_missed: Amounts::missed(expected, read),
                ..Amounts::default()
            })
        };
        let rows = [
            ((0, 0, 0), None),
            ((0, 0, 21_480), Some("read 0, 21,480 written")),
            ((0, 300, 0), Some("read 300, 0 written")),
            (
                (21_480, 21_480, 0),
                Some("read 21,480 of 21,480 expected, 0 written"),
            ),
            (
                (21_480, 10_740, 0),
                Some("read 10,740 of 21,480 expected, 0 written"),
            ),
            (
                (21_480, 10_739, 9),
                Some("read 10,739 of 21,480 expected, 9 written (missed)"),
            ),
        ];
        for ((expected, read, written), line) in rows {
            assert_eq!(said(expected, read, written).as_deref(), line);
        }
    }
}
