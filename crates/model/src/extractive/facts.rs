//! Key facts: the few quotes that are kept verbatim from checkpoint to checkpoint.

use std::fmt::Write as _;

use unisono_context::checkpoint::{FACTS_MAX, KeyFact};
use unisono_context::{Ordinal, Role, Tokens};

use super::CountTokens;
use super::cues::{Cues, Demand};
use super::days::{WEEKDAYS, day_name, has_word, month, parse_day};
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::question::INTERROGATIVES;
use super::quote::push_alone;
use super::readability::is_readable;
use super::terms::in_small_letters;
use crate::date::{Date, utc_date};

/// Words for times whose day depends on the day of their message, in English and German.
const TIMES: &str = "today tonight tomorrow yesterday week weekend mon tue wed thu fri heute morgen \
    wochenende woche";
const CHINESE_TIMES: [&str; 5] = ["今天", "今晚", "周", "週", "星期"];
const PERIODS: &str = "days weeks months tagen wochen monaten";
/// Words for a present period, and the periods: `this evening`, `by the end of the month`.
const PRESENT: &str = "this diesen dieses";
const PARTS_OF_DAYS: &str = "morning afternoon evening";
const THE: &str = "the des";
const LONG_PERIODS: &str = "month quarter year monat monats quartal quartals jahr jahres";

/// Verbs that stand after an interrogative in a question, and words that begin its subject. `What is
/// needed` may begin a statement.
const AUXILIARIES: &str = "is isn't are aren't was were do don't does doesn't did didn't has have can \
    can't cannot could should shouldn't must may will won't would";
const SUBJECTS: &str = "i you he she it we they the a an this that my your his her our their there";

/// A date at most this many words before or after a time belongs to it: `yesterday (7 May 2023)`.
const NEAR: usize = 4;

/// New facts get the room that the old ones leave, at least this part of it: each checkpoint may
/// add something, and none replaces all earlier facts.
const NEW_PART: u64 = 3;

/// The previous facts and the best new ones among the chosen units, in `room` tokens.
pub(super) fn extract(
    pool: &Pool<'_>,
    chosen: &[usize],
    prior: &[KeyFact],
    room: Tokens,
    count: CountTokens<'_>,
) -> Vec<KeyFact> {
    let count = |text: &str| Tokens(count(text));
    let carried: Tokens = prior.iter().map(|fact| count(&format!("{fact}\n"))).sum();
    let left = room.minus(carried).max(Tokens(room.0 / NEW_PART));
    let demands = |fact: &KeyFact| Demand::detect(&fact.text) != Demand::None;
    let mut has_demand = prior.iter().any(demands);
    let best = chosen.iter().filter(|&&unit| {
        let demands = pool.units[unit].demand != Demand::None;
        // All that demand to be kept share one place.
        let is_fact = is_requirement(pool, unit) && !(demands && has_demand);
        has_demand |= is_fact && demands;
        is_fact
    });
    let new = best.take(FACTS_MAX).map(|&unit| KeyFact {
        text: fact_text(pool, unit).into(),
        ordinal: pool.units[unit].ordinal.unwrap_or(Ordinal::FIRST),
    });
    let new: Vec<KeyFact> = new.collect();
    let new = KeyFact::carried_within(&[], &new, left, count);
    KeyFact::carried_within(prior, &new, room, count)
}

/// The key facts of earlier checkpoints that a new one does not carry only because it has no room for
/// them. They are in no earlier summary.
pub fn facts_without_room<'f>(prior: &'f [KeyFact], kept: &[KeyFact]) -> Vec<&'f KeyFact> {
    let valid = KeyFact::carried(prior, kept, |_| Tokens::ZERO);
    let is_dropped = |&fact: &&KeyFact| valid.contains(fact) && !kept.contains(fact);
    prior.iter().filter(is_dropped).collect()
}

/// The text of a unit as a fact: `Marta: I am allergic to nuts.`, or without the speaker if the
/// speaker has no name. The day of the message is before it if a time in it needs that:
/// `[4 March 2024] Marta: We meet on Friday.`
pub(super) fn fact_text(pool: &Pool<'_>, index: usize) -> String {
    let unit = &pool.units[index];
    let mut quote = String::new();
    push_alone(pool, index, &mut quote);
    let mut text = String::new();
    if let Some(day) = day_of_time(unit, &quote) {
        let _ = write!(text, "[{}] ", day_name(day));
    }
    if unit.is_named() {
        text.push_str(&unit.speaker.replace('\u{a0}', " "));
        text.push_str(": ");
    }
    text + &quote
}

/// The day of a unit's message if its quote has a time that is neither a date nor resolved: a key fact is
/// below no date.
fn day_of_time(unit: &Unit<'_>, quote: &str) -> Option<Date> {
    let day = unit.at.and_then(utc_date)?;
    let lower = quote.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_month = |word: &str| month(word).is_some();
    let is_date = |two: &[&str]| {
        is_number(two[0]) && is_month(two[1]) || is_month(two[0]) && is_number(two[1])
    };
    // `in two weeks` is a duration or a day: it is not resolved.
    let is_period = |three: &[&str]| three[0] == "in" && has_word(PERIODS, three[2]);
    let is_present = |two: &[&str]| {
        let is_this = has_word(PRESENT, two[0]);
        is_this && has_word(PARTS_OF_DAYS, two[1])
            || (is_this || has_word(THE, two[0])) && has_word(LONG_PERIODS, two[1])
    };
    let is_time = |word: &str| [TIMES, WEEKDAYS].iter().any(|list| has_word(list, word));
    let is_dated = |at: usize| {
        let last = words.len().min(at + NEAR + 1);
        let near = words.get(at.saturating_sub(NEAR)..last);
        near.unwrap_or_default().windows(2).any(is_date)
    };
    let mut times = words.iter().enumerate();
    let has_time = times.any(|(at, word)| is_time(word) && !is_dated(at));
    let has_period = || {
        words.windows(3).any(is_period)
            || words.windows(2).any(is_present)
            || CHINESE_TIMES.iter().any(|time| lower.contains(time))
    };
    let is_missing = has_time || has_period() && !words.windows(2).any(is_date);
    is_missing.then_some(day)
}

/// A fact's text without the day of its message, and that day.
pub(super) fn without_day(text: &str) -> (&str, Option<Date>) {
    let rest = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    let dated = rest.and_then(|(day, text)| Some((text, Some(parse_day(day)?))));
    dated.unwrap_or((text, None))
}

/// Whether a text begins like a question, which in chats may have no question mark: `why can't I open it`.
fn asks(text: &str) -> bool {
    let words = text.split_whitespace().map(in_small_letters);
    let lists = [INTERROGATIVES, AUXILIARIES, SUBJECTS];
    let starts = words
        .zip(lists)
        .take_while(|(word, list)| has_word(list, word));
    // `What is the limit: 40 EUR.`
    starts.count() == lists.len() && !text.contains(": ")
}

/// Whether a unit states a requirement: a demand of the user, or a decision or prohibition about
/// something specific.
fn is_requirement(pool: &Pool<'_>, index: usize) -> bool {
    let unit = &pool.units[index];
    let binds = unit.cues.intersects(Cues::CONSTRAINT.with(Cues::DECISION));
    let is_statement = unit.kind == PassageKind::Text
        && !unit.prior
        && !unit.cues.intersects(Cues::QUESTION)
        && !asks(unit.text)
        && unit.demand != Demand::Command;
    if !binds || !is_statement {
        return false;
    }
    let demanded = unit.role == Role::User && unit.cues.intersects(Cues::CONSTRAINT);
    (demanded || pool.specific_terms(index).next().is_some()) && is_readable(pool, index)
}
