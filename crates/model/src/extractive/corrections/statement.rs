//! What a statement is about, and its values.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::date::Date;
use crate::extractive::cues::{Cues, without_phrases};
use crate::extractive::days::{MONTHS, WEEKDAYS, day_of_month, has_word, is_date_word, month};
use crate::extractive::pool::Pool;
use crate::extractive::terms::{
    Class, FoldedSet, NOT, NOW, STATUSES, Term, in_small_letters, is_common_word, is_stop_word,
    words,
};

/// The kind of a value. Only values of one kind contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Day,
    Weekday,
    Time,
    Amount,
    /// Of the thing that is counted, if it is named.
    Number(Option<Term>),
    Status,
    Name,
}

/// What a statement is about, and its values.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    /// Its terms without values, common words and cues of a change.
    pub(super) subject: Vec<Term>,
    values: Vec<(Kind, String)>,
    /// Values that it says are wrong: `on 11 May, not 4 May`.
    denied: Vec<(Kind, String)>,
    /// Numbers that name one of several things: `gate 4`.
    things: Vec<String>,
    /// Whether it says how something is now.
    pub(super) says_now: bool,
    /// Whether its subject may have a verb that gives something another value: `raised`.
    sets: bool,
}

/// Words beside a number that make it a time.
const HOURS: &str = "am pm uhr o'clock";
/// Currencies and shares, which are no subject.
const UNITS: &str = "eur euro euros usd dollar dollars gbp pound pounds chf franken cent cents \
    percent prozent";
/// Words between a value and the word that denies it, and words before that with which it denies nothing.
const BEFORE_VALUE: &str = "on at in for the am um im den dem der die";
const CONDITIONS: &str = "if why or wenn falls oder";

impl Statement {
    pub(super) fn new(pool: &Pool<'_>, unit: usize) -> Statement {
        let unit = &pool.units[unit];
        let text = without_phrases(unit.text, Cues::ANY_CHANGE);
        let mut all: Vec<Word<'_>> = Vec::new();
        words(&text, &mut |word, shape| {
            let text = in_small_letters(word);
            let known = pool.vocabulary.known(&text);
            all.push(Word {
                is_listed: is_listed(&text),
                text,
                term: known,
                has_digit: shape.digit,
                is_name: known.is_some_and(|term| pool.vocabulary.class(term) == Class::Name),
            });
        });
        let mut statement = Statement {
            says_now: unit.cues.intersects(Cues::NOW),
            sets: unit.cues.intersects(Cues::SETS),
            ..Statement::default()
        };
        for at in 0..all.len() {
            match value(&all, at) {
                // The condition of something is a value also if it is denied.
                Some(Some(value)) if value.0 != Kind::Status && is_denied(&all, at) => {
                    statement.denied.push(value);
                }
                Some(Some(value)) => statement.values.push(value),
                Some(None) => {}
                None => {
                    statement.subject.extend(all[at].subject());
                    let number = Some(&all[at]).filter(|word| word.has_digit);
                    statement
                        .things
                        .extend(number.map(|word| word.text.to_string()));
                }
            }
            if all[at].is_name && !is_date_word(&all[at].text) {
                let name = all[at].text.to_string();
                statement.values.push((Kind::Name, name));
            }
        }
        statement.subject.sort_unstable();
        statement.subject.dedup();
        statement
    }

    /// The kind of a value of the other statement that it denies, if it has another one of that kind.
    pub(super) fn denied_value_of(&self, other: &Statement) -> Option<Kind> {
        let is_number = |kind| matches!(kind, Kind::Number(_) | Kind::Amount);
        let is_denied = |(kind, value): &&(Kind, String)| {
            let denied = self.denied.iter();
            // The second number of `520 euros, not 480` has no unit.
            let is_like = |own: Kind| own == *kind || is_number(own) && is_number(*kind);
            let mut same = denied.filter(|(own, denied)| is_like(*own) && denied == value);
            same.next().is_some() && self.values_of(*kind).iter().any(|own| own != value)
        };
        let found = other.values.iter().find(is_denied);
        found.map(|(kind, _)| *kind)
    }

    /// Whether both have a value of one kind, and no such value is in both. Names are no evidence: two
    /// people may do the same.
    pub(super) fn contradicts(&self, other: &Statement) -> bool {
        let names = other.values_of(Kind::Name);
        let mut own_names = self.values_of(Kind::Name).into_iter();
        let mut kinds = self.values.iter().map(|(kind, _)| *kind);
        own_names.all(|name| names.contains(&name))
            && kinds.any(|kind| kind != Kind::Name && self.has_only_others(kind, other))
    }

    /// Whether it has another value of a kind, and at least as many of the kind as the other
    /// statement: a day does not change a period.
    pub(super) fn changes_value_of(&self, other: &Statement) -> bool {
        self.values.iter().any(|(kind, value)| {
            let others = other.values_of(*kind);
            *kind != Kind::Name
                && !others.is_empty()
                && self.values_of(*kind).len() >= others.len()
                && !others.contains(&&**value)
        })
    }

    /// Whether it has a day of the other statement.
    pub(super) fn has_day_of(&self, other: &Statement) -> bool {
        let days = self.values_of(Kind::Day);
        let mut others = other.values_of(Kind::Day).into_iter();
        others.any(|day| days.contains(&day))
    }

    /// Whether it has at least half of the subject of the other statement.
    pub(super) fn has_subject_of(&self, other: &Statement) -> bool {
        let common = self.common_with(other);
        common > 0 && 2 * common >= other.subject.len()
    }

    /// How many terms of the subject both have.
    pub(super) fn common_with(&self, other: &Statement) -> usize {
        let subject = self.subject.iter();
        subject.filter(|term| other.subject.contains(term)).count()
    }

    /// Whether both have a day, a weekday or a time, and no such value is in both.
    pub(super) fn changes_time_of(&self, other: &Statement) -> bool {
        let mut kinds = [Kind::Day, Kind::Weekday, Kind::Time].into_iter();
        kinds.any(|kind| self.has_only_others(kind, other))
    }

    /// Whether it has a number without a unit, and the other statement has numbers that it does not have.
    pub(super) fn has_other_number(&self, other: &Statement) -> bool {
        let own = self.values_of(Kind::Number(None));
        let is_other = |(kind, value): &(Kind, String)| {
            matches!(kind, Kind::Number(_) | Kind::Amount) && !own.contains(&&**value)
        };
        !own.is_empty() && other.values.iter().any(is_other)
    }

    /// Whether it has a value in place of one of the other statement; its numbers may have no unit.
    pub(super) fn may_give_value_to(&self, other: &Statement) -> bool {
        self.changes_value_of(other) || self.has_other_number(other) || self.changes_time_of(other)
    }

    /// Whether it has a value, no name or condition, that the other statement does not have.
    pub(super) fn has_value_beside(&self, other: &Statement) -> bool {
        self.values.iter().any(|value| {
            !matches!(value.0, Kind::Name | Kind::Status) && !other.values.contains(value)
        })
    }

    pub(super) fn has_time(&self) -> bool {
        let is_time = |kind: Kind| matches!(kind, Kind::Day | Kind::Weekday | Kind::Time);
        self.values.iter().any(|(kind, _)| is_time(*kind))
    }

    /// Whether both have only one word of their subjects in common, and each has others: the price of a
    /// lamp, the price of a table. An id or a denied value is enough.
    pub(super) fn may_mean_like_thing(&self, other: &Statement) -> bool {
        let is_of_same = self.has_id_of(other) || self.denied_value_of(other).is_some();
        let own = self.subject.len() - usize::from(self.sets && !self.subject.is_empty());
        self.common_with(other) == 1 && own > 1 && other.subject.len() > 1 && !is_of_same
    }

    /// Whether both name one thing by an id: `TK-3390`, no path or number.
    pub(super) fn has_id_of(&self, other: &Statement) -> bool {
        let is_id = |thing: &&String| thing.contains(char::is_alphabetic);
        let mut ids = self.things.iter().filter(is_id);
        ids.any(|id| other.things.contains(id))
    }

    /// Whether both name one of several things, and not the same one: `Gate 7 is now closed` says nothing
    /// of gate 4.
    pub(super) fn names_another_thing_than(&self, other: &Statement) -> bool {
        let mut others = other.things.iter();
        !self.things.is_empty()
            && !other.things.is_empty()
            && !others.any(|thing| self.things.contains(thing))
    }

    /// Whether both have values of a kind, and it has one that the other statement does not have.
    pub(super) fn has_other(&self, kind: Kind, other: &Statement) -> bool {
        let others = other.values_of(kind);
        let mut own = self.values_of(kind).into_iter();
        !others.is_empty() && own.any(|one| !others.contains(&one))
    }

    /// Whether both have values of a kind, but none in common.
    pub(super) fn has_only_others(&self, kind: Kind, other: &Statement) -> bool {
        let (own, others) = (self.values_of(kind), other.values_of(kind));
        !own.is_empty() && !others.is_empty() && own.iter().all(|one| !others.contains(one))
    }

    /// Whether it may be about another person or thing: each has a name that the other does not have,
    /// and another value differs too.
    pub(super) fn may_be_of_others_than(&self, other: &Statement) -> bool {
        self.names_others_than(other) && self.changes_value_of(other)
    }

    /// Whether each has a name that the other does not have.
    pub(super) fn names_others_than(&self, other: &Statement) -> bool {
        self.has_other(Kind::Name, other) && other.has_other(Kind::Name, self)
    }

    fn values_of(&self, kind: Kind) -> Vec<&str> {
        let own = self.values.iter().filter(|(one, _)| *one == kind);
        own.map(|(_, value)| &**value).collect()
    }
}

/// Whether the words before a value deny it: `not on 4 May`.
fn is_denied(all: &[Word<'_>], at: usize) -> bool {
    let mut before = all[..at].iter().rev().peekable();
    if !all[at].has_digit {
        // The day of a month.
        before.next_if(|word| word.has_digit);
    }
    while before
        .next_if(|word| has_word(BEFORE_VALUE, &word.text))
        .is_some()
    {}
    let mut next_is = |list: &str| before.next().is_some_and(|word| has_word(list, &word.text));
    next_is(NOT) && !next_is(CONDITIONS)
}

struct Word<'t> {
    /// In small letters.
    text: Cow<'t, str>,
    /// See [`is_listed`].
    is_listed: bool,
    term: Option<Term>,
    has_digit: bool,
    is_name: bool,
}

impl Word<'_> {
    fn is_common(&self) -> bool {
        is_stop_word(&self.text) || is_common_word(&self.text)
    }

    fn subject(&self) -> Option<Term> {
        let lists = [UNITS, HOURS, NOW];
        let is_value = self.is_listed && lists.iter().any(|list| has_word(list, &self.text));
        let is_subject = !is_value && !self.is_common();
        self.term.filter(|_| is_subject)
    }
}

/// Whether a word in small letters is in one of the lists of values. Most are in none, which one look shows.
fn is_listed(word: &str) -> bool {
    static LISTED: OnceLock<FoldedSet<&str>> = OnceLock::new();
    let read = || {
        let lists = [WEEKDAYS, STATUSES, UNITS, HOURS, NOW];
        let lists = lists.into_iter().chain(MONTHS);
        lists.flat_map(str::split_whitespace).collect()
    };
    LISTED.get_or_init(read).contains(word)
}

/// The value at a word; `Some(None)`: the word is a part of a value beside it; `None`: no value.
fn value(all: &[Word<'_>], at: usize) -> Option<Option<(Kind, String)>> {
    let word = &*all[at].text;
    // `TK-3390` is no number.
    let is_id = || word.contains('-') && word.starts_with(char::is_alphabetic);
    if !all[at].is_listed && (!all[at].has_digit || is_id()) {
        return None;
    }
    let beside = |at: Option<usize>| at.and_then(|at| all.get(at)).map(|word| &*word.text);
    let (before, after) = (beside(at.checked_sub(1)), beside(Some(at + 1)));
    if let Some(month) = month(word) {
        let [before, after] = [before, after].map(|word| word.and_then(day_of_month));
        return match before.or(after) {
            Some(day) => Some(Some((Kind::Day, format!("{month:02}-{day:02}")))),
            // `may` is also a verb.
            None => (word.len() > 3).then_some(None),
        };
    }
    if has_word(WEEKDAYS, word) {
        return Some(Some((Kind::Weekday, word.to_owned())));
    }
    if has_word(STATUSES, word) {
        return Some(Some((Kind::Status, word.to_owned())));
    }
    if !all[at].has_digit {
        return None;
    }
    if let Ok(date) = word.parse::<Date>() {
        let day = format!("{:02}-{:02}", date.month(), date.day());
        return Some(Some((Kind::Day, day)));
    }
    let mut words_beside = [before, after].into_iter().flatten();
    let is_beside_month = words_beside.any(|word| month(word).is_some());
    let is_year = || word.len() == 4 && !word.contains(':');
    if is_beside_month && (day_of_month(word).is_some() || is_year()) {
        return Some(None);
    }
    let is_time = word.contains(':')
        || after.is_some_and(|after| has_word(HOURS, after))
        || word.ends_with("am")
        || word.ends_with("pm");
    if is_time {
        return Some(Some((Kind::Time, word.to_owned())));
    }
    let beside = |at: Option<usize>| {
        at.and_then(|at| all.get(at))
            .filter(|word| !word.is_common() && !has_word(NOT, &word.text))
    };
    let unit = beside(Some(at + 1)).filter(|next| !next.has_digit);
    let noun = beside(at.checked_sub(1));
    match unit {
        // `gate 7 closed`: the number belongs to the noun.
        Some(unit) if noun.is_some() && has_word(STATUSES, &unit.text) => None,
        Some(unit) if has_word(UNITS, &unit.text) => Some(Some((Kind::Amount, word.to_owned()))),
        Some(unit) => Some(Some((Kind::Number(unit.term), word.to_owned()))),
        // A number after a noun names one of several things: `plot 20`, `order 17`.
        None if noun.is_some() => None,
        None => Some(Some((Kind::Number(None), word.to_owned()))),
    }
}
