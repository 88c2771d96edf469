//! Quotes of messages within messages. An answer of this model consists of them; what they quote is in
//! the conversation itself, so they are not quoted again.

use std::borrow::Cow;

use unisono_context::Role;

use super::answer::UNKNOWN;
use super::passage::Passage;
use super::prior::ordinal;
use super::synthesis::NOTHING_NEW;
use crate::redact::redact;

/// The marks around a quote.
const MARKS: [(char, char); 2] = [('“', '”'), ('`', '`')];
/// The maximum bytes between the number of a quoted message and the quote: a speaker's name.
const NAME_BYTES: usize = 100;

/// The text of a passage that can be quoted: without credentials, and without the quotes of other
/// messages if an agent or a tool wrote it.
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
    if !text.lines().any(is_quote) {
        return text;
    }
    let own: Vec<&str> = text
        .lines()
        .filter(|line| !is_quote(line) && !is_heading_or_note(line.trim()))
        .collect();
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
        let start = rest.find(open).filter(|start| *start <= NAME_BYTES);
        start.is_some_and(|start| rest.len() > start + open.len_utf8() && rest.ends_with(close))
    };
    MARKS.iter().any(is_within)
}

/// Whether a text has the beginning of a quote: `- #12 Ana: “`.
fn has_quote(text: &str) -> bool {
    let mut items = text.match_indices("- ").map(|(at, _)| &text[at + 2..]);
    items.any(|item| {
        after_number(item).is_some_and(|rest| {
            let quote = MARKS.iter().filter_map(|(open, _)| rest.find(*open)).min();
            quote.is_some_and(|start| start <= NAME_BYTES)
        })
    })
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
    line.starts_with('#') || is_day || line == UNKNOWN || line.ends_with(NOTHING_NEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_of_messages_are_left_out_of_an_answer() {
        let rows = [
            (
                "# What is left?\n\n## Answer (lead)\n\n**2026-03-11**\n- #12 Ana: “We ship.”\n- \
                 #13 tool: `ok`\n\nI would ask Ben.\n- risks: nothing beyond the above",
                "\n\n\nI would ask Ben.",
            ),
            ("- #12 “We ship.” (2026-03-11)\n- plain", "- plain"),
            ("… done. - #141 user: “reverse path stays", ""),
            ("## Answer - #1 Ana: “We ship.”", ""),
            (
                "Look at - #12 Ana: “We ship” and wait.",
                "Look at - #12 Ana: “We ship” and wait.",
            ),
            (
                "- #12 Ana: “We ship” is why Ben waits.\n- #13 is open.",
                "- #12 Ana: “We ship” is why Ben waits.\n- #13 is open.",
            ),
            ("He said “- #1 no” once.", "He said “- #1 no” once."),
        ];
        for (text, expected) in rows {
            assert_eq!(without_quotes(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
