//! Finds the ends of sentences. Abbreviations, numbers and initials are not ends.

use std::ops::Range;

use super::trim;
use crate::extractive::days::month;

pub(super) fn sentences(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut at) = (range.start, range.start);
    while let Some((c, end)) = next_mark(&text[..range.end], at) {
        at = end;
        let closed = skip_closers(text, end, range.end);
        let ends = match c {
            '。' | '！' | '？' => true,
            _ => sentence_ends(text, start..end, closed..range.end),
        };
        if ends {
            found.push(trim(text, start..closed));
            (start, at) = (closed, closed);
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
        let wide = |byte: &u8| matches!(byte, 0xe2 | 0xe3 | 0xef);
        let mark = |byte: &u8| matches!(byte, b'.' | b'!' | b'?') || wide(byte);
        at += bytes.get(at..)?.iter().position(mark)?;
        let c = text[at..].chars().next()?;
        at += c.len_utf8();
        if matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？') {
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
    let word = before
        .trim_end_matches('.')
        .rsplit([' ', '(', '\t'])
        .next()
        .unwrap_or_default();
    let next = rest.trim_start().chars().next().unwrap_or(' ');
    if is_abbreviation(word, next) || is_ordinal(before, word, rest) {
        return false;
    }
    // Sentences in chats often start in lower case; after a short word it is more likely an
    // abbreviation.
    !next.is_lowercase() || word.len() > 3
}

/// Abbreviations of English and German.
const ABBREVIATIONS: [&str; 83] = [
    "e.g", "i.e", "eg", "ie", "etc", "vs", "cf", "ca", "approx", "incl", "excl", "resp", "nr",
    "fig", "sec", "ch", "vol", "pp", "mr", "mrs", "ms", "dr", "prof", "st", "inc", "ltd", "co",
    "corp", "jr", "sr", "dept", "max", "min", "z", "z.b", "d.h", "u.a", "o.ä", "bzw", "usw",
    "evtl", "ggf", "inkl", "zzgl", "bspw", "vgl", "str", "tel", "abs", "art", "hr", "fr", "dipl",
    "ing", "med", "phil", "ser", "abt", "bd", "hrsg", "geb", "gest", "verh", "ehem", "allg",
    "tägl", "lt", "vorm", "nachm", "mio", "mrd", "std", "sek", "pkt", "nachf", "verw", "anm",
    "jan", "feb", "aug", "okt", "nov", "dez",
];
/// Words that are abbreviations before a number.
const BEFORE_NUMBERS: [&str; 2] = ["no", "cat"];
/// The ends of abbreviated compounds, such as `Seriennr.` and `Hauptstr.`
const ENDS: [&str; 2] = ["nr", "str"];
fn is_abbreviation(word: &str, next: char) -> bool {
    let mut letters = word.chars();
    let initial = matches!((letters.next(), letters.next()), (Some(c), None) if c.is_uppercase());
    let word = word.to_lowercase();
    let is_known = if BEFORE_NUMBERS.contains(&word.as_str()) {
        next.is_ascii_digit()
    } else {
        ABBREVIATIONS.contains(&word.as_str())
    };
    initial || is_known || ENDS.iter().any(|end| word.ends_with(end))
}

/// German words before a day; `am` is English, too.
const BEFORE_DAYS: [&str; 7] = ["vom", "zum", "bis", "ab", "seit", "im", "den"];

/// Whether a number with a point is an ordinal: `am 14. Juni`, `im 3. Stock`, `am 3.7. Geburtstag`.
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
    let is_dotted = word.contains('.') && *previous == *"am";
    BEFORE_DAYS.contains(&&*previous) || is_month || is_dotted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_survive_abbreviations_numbers_and_lower_case() {
        let rows: [(&str, &[&str]); 20] = rows! {
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
            (
                "Termin am 14. Juni um 9:30 Uhr bei Dr. med. Braun. Ja!",
                &["Termin am 14. Juni um 9:30 Uhr bei Dr. med. Braun.", "Ja!"],
            ),
            (
                "Mira hat am 3.7. Geburtstag. Sie wohnt im 3. Stock.",
                &["Mira hat am 3.7. Geburtstag.", "Sie wohnt im 3. Stock."],
            ),
            ("I am 30. My wife is 28.", &["I am 30.", "My wife is 28."]),
            ("We have 2. Decided?", &["We have 2.", "Decided?"]),
            (
                "Der Mäher (Seriennr. MZCG-81) ist kaputt. Ja.",
                &["Der Mäher (Seriennr. MZCG-81) ist kaputt.", "Ja."],
            ),
            ("Hauptstr. 5, geb. Kluge. Gut.", &["Hauptstr. 5, geb. Kluge.", "Gut."]),
            ("It is no. 7, cat. 12. Fine.", &["It is no. 7, cat. 12.", "Fine."]),
            (
                "See fig. 4. Then Ms. Weber, 10 min. later.",
                &["See fig. 4.", "Then Ms. Weber, 10 min. later."],
            ),
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
