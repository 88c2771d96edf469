//! What a question expects: a time, a person, an amount, a place, a cause; and the kinds of facts that
//! it names (`Which dates changed?`).

use super::messages::rarity;
use super::{has_word, weights, words};
use crate::date::utc_date;
use crate::extractive::cues::Cues;
use crate::extractive::pool::{Pool, Unit};
use crate::extractive::relative;
use crate::extractive::terms::{self, Class, Marks, Term};

/// The kind of answer that a question expects.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Time,
    Person,
    Amount,
    Place,
    Cause,
    Other,
}

/// The words that ask for each kind, separated by bars. Costs decide, then the first words.
const COSTS: &str = "cost costs price kostet kosten gekostet preis";
const ASKING: [(Expected, &str); 6] = [
    (Expected::Time, "when|wann|what day|what time|which day"),
    (Expected::Person, "who|whom|whose|wer|wen|wem|wessen"),
    (
        Expected::Amount,
        "how much|how many|how long|how old|how high|how large|how far|how often|wie viel|\
         wie viele|wieviel|wie lange|wie hoch|wie teuer|wie alt|wie oft|wie weit",
    ),
    (Expected::Place, "where|wo|wohin|woher"),
    (Expected::Cause, "why|warum|wieso|weshalb"),
    (
        Expected::Other,
        "what|which|how|was|welche|welcher|welches|welchem|wie",
    ),
];
/// German words of a time and of a cause, numerals, and the words before a place.
const TIMES: &str = "uhr montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar \
    märz mai juni juli oktober dezember";
const CAUSES: &str = "so weil da denn wegen deshalb daher aufgrund damit";
const NUMERALS: &str = "two three four five six seven eight nine ten twelve hundred twice zwei drei \
    vier fünf sechs sieben acht neun zehn zwölf hundert";
const AT: &str = "in at from to into near im am aus nach bei zur zum auf an";
const ARTICLES: &str = "the a our my der die das dem den einer einem";

/// The words that name a kind, and the cues of the facts.
const KINDS: [(&str, Cues); 2] = [
    (
        "date dates deadline deadlines daten termin termine",
        Cues::DATE,
    ),
    (
        "change changes changed postponed moved geändert verschoben",
        Cues::CHANGE,
    ),
];

impl Expected {
    /// The kind that a task expects.
    pub(super) fn from_task(task: &str) -> Expected {
        if words(task).any(|word| has_word(COSTS, &word)) {
            return Expected::Amount;
        }
        let text = format!(" {} ", words(task).collect::<Vec<_>>().join(" "));
        let place = |phrase: &str| text.find(&format!(" {phrase} "));
        let asking = ASKING.iter().filter_map(|(kind, phrases)| {
            let first = phrases.split('|').filter_map(place).min()?;
            Some((first, *kind))
        });
        let first = asking.min_by_key(|(place, _)| *place);
        first.map_or(Expected::Other, |(_, kind)| kind)
    }

    /// The factor of a unit; `asked` are the terms of the question.
    pub(super) fn factor(self, pool: &Pool<'_>, index: usize, asked: &[Term]) -> f32 {
        let unit = &pool.units[index];
        let has_any = |list: &str| words(unit.text).any(|word| has_word(list, &word));
        let has_new = |class: Class| {
            let is_new =
                |term: &Term| pool.vocabulary.class(*term) == class && !asked.contains(term);
            pool.terms(index).iter().any(is_new)
        };
        let names_day = |date| relative::resolved(unit.text, date).is_some();
        let is_kind = match self {
            Expected::Time => {
                unit.cues.intersects(Cues::DATE)
                    || unit.at.and_then(utc_date).is_some_and(names_day)
                    || has_any(TIMES)
            }
            Expected::Person => unit.marks.intersects(Marks::FIRST) || has_new(Class::Name),
            Expected::Amount => has_new(Class::Number) || has_any(NUMERALS),
            Expected::Place => names_place(unit.text),
            Expected::Cause => unit.cues.intersects(Cues::CAUSE) || has_any(CAUSES),
            Expected::Other => true,
        };
        if is_kind { 1.0 } else { weights::OTHER_KIND }
    }
}

/// What each unit gains if it has facts of the kinds that the question names.
pub(super) fn gains(pool: &Pool<'_>, task: &str) -> Vec<f32> {
    let words: Vec<String> = words(task).collect();
    let is_named = |names: &str| words.iter().any(|word| has_word(names, word));
    let mut gains = vec![0.0; pool.units.len()];
    for (_, cues) in KINDS.iter().filter(|(names, _)| is_named(names)) {
        let has = |unit: &Unit<'_>| unit.cues.intersects(*cues);
        let n = pool.units.iter().filter(|unit| has(unit)).count();
        let gain = weights::KIND * rarity(pool.units.len(), n);
        let having = gains.iter_mut().zip(&pool.units);
        having
            .filter(|(_, unit)| has(unit))
            .for_each(|(all, _)| *all += gain);
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
