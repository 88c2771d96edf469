//! The label before a message in a request: its number, its author, and a date on a new day.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use unisono_context::message::Message;
use unisono_context::{AgentId, Ordinal, Snapshot, Tokens};

use crate::date::{Date, utc_date};

/// Tokens of a label: one for `#`, one or two for the number, one for the author and its colon.
/// Dates are rare.
pub(crate) const TOKENS: Tokens = Tokens(4);
/// The sentence about labels in the system text.
pub(crate) const LEGEND: &str = "Each message begins with its number and, where it is known, its author (\"#12 Ana: …\"); a date in brackets begins a new day. Cite messages by number, such as #12. Do not begin your own reply with a number.";
/// The sentence about the labels of a snapshot; empty without labels.
pub(crate) fn legend(snapshot: &Snapshot) -> &'static str {
    match snapshot.entries() {
        [] => "",
        _ => LEGEND,
    }
}

/// The longest name of an author, in characters; the rest is left out.
const NAME_CHARS: usize = 40;
/// The usual size of a label, with room for a date.
const LABEL_BYTES: usize = 48;

/// The labels of a snapshot's messages, in order: `#12 Ana: `, on a new day after a line
/// `[2026-05-07]`.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The day of the newest message, in days since 1970.
    day: Option<i64>,
}

impl Labels {
    pub(super) fn next<'m>(&mut self, message: &'m Message) -> Label<'m> {
        let today = message.at.day();
        let new = (self.day != Some(today)).then(|| utc_date(message.at));
        let new = new.flatten();
        self.day = new.map_or(self.day, |_| Some(today));
        Label {
            day: new,
            number: message.ordinal,
            author: message.author.as_ref().map(AgentId::as_str),
        }
    }
}

/// Puts a backslash before each line that looks like a label (`#12 …`, or `[2026-05-07]` alone).
/// `first_line` is false for the text of a message: its first line follows the message's label.
pub fn without_labels(text: Cow<'_, str>, first_line: bool) -> Cow<'_, str> {
    escape_lines(text, first_line, looks_like_label)
}

/// Puts a backslash before each line that begins with `#` or `[` and is one of those that
/// `is_marked` selects by the text from there on.
pub(super) fn escape_lines(
    text: Cow<'_, str>,
    first_line: bool,
    is_marked: fn(&str) -> bool,
) -> Cow<'_, str> {
    let begins = |at: usize| match at {
        0 => first_line,
        _ => text[..at].ends_with(ends_line),
    };
    let is_marked = |at: &usize| begins(*at) && is_marked(&text[*at..]);
    let places = memchr::memchr2_iter(b'#', b'[', text.as_bytes());
    let places: Vec<usize> = places.filter(is_marked).collect();
    if places.is_empty() {
        return text;
    }
    let mut out = String::with_capacity(text.len() + places.len());
    let mut copied = 0;
    for at in places {
        out.push_str(&text[copied..at]);
        out.push('\\');
        copied = at;
    }
    out.push_str(&text[copied..]);
    out.into()
}

/// Whether a character can end a line: a line feed, or another line separator of Unicode.
pub(super) fn ends_line(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The name of an author as a label shows it: on one line, and without signs that would end it
/// (`Ann:`) or begin another label (`#99`).
pub fn shown_name(author: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if author.len() <= NAME_CHARS && author.bytes().all(is_plain) {
        return author.into();
    }
    let mut plain = String::with_capacity(author.len());
    let mut chars = author.chars().peekable();
    while let Some(c) = chars.next() {
        let ends_word = !chars.peek().is_some_and(|next| next.is_alphanumeric());
        let is_end = c.is_control() || c == ':' && ends_word;
        plain.push(if is_end { ' ' } else { c });
    }
    let words = plain.split_whitespace();
    let words = words.map(|word| word.trim_start_matches(['#', ':']));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let shown: String = words.join(" ").chars().take(NAME_CHARS).collect();
    shown.trim_end_matches([' ', ':']).to_owned().into()
}

/// Whether a text begins with a label or with the date of a new day.
fn looks_like_label(line: &str) -> bool {
    let first = line.split(ends_line).next().unwrap_or_default().trim_end();
    if let Some(day) = first.strip_prefix('[') {
        return day
            .strip_suffix(']')
            .is_some_and(|day| day.parse::<Date>().is_ok());
    }
    let number = line.strip_prefix('#').unwrap_or_default();
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < number.len() && rest.starts_with(' ')
}

/// The parts of the label of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'m> {
    pub(crate) day: Option<Date>,
    pub(crate) number: Ordinal,
    pub(crate) author: Option<&'m str>,
}

impl Label<'_> {
    /// The label and the text after it, in one allocation.
    pub(super) fn with_text(&self, text: &str) -> String {
        let mut labelled = String::with_capacity(LABEL_BYTES + text.len());
        // Writing to a string does not fail.
        let _ = write!(labelled, "{self}{text}");
        labelled
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(day) = self.day {
            writeln!(f, "[{day}]")?;
        }
        write!(f, "{} ", self.number)?;
        match self.author.map(shown_name) {
            Some(name) if !name.is_empty() => write!(f, "{name}: "),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! The form of labels, and their removal from a reply.

    use proptest::collection::vec;
    use proptest::prelude::*;
    use unisono_context::{Encoding, Timestamp};

    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn a_label_has_a_number_an_author_and_a_new_day() {
        let label = |day: Option<i64>, number, author| {
            let day = day.and_then(|ms| crate::date::utc_date(Timestamp(ms)));
            let number = Ordinal(number);
            Label {
                day,
                number,
                author,
            }
            .to_string()
        };
        assert_eq!(label(None, 12, None), "#12 ");
        assert_eq!(label(None, 12, Some("Ana")), "#12 Ana: ");
        let on = Some(1_778_112_000_000);
        assert_eq!(label(on, 1_204, Some("Ana")), "[2026-05-07]\n#1204 Ana: ");
        let long = "x".repeat(50);
        assert_eq!(
            label(None, 1, Some(&long)),
            format!("#1 {}: ", "x".repeat(40))
        );
        for (name, shown) in [
            ("A\nB", "#1 A B: "),
            ("A\r\u{2028}#B", "#1 A B: "),
            ("Ann: #99 Bob", "#1 Ann 99 Bob: "),
            ("Ann:#99 Bob:", "#1 Ann 99 Bob: "),
            ("::#:\u{2029}#2 Ann:", "#1 2 Ann: "),
            ("C# team", "#1 C# team: "),
            ("web:chat", "#1 web:chat: "),
            ("#", "#1 "),
        ] {
            assert_eq!(label(None, 1, Some(name)), shown);
        }
    }

    #[test]
    fn no_line_of_a_text_looks_like_a_label() {
        let rows = rows! {
            ("We ship.\n#13 Ana: no", "We ship.\n\\#13 Ana: no"),
            ("#13 Ana: no\n#14 Ana: yes", "#13 Ana: no\n\\#14 Ana: yes"),
            ("a #13 b\n# 13\n#x\n#13\n##13 a\n #1 b", "a #13 b\n# 13\n#x\n#13\n##13 a\n #1 b"),
            (
                "Notes:\n[2024-05-09]\n[x] done\n[2024-05-09] call Ana",
                "Notes:\n\\[2024-05-09]\n[x] done\n[2024-05-09] call Ana",
            ),
            ("", ""),
        };
        for (text, expected) in rows {
            assert_eq!(without_labels(text.into(), false), expected);
        }
        assert_eq!(without_labels("#13 Ana: no".into(), true), "\\#13 Ana: no");
        for end in [
            "\r", "\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}",
        ] {
            let text = format!("so{end}#1 Ann: 9999{end}[2024-05-09]{end}");
            let shown = format!("so{end}\\#1 Ann: 9999{end}\\[2024-05-09]{end}");
            assert_eq!(without_labels(text.into(), false), shown);
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_words_and_has_no_labels(
            lines in vec("(#|\\[|\\\\)?[0-9]{0,4}(-05-0[1-9])?\\]?[ \\r]?[a-z#\\[]{0,3}", 0..6)
        ) {
            let text = lines.join("\n");
            let shown = without_labels(text.as_str().into(), true);
            prop_assert!(!shown.lines().any(looks_like_label), "{shown:?}");
            prop_assert_eq!(shown.replace('\\', ""), text.replace('\\', ""));
        }
    }

    /// Texts of real lengths: a label has few tokens at any length of the conversation.
    #[test]
    fn a_label_costs_four_tokens_at_most() {
        let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
        let count = |text: &str| tokenizer.count(text).tokens;
        for (number, author) in [
            (7, None),
            (999, Some("Ana")),
            (1_204, None),
            (999, Some("lead")),
            (999_999, None),
        ] {
            let label = Label {
                day: None,
                number: Ordinal(number),
                author,
            };
            let text = "Can we ship on Tuesday?";
            let cost = count(&format!("{label}{text}")).minus(count(text));
            assert!(cost <= TOKENS, "{label}: {cost}");
        }
    }
}
