//! What a question expects: a time, a person, an amount, a place; and the kinds of facts that it names
//! (`Which dates changed?`).

use super::{weights, words};
use crate::date::utc_date;
use crate::extractive::bm25::rarity;
use crate::extractive::cues::Cues;
use crate::extractive::days::{has_word, is_date_word};
use crate::extractive::pool::{Pool, Unit};
use crate::extractive::relative;
use crate::extractive::terms::{self, Class, Term};

/// The kind of answer that a question expects.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Time,
    /// The time of something that happened: also the day of the message that tells it.
    PastTime,
    Person,
    Amount,
    Place,
    Other,
}

/// The words that ask for each kind, separated by bars.
const ASKING: [(Expected, &str); 5] = rows! {
    (Expected::Time, "when|wann|what day|what time|which day"),
    (Expected::Person, "who|whom|whose|wer|wen|wem|wessen"),
    (Expected::Amount, "\
        how much|how many|how long|how old|how high|how large|how far|how often|wie viel|wie viele|\
        wieviel|wie lange|wie hoch|wie teuer|wie alt|wie oft|wie weit"),
    (Expected::Place, "where|wo|wohin|woher"),
    (Expected::Other, "\
        what|which|how|why|was|welche|welcher|welches|welchem|wie|warum|wieso|weshalb"),
};
/// Words of a question about the past.
const PAST: &str = "did was were had hat habe haben war waren wurde wurden";
/// Numerals, and the words before a place.
const NUMERALS: &str = "two three four five six seven eight nine ten twelve hundred twice zwei drei \
    vier fünf sechs sieben acht neun zehn zwölf hundert";
const AT: &str = "in at from to into near im am aus nach bei zur zum auf an";
const ARTICLES: &str = "the a our my der die das dem den einer einem";

/// The words that name a kind, and the cues of the facts.
const KINDS: [(&str, Cues); 2] = rows! {
    ("date dates deadline deadlines daten termin termine", Cues::DATE),
    ("change changes changed postponed moved geändert verschoben", Cues::CHANGE),
};

/// Whether a word in small letters asks for a kind of answer.
pub(super) fn asks_for_kind(word: &str) -> bool {
    let mut phrases = ASKING.iter().flat_map(|(_, phrases)| phrases.split('|'));
    phrases.any(|phrase| has_word(phrase, word))
}

impl Expected {
    pub(super) fn from_task(task: &str) -> Expected {
        let text = format!(" {} ", words(task).collect::<Vec<_>>().join(" "));
        let place = |phrase: &str| text.find(&format!(" {phrase} "));
        let asking = ASKING.iter().filter_map(|(kind, phrases)| {
            let first = phrases.split('|').filter_map(place).min()?;
            Some((first, *kind))
        });
        let first = asking.min_by_key(|(place, _)| *place);
        match first.map_or(Expected::Other, |(_, kind)| kind) {
            Expected::Time if words(task).any(|word| has_word(PAST, &word)) => Expected::PastTime,
            kind => kind,
        }
    }

    /// The factor of a unit; `asked` are the terms of the question. `own` is the share of the best unit's
    /// relevance by its words: a message that tells what happened is of a day, whether it names one or
    /// not.
    pub(super) fn factor(self, pool: &Pool<'_>, index: usize, asked: &[Term], own: f32) -> f32 {
        let unit = &pool.units[index];
        let has_new = |class: Class| {
            let is_new =
                |term: &Term| pool.vocabulary.class(*term) == class && !asked.contains(term);
            pool.terms(index).iter().any(is_new)
        };
        let names_day = |date| relative::resolved(unit.text, date).is_some();
        let is_kind = match self {
            Expected::Time | Expected::PastTime => {
                unit.cues.intersects(Cues::DATE)
                    || unit.at.and_then(utc_date).is_some_and(names_day)
                    || words(unit.text).any(|word| word == "uhr" || is_date_word(&word))
            }
            Expected::Person => unit.cues.intersects(Cues::FIRST) || has_new(Class::Name),
            Expected::Amount => {
                has_new(Class::Number) || words(unit.text).any(|word| has_word(NUMERALS, &word))
            }
            Expected::Place => names_place(unit.text),
            Expected::Other => true,
        };
        match self {
            _ if is_kind => 1.0,
            Expected::PastTime if unit.at.and_then(utc_date).is_some() => {
                own.max(weights::OTHER_KIND)
            }
            _ => weights::OTHER_KIND,
        }
    }
}

/// The gain of each unit for facts of the kinds that the question names.
pub(super) fn gains(pool: &Pool<'_>, task: &str) -> Vec<f32> {
    let is_named = |names: &str| words(task).any(|word| has_word(names, &word));
    let mut gains = vec![0.0; pool.units.len()];
    for (_, cues) in KINDS.iter().filter(|(names, _)| is_named(names)) {
        let has = |unit: &&Unit<'_>| unit.cues.intersects(*cues);
        let gain = rarity(pool.units.len(), pool.units.iter().filter(has).count());
        for (all, unit) in gains.iter_mut().zip(&pool.units) {
            *all += if has(&unit) { gain } else { 0.0 };
        }
    }
    gains
}

/// Whether a text has a preposition of a place and a name after it, or a path.
fn names_place(text: &str) -> bool {
    let (mut is_after, mut found) = (false, false);
    terms::words(text, &mut |word, shape| {
        let lower = word.to_lowercase();
        found |= is_after && (shape.capital || shape.digit) || shape.joined;
        is_after = has_word(AT, &lower) || is_after && has_word(ARTICLES, &lower);
    });
    found
}
