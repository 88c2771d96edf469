//! Parses an earlier summary, so that its lines can compete with new messages.

use std::collections::BTreeSet;

use unisono_context::checkpoint::KeyFact;
use unisono_context::{Ordinal, Role, Timestamp, attachment};

use super::days::{DAYS, Days, has_word, parse_short};
use super::facts::without_day;
use super::outcomes::is_outcome_line;
use super::paragraph;
use super::passage::PassageKind;
use super::pool::{Pool, Source};
use super::quote::{GAP, LINE_BREAK};
use super::section::Section;
use crate::date::midnight;

/// Maximum bytes of a speaker's name; sixty-four characters of any script.
const MAX_NAME_BYTES: usize = 256;
/// Words before the number of something else than a message, as in a model's summary: `PR #42 is merged`.
const BEFORE_OTHER_NUMBERS: &str = "added bug case closed closes created fix fixed fixes invoice issue \
    issues item merged mr opened option order page pr prs question resolved resolves reverted room see \
    step table task ticket tickets updated";
/// The beginning of a summary's block in a context.
const MARKING: &str = "[summary of ";

/// Adds the lines of a summary to a pool, or of several, each below its marking; `last` is the last message
/// that they may quote, if no marking names a later one. Returns the first message they cover and their
/// days, if known.
pub(super) fn add<'a>(
    pool: &mut Pool<'a>,
    summary: &'a str,
    mut last: Ordinal,
) -> (Option<Ordinal>, Days) {
    let (mut first, mut days) = (None, Days::default());
    let (mut section, mut day, mut year) = (None, None, None);
    // The day of the quotes without one: a summary of quotes of one day begins with it.
    let (mut speaker, mut only_day, mut begins) = ("", None, true);
    let lines = summary.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let is_first = std::mem::replace(&mut begins, line.starts_with(MARKING));
        let name = line.trim_matches(['#', ' ', ':']);
        if let Some(date) = parse_short(name, &mut year) {
            (day, only_day) = (midnight(date), None);
            days.known.insert(date);
        } else if let Some(title) = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'))
            && title.starts_with(' ')
        {
            (section, speaker, day, year) = (Section::from_title(title), "", None, None);
        } else if let Some(marked) = line.strip_prefix(MARKING) {
            last = last_marked(marked).map_or(last, |marked| marked.max(last));
            (section, speaker, day, year, only_day) = (None, "", None, None, None);
        } else if let Some(legend) = line.strip_prefix(DAYS) {
            let listed = Days::parse(legend);
            let only = listed.known.first();
            let only = only.filter(|_| is_first && listed.known.len() == 1);
            only_day = only.copied().and_then(midnight);
            days.partial |= listed.partial;
            days.known.extend(listed.known);
        } else if let Some(name) = line.strip_suffix(':').filter(|name| is_identifier(name)) {
            speaker = name;
        } else if let Some(read) = paragraph::parse(line) {
            speaker = "";
            for quote in &read.quotes {
                speaker = quote.speaker.unwrap_or(speaker);
                let at = quote.number.and_then(|_| read.only_day());
                add_quote(pool, (quote.number, quote.text), speaker, section, at);
            }
            first = first.or(Some(read.first));
            days.partial |= read.days.partial;
            days.known.extend(read.days.known);
        } else {
            let item = line.strip_prefix("- ").unwrap_or(line);
            let at = day.or(only_day);
            if let Some((name, numbered)) = numbered(item) {
                for quote in paragraph::quotes(numbered, last) {
                    add_quote(pool, (quote.number, quote.text), name, section, at);
                }
                continue;
            }
            add_line(pool, (item, last), speaker, section, at);
        }
    }
    (first, days)
}

/// The last message of a marking: `#1–#9]`.
fn last_marked(range: &str) -> Option<Ordinal> {
    let end = range.find([']', ',', ' '])?;
    ordinal(range[..end].rsplit('–').next()?)
}

/// Adds a line without numbered quotes; `last` is the last message that it may quote. A key fact names its
/// speaker in its text.
fn add_line<'a>(
    pool: &mut Pool<'a>,
    (line, last): (&'a str, Ordinal),
    speaker: &'a str,
    section: Option<Section>,
    at: Option<Timestamp>,
) {
    let (name, (number, quote)) = named(line).unwrap_or((speaker, reference(line, last)));
    let is_fact = number.is_some() && name.is_empty() && !line.starts_with('#');
    // In another line, a day in brackets is part of the text, as in a log.
    let dated = is_fact.then(|| without_day(quote));
    let (quote, said_on) = dated.unwrap_or((quote, None));
    let at = said_on.and_then(midnight).or(at);
    let names = pool.units.iter().map(|unit| unit.speaker);
    let of_fact = is_fact.then(|| of_speaker(quote, names)).flatten();
    let (name, quote) = of_fact.unwrap_or((name, quote));
    add_quote(pool, (number, quote), name, section, at);
}

/// Adds key facts that are no longer carried, as lines of an earlier summary.
pub(super) fn add_facts<'a>(pool: &mut Pool<'a>, facts: &[&'a KeyFact]) {
    let speakers: BTreeSet<&'a str> = pool.units.iter().map(|unit| unit.speaker).collect();
    for &fact in facts {
        let (text, day) = without_day(&fact.text);
        let named = of_speaker(text, speakers.iter().copied());
        let (speaker, quote) = named.unwrap_or(("", text));
        let at = day.and_then(midnight);
        add_quote(pool, (Some(fact.ordinal), quote), speaker, None, at);
    }
}

/// The speaker of a key fact, `Marta: the quote`, and the quote. A text before a colon may also be part
/// of the quote: the speaker is one of `speakers`.
fn of_speaker<'a>(
    text: &'a str,
    mut speakers: impl Iterator<Item = &'a str>,
) -> Option<(&'a str, &'a str)> {
    let (name, quote) = text.split_once(": ")?;
    // Facts name their speakers with spaces.
    let speaker = speakers.find(|known| known.replace('\u{a0}', " ") == name)?;
    Some((speaker, quote))
}

/// Parses `Marta #12 the quote. #14 the next`, as written by [`super::render::rolling`].
fn numbered(item: &str) -> Option<(&str, &str)> {
    let (name, rest) = item.split_once(' ')?;
    ordinal(rest.split(' ').next()?)?;
    let is_speaker = is_name(name) && !has_word(BEFORE_OTHER_NUMBERS, &name.to_lowercase());
    is_speaker.then_some((name, rest))
}

/// Parses `user: the quote`.
fn named(item: &str) -> Option<(&str, (Option<Ordinal>, &str))> {
    let (name, quote) = item.split_once(": ")?;
    Role::from_name(name)?;
    Some((name, (None, quote)))
}

fn add_quote<'a>(
    pool: &mut Pool<'a>,
    (number, quote): (Option<Ordinal>, &'a str),
    speaker: &'a str,
    section: Option<Section>,
    at: Option<Timestamp>,
) {
    let role = Role::from_name(speaker).unwrap_or(Role::Assistant);
    let kind = match role {
        Role::Tool => PassageKind::ToolResult,
        _ if attachment::is_note(quote) => PassageKind::Attachment,
        Role::Assistant if is_call(quote) => PassageKind::ToolCall,
        _ => PassageKind::Text,
    };
    let source = Source {
        ordinal: number,
        at,
        role,
        speaker,
        kind,
        prior: true,
        section,
        is_outcome: kind == PassageKind::ToolResult && is_outcome_line(quote),
        is_failed_call: false,
    };
    let stretches: Vec<Vec<&str>> = quote.split(GAP).map(quoted_lines).collect();
    pool.add(source, &stretches);
}

/// The lines of a quote. Between two digits their separator is part of a line: `3 / 10 tests pass`.
fn quoted_lines(quote: &str) -> Vec<&str> {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut lines, mut from) = (Vec::new(), 0);
    for (at, separator) in quote.match_indices(LINE_BREAK) {
        let after = at + separator.len();
        let is_within = quote[..at].ends_with(is_digit) && quote[after..].starts_with(is_digit);
        if !is_within {
            lines.push(&quote[from..at]);
            from = after;
        }
    }
    lines.push(&quote[from..]);
    lines
}

/// Whether a quote begins with the names of a tool and an argument: `cancel_order: order_id: W-17`.
pub(crate) fn is_call(quote: &str) -> bool {
    let mut names = quote.split(": ");
    let mut is_next = || names.next().is_some_and(is_identifier);
    is_next() && is_next() && names.next().is_some()
}

/// A quote and its message: `#12 the quote`, or a key fact's `the quote (#12)`. A larger number than `last`
/// is of something else.
fn reference(item: &str, last: Ordinal) -> (Option<Ordinal>, &str) {
    let number = |text: &str| ordinal(text).filter(|number| *number <= last);
    if let Some((head, quote)) = item.split_once(' ')
        && let Some(number) = number(head)
    {
        return (Some(number), quote);
    }
    if let Some((quote, tail)) = item.rsplit_once(" (")
        && let Some(number) = tail.strip_suffix(')').and_then(number)
    {
        return (Some(number), quote);
    }
    (None, item)
}

/// Parses `#12`, with only digits after the sign.
pub(super) fn ordinal(text: &str) -> Option<Ordinal> {
    text.trim().strip_prefix('#')?.parse().ok().map(Ordinal)
}

/// Whether a word can be the name of a speaker, as [`super::passage::one_word`] writes it.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |c: char| c != ' ' && !c.is_control();
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.chars().all(is_part)
        && text.contains(|c: char| c.is_alphanumeric() || !c.is_ascii())
        && !text.starts_with(['#', '\\'])
}

/// Whether a word can be the name of a tool or of an argument.
fn is_identifier(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    //! Tests that a summary is parsed as it was written, over several summaries of summaries.

    use super::*;
    use crate::extractive::quote::quote;
    use crate::extractive::{Passage, SummaryInput, SummaryLayout, summarise};

    const NAMES: [&str; 9] = [
        "Ada Lovelace",
        "Ben Smith Jr.",
        "][AcHm2][",
        "Chris|",
        "Dr. Wu",
        "ana",
        "李 明",
        "\\o/",
        "##",
    ];
    const TEXTS: [&str; 9] = [
        "the flight {} leaves on Friday at 9",
        "I paid {} EUR for the desk.",
        "see #{} and #4: it is done",
        "#{} is mine",
        "ok; the code is X-{};",
        "Ben: no, {} is wrong",
        "Did you call {}? I did. #3 as well",
        "my cat {} 🐱",
        "back at {} (or later",
    ];

    fn passages(seed: &mut u64, from: u32) -> Vec<Passage<'static>> {
        let mut next = |most: usize| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*seed >> 33) as usize % most
        };
        let each = (from..from + 12).map(|n| {
            let text = TEXTS[next(TEXTS.len())].replace("{}", &(100 + next(900)).to_string());
            let at = Timestamp(1_715_000_000_000 + i64::from(n) * 20_000_000);
            let mut passage = Passage::text(Ordinal(n), Role::User, at, text);
            passage.author = Some(crate::extractive::one_word(NAMES[next(NAMES.len())]));
            passage
        });
        each.collect()
    }

    #[test]
    fn two_texts_of_one_message_keep_its_number() {
        let texts = ["The gate is locked.", "The key is with Ada."];
        let at = Timestamp(1_715_000_000_000);
        let passages = texts.map(|text| Passage::text(Ordinal(5), Role::User, at, text));
        let count = |text: &str| text.len() as u64 / 4;
        for layout in [SummaryLayout::Rolling, SummaryLayout::Paragraph] {
            let input = SummaryInput {
                layout,
                ..SummaryInput::new(&passages, unisono_context::Tokens(200), &count)
            };
            let summary = summarise(&input).text;
            let mut pool = Pool::new();
            add(&mut pool, &summary, Ordinal(5));
            let read = pool.units.iter().map(|unit| (unit.ordinal, unit.text));
            let expected = texts.map(|text| (Some(Ordinal(5)), text));
            assert_eq!(read.collect::<Vec<_>>(), expected, "{summary}");
        }
    }

    #[test]
    fn adjacent_lines_stay_beside_each_other() {
        let said = "The gate is locked. / The key is with Ada. It is red. … Bring 4 / 6 chairs.";
        let summary = format!("- user #5 {said}");
        let mut pool = Pool::new();
        add(&mut pool, &summary, Ordinal(5));
        let all: Vec<usize> = (0..pool.units.len()).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(pool.units[3].text, "Bring 4 / 6 chairs.");
        let mut again = String::new();
        quote(&pool, &all, &mut again);
        assert_eq!(again, said);
    }

    #[test]
    fn a_summary_gives_no_day_and_no_section_to_the_next_one() {
        let summary = "[summary of #1–#9]\nThe roof leaks.\n\nDays (UTC): 4 May 2026.\n\n\
            [summary of #10–#19]\nDays (UTC): 5 May 2026.\n\n## Unresolved questions\n- #10 Who has \
            the key?\n\n[summary of #20–#29]\n6 May 2026:\n- #20 Ada has it.\n\n\
            [summary of #30–#39]\nThe lift is old.\n\n[summary of #40–#49]\n#40–#49, 2026-05-07 to \
            2026-05-08: user: #40 The attic is dry.";
        let mut pool = Pool::new();
        let (_, days) = add(&mut pool, summary, Ordinal(4));
        let read = pool.units.iter().map(|unit| {
            let day = unit.at.and_then(crate::date::utc_date);
            (unit.text, day.map(|day| day.day()), unit.section)
        });
        let expected = [
            ("The roof leaks.", None, None),
            ("Who has the key?", Some(5), Some(Section::Questions)),
            ("Ada has it.", Some(6), None),
            ("The lift is old.", None, None),
            ("The attic is dry.", None, None),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected);
        assert_eq!(days.known.len(), 5);
    }

    #[test]
    fn the_note_of_an_attachment_is_no_text() {
        let summary =
            "- Ada #3 [attachment plan.pdf application/pdf 3,000 bytes]\n- Ada #4 It is done.";
        let mut pool = Pool::new();
        add(&mut pool, summary, Ordinal(4));
        let kinds: Vec<PassageKind> = pool.units.iter().map(|unit| unit.kind).collect();
        assert_eq!(kinds, [PassageKind::Attachment, PassageKind::Text]);
    }

    #[test]
    fn a_text_without_a_speaker_is_of_nobody_in_a_paragraph() {
        let count = |text: &str| text.len() as u64 / 4;
        let summary = "[summary of #1–#9]\n#1–#9: Ada: #3 The roof leaks at the chimney.\n\n\
            [summary of #10–#19]\nThe lift in the north wing is old.";
        let text = summarise(&SummaryInput {
            prior: Some(summary),
            layout: SummaryLayout::Paragraph,
            ..SummaryInput::new(&[], unisono_context::Tokens(200), &count)
        })
        .text;
        let mut pool = Pool::new();
        add(&mut pool, &text, Ordinal(19));
        let read = pool.units.iter().map(|unit| (unit.speaker, unit.text));
        let expected = [
            ("", "The lift in the north wing is old."),
            ("Ada", "The roof leaks at the chimney."),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_day_in_brackets_is_the_day_of_a_fact_only() {
        let summary = "5 May 2026:\n- Ada #4 [2026-05-02] The pump failed.\n\n## Key facts\n\
            - [3 May 2026] Ada: We meet on Friday. (#2)";
        let mut pool = Pool::new();
        add(&mut pool, summary, Ordinal(9));
        let read = pool.units.iter().map(|unit| {
            let day = unit.at.and_then(crate::date::utc_date);
            (unit.speaker, unit.text, day.map(|day| day.day()))
        });
        let expected = [
            ("Ada", "[2026-05-02] The pump failed.", Some(5)),
            ("Ada", "We meet on Friday.", Some(3)),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_word_before_another_number_is_no_speaker() {
        let summary = "- PR #3 was merged.\n- Fixed #2 by a restart.\n- Ada #4 It is done.\n\
            - The parser is new (#10)\n- #11 waits.\n- The gate is shut. (#9)";
        let mut pool = Pool::new();
        add(&mut pool, summary, Ordinal(9));
        let read = pool.units.iter();
        let read = read.map(|unit| (unit.speaker, unit.ordinal.map(|n| n.0), unit.text));
        let expected = [
            ("", None, "PR #3 was merged."),
            ("", None, "Fixed #2 by a restart."),
            ("Ada", Some(4), "It is done."),
            ("", None, "The parser is new (#10)"),
            ("", None, "#11 waits."),
            ("", Some(9), "The gate is shut."),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    fn words(text: &str) -> Vec<&str> {
        text.split(|c: char| !c.is_alphanumeric()).collect()
    }

    #[test]
    fn every_quote_keeps_its_message_and_its_speaker() {
        let count = |text: &str| text.len() as u64 / 4;
        let mut read = 0;
        for (start, layout) in (0..40).flat_map(|seed| {
            [SummaryLayout::Rolling, SummaryLayout::Paragraph].map(|layout| (seed, layout))
        }) {
            let (mut seed, mut said, mut summary) = (start, Vec::new(), String::new());
            for generation in 0..5 {
                let new = passages(&mut seed, 1 + 12 * generation);
                let input = SummaryInput {
                    prior: (generation > 0).then_some(&*summary),
                    layout,
                    ..SummaryInput::new(&new, unisono_context::Tokens(400), &count)
                };
                let text = summarise(&input).text;
                said.extend(new);
                summary = text;
                let mut pool = Pool::new();
                add(&mut pool, &summary, Ordinal(12 * (generation + 1)));
                for unit in &pool.units {
                    let Some(number) = unit.ordinal else { continue };
                    let source = &said[number.0 as usize - 1];
                    assert_eq!(unit.speaker, source.speaker(), "{}\n{summary}", unit.text);
                    let of_source = words(&source.text);
                    let others = words(unit.text).into_iter();
                    let others: Vec<&str> =
                        others.filter(|word| !of_source.contains(word)).collect();
                    // The texts name no days by their distance, so nothing is added to them.
                    assert!(others.is_empty(), "{others:?}: {}\n{summary}", unit.text);
                    read += 1;
                }
            }
        }
        assert!(read > 2_000, "{read}");
    }
}
