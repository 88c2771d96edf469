//! Writes quotes: with single white space, without the marks of Markdown's emphasis, with the date
//! after `yesterday` and similar words, and without articles and fillers if that is asked for.

use std::borrow::Cow;

use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::relative::resolved;
use super::split::Block;
use crate::date::utc_date;

/// Separates quotes of one message that are not adjacent.
pub(super) const GAP: &str = " … ";
/// Separates quotes that were on two lines.
pub(super) const LINE_BREAK: &str = " / ";

/// Writes units in a line: adjacent ones joined, gaps marked.
pub(super) fn quote(pool: &Pool<'_>, units: &[usize], out: &mut String) {
    let mut previous: Option<&Unit<'_>> = None;
    for &index in units {
        let unit = &pool.units[index];
        if let Some(previous) = previous {
            let next = previous.place + 1 == unit.place;
            let announced = next && previous.text.ends_with(':');
            let within_line = if unit.starts_line && !announced {
                LINE_BREAK
            } else {
                " "
            };
            out.push_str(if next { within_line } else { GAP });
        }
        push_unit(pool, index, out);
        previous = Some(unit);
    }
}

/// Writes one unit.
pub(super) fn push_unit(pool: &Pool<'_>, unit: usize, out: &mut String) {
    let unit = &pool.units[unit];
    let prose = unit.kind == PassageKind::Text && matches!(unit.block, Block::Prose | Block::Item);
    let mut text = Cow::Borrowed(unit.text);
    if prose && text.contains('*') {
        text = without_emphasis(&text).into();
    }
    // Quotes of an earlier summary are resolved already.
    let date = unit.at.filter(|_| prose && !unit.prior).and_then(utc_date);
    if let Some(resolved) = date.and_then(|date| resolved(&text, date)) {
        text = resolved.into();
    }
    if let Some(dropped) = pool.dropped_words.filter(|_| prose) {
        text = dropped.remove_from(&text).into();
    }
    push_normalised(&text, out);
}

/// Appends a text with each run of white space replaced by one space.
fn push_normalised(text: &str, out: &mut String) {
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
}

/// The text without `**` and without single `*` that open or close a word. `a * b`, `*.rs` and code
/// between backticks are not changed.
pub(super) fn without_emphasis(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut code = false;
    let mut open = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        code ^= c == '`';
        if c != '*' || code {
            out.push(c);
            continue;
        }
        let before = text[..at].chars().next_back();
        let double = chars.next_if(|&(_, next)| next == '*').is_some();
        let after = chars.peek().map(|&(_, next)| next);
        let blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "`\"“(".contains(c));
        let opens = !open && !before.is_some_and(char::is_alphanumeric) && word(after);
        let closes = open && !blank(before) && !after.is_some_and(char::is_alphanumeric);
        if double && !(blank(before) && blank(after)) {
            continue;
        }
        if opens || closes {
            open = opens;
            continue;
        }
        out.push_str(if double { "**" } else { "*" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emphasis_is_not_part_of_a_quote() {
        let rows = [
            ("**Zero dates.** 1,874 orders", "Zero dates. 1,874 orders"),
            ("*Data:* complete", "Data: complete"),
            ("the driver *does* prepare", "the driver does prepare"),
            ("**`a/B`** takes 41 s", "`a/B` takes 41 s"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("delete *.rs and `**/*.md`", "delete *.rs and `**/*.md`"),
            ("cut **off", "cut off"),
        ];
        for (text, expected) in rows {
            assert_eq!(without_emphasis(text), expected);
        }
    }
}
