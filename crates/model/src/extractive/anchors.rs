//! The details of the input that another model's summary keeps and loses: days, names, and ids.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use unisono_context::Role;
use unisono_context::checkpoint::{Body, FactCoverage, Span, block_text};

use super::SummaryInput;
use super::days::{DAYS, Days, QuotedDays, day_name, has_word, is_date_word, short_name};
use super::summary::{RedactedTexts, WeighedInput};
use super::terms::{Class, Term, words};
use crate::date::{Date, utc_date};

/// Begins the line of names and ids.
pub const NAMED: &str = "Also named: ";
/// The maximum number of listed names and ids.
const MAX_NAMES: usize = 40;
/// The maximum number of listed speakers.
const MAX_SPEAKERS: usize = 12;
/// The maximum number that occur first in the same message.
const MAX_PER_MESSAGE: usize = 8;
/// A name is listed if it occurs in at least this many messages.
const NAME_MIN_MESSAGES: usize = 2;
/// The minimum number of characters of an id that begins with a digit, and of a code in capitals.
const ID_MIN_CHARS: usize = 5;
/// The minimum number of characters of such an id without a capital: a short hash of a commit.
const HASH_MIN_CHARS: usize = 7;

/// The details of the input that are missing in another model's summary: a line of days, and one of
/// names and ids with digits, the most important ones that fit the cap. Empty if nothing is missing
/// or nothing fits. `text` is the summary with everything next to it.
pub fn anchors(input: &SummaryInput<'_>, text: &str) -> String {
    let texts = RedactedTexts::redacted(input);
    let mut read = WeighedInput::weighed(input, &texts);
    let days = lost_days(&read, text, input.cap.0);
    let mut named = lost_names(&mut read, text);
    loop {
        let mut lines = days.clone();
        if !named.is_empty() {
            let mut listed = named.clone();
            listed.sort_unstable_by_key(|(_, place)| *place);
            let listed: Vec<&str> = listed.iter().map(|(word, _)| &**word).collect();
            lines += &format!("{NAMED}{}.\n", listed.join(", "));
        }
        lines.truncate(lines.trim_end().len());
        if lines.is_empty() || (input.count)(&lines) <= input.cap.0 {
            return lines;
        }
        if named.pop().is_none() {
            return String::new();
        }
    }
}

/// The number of days, names and ids of the input in another model's block, and in the block that
/// [`super::checkpoint`] would write within the cap, which is the size of the block. `None` if the input
/// has none.
pub fn coverage(input: &SummaryInput<'_>, covers: &[Span], block: &str) -> Option<FactCoverage> {
    let texts = RedactedTexts::redacted(input);
    let mut read = WeighedInput::weighed(input, &texts);
    let none = HashSet::new();
    let named: Vec<Term> = named(&read, &none).into_keys().collect();
    let days = read.coverage.days.known.len();
    let quotes = read.checkpoint(covers);
    let body = Body::Summary(quotes.text.as_str().into());
    let quotes = block_text(covers, &body, &quotes.key_facts);
    let mut given = |text: &str| {
        let terms: HashSet<Term> = read.pool.terms_of(text).into_iter().collect();
        let named = named.iter().filter(|term| terms.contains(term)).count();
        (named + given_days(&read, text).len()) as u32
    };
    let coverage = FactCoverage {
        kept: given(block),
        quoted: given(&quotes),
        facts: (named.len() + days) as u32,
    };
    (coverage.facts > 0).then_some(coverage)
}

/// A line with the days of the conversation that are missing in a text.
fn lost_days(read: &WeighedInput<'_>, text: &str, cap: u64) -> String {
    let days = &read.coverage.days;
    let given = given_days(read, text);
    if given.len() == days.known.len() {
        return String::new();
    }
    let said = read.pool.units.iter().filter(|unit| !unit.prior);
    let said = QuotedDays::new(said.map(|unit| unit.at.and_then(utc_date)));
    days.legend(&given, &said, cap)
}

fn given_days(read: &WeighedInput<'_>, text: &str) -> BTreeSet<Date> {
    let days = &read.coverage.days;
    let legends = text.lines().filter_map(|line| line.strip_prefix(DAYS));
    let listed: BTreeSet<Date> = legends.flat_map(|line| Days::parse(line).known).collect();
    let is_named = |day: Date| {
        let short = short_name(day, &mut Some(day.year()));
        let mut names = [day_name(day), short, day.to_string()].into_iter();
        // `1 May` may be the end of another day, `21 May`.
        let is_end = |at: usize| text[..at].ends_with(|c: char| c.is_ascii_digit());
        let is_part = |at: usize, end: usize| is_end(at) || begins_with_year(&text[end..]);
        names.any(|name| {
            let mut found = text.match_indices(&*name);
            found.any(|(at, _)| !is_part(at, at + name.len()))
        })
    };
    let given = days.known.iter().copied();
    given
        .filter(|day| listed.contains(day) || is_named(*day))
        .collect()
}

/// Whether the text after a day without a year is its year: `1 May` is not `1 May 2024`.
fn begins_with_year(after: &str) -> bool {
    let digits = after.strip_prefix(' ').unwrap_or_default().bytes();
    digits.take_while(u8::is_ascii_digit).count() == 4
}

/// Names and ids that are missing in a text, the most important first, each with its position.
fn lost_names(read: &mut WeighedInput<'_>, text: &str) -> Vec<(String, usize)> {
    let kept: HashSet<Term> = read.pool.terms_of(text).into_iter().collect();
    let weight = |term: Term| read.worth.terms.get(term as usize).copied().unwrap_or(0.0);
    let named = named(read, &kept).into_iter();
    let mut named: Vec<_> = named.map(|(term, one)| (weight(term), one)).collect();
    named.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.place.cmp(&other.place)));
    let mut per_message: HashMap<usize, usize> = HashMap::new();
    named.retain(|(_, one)| {
        let listed = per_message.entry(one.first).or_default();
        *listed += 1;
        *listed <= MAX_PER_MESSAGE
    });
    let named = named.into_iter().map(|(_, one)| (one.word, one.place));
    let mut all: Vec<(String, usize)> = lost_speakers(read, text).chain(named).collect();
    all.truncate(MAX_NAMES);
    all
}

/// The speakers that a text does not name, the most frequent first.
fn lost_speakers<'r>(
    read: &'r WeighedInput<'_>,
    text: &'r str,
) -> impl Iterator<Item = (String, usize)> + 'r {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for unit in &read.pool.units {
        let is_person = unit.role == Role::User && unit.is_named();
        if is_person && !unit.speaker.is_empty() {
            *times.entry(unit.speaker).or_default() += 1;
        }
    }
    let mut speakers: Vec<(&str, usize)> = times.into_iter().collect();
    speakers.sort_by_key(|(_, times)| Reverse(*times));
    let names = speakers.into_iter();
    let names = names.map(|(name, _)| name.replace('\u{a0}', " "));
    let lost = names.filter(move |name| !has_name(text, name));
    lost.take(MAX_SPEAKERS).map(|name| (name, 0))
}

/// Whether a text has a name that is not a part of a longer word.
pub fn has_name(text: &str, name: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !joins(before.chars().next_back()) && !joins(after.chars().next())
    })
}

/// The names and ids of the input except those in `kept`: ids with digits, codes in capitals, and
/// names that several messages have.
fn named(read: &WeighedInput<'_>, kept: &HashSet<Term>) -> HashMap<Term, NamedTerm> {
    let vocabulary = &read.pool.vocabulary;
    let mut found: HashMap<Term, NamedTerm> = HashMap::new();
    // Words that are written in other ways, too, are shouted and no codes.
    let mut other_ways: HashSet<Term> = HashSet::new();
    // Words that are written in small letters, too, begin a sentence or a title and are no names.
    let mut small: HashSet<Term> = HashSet::new();
    let common = read.pool.common_words();
    // Every German noun has a capital letter.
    let has_capital_nouns = common.is_some_and(|words| has_word(words, "und"));
    let mut place = 0;
    for unit in read.pool.units.iter().filter(|unit| !unit.is_outcome) {
        let is_shouted = is_shouted(unit.text);
        words(unit.text, &mut |word, shape| {
            place += 1;
            let known = vocabulary.known(word);
            let is_code = is_code(word) && !is_shouted;
            if let Some(term) = known.filter(|_| shape.letter && !shape.digit && !is_code) {
                other_ways.insert(term);
            }
            small.extend(known.filter(|_| !shape.capital));
            let is_named = shape.digit || shape.capital && word.chars().count() > 2;
            let Some(term) = known.filter(|term| is_named && !kept.contains(term)) else {
                return;
            };
            let one = found.entry(term).or_insert_with(|| NamedTerm {
                word: word.to_owned(),
                place,
                first: unit.source,
                sources: 0,
                last: None,
            });
            if one.last.replace(unit.source) != Some(unit.source) {
                one.sources += 1;
            }
        });
    }
    found.retain(|term, one| {
        let is_code = is_code(&one.word) && !other_ways.contains(term);
        match vocabulary.class(*term) {
            Class::Identifier => one.word.contains(|c: char| c.is_ascii_digit()) || is_code,
            Class::Number => is_id(&one.word),
            Class::Name if is_code => true,
            Class::Name => {
                let is_name = !small.contains(term) && !is_date_word(&one.word.to_lowercase());
                is_name && one.sources >= NAME_MIN_MESSAGES && !has_capital_nouns
            }
            Class::Word => is_code,
            Class::Stop => false,
        }
    });
    found
}

/// Whether a word that begins with a digit is an id and no amount or time: five digits or more
/// without separators (`252246`), or digits and letters in turns (`7FD2KE`, `9f3c1ab`) and not a
/// number with a unit (`25kg`, `2nd`, `3h30m`).
pub(super) fn is_id(word: &str) -> bool {
    let is_plain = word.bytes().all(|c| c.is_ascii_alphanumeric());
    if !is_plain || word.len() < ID_MIN_CHARS {
        return false;
    }
    if word.bytes().all(|c| c.is_ascii_digit()) {
        return true;
    }
    let digits = |pair: &[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
    let turns = word
        .as_bytes()
        .windows(2)
        .filter(|pair| digits(pair))
        .count();
    let has_capital = word.bytes().any(|c| c.is_ascii_uppercase());
    turns > 1 && (has_capital || word.len() >= HASH_MIN_CHARS)
}

/// Whether a word is a code: five capitals or more that nobody can pronounce (`DNDKNC`, but not
/// `SELECT`), because they have few vowels or four consonants in a row.
fn is_code(word: &str) -> bool {
    let is_vowel = |c: &u8| b"AEIOUY".contains(c);
    let vowels = word.bytes().filter(|c| is_vowel(c)).count();
    let mut consonants = word.as_bytes().split(is_vowel).map(<[u8]>::len);
    word.len() >= ID_MIN_CHARS
        && word.bytes().all(|c| c.is_ascii_uppercase())
        && (vowels * 4 < word.len() || consonants.any(|run| run >= 4))
}

/// Whether most letters of a text are capitals.
fn is_shouted(text: &str) -> bool {
    let (mut large, mut small) = (0, 0);
    for c in text.chars() {
        large += usize::from(c.is_uppercase());
        small += usize::from(c.is_lowercase());
    }
    large > small
}

/// A name or an id.
struct NamedTerm {
    /// Its first spelling.
    word: String,
    /// The position of its first occurrence.
    place: usize,
    /// The first message with it, the number of messages, and the last one.
    first: usize,
    sources: usize,
    last: Option<usize>,
}

#[cfg(test)]
mod tests {
    use unisono_context::{Ordinal, Timestamp, Tokens};

    use super::*;
    use crate::extractive::fixture::passages_of;

    #[test]
    fn ids_that_begin_with_a_digit_and_codes_in_capitals_are_listed() {
        let passage = [
            "Ana booked the room, reservation 7FD2KE, case 252246, and paid 1,250 EUR on 12.05.",
            "Commit 9f3c1ab fixes it in 3h30m; the train code is DNDKNC, SELECT it; the box has 25kg.",
            "STOP SHOUTING ABOUT IT NOW PLEASE, we met at 10:30 on the 21st, in Room 4711.",
            "It was URGENT then; an urgent call came on the 3rd.",
        ];
        let mut passages = passages_of(passage);
        for passage in &mut passages {
            passage.at = Timestamp(1_777_852_800_000);
        }
        let count = |text: &str| text.split_whitespace().count() as u64;
        let input = SummaryInput::new(&passages, Tokens(200), &count);
        let named = |text: &str| {
            let lines = anchors(&input, text);
            let named = lines.split_once("Also named: ").map(|(_, names)| names);
            named.unwrap_or_default().to_owned()
        };
        assert_eq!(named("On 4 May 2026."), "7FD2KE, 252246, 9f3c1ab, DNDKNC.");
        assert_eq!(named("7FD2KE and DNDKNC."), "252246, 9f3c1ab.");
        let covers = [Span::new(Ordinal(1), Ordinal(4))];
        let coverage = coverage(&input, &covers, "On 4 May 2026: DNDKNC.").unwrap();
        assert_eq!((coverage.facts, coverage.kept), (5, 2));
    }

    #[test]
    fn a_day_of_another_year_is_missing() {
        let mut passages = passages_of(["We met.", "We met again."]);
        for (passage, day) in passages.iter_mut().zip([20_212, 20_577]) {
            passage.at = Timestamp(day * 86_400_000);
        }
        let count = |text: &str| text.split_whitespace().count() as u64;
        let input = SummaryInput::new(&passages, Tokens(200), &count);
        let listed = |text: &str| anchors(&input, text);
        assert_eq!(listed("On 4 May 2025."), "Days (UTC): 4 May 2026.");
        assert_eq!(listed("On 4 May 2026."), "Days (UTC): 4 May 2025.");
        assert_eq!(listed("On 4 May 2025, and 4 May 2026."), "");
    }

    #[test]
    fn days_and_words_with_a_capital_by_their_place_are_no_names() {
        let passage = [
            "We meet Ilja in October, on Thursday. Note: Thanks to all.",
            "Ilja can come in October, on a Thursday. He said: Thanks, thanks.",
        ];
        let passages = passages_of(passage);
        let count = |text: &str| text.split_whitespace().count() as u64;
        let input = SummaryInput::new(&passages, Tokens(200), &count);
        let lines = anchors(&input, "It went well.");
        assert!(lines.ends_with("Also named: Ilja."), "{lines}");
    }
}
