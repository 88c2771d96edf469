//! Parses a summary of one paragraph in the layout of [`super::render::paragraph`]: `#1–#9,
//! 2026-05-04 to 2026-05-06: user: #3 The budget holds. #5 Agreed. assistant: #9 Done.`

use unisono_context::{Ordinal, Role, Timestamp};

use super::days::{Days, TO, parse_day};
use super::prior::{is_name, ordinal};
use crate::date::midnight;

/// A summary of one paragraph.
pub(super) struct Paragraph<'a> {
    /// The first message it covers.
    pub(super) first: Ordinal,
    /// Its days, if it has them.
    pub(super) days: Days,
    /// Its quotes, in order.
    pub(super) quotes: Vec<Quote<'a>>,
}

#[derive(Clone, Copy)]
pub(super) struct Quote<'a> {
    /// The speaker; `None`: the speaker of the previous quote.
    pub(super) speaker: Option<&'a str>,
    /// The message it is from.
    pub(super) number: Option<Ordinal>,
    /// What was said.
    pub(super) text: &'a str,
}

const LAST: Ordinal = Ordinal(u32::MAX);

/// Parses a line; `None` if it does not begin like a paragraph. Older versions stacked several
/// beginnings: the first one has the covered messages.
pub(super) fn parse(line: &str) -> Option<Paragraph<'_>> {
    let (first, mut last, mut days, mut rest) = beginning(line)?;
    while let Some((_, inner_last, inner, after)) = beginning(rest) {
        last = last.max(inner_last);
        if days.known.is_empty() {
            days = inner;
        }
        rest = after;
    }
    Some(Paragraph {
        first,
        days,
        // A merged paragraph may name its first message only.
        quotes: quotes(rest, if last > first { last } else { LAST }),
    })
}

impl Paragraph<'_> {
    /// The day of its quotes, if it has only one: the first message may be of a later day than the last
    /// one.
    pub(super) fn only_day(&self) -> Option<Timestamp> {
        let (first, last) = (self.days.known.first()?, self.days.known.last()?);
        (first == last).then(|| midnight(*first)).flatten()
    }
}

/// The messages and the days at the beginning of a paragraph, and the rest.
fn beginning(text: &str) -> Option<(Ordinal, Ordinal, Days, &str)> {
    let (head, rest) = text.split_once(": ")?;
    let (range, days) = match head.split_once(", ") {
        Some((range, days)) => (range, days_of(days)?),
        None => (head, Days::default()),
    };
    let (first, last) = range.split_once('–').unwrap_or((range, range));
    let (first, last) = (ordinal(first)?, ordinal(last)?);
    Some((first, last, days, rest))
}

fn days_of(text: &str) -> Option<Days> {
    let (from, to) = text.split_once(TO).unwrap_or((text, text));
    let (from, to) = (parse_day(from)?, parse_day(to)?);
    Some(Days {
        known: [from, to].into(),
        partial: from != to,
    })
}

/// Cuts at each number that begins a quote: after the end of a sentence or a speaker's name, larger
/// than the number before it, and at most `last`.
pub(super) fn quotes(text: &str, last: Ordinal) -> Vec<Quote<'_>> {
    let mut quotes = Vec::new();
    // The first quote may have no number: `user: The budget holds.`
    let speaker = text.split_once(": ").map(|(name, _)| name);
    let mut begun = Quote {
        speaker: speaker.filter(|name| Role::from_name(name).is_some()),
        number: None,
        text: "",
    };
    let (mut from, mut at) = (0, 0);
    for word in text.split(' ') {
        let (start, end) = (at, at + word.len());
        at = end + 1;
        let follows = |number: &Ordinal| begun.number < Some(*number) && *number <= last;
        let Some(number) = ordinal(word).filter(follows) else {
            continue;
        };
        let Some((before, speaker)) = ending(text[..start].trim_end()) else {
            continue;
        };
        let said = text.get(from..before.len()).unwrap_or_default();
        quotes.push(Quote {
            text: said.strip_suffix(END).unwrap_or(said),
            ..begun
        });
        from = end;
        begun = Quote {
            speaker,
            number: Some(number),
            text: "",
        };
    }
    quotes.push(Quote {
        text: text.get(from..).unwrap_or_default(),
        ..begun
    });
    for quote in &mut quotes {
        quote.text = match (quote.number, quote.speaker) {
            (None, Some(speaker)) => quote.text.get(speaker.len() + 1..).unwrap_or_default(),
            _ => quote.text,
        }
        .trim();
    }
    quotes.retain(|quote| !quote.text.is_empty());
    quotes
}

/// The end of a quote without the end of a sentence, if another quote follows.
pub(super) const END: char = ';';

/// The text before a number that begins a quote, and the speaker if one is named there. `None`: the
/// number is within a quote.
fn ending(before: &str) -> Option<(&str, Option<&str>)> {
    let (before, speaker) = speaker_behind(before);
    (speaker.is_some() || ends_sentence(before)).then_some((before, speaker))
}

/// Marks the numbers in a quote, from `from` on, that would otherwise begin a quote of their own:
/// `\\#12`.
pub(super) fn escape_numbers(text: &mut String, from: usize) {
    let mut at = from;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('#')) {
        let start = at + found;
        at = start + 1;
        let word = text[start..].split(' ').next().unwrap_or_default();
        let begins = start == 0 || text[..start].ends_with(' ');
        if begins
            && ordinal(word).is_some()
            && (start == from || ending(text[..start].trim_end()).is_some())
        {
            text.insert(start, '\\');
            at += 1;
        }
    }
}

/// A text without the speaker at its end, and the speaker.
fn speaker_behind(text: &str) -> (&str, Option<&str>) {
    let Some(named) = text.strip_suffix(':') else {
        return (text, None);
    };
    let begins = named.rfind(' ').map_or(0, |space| space + 1);
    let (before, name) = named.split_at(begins);
    let before = before.trim_end();
    match is_name(name) && ends_sentence(before) {
        true => (before, Some(name)),
        false => (text, None),
    }
}

pub(super) fn ends_sentence(text: &str) -> bool {
    text.is_empty()
        || text.ends_with([
            '.', '!', '?', '…', '。', '！', '？', '।', '؟', '۔', '”', '"', '`', ')', ']', '}', '|',
            END,
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<(Option<&str>, Option<u32>, &str)> {
        let read = parse(line).map(|paragraph| paragraph.quotes);
        let quotes = read.unwrap_or_default().into_iter();
        quotes
            .map(|quote| (quote.speaker, quote.number.map(|n| n.0), quote.text))
            .collect()
    }

    #[test]
    fn quotes_have_their_numbers_and_speakers() {
        let line = "#1–#9, 2026-05-04 to 2026-05-06: user: #3 The budget holds. #5 See #2 and #4: \
                    agreed. risk-finder: #9 PR #7 is open";
        assert_eq!(
            read(line),
            [
                (Some("user"), Some(3), "The budget holds."),
                (None, Some(5), "See #2 and #4: agreed."),
                (Some("risk-finder"), Some(9), "PR #7 is open"),
            ]
        );
        assert_eq!(
            read("#4: user: The well is dry."),
            [(Some("user"), None, "The well is dry.")]
        );
    }

    #[test]
    fn quotes_without_the_end_of_a_sentence_keep_their_speakers() {
        let line = "#1–#9: Ada\u{a0}Lovelace: #3 back on the weekday; ][AcHm2][: #5 and \\#6 too; #7 ok; \
                    Dr.\u{a0}Wu: #8 no: #9 is mine";
        assert_eq!(
            read(line),
            [
                (Some("Ada\u{a0}Lovelace"), Some(3), "back on the weekday"),
                (Some("][AcHm2]["), Some(5), "and \\#6 too"),
                (None, Some(7), "ok"),
                (Some("Dr.\u{a0}Wu"), Some(8), "no: #9 is mine"),
            ]
        );
        let mut escaped = "- Ada #3 #4 is done. #5 too, like #6".to_owned();
        escape_numbers(&mut escaped, 9);
        assert_eq!(escaped, "- Ada #3 \\#4 is done. \\#5 too, like #6");
    }

    #[test]
    fn stacked_beginnings_are_parsed_as_one() {
        let line = "#1: #1: #197–#326, 2026-11-24: assistant: #225 Booked.";
        assert_eq!(read(line), [(Some("assistant"), Some(225), "Booked.")]);
        let paragraph = parse(line).map(|paragraph| (paragraph.first.0, paragraph.days.known));
        let (first, days) = paragraph.unwrap_or_default();
        assert_eq!((first, days.len()), (1, 1));
    }

    #[test]
    fn other_lines_are_not_paragraphs() {
        for line in [
            "#12 The budget holds: 2,400 EUR.",
            "Agreed, drip lines it is.",
            "#1–#9, soon: it is.",
            "",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
