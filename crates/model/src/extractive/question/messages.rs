//! The relevance of whole messages to a question: their words, their speaker, their day, and the
//! messages beside them.

use std::collections::{HashMap, HashSet};

use unisono_context::Ordinal;

use super::weights;
use crate::date::{Date, utc_date};
use crate::extractive::bm25::{self, Query, rarity};
use crate::extractive::cues::Cues;
use crate::extractive::days::{day_of_month, month};
use crate::extractive::passage::PassageKind;
use crate::extractive::pool::Pool;
use crate::extractive::score;
use crate::extractive::terms::{self, Term};

/// Words before a month that stands alone; without one, `may` and `march` are verbs.
const BEFORE_MONTHS: [&str; 7] = ["in", "im", "since", "seit", "of", "last", "until"];

/// A day or a month, of any year if the question has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedDay {
    year: Option<i16>,
    month: i8,
    day: Option<i8>,
}

impl From<Date> for NamedDay {
    fn from(date: Date) -> NamedDay {
        NamedDay {
            year: Some(date.year()),
            month: date.month(),
            day: Some(date.day()),
        }
    }
}

impl NamedDay {
    fn has(self, date: Date) -> bool {
        self.month == date.month()
            && self.year.is_none_or(|year| year == date.year())
            && self.day.is_none_or(|day| day == date.day())
    }
}

/// The properties of each source with regard to a question.
pub(super) struct Messages {
    /// BM25 of its words, and the gain of its facts.
    own_words: Vec<f32>,
    /// The sources of the days that the question names; or those of its people, if no message has its
    /// other words.
    preferred: HashSet<usize>,
    /// The sources with an id that the question names.
    with_id: HashSet<usize>,
    /// Words, speaker and day together.
    relevance: Vec<f32>,
    /// The worth of each unit in general, from 0 to 1, if any source is preferred.
    worth: Vec<f32>,
    ordinals: Vec<Option<Ordinal>>,
    /// Whether it ends with a question or is a call.
    asks: Vec<bool>,
}

impl Messages {
    /// `by_kind`: the gain of each unit for the kinds of its facts; `repeats`: whether it is the same
    /// question.
    pub(super) fn new(
        pool: &Pool<'_>,
        task: &str,
        query: &Query,
        by_kind: &[f32],
        repeats: &[bool],
    ) -> Messages {
        let mut most = vec![0.0_f32; pool.sources];
        for (unit, gain) in pool.units.iter().zip(by_kind) {
            most[unit.source] = most[unit.source].max(*gain);
        }
        let own_words = bm25::of_sources(pool, query).into_iter().zip(most);
        let own_words: Vec<f32> = own_words.map(|(own, gain)| own + gain).collect();
        let by_speaker = said_by(pool, task);
        let mut preferred = sources_on_named_days(pool, task);
        if preferred.is_empty() && own_words.iter().all(|own| *own <= 0.0) {
            let said = by_speaker.iter().enumerate();
            let said = said.filter(|(_, gain)| **gain > 0.0);
            preferred.extend(said.map(|(source, _)| source));
        }
        let gain = weights::DAY * rarity(pool.sources, preferred.len());
        let each = own_words.iter().zip(&by_speaker).enumerate();
        let relevance = each
            .map(|(source, (own, by))| match preferred.contains(&source) {
                true => own + by + gain,
                false => own + by,
            })
            .collect();
        let worth = match preferred.is_empty() {
            true => Vec::new(),
            false => bm25::normalised(score::weigh(pool, &[], 1.0).units),
        };
        let mut messages = Messages {
            own_words,
            preferred,
            with_id: sources_with_id(pool, task, repeats),
            relevance,
            worth,
            ordinals: vec![None; pool.sources],
            asks: vec![false; pool.sources],
        };
        for unit in &pool.units {
            messages.ordinals[unit.source] = unit.ordinal;
            messages.asks[unit.source] =
                unit.cues.intersects(Cues::QUESTION) || unit.kind == PassageKind::ToolCall;
        }
        messages
    }

    /// The relevance of a message, with its part of the relevance of the messages beside it; and
    /// whether all its units have it: it has no words of the question, and answers a relevant one, or
    /// is preferred.
    pub(super) fn relevance(&self, source: usize) -> (f32, bool) {
        let relevance = |at: Option<usize>| at.map_or(0.0, |at| self.relevance[at]);
        let before = self.before(source);
        let asks = before.is_some_and(|at| self.asks[at]);
        // A question is also about what was said before it.
        let earlier = relevance(before.filter(|_| asks).and_then(|at| self.before(at)));
        let before = relevance(before) + weights::NEIGHBOUR * earlier;
        let after = relevance(self.before(source + 1).map(|_| source + 1));
        let is_answer = asks && !self.asks[source] && before > 0.0;
        let is_same = is_answer || self.preferred.contains(&source);
        let value = self.relevance[source] + weights::NEIGHBOUR * before.max(after);
        let value = match self.is_near_id(source) {
            true => value,
            false => value * weights::WITHOUT_ID,
        };
        (value, is_same && self.own_words[source] <= 0.0)
    }

    /// Whether a source or one beside it has an id that the question names, if any source has.
    fn is_near_id(&self, source: usize) -> bool {
        let mut near = source.saturating_sub(1)..=source + 1;
        self.with_id.is_empty() || near.any(|near| self.with_id.contains(&near))
    }

    /// The factor of a unit of a preferred source, 1 for others: its best units come first.
    pub(super) fn worth_factor(&self, source: usize, unit: usize) -> f32 {
        match self.preferred.contains(&source) {
            true => self.worth[unit].max(0.0).sqrt(),
            false => 1.0,
        }
    }

    fn before(&self, source: usize) -> Option<usize> {
        let before = source.checked_sub(1)?;
        let (this, earlier) = (*self.ordinals.get(source)?, self.ordinals[before]?);
        (this?.0.abs_diff(earlier.0) <= 1).then_some(before)
    }
}

/// The gain of each source if the question names its speaker: a question about a person is answered
/// by that person rather than in messages to them.
fn said_by(pool: &Pool<'_>, task: &str) -> Vec<f32> {
    let asked: Vec<String> = super::words(task).collect();
    let mut speakers = vec![""; pool.sources];
    let people = pool.units.iter().filter(|unit| unit.is_named());
    people.for_each(|unit| speakers[unit.source] = unit.speaker);
    let mut times: HashMap<&str, usize> = HashMap::new();
    speakers
        .iter()
        .for_each(|speaker| *times.entry(speaker).or_default() += 1);
    let gain = |speaker: &&str| match names_speaker(&asked, speaker) {
        true => weights::SPEAKER * rarity(pool.sources, times[speaker]),
        false => 0.0,
    };
    speakers.iter().map(gain).collect()
}

/// Whether the words of a question name a speaker, also with the possessive of a German name: `Friedas`.
pub(super) fn names_speaker(asked: &[String], speaker: &str) -> bool {
    let is = |asked: &String, name: &str| asked.trim_end_matches('s') == name.trim_end_matches('s');
    super::words(speaker).any(|name| asked.iter().any(|asked| is(asked, &name)))
}

/// The sources with an id that a question names: a word with letters and digits.
fn sources_with_id(pool: &Pool<'_>, task: &str, repeats: &[bool]) -> HashSet<usize> {
    let mut ids: Vec<Term> = Vec::new();
    terms::words(task, &mut |word, shape| {
        let is_id = shape.digit && word.starts_with(char::is_alphabetic);
        let id = pool.vocabulary.known(word.trim_end_matches("'s"));
        ids.extend(id.filter(|_| is_id));
    });
    let has = |unit: &usize| pool.terms(*unit).iter().any(|term| ids.contains(term));
    let units = (0..pool.units.len()).filter(|unit| !repeats[*unit] && has(unit));
    units.map(|unit| pool.units[unit].source).collect()
}

/// The sources of the days and months that a question names: `15 February 2025`, `2025-02-15`,
/// `15.02.2025`, `im Juli 2024`.
fn sources_on_named_days(pool: &Pool<'_>, task: &str) -> HashSet<usize> {
    let named = named_days(task);
    if named.is_empty() {
        return HashSet::new();
    }
    let said = pool.units.iter().filter(|unit| {
        let date = unit.at.and_then(utc_date);
        date.is_some_and(|date| named.iter().any(|named| named.has(date)))
    });
    said.map(|unit| unit.source).collect()
}

/// Whether a question names a day or a month.
pub(super) fn names_day(task: &str) -> bool {
    !named_days(task).is_empty()
}

/// The years of the days and months that a question names. A message that has only the year is of any
/// day.
pub(super) fn named_years(task: &str) -> impl Iterator<Item = String> {
    let years = named_days(task).into_iter().filter_map(|named| named.year);
    years.map(|year| year.to_string())
}

fn named_days(task: &str) -> Vec<NamedDay> {
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let words = task.split(|c: char| !is_part(c));
    let words = words.filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    let mut named: Vec<NamedDay> = words.iter().filter_map(|word| iso_day(word)).collect();
    named.extend(task.split_whitespace().filter_map(dotted_day));
    for (at, word) in words.iter().enumerate() {
        let Some(month) = month(word) else {
            continue;
        };
        let word = |at: Option<usize>| at.and_then(|at| words.get(at)).map(String::as_str);
        let before = word(at.checked_sub(1)).filter(|word| *word != "of");
        let before = before.or_else(|| word(at.checked_sub(2)));
        let (next, after_next) = (word(Some(at + 1)), word(Some(at + 2)));
        let day_after = next.and_then(day_of_month);
        let day = before.and_then(day_of_month).or(day_after);
        let year = match day_after {
            Some(_) => after_next,
            None => next,
        };
        let year = year.and_then(year_of);
        let introduced = word(at.checked_sub(1)).is_some_and(|word| BEFORE_MONTHS.contains(&word));
        if day.is_some() || year.is_some() || introduced {
            named.push(NamedDay { year, month, day });
        }
    }
    named
}

/// Parses `2025-02-15`; eight digits may be any number.
fn iso_day(word: &str) -> Option<NamedDay> {
    let date: Date = word.parse().ok().filter(|_| word.contains('-'))?;
    Some(NamedDay::from(date))
}

/// Parses `15.02.2025`.
fn dotted_day(word: &str) -> Option<NamedDay> {
    let word = word.trim_matches(|c: char| !c.is_ascii_digit());
    let (day, rest) = word.split_once('.')?;
    let (month, year) = rest.split_once('.')?;
    let date = Date::new(year_of(year)?, month.parse().ok()?, day.parse().ok()?);
    date.ok().map(NamedDay::from)
}

fn year_of(word: &str) -> Option<i16> {
    let year = word.parse().ok()?;
    (1_900..=2_999).contains(&year).then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_of_a_question() {
        let of = |year, month, day| NamedDay { year, month, day };
        let rows = rows! {
            ("What did Mara do on 15 February 2025?", vec![of(Some(2025), 2, Some(15))]),
            ("And on February 15, 2025?", vec![of(Some(2025), 2, Some(15))]),
            ("on the 3rd of May", vec![of(None, 5, Some(3))]),
            ("2025-02-15?", vec![of(Some(2025), 2, Some(15))]),
            ("Was tat Mara am 15.02.2025?", vec![of(Some(2025), 2, Some(15))]),
            ("Is 1.2.3 or 40.1.2025 out?", vec![]),
            ("Was geschah im Juli 2024?", vec![of(Some(2024), 7, None)]),
            ("Am 5. März?", vec![of(None, 3, Some(5))]),
            ("What happened in March?", vec![of(None, 3, None)]),
            ("Who may march?", vec![]),
            ("What costs 15 euros?", vec![]),
            ("Where is order 20250215?", vec![]),
        };
        for (task, expected) in rows {
            assert_eq!(named_days(task), expected, "{task}");
        }
    }
}
