//! Reads and writes quotes. They are written with single white space, without the marks of
//! Markdown's emphasis, with the date after `yesterday` and similar words, and without articles and
//! fillers if that is asked for.

use std::borrow::Cow;

use unisono_context::Role;

use super::answer::{MISSING, UNKNOWN};
use super::passage::{Passage, PassageKind};
use super::pool::{Pool, Unit};
use super::prior::ordinal;
use super::relative::resolved;
use super::split::Block;
use super::synthesis::NOTHING_NEW;
use crate::date::utc_date;
use crate::redact::redact;

/// Separates quotes of one message that are not adjacent.
pub(super) const GAP: &str = " … ";
/// Separates quotes that were on two lines.
pub(super) const LINE_BREAK: &str = " / ";

/// The marks around a quote.
pub(super) const MARKS: [(char, char); 2] = [('“', '”'), ('`', '`')];
/// The maximum bytes between the number of a quoted message and the quote: a speaker's name.
const NAME_BYTES: usize = 100;

/// Before the end of a sentence whose beginning is not quoted: it may deny the end.
const CUT: &str = "… ";

/// Writes units in a line: adjacent ones joined, gaps marked.
pub(super) fn quote(pool: &Pool<'_>, units: &[usize], out: &mut String) {
    let mut previous: Option<&Unit<'_>> = None;
    for &index in units {
        let unit = &pool.units[index];
        let mut next = false;
        if let Some(previous) = previous {
            next = previous.place + 1 == unit.place;
            let is_quotation = unit.block == Block::Quotation;
            let is_line = unit.starts_line && (is_quotation || !previous.text.ends_with(':'));
            out.push_str(match (next, is_line) {
                (false, _) => GAP,
                (true, true) => LINE_BREAK,
                (true, false) => " ",
            });
        }
        match next {
            true => push_unit(pool, index, out),
            false => push_alone(pool, index, out),
        }
        previous = Some(unit);
    }
}

/// Writes a unit without the one before it.
pub(super) fn push_alone(pool: &Pool<'_>, unit: usize, out: &mut String) {
    if pool.units[unit].continues && is_prose(&pool.units[unit]) {
        out.push_str(CUT);
    }
    push_unit(pool, unit, out);
}

fn is_prose(unit: &Unit<'_>) -> bool {
    unit.kind == PassageKind::Text && matches!(unit.block, Block::Prose | Block::Item)
}

fn push_unit(pool: &Pool<'_>, unit: usize, out: &mut String) {
    let unit = &pool.units[unit];
    let prose = is_prose(unit);
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
    if unit.block == Block::Quotation && !text.starts_with('>') {
        // The end of a long line.
        out.push_str("> ");
    }
    // Each run of white space becomes one space.
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

/// The text of a passage that can be quoted: without credentials, and without the quotes of other
/// messages if an agent or a tool wrote it: an answer of this model consists of them, and what they quote is
/// in the conversation itself.
pub(super) fn quotable_text<'a>(passage: &'a Passage<'_>) -> Cow<'a, str> {
    let text = redact(&passage.text);
    match passage.role {
        Role::User | Role::System => text,
        Role::Assistant | Role::Tool => without_quotes(text),
    }
}

fn without_quotes(text: Cow<'_, str>) -> Cow<'_, str> {
    if is_excerpt(&text) && has_quote(&text) {
        return Cow::Borrowed("");
    }
    if !text.lines().any(|line| is_quote(line) || is_note(line)) {
        return text;
    }
    let is_own = |line: &&str| !is_quote(line) && !is_heading_or_note(line.trim());
    let own: Vec<&str> = text.lines().filter(is_own).collect();
    Cow::Owned(own.join("\n"))
}

/// Whether a text may be an excerpt of an answer, as a search shows it: one line that begins with the
/// answer's heading, or that is cut.
fn is_excerpt(text: &str) -> bool {
    !text.contains('\n') && (text.starts_with(['#', '…']) || text.ends_with('…'))
}

/// Whether a line is only a quote: `- #12 Ana: “the quote” (2026-05-07)`.
fn is_quote(line: &str) -> bool {
    let Some(rest) = line.trim().strip_prefix("- ").and_then(after_number) else {
        return false;
    };
    let rest = match rest.rsplit_once(" (") {
        Some((quote, day)) if day.ends_with(')') && quote.ends_with(['”', '`']) => quote,
        _ => rest,
    };
    let is_within = |&(open, close): &(char, char)| {
        let start = quote_start(rest, open);
        start.is_some_and(|start| rest.len() > start + open.len_utf8() && rest.ends_with(close))
    };
    MARKS.iter().any(is_within)
}

/// Whether a text has the beginning of a quote: `- #12 Ana: “`.
fn has_quote(text: &str) -> bool {
    let mut items = text.match_indices("- ").map(|(at, _)| &text[at + 2..]);
    items.any(|item| {
        let begins = |rest| {
            MARKS
                .iter()
                .any(|(open, _)| quote_start(rest, *open).is_some())
        };
        after_number(item).is_some_and(begins)
    })
}

/// The place of a quote's mark after the number of its message: there is nothing before it, or a speaker's
/// name. In other numbered lines, such as a list of issues, code may also be marked.
fn quote_start(rest: &str, open: char) -> Option<usize> {
    let mut beginning = rest.char_indices().take_while(|(at, _)| *at <= NAME_BYTES);
    let (start, _) = beginning.find(|(_, c)| *c == open)?;
    let before = &rest[..start];
    (before.is_empty() || before.ends_with(": ")).then_some(start)
}

/// The text after `#12 `.
fn after_number(item: &str) -> Option<&str> {
    let item = item.strip_prefix('\\').unwrap_or(item);
    let (number, rest) = item.split_once(' ')?;
    ordinal(number)?;
    Some(rest)
}

/// Whether a line of an answer is a heading, a day, or a note that there is nothing.
fn is_heading_or_note(line: &str) -> bool {
    let is_day = line.starts_with("**") && line.ends_with("**");
    line.starts_with('#') || is_day || is_note(line) || line.ends_with(NOTHING_NEW)
}

/// Whether a line of an answer says that no message has words of the question.
fn is_note(line: &str) -> bool {
    line == UNKNOWN || line.starts_with(MISSING)
}

#[cfg(test)]
mod tests {
    use unisono_context::{Ordinal, Timestamp};

    use super::*;

    #[test]
    fn the_end_of_a_long_sentence_is_marked() {
        let mail = "as Ben wrote in his long mail, ".repeat(7);
        let text = format!("It is not so, {mail}that the lease is signed.");
        let passage = Passage::text(Ordinal(1), Role::User, Timestamp(0), &*text);
        let mut pool = Pool::new();
        pool.add_passage(&passage, &text, false);
        let quoted = |units: &[usize]| {
            let mut out = String::new();
            quote(&pool, units, &mut out);
            out
        };
        assert_eq!(pool.units.len(), 2);
        assert_eq!(quoted(&[0, 1]), text);
        let end = quoted(&[1]);
        assert!(
            end.starts_with("… as Ben") && end.ends_with("signed."),
            "{end}"
        );
        let mut again = Pool::new();
        again.add_passage(&passage, &end, false);
        assert_eq!(again.units.len(), 1);
        assert_eq!(again.units[0].text, end);
    }

    #[test]
    fn a_quotation_keeps_its_mark_and_its_days() {
        let quoted = |text: &str| {
            let monday = Timestamp(1_683_504_000_000);
            let passage = Passage::text(Ordinal(1), Role::User, monday, text);
            let mut pool = Pool::new();
            pool.add_passage(&passage, &passage.text, false);
            let all: Vec<usize> = (0..pool.units.len()).collect();
            let mut out = String::new();
            quote(&pool, &all, &mut out);
            out
        };
        let text = "Ana wrote:\n> I come tomorrow.\n>\n> The *old* hall is shut.\nI come tomorrow.";
        assert_eq!(
            quoted(text),
            "Ana wrote: / > I come tomorrow. / > The *old* hall is shut. / I come tomorrow \
             (9 May 2023)."
        );
        let long = format!("> {}", "We meet in the hall, ".repeat(15));
        let pieces = quoted(&long);
        assert!(pieces.matches("> We meet").count() > 1, "{pieces}");
    }

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

    #[test]
    fn quotes_of_messages_are_left_out_of_an_answer() {
        let rows = rows! {
            (
                "# What is left?\n\n## Answer (lead)\n\n**2026-03-11**\n- #12 Ana: “We ship.”\n- \
                 #13 tool: `ok`\n\nI would ask Ben.\n- risks: nothing beyond the above",
                "\n\n\nI would ask Ben.",
            ),
            ("- #12 “We ship.” (2026-03-11)\n- plain", "- plain"),
            (
                "No message has these words of the question: 1299.\n\n## Nearest messages\n- #12 Ana: “We \
                 ship.”\nI see.",
                "\nI see.",
            ),
            ("No message has these words of the question: 1299.", ""),
            ("… done. - #141 user: “reverse path stays", ""),
            ("## Answer - #1 Ana: “We ship.”", ""),
            ("Look at - #12 Ana: “We ship” and wait.", "Look at - #12 Ana: “We ship” and wait."),
            ("- #12 Ana: “We ship” is why Ben waits.\n- #13 is open.",
             "- #12 Ana: “We ship” is why Ben waits.\n- #13 is open."),
            ("He said “- #1 no” once.", "He said “- #1 no” once."),
            ("- #12 Rename `a` to `b`\n- #13 Drop “c”", "- #12 Rename `a` to `b`\n- #13 Drop “c”"),
        };
        for (text, expected) in rows {
            assert_eq!(without_quotes(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
