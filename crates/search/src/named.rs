//! The days and periods that a text names, in English and German: `on 3 May`, `am 03.05.2024`,
//! `5/3/2024` (two days, because either number may be the month), `last Friday`, `vor zwei Tagen`,
//! `between 3 and 5 May`, `im März`, `yesterday`.
//!
//! A day without a year, a weekday and a distance depend on a reference: for a message its own
//! date, for a question of an agent the newest message that it may read, for a query of a person
//! the present. Days are in UTC.

mod calendar;
mod words;

pub(crate) use calendar::{Days, NamedDay, day_number, day_of, day_with_number};
pub(crate) use words::lowercase_words;

use calendar::{NamedTime, Weekdays};
use jiff::ToSpan as _;
use jiff::civil::Date;
use words::{count, date, day, dotted_day, month, month_and_year, slash_date, weekday, year};

/// The maximum number of days that a message names: of a longer list they say little.
const MAX_DAYS: usize = 32;
/// The longest period, in days, whose days are indexed one by one.
const LONGEST: usize = 4;
/// The number of years before that of the reference in which a date without a year may be.
const EARLIER_YEARS: i64 = 8;
/// The maximum number of periods of a question.
const MAX_PERIODS: usize = 4;

/// A period that a question names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    time: NamedTime,
    /// The position of its first word, and the one after its last.
    pub(crate) words: std::ops::Range<usize>,
}

impl Mention {
    /// Whether it is a date, and not one by its distance or weekday.
    pub(crate) fn is_date(&self) -> bool {
        self.time.is_date()
    }

    /// The last days with this name, up to the reference, and the next ones: messages may name days to
    /// come. Of a date such as `5/3/2024`, both readings.
    pub(crate) fn resolve(&self, reference: Date) -> Vec<Days> {
        let past = self.time.days(reference);
        past.into_iter().chain(self.time.next(reference)).collect()
    }

    /// The days with the name of a date in earlier years, the latest first.
    pub(crate) fn in_earlier_years(&self, reference: Date) -> impl Iterator<Item = Days> {
        let last = if self.is_date() { EARLIER_YEARS } else { 0 };
        let earlier = move |back: i64| reference.checked_add((-back).years()).ok();
        let references = (1..=last).filter_map(earlier);
        references.filter_map(move |reference| self.time.days(reference))
    }
}

/// The periods that the words of a question name. Words are in lower case, as
/// [`lowercase_words`] gives them.
pub(crate) fn mentions(words: &[&str]) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut at = 0;
    while at < words.len() && found.len() < MAX_PERIODS {
        let Some((time, length)) = time_at(words, at) else {
            at += 1;
            continue;
        };
        let next = Mention {
            time,
            words: at..at + length,
        };
        at += length;
        match found.pop() {
            Some(first) if is_range(words, &first.words, next.words.start) => {
                found.push(first.until(next));
            }
            first => found.extend(first.into_iter().chain([next])),
        }
    }
    found
}

impl Mention {
    fn until(self, last: Mention) -> Mention {
        Mention {
            words: self.words.start..last.words.end,
            time: NamedTime::Range(Box::new(self.time), Box::new(last.time)),
        }
    }
}

/// The days that a message of this date names; not its own.
pub(crate) fn named_days(text: &str, said: Date) -> Vec<NamedDay> {
    let lower = text.to_lowercase();
    let words = lowercase_words(&lower);
    let mut named: Vec<NamedDay> = Vec::new();
    let mut at = 0;
    while at < words.len() && named.len() < MAX_DAYS {
        let Some((time, length)) = time_at(&words, at) else {
            at += 1;
            continue;
        };
        at += length;
        let is_certain = time.is_certain();
        for days in time.nearest(said) {
            let days = days.numbers().map(|number| NamedDay { number, is_certain });
            if days.clone().count() <= LONGEST {
                named.extend(days);
            }
        }
    }
    named.sort_unstable();
    named.dedup();
    named.retain(|day| day.number != day_number(said));
    named
}

/// Whether the words between two periods make them the first and the last of one.
fn is_range(words: &[&str], first: &std::ops::Range<usize>, next: usize) -> bool {
    let Some(between) = words.get(first.end..next) else {
        return false;
    };
    match between {
        [link] | [link, "the" | "zum" | "zur" | "am" | "den" | "dem" | "on"] => {
            is_link(link, words, first.start)
        }
        _ => false,
    }
}

/// Whether a word links the first and the last day of a period that starts at `at`.
fn is_link(link: &str, words: &[&str], at: usize) -> bool {
    match link {
        "to" | "-" | "until" | "till" | "through" | "bis" => true,
        "and" | "und" => {
            let before = words.get(at.saturating_sub(2)..at).unwrap_or_default();
            before
                .iter()
                .any(|word| matches!(*word, "between" | "zwischen"))
        }
        _ => false,
    }
}

/// The period that the words at a position name, with its number of words.
fn time_at(words: &[&str], at: usize) -> Option<(NamedTime, usize)> {
    let rest = words.get(at..)?;
    let first = rest.first()?;
    let before = at.checked_sub(1).and_then(|at| words.get(at)).copied();
    if first.starts_with(|c: char| c.is_ascii_digit()) {
        if let Some(date) = date(first) {
            return Some((NamedTime::date(date), 1));
        }
        if let Some(time) = slash_date(first).and_then(either_day) {
            return Some((time, 1));
        }
        if let Some((year, month)) = month_and_year(first) {
            return Some((NamedTime::Month(Some(year), month), 1));
        }
        if let Some((day, month)) = dotted_day(first, before) {
            return Some((NamedTime::Day(None, month, day), 1));
        }
        return days_before_month(words, at).or_else(|| distance(rest));
    }
    phrase(rest, before)
        .or_else(|| distance(rest))
        .or_else(|| month_first(rest, before, words, at))
}

/// The day of a year and two numbers, of which one is the month.
fn either_day((year, first, second): (i16, i8, i8)) -> Option<NamedTime> {
    let is_ambiguous = first <= 12 && second <= 12 && first != second;
    let (month, day) = if first > 12 {
        (second, first)
    } else {
        (first, second)
    };
    let date = Date::new(year, month, day).ok()?;
    Some(match is_ambiguous {
        true => NamedTime::MonthAndDay(year, month, day),
        false => NamedTime::date(date),
    })
}

/// `3 May`, `3rd of May 2024`, `3. bis 5. Mai`.
fn days_before_month(words: &[&str], at: usize) -> Option<(NamedTime, usize)> {
    let rest = words.get(at..)?;
    let first = day(rest.first()?)?;
    let (from, last, length) = match rest {
        [_, link, last, ..] if is_link(link, words, at) && day(last).is_some() => {
            (Some(first), day(last)?, 3)
        }
        _ => (None, first, 1),
    };
    let of = usize::from(rest.get(length) == Some(&"of"));
    let month = month(rest.get(length + of)?)?;
    let length = length + of + 1;
    let year = rest.get(length).and_then(|word| year(word));
    let length = length + usize::from(year.is_some());
    Some((NamedTime::days_of(year, month, from, last), length))
}

/// `May 3, 2024`, `May 3-5`, `March 2024`, and after some words only `March`.
fn month_first(
    rest: &[&str],
    before: Option<&str>,
    words: &[&str],
    at: usize,
) -> Option<(NamedTime, usize)> {
    let month = month(rest.first()?)?;
    let the = usize::from(rest.get(1) == Some(&"the"));
    if let Some(first) = rest.get(1 + the).and_then(|word| day(word)) {
        let mut length = 2 + the;
        let (mut from, mut last) = (None, first);
        if let [link, end, ..] = rest.get(length..).unwrap_or_default()
            && is_link(link, words, at)
            && let Some(end) = day(end)
        {
            (from, last, length) = (Some(first), end, length + 2);
        }
        let year = rest.get(length).and_then(|word| year(word));
        length += usize::from(year.is_some());
        return Some((NamedTime::days_of(year, month, from, last), length));
    }
    if let Some(year) = rest.get(1).and_then(|word| year(word)) {
        return Some((NamedTime::Month(Some(year), month), 2));
    }
    // Without such a word, `may` and `march` are verbs.
    let introduced = matches!(
        before?,
        "in" | "im"
            | "during"
            | "of"
            | "last"
            | "letzten"
            | "early"
            | "late"
            | "mid"
            | "anfang"
            | "mitte"
            | "ende"
            | "throughout"
    );
    introduced.then_some((NamedTime::Month(None, month), 1))
}

/// Words that name a day or a period by their distance, or a weekday.
fn phrase(rest: &[&str], before: Option<&str>) -> Option<(NamedTime, usize)> {
    let near = match rest {
        ["day", "before", "yesterday", ..] => Some((-2, 3)),
        ["vorgestern", ..] => Some((-2, 1)),
        ["yesterday" | "gestern", ..] => Some((-1, 1)),
        ["last", "night", ..] | ["letzte", "nacht", ..] => Some((-1, 2)),
        ["today" | "tonight" | "heute", ..] => Some((0, 1)),
        ["morgen", ..] if before.is_some_and(|word| BEFORE_MORNING.contains(&word)) => None,
        ["tomorrow" | "morgen", ..] => Some((1, 1)),
        ["day", "after", "tomorrow", ..] => Some((2, 3)),
        ["übermorgen", ..] => Some((2, 1)),
        _ => None,
    };
    if let Some((days, length)) = near {
        return Some((NamedTime::Distance(days), length));
    }
    let first = *rest.first()?;
    if let (Some(offset), Some(second)) = (offset(first), rest.get(1)) {
        return Some((with_offset(second, offset)?, 2));
    }
    if let Some(day) = weekday(first) {
        // `Friday, 3 May` is one day.
        let is_date = |next: &&str| {
            let time = || time_at(rest, 1).map(|(time, _)| time);
            let is_day = |time| matches!(time, NamedTime::Day(..) | NamedTime::MonthAndDay(..));
            // Not the other way round: a row of weekdays would recurse without bound.
            weekday(next).is_none() && time().is_some_and(is_day)
        };
        let is_dated = rest.get(1).is_some_and(is_date);
        return (!is_dated).then_some((NamedTime::Weekday(day, Weekdays::Any), 1));
    }
    match (before, first) {
        (Some("on" | "at" | "the" | "am"), "weekend" | "wochenende") => {
            Some((NamedTime::Weekend(0), 1))
        }
        _ => None,
    }
}

/// Words before `morgen` that make it a time of day.
const BEFORE_MORNING: [&str; 6] = ["am", "gestern", "guten", "heute", "jeden", "seit"];

/// The distance that a word before a period means: of the last, of this, or of the next one.
fn offset(word: &str) -> Option<i64> {
    const LAST: [&str; 13] = [
        "last",
        "previous",
        "letzte",
        "letzten",
        "letztem",
        "letztes",
        "letzter",
        "vergangene",
        "vergangenen",
        "vergangenes",
        "vorige",
        "vorigen",
        "voriges",
    ];
    const THIS: [&str; 6] = ["this", "diese", "diesen", "diesem", "dieses", "dieser"];
    const NEXT: [&str; 6] = [
        "next",
        "nächste",
        "nächsten",
        "nächstem",
        "nächstes",
        "kommenden",
    ];
    let lists: [(&[&str], i64); 3] = [(&LAST, -1), (&THIS, 0), (&NEXT, 1)];
    let mut lists = lists.into_iter();
    lists.find_map(|(words, offset)| words.contains(&word).then_some(offset))
}

fn with_offset(period: &str, offset: i64) -> Option<NamedTime> {
    match period {
        "week" | "woche" => Some(NamedTime::Weeks(offset)),
        "weekend" | "wochenende" => Some(NamedTime::Weekend(offset)),
        "month" | "monat" => Some(NamedTime::Months(offset)),
        "year" | "jahr" => Some(NamedTime::Years(offset)),
        name => weekday(name).map(|day| match offset {
            -1 => NamedTime::Weekday(day, Weekdays::Last),
            1 => NamedTime::Weekday(day, Weekdays::Next),
            _ => NamedTime::Weekday(day, Weekdays::Any),
        }),
    }
}

/// `two days ago`, `vor zwei Wochen`.
fn distance(rest: &[&str]) -> Option<(NamedTime, usize)> {
    let (number, unit, length) = match rest {
        [number, unit, "ago", ..] => (count(number)?, *unit, 3),
        ["vor", number, unit, ..] => (count(number)?, *unit, 3),
        _ => return None,
    };
    let time = match unit {
        "day" | "days" | "tag" | "tagen" => NamedTime::Distance(-number),
        "week" | "weeks" | "woche" | "wochen" => NamedTime::WeeksAgo(number),
        "month" | "months" | "monat" | "monaten" => NamedTime::Months(-number),
        "year" | "years" | "jahr" | "jahren" => NamedTime::Years(-number),
        _ => return None,
    };
    Some((time, length))
}

#[cfg(test)]
mod tests;
