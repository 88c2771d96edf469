//! The details of the input that another model's summary keeps and loses: days, names, and ids.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use unisono_context::Role;
use unisono_context::checkpoint::{Body, FactCoverage, Span, block_text};

use super::SummaryInput;
use super::days::{day_name, short_name};
use super::summary::{self, RedactedTexts, WeighedInput};
use super::terms::{Class, Term, words};
use crate::date::Date;

/// Begins the line of names and ids.
const NAMED: &str = "Also named: ";
/// The maximum number of listed names and ids.
const MAX_NAMES: usize = 40;
/// The maximum number of listed speakers.
const MAX_SPEAKERS: usize = 12;
/// The maximum number that occur first in the same message.
const MAX_PER_MESSAGE: usize = 8;
/// A name is listed if it occurs in at least this many messages.
const NAME_MIN_MESSAGES: usize = 2;

/// See [`super::anchors`].
pub(super) fn anchors(input: &SummaryInput<'_>, text: &str) -> String {
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

/// See [`super::coverage`].
pub(super) fn coverage(
    input: &SummaryInput<'_>,
    covers: &[Span],
    block: &str,
) -> Option<FactCoverage> {
    let quotes = summary::checkpoint(input, covers);
    let body = Body::Summary(quotes.text.as_str().into());
    let quotes = block_text(covers, &body, &quotes.key_facts);
    let texts = RedactedTexts::redacted(input);
    let mut read = WeighedInput::weighed(input, &texts);
    let none = HashSet::new();
    let named: Vec<Term> = named(&read, &none).into_keys().collect();
    let days = read.coverage.days.known.len();
    let mut given = |text: &str| {
        let terms: HashSet<Term> = read.pool.terms_of(text).into_iter().collect();
        let named = named.iter().filter(|term| terms.contains(term)).count();
        saturated(named + given_days(&read, text).len())
    };
    let coverage = FactCoverage {
        kept: given(block),
        quoted: given(&quotes),
        facts: saturated(named.len() + days),
    };
    (coverage.facts > 0).then_some(coverage)
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A line with the days of the conversation that are missing in a text.
fn lost_days(read: &WeighedInput<'_>, text: &str, cap: u64) -> String {
    let days = &read.coverage.days;
    let given = given_days(read, text);
    match given.len() == days.known.len() {
        true => String::new(),
        false => days.legend(&given, cap),
    }
}

/// The days of the conversation in a text.
fn given_days(read: &WeighedInput<'_>, text: &str) -> BTreeSet<Date> {
    let days = &read.coverage.days;
    let given = days.known.iter().copied().filter(|day| {
        let short = short_name(*day, &mut Some(day.year()));
        [day_name(*day), short, day.to_string()]
            .iter()
            .any(|name| has_day(text, name))
    });
    given.collect()
}

/// Whether a text contains a day that is not the end of another one: `1 May` in `21 May`.
fn has_day(text: &str, name: &str) -> bool {
    let mut places = text.match_indices(name);
    places.any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_digit()))
}

/// Names and ids that are missing in a text, the most important first, each with its position.
fn lost_names(read: &mut WeighedInput<'_>, text: &str) -> Vec<(String, usize)> {
    let kept: HashSet<Term> = read.pool.terms_of(text).into_iter().collect();
    let weight = |term: Term| read.worth.terms.get(term as usize).copied().unwrap_or(0.0);
    let mut named: Vec<(f32, NamedTerm)> = named(read, &kept)
        .into_iter()
        .map(|(term, one)| (weight(term), one))
        .collect();
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
        let is_person = unit.role == Role::User && unit.speaker != unit.role.name();
        if is_person && !unit.speaker.is_empty() {
            *times.entry(unit.speaker).or_default() += 1;
        }
    }
    let mut speakers: Vec<(&str, usize)> = times.into_iter().collect();
    speakers.sort_by_key(|(_, times)| Reverse(*times));
    let names = speakers
        .into_iter()
        .map(|(name, _)| name.replace('\u{a0}', " "));
    let is_word = |at: usize, name: &str| {
        let beside = [
            text[..at].chars().next_back(),
            text[at + name.len()..].chars().next(),
        ];
        !beside.into_iter().flatten().any(char::is_alphanumeric)
    };
    let lost =
        names.filter(move |name| !text.match_indices(&**name).any(|(at, _)| is_word(at, name)));
    lost.take(MAX_SPEAKERS).map(|name| (name, 0))
}

/// The names and ids of the input except those in `kept`: ids with digits, and names that several
/// messages have.
fn named(read: &WeighedInput<'_>, kept: &HashSet<Term>) -> HashMap<Term, NamedTerm> {
    let vocabulary = &read.pool.vocabulary;
    let mut found: HashMap<Term, NamedTerm> = HashMap::new();
    let has_capital_nouns = is_german(read);
    let mut place = 0;
    for unit in &read.pool.units {
        words(unit.text, &mut |word, shape| {
            place += 1;
            let is_named = shape.digit || shape.capital && word.chars().count() > 2;
            let known = is_named.then(|| vocabulary.known(word)).flatten();
            let Some(term) = known.filter(|term| !kept.contains(term)) else {
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
    found.retain(|term, one| match vocabulary.class(*term) {
        Class::Identifier => one.word.contains(|c: char| c.is_ascii_digit()),
        Class::Name => one.sources >= NAME_MIN_MESSAGES && !has_capital_nouns,
        _ => false,
    });
    found
}

/// Whether a conversation is mostly in German, where every noun has a capital letter.
fn is_german(read: &WeighedInput<'_>) -> bool {
    let (mut german, mut english) = (0, 0);
    for unit in &read.pool.units {
        for word in unit.text.split_whitespace() {
            german += usize::from(["der", "die", "und", "ist", "nicht", "ich"].contains(&word));
            english += usize::from(["the", "and", "is", "not", "of", "to"].contains(&word));
        }
    }
    german > english
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
