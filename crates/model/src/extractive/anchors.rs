//! What a summary that somebody else wrote gives and lost of the facts that can be looked for: days,
//! names, and ids that people or tools said.

use std::collections::{BTreeSet, HashMap, HashSet};

use unisono_context::checkpoint::{Body, FactCoverage, Span, block_text};

use super::SummaryInput;
use super::days::{day_name, short_name};
use super::summary::{self, Reading, Texts};
use super::terms::{Class, Term, words};
use crate::date::Date;

/// Begins the line of names and ids.
const NAMED: &str = "Also named: ";
/// Names and ids that are listed at most.
const MOST: usize = 40;
/// And of those that one message is the first to name.
const OF_ONE: usize = 8;
/// A name is listed if so many messages have it.
const NAME_LEAST: usize = 2;

/// See [`super::anchors`].
pub(super) fn anchors(input: &SummaryInput<'_>, text: &str) -> String {
    let texts = Texts::redacted(input);
    let mut read = Reading::weighed(input, &texts);
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
    let texts = Texts::redacted(input);
    let mut read = Reading::weighed(input, &texts);
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

/// The days of the conversation that a text does not give, as a line.
fn lost_days(read: &Reading<'_>, text: &str, cap: u64) -> String {
    let days = &read.coverage.days;
    let given = given_days(read, text);
    match given.len() == days.known.len() {
        true => String::new(),
        false => days.legend(&given, cap),
    }
}

/// Those that it gives.
fn given_days(read: &Reading<'_>, text: &str) -> BTreeSet<Date> {
    let days = &read.coverage.days;
    let given = days.known.iter().copied().filter(|day| {
        let short = short_name(*day, &mut Some(day.year()));
        [day_name(*day), short, day.to_string()]
            .iter()
            .any(|name| has_day(text, name))
    });
    given.collect()
}

/// Whether a text has a day, and not as the end of another: `1 May` in `21 May`.
fn has_day(text: &str, name: &str) -> bool {
    let mut places = text.match_indices(name);
    places.any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_digit()))
}

/// Names and ids that a text does not have, the weightiest first, each with its place.
fn lost_names(read: &mut Reading<'_>, text: &str) -> Vec<(String, usize)> {
    let kept: HashSet<Term> = read.pool.terms_of(text).into_iter().collect();
    let weight = |term: Term| read.worth.terms.get(term as usize).copied().unwrap_or(0.0);
    let mut named: Vec<(f32, Found)> = named(read, &kept)
        .into_iter()
        .map(|(term, one)| (weight(term), one))
        .collect();
    named.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.place.cmp(&other.place)));
    let mut of_one: HashMap<usize, usize> = HashMap::new();
    named.retain(|(_, one)| {
        let listed = of_one.entry(one.first).or_default();
        *listed += 1;
        *listed <= OF_ONE
    });
    named.truncate(MOST);
    let named = named.into_iter().map(|(_, one)| (one.word, one.place));
    named.collect()
}

/// The names and ids of the input but those in `kept`: ids with digits, and names that several
/// messages have.
fn named(read: &Reading<'_>, kept: &HashSet<Term>) -> HashMap<Term, Found> {
    let vocabulary = &read.pool.vocabulary;
    let mut found: HashMap<Term, Found> = HashMap::new();
    let mut place = 0;
    for unit in &read.pool.units {
        words(unit.text, &mut |word, shape| {
            place += 1;
            let is_named = shape.digit || shape.capital && word.chars().count() > 2;
            let known = is_named.then(|| vocabulary.known(word)).flatten();
            let Some(term) = known.filter(|term| !kept.contains(term)) else {
                return;
            };
            let one = found.entry(term).or_insert_with(|| Found {
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
        Class::Name => one.sources >= NAME_LEAST,
        _ => false,
    });
    found
}

/// A name or an id.
struct Found {
    /// As it is first written.
    word: String,
    /// Where that is.
    place: usize,
    /// The message that has it first, how many have it, and the last of them.
    first: usize,
    sources: usize,
    last: Option<usize>,
}
