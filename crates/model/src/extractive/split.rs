//! Splits a text into units: sentences, list items, table rows, and lines of code and logs.
//!
//! Every unit is a byte range of its text, so that a quote is always verbatim.

use std::ops::Range;

use super::days::{has_word, month};
use super::terms::in_small_letters;

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
    /// A line of another text, with the `>` before it.
    Quotation,
}

/// A unit's place in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<usize>,
    pub(super) block: Block,
    /// Whether it begins a line.
    pub(super) starts_line: bool,
    /// Whether it continues a sentence that is too long for one unit.
    pub(super) continues: bool,
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
        if is_fence(line) {
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

/// Whether a line begins or ends a block of code. Backticks with others behind them are code within the line.
fn is_fence(line: &str) -> bool {
    let is_alone = |rest: &str| !rest.trim_start_matches('`').contains('`');
    line.starts_with("~~~") || line.strip_prefix("```").is_some_and(is_alone)
}

/// The texts of the units.
pub(crate) fn unit_texts(text: &str) -> impl Iterator<Item = &str> {
    split(text).into_iter().map(move |span| &text[span.range])
}

fn split_line(text: &str, range: Range<usize>, out: &mut Vec<Span>) {
    let line = &text[range.clone()];
    if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
        out.push(Span {
            range: cut_to(text, range),
            block: Block::Heading,
            starts_line: true,
            continues: false,
        });
        return;
    }
    if line.starts_with('>') {
        push_pieces(text, range, Block::Quotation, true, out);
        return;
    }
    let bars = line.bytes().filter(|&b| b == b'|').count();
    if bars >= 2 || bars == 1 && line.contains(" | ") {
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

/// The length of a list marker: `- `, `* `, `3. `, `b) `, `- [x] `.
fn item_marker(line: &str) -> usize {
    let bytes = line.as_bytes();
    let at = match bytes {
        [b'-' | b'*' | b'+', b' ', ..] => 2,
        [c, b'.' | b')', b' ', ..] if c.is_ascii_digit() => 3,
        [c, b')', b' ', ..] if c.is_ascii_lowercase() => 3,
        [a, b, b'.' | b')', b' ', ..] if a.is_ascii_digit() && b.is_ascii_digit() => 4,
        _ if line.starts_with("• ") => "• ".len(),
        _ => return 0,
    };
    match &bytes[at..] {
        [b'[', b' ' | b'x' | b'X', b']', b' ', ..] => at + 4,
        _ => at,
    }
}

/// Adds a unit, cut into pieces if it is too long.
fn push_pieces(
    text: &str,
    range: Range<usize>,
    block: Block,
    mut starts_line: bool,
    out: &mut Vec<Span>,
) {
    let (mut rest, mut continues) = (range, false);
    while !rest.is_empty() {
        let piece = cut_to(text, rest.clone());
        rest = trim(text, piece.end..rest.end);
        out.push(Span {
            range: trim(text, piece),
            block,
            starts_line,
            continues,
        });
        (starts_line, continues) = (false, true);
    }
}

/// The longest good beginning of a range: up to a clause, else a word, else a character outside of
/// numbers, else any character.
fn cut_to(text: &str, range: Range<usize>) -> Range<usize> {
    if range.len() <= MAX_UNIT_BYTES {
        return range;
    }
    let mut ends = (0..=range.start + MAX_UNIT_BYTES).rev();
    let limit = ends.find(|&at| text.is_char_boundary(at));
    let limit = limit.unwrap_or(range.end);
    let window = &text[range.start..limit];
    let least = window.len() / 3;
    let clause = ["; ", " — ", " – ", ": ", ", ", "، ", "，", "、"]
        .into_iter()
        .filter_map(|mark| window.rfind(mark).map(|at| at + mark.trim_end().len()))
        .find(|&at| at > least);
    let end = clause.or_else(|| window.rfind(char::is_whitespace).filter(|&at| at > least));
    let end = end.or_else(|| {
        let starts = window.char_indices().rev().map(|(at, _)| at);
        let mut places = std::iter::once(window.len()).chain(starts);
        places.find(|&at| at > least && !is_within_number(text, range.start + at))
    });
    range.start..range.start + end.unwrap_or(window.len())
}

/// Whether a place in a text is between two Latin letters or digits, or at a sign of a number.
fn is_within_number(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    let (last, next) = (before.chars().next_back(), after.chars().next());
    let is_digit = |c: Option<char>| c.is_some_and(char::is_numeric);
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c.is_numeric());
    let is_sign = |c: Option<char>| c.is_some_and(|c| matches!(c, '.' | ',' | ':'));
    is_part(last) && is_part(next)
        || is_digit(last) && is_sign(next)
        || is_sign(last) && is_digit(next)
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

/// The sentences of a range. Abbreviations, numbers and initials are not ends.
fn sentences(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut at, mut has_begun) = (range.start, range.start, false);
    while let Some((c, end)) = next_mark(&text[..range.end], at) {
        has_begun = has_begun || has_content(&text[at..end]);
        let closed = skip_closers(text, end, range.end);
        if !has_begun {
            // Marks at the beginning belong to the sentence after them.
            at = closed;
            continue;
        }
        at = end;
        let ends = match c {
            '。' | '！' | '？' | '।' | '؟' | '۔' => true,
            _ => sentence_ends(text, start..end, closed..range.end),
        };
        if ends {
            found.push(trim(text, start..closed));
            (start, at, has_begun) = (closed, closed, false);
        }
    }
    found.push(trim(text, start..range.end));
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// The next character from `at` on that may end a sentence, and the position after it.
fn next_mark(text: &str, mut at: usize) -> Option<(char, usize)> {
    let bytes = text.as_bytes();
    loop {
        // The wide marks begin with one of these bytes.
        let wide = |byte: &u8| matches!(byte, 0xd8 | 0xdb | 0xe0 | 0xe2 | 0xe3 | 0xef);
        let mark = |byte: &u8| matches!(byte, b'.' | b'!' | b'?') || wide(byte);
        at += bytes.get(at..)?.iter().position(mark)?;
        let c = text[at..].chars().next()?;
        at += c.len_utf8();
        let is_wide = matches!(c, '…' | '。' | '！' | '？' | '।' | '؟' | '۔');
        if is_wide || matches!(c, '.' | '!' | '?') {
            return Some((c, at));
        }
    }
}

/// The position after closing quotes, brackets and emphasis that belong to the sentence before.
fn skip_closers(text: &str, from: usize, to: usize) -> usize {
    let closers = [
        '"', '\'', ')', ']', '*', '_', '”', '’', '»', '.', '!', '?', '」', '』',
    ];
    let rest = &text[from..to];
    to - rest.trim_start_matches(closers).len()
}

fn sentence_ends(text: &str, before: Range<usize>, after: Range<usize>) -> bool {
    let rest = &text[after];
    let Some(first) = rest.chars().next() else {
        return true;
    };
    if !first.is_whitespace() {
        return false;
    }
    let before = &text[before];
    if !before.ends_with('.') || before.ends_with("..") {
        return true;
    }
    let mut words = before.trim_end_matches('.').rsplit([' ', '(', '\t']);
    let word = words.next().unwrap_or_default();
    let next = rest.trim_start().chars().next().unwrap_or(' ');
    if is_abbreviation(word, next) || is_ordinal(before, word, rest) {
        return false;
    }
    // Sentences in chats often start in lower case; after a short word it is more likely an
    // abbreviation.
    !next.is_lowercase() || word.len() > 3
}

/// Abbreviations of English and German.
const ABBREVIATIONS: &str = "e.g i.e eg ie etc vs cf ca approx incl excl resp nr fig sec ch vol pp \
    mr mrs ms dr prof st inc ltd co corp jr sr dept max min z z.b d.h u.a o.ä bzw usw evtl ggf \
    inkl zzgl bspw vgl str tel abs art hr fr dipl ing med phil ser abt bd hrsg geb gest verh ehem \
    allg tägl lt vorm nachm mio mrd std sek pkt nachf verw anm jan feb aug okt nov dez";
/// Words that are abbreviations before a number.
const BEFORE_NUMBERS: &str = "no cat";
/// The ends of abbreviated compounds, such as `Seriennr.` and `Hauptstr.`
const ENDS: [&str; 2] = ["nr", "str"];
fn is_abbreviation(word: &str, next: char) -> bool {
    let mut letters = word.chars();
    let initial = matches!((letters.next(), letters.next()), (Some(c), None) if c.is_uppercase());
    let word = in_small_letters(word);
    let is_known = match has_word(BEFORE_NUMBERS, &word) {
        true => next.is_ascii_digit(),
        false => has_word(ABBREVIATIONS, &word),
    };
    initial || is_known || ENDS.iter().any(|end| word.ends_with(end))
}

/// German words before a day; `am` is English, too.
const BEFORE_DAYS: &str = "vom zum bis ab seit im den";

/// Whether a number with a point is an ordinal: `am 14. Juni`, `im 3. Stock`, `am 3.7. Geburtstag`, `28.06. um
/// 9 Uhr`.
fn is_ordinal(before: &str, word: &str, rest: &str) -> bool {
    let parts = || word.split('.');
    let is_small = |part: &str| part.len() <= 2 && part.parse::<u8>().is_ok();
    if parts().count() > 2 || !parts().all(is_small) {
        return false;
    }
    let next = rest.split_whitespace().next().unwrap_or_default();
    let next = next.to_lowercase();
    let previous = before.split_whitespace().rev().nth(1);
    let previous = previous.unwrap_or_default().to_lowercase();
    let is_month = month(next.trim_matches(|c: char| !c.is_alphabetic())).is_some();
    let continues = || *previous == *"am" || rest.trim_start().starts_with(char::is_lowercase);
    let is_dotted = word.contains('.') && continues();
    has_word(BEFORE_DAYS, &previous) || is_month || is_dotted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_blocks_are_distinguished() {
        let text = "# Plan\n- [x] first. item\n2) second\n| a | b |\n|---|---|\n```rs\nlet x = 1;\n}\n```\n> He said no. So be it.\n```ls -l``` first.\nend";
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
                ("> He said no. So be it.", Block::Quotation),
                ("```ls -l``` first.", Block::Prose),
                ("end", Block::Prose),
            ]
        );
    }

    #[test]
    fn long_units_are_cut_at_clauses() {
        let clause = "a clause of some length that goes on, ";
        let text = clause.repeat(40);
        let pieces: Vec<&str> = unit_texts(&text).collect();
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_UNIT_BYTES));
        assert!(pieces.iter().all(|piece| piece.starts_with("a clause")));
        assert!(unit_texts(&"x".repeat(10_000)).count() > 20);
        assert!(unit_texts(&"語".repeat(10_000)).all(|piece| piece.len() <= MAX_UNIT_BYTES));
        for (around, number) in [("共元", "125000"), ("万", "12.5"), ("x=;", "4711")] {
            let text = format!("{number}{around}").repeat(100);
            let pieces = unit_texts(&text);
            let mut parts = pieces.flat_map(|piece| piece.split(move |c: char| around.contains(c)));
            assert!(
                parts.all(|part| part.is_empty() || part == number),
                "{number}"
            );
        }
    }

    /// Each mark is read once: anything else takes hours.
    #[test]
    fn a_long_line_of_marks_is_one_sentence() {
        for mark in ["!", "。", "… "] {
            let text = mark.repeat(1_000_000);
            let whole = 0..text.trim_end().len();
            assert_eq!(sentences(&text, 0..text.len()), [whole], "{mark}");
            assert!(split(&text).is_empty(), "{mark}");
        }
    }

    #[test]
    fn sentences_survive_abbreviations_numbers_and_lower_case() {
        let rows: [(&str, &[&str]); 25] = rows! {
            ("… that it works. Yes", &["… that it works.", "Yes"]),
            ("बैठक कल है। रमेश टिकट लाएगा।", &["बैठक कल है।", "रमेश टिकट लाएगा।"]),
            ("هل وصل الطرد؟ نعم، وصل اليوم.", &["هل وصل الطرد؟", "نعم، وصل اليوم."]),
            ("یہ ٹھیک ہے۔ کل ملتے ہیں۔", &["یہ ٹھیک ہے۔", "کل ملتے ہیں۔"]),
            ("One. Two! Three?", &["One.", "Two!", "Three?"]),
            ("Use e.g. v2.3 here. Done.", &["Use e.g. v2.3 here.", "Done."]),
            ("ask Dr. Who at 10.5 km. ok", &["ask Dr. Who at 10.5 km. ok"]),
            ("it works. then we left", &["it works.", "then we left"]),
            ("(He said \"no.\") Next one.", &["(He said \"no.\")", "Next one."]),
            ("Wait... what? yes", &["Wait...", "what?", "yes"]),
            ("会议推迟了。下周二再开！好", &["会议推迟了。", "下周二再开！", "好"]),
            ("see a.b.c and foo.rs now", &["see a.b.c and foo.rs now"]),
            ("J. Smith agreed. Fine.", &["J. Smith agreed.", "Fine."]),
            ("Sie läuft z. B. ohne Stock. Gut.", &["Sie läuft z. B. ohne Stock.", "Gut."]),
            ("Termin am 14. Juni um 9:30 Uhr bei Dr. med. Braun. Ja!",
             &["Termin am 14. Juni um 9:30 Uhr bei Dr. med. Braun.", "Ja!"]),
            ("Mira hat am 3.7. Geburtstag. Sie wohnt im 3. Stock.",
             &["Mira hat am 3.7. Geburtstag.", "Sie wohnt im 3. Stock."]),
            ("Lieferung 28.06. um 12:30 Uhr. Gut.", &["Lieferung 28.06. um 12:30 Uhr.", "Gut."]),
            ("I am 30. My wife is 28.", &["I am 30.", "My wife is 28."]),
            ("We have 2. Decided?", &["We have 2.", "Decided?"]),
            ("Der Mäher (Seriennr. MZCG-81) ist kaputt. Ja.",
             &["Der Mäher (Seriennr. MZCG-81) ist kaputt.", "Ja."]),
            ("Hauptstr. 5, geb. Kluge. Gut.", &["Hauptstr. 5, geb. Kluge.", "Gut."]),
            ("It is no. 7, cat. 12. Fine.", &["It is no. 7, cat. 12.", "Fine."]),
            ("See fig. 4. Then Ms. Weber, 10 min. later.",
             &["See fig. 4.", "Then Ms. Weber, 10 min. later."]),
            ("It has 300 ms. OK", &["It has 300 ms. OK"]),
            ("He said no. We have a cat. Fine.", &["He said no.", "We have a cat.", "Fine."]),
        };
        for (text, expected) in rows {
            let found: Vec<&str> = sentences(text, 0..text.len())
                .into_iter()
                .map(|range| &text[range])
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
