//! The days of a conversation in a summary.

use std::collections::{BTreeMap, BTreeSet};

use super::pool::estimate_tokens;
use crate::date::Date;

/// The months in English and in German, with their short forms.
pub(super) const MONTHS: [&str; 12] = [
    "january januar jänner jan",
    "february februar feb",
    "march märz mar",
    "april apr",
    "may mai",
    "june juni jun",
    "july juli jul",
    "august aug",
    "september sep sept",
    "october oktober oct okt",
    "november nov",
    "december dezember dec dez",
];
pub(super) const WEEKDAYS: &str = "monday tuesday wednesday thursday friday saturday sunday montag \
    dienstag mittwoch donnerstag freitag samstag sonntag";
/// The beginning of a summary's first line, and the separator of a first and a last day.
pub(super) const DAYS: &str = "Days (UTC): ";
pub(super) const TO: &str = " to ";
/// Between the first and the last day of a run of days.
const RUN: char = '–';
pub(super) const MS_PER_DAY: i64 = 86_400_000;
/// Tokens of a day in a list, and the part of the cap for the list.
const DAY_TOKENS: u64 = 4;
const LIST_PART: u64 = 6;
/// The part of the cap for days as headings.
const HEADINGS_PART: u64 = 4;

/// All the days of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Days {
    pub(super) known: BTreeSet<Date>,
    /// Whether days between the first and the last may be missing.
    pub(super) partial: bool,
}

impl Days {
    /// The days that are not headings: `Days (UTC): 2 March 2026, 3 March.`, the same as [`numbers`] if
    /// the list is too long, or `2 March 2026 to 12 March 2026` if some are unknown or the numbers are
    /// too long as well. Empty if every day is a heading, or if it would give one day to quotes without
    /// a day.
    pub(super) fn legend(
        &self,
        headings: &BTreeSet<Date>,
        quoted: &QuotedDays,
        cap: u64,
    ) -> String {
        let (Some(first), Some(last)) = (self.known.first(), self.known.last()) else {
            return String::new();
        };
        let others: Vec<Date> = self.known.difference(headings).copied().collect();
        let is_of_others = quoted.has_unknown && others.len() == 1;
        let is_partial = self.partial || is_of_others;
        match listed(&others, cap / LIST_PART).filter(|_| first == last || !is_partial) {
            None => format!("{DAYS}{}{TO}{}.\n", day_name(*first), day_name(*last)),
            Some(list) if list.is_empty() || is_of_others => String::new(),
            Some(list) => format!("{DAYS}{list}.\n"),
        }
    }

    /// The days that are headings of quotes: as many as fit, first those with the most quotes. None if
    /// all messages and quotes are of one day.
    pub(super) fn headings(&self, quoted: &QuotedDays, cap: u64) -> BTreeSet<Date> {
        if self.known.len() < 2 && !quoted.has_unknown {
            return BTreeSet::new();
        }
        let times = quoted.times.iter();
        let mut days: Vec<(usize, Date)> = times.map(|(day, n)| (*n, *day)).collect();
        days.sort_unstable_by(|one, other| other.cmp(one));
        days.truncate(most(cap / HEADINGS_PART));
        days.into_iter().map(|(_, day)| day).collect()
    }

    /// Parses a legend, without its beginning.
    pub(super) fn parse(legend: &str) -> Days {
        let legend = legend.trim_end_matches('.');
        let mut days = Days {
            partial: legend.contains(TO),
            ..Days::default()
        };
        let mut year = None;
        // The numbers before the name of their month.
        let mut numbers: Vec<&str> = Vec::new();
        for name in legend.split(TO).flat_map(|names| names.split(", ")) {
            let Some((number, month)) = name.split_once(' ') else {
                days.known.extend(parse_day(name));
                numbers.push(name);
                continue;
            };
            for number in numbers.drain(..).chain([number]) {
                let (from, to) = number.split_once(RUN).unwrap_or((number, number));
                let mut day = |number| parse_short(&format!("{number} {month}"), &mut year);
                if let (Some(from), Some(to)) = (day(from), day(to)) {
                    let next = |day: &Date| day.tomorrow().ok();
                    let run = std::iter::successors(Some(from), next);
                    days.known.extend(run.take_while(|day| *day <= to));
                }
            }
        }
        days
    }
}

/// The days of the quotes of a summary.
#[derive(Clone, Debug, Default)]
pub(super) struct QuotedDays {
    /// How many lines each day has.
    times: BTreeMap<Date, usize>,
    /// Whether a line has no known day.
    pub(super) has_unknown: bool,
}

impl QuotedDays {
    pub(super) fn new(lines: impl Iterator<Item = Option<Date>>) -> QuotedDays {
        let mut quoted = QuotedDays::default();
        for day in lines {
            match day {
                Some(day) => *quoted.times.entry(day).or_default() += 1,
                None => quoted.has_unknown = true,
            }
        }
        quoted
    }
}

/// A list of days in so many tokens, if possible.
fn listed(days: &[Date], room: u64) -> Option<String> {
    if days.len() > most(room) {
        return Some(numbers(days)).filter(|numbers| estimate_tokens(numbers) <= room as f32);
    }
    let mut year = None;
    let names: Vec<String> = days.iter().map(|day| short_name(*day, &mut year)).collect();
    Some(names.join(", "))
}

/// Days by their numbers, with the name of a month after its last one: `2–5, 9 May 2023, 1 June`.
fn numbers(days: &[Date]) -> String {
    let mut year = None;
    let months = days.chunk_by(|one, next| one.first_of_month() == next.first_of_month());
    let month = |days: &[Date]| {
        let runs = days.chunk_by(|one, next| one.tomorrow().is_ok_and(|day| day == *next));
        let numbers = runs.map(|run| match (run.first(), run.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{}{RUN}{}", first.day(), last.day())
            }
            _ => run.iter().map(|day| day.day().to_string()).collect(),
        });
        let numbers: Vec<String> = numbers.collect();
        let name = days.first().map(|day| short_name(*day, &mut year));
        let name = name.unwrap_or_default();
        let month = name.split_once(' ').map_or("", |(_, month)| month);
        format!("{} {month}", numbers.join(", "))
    };
    let months: Vec<String> = months.map(month).collect();
    months.join(", ")
}

/// The number of days whose names fit; two always fit.
fn most(room: u64) -> usize {
    (room / DAY_TOKENS).max(2) as usize
}

/// `7 May 2023`.
pub(super) fn day_name(day: Date) -> String {
    day.strftime("%-d %B %Y").to_string()
}

/// [`day_name`], without the year if it is the same as that of the previous day.
pub(super) fn short_name(day: Date, year: &mut Option<i16>) -> String {
    match year.replace(day.year()) == Some(day.year()) {
        true => day.strftime("%-d %B").to_string(),
        false => day_name(day),
    }
}

/// Parses the output of [`short_name`].
pub(super) fn parse_short(name: &str, year: &mut Option<i16>) -> Option<Date> {
    let day = parse_day(name).or_else(|| parse_day(&format!("{name} {}", (*year)?)))?;
    *year = Some(day.year());
    Some(day)
}

/// Parses a day in the form of [`day_name`], or `2023-05-07`.
pub(super) fn parse_day(name: &str) -> Option<Date> {
    let name = name.trim();
    if !name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let named = Date::strptime("%d %B %Y", name);
    named.or_else(|_| name.parse()).ok()
}

pub(super) fn has_word(list: &str, word: &str) -> bool {
    let mut all = list.as_bytes().split(u8::is_ascii_whitespace);
    !word.is_empty() && all.any(|one| one == word.as_bytes())
}

/// The number of a month by its name in small letters: `november`, `märz`, `okt`.
pub(super) fn month(name: &str) -> Option<i8> {
    let at = (1..).zip(MONTHS).find(|(_, names)| has_word(names, name));
    at.map(|(number, _)| number)
}

/// Parses `15`, `15th`.
pub(super) fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let day = digits.parse().ok()?;
    let is_ordinal = ["", "st", "nd", "rd", "th"].contains(&&word[digits.len()..]);
    (is_ordinal && (1..=31).contains(&day)).then_some(day)
}

/// Whether a word in small letters is the name of a month or a weekday.
pub(super) fn is_date_word(word: &str) -> bool {
    month(word).is_some() || has_word(WEEKDAYS, word)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn many_days_are_listed_by_their_numbers() {
        let runs = [
            (2025, 12, 29, 31),
            (2026, 1, 1, 5),
            (2026, 1, 9, 9),
            (2026, 3, 2, 3),
        ];
        let days = runs
            .iter()
            .flat_map(|(year, month, from, to)| (*from..=*to).map(|day| date(*year, *month, day)));
        let days = Days {
            known: days.collect(),
            partial: false,
        };
        let legend = |cap| days.legend(&BTreeSet::new(), &QuotedDays::default(), cap);
        let list = "Days (UTC): 29–31 December 2025, 1–5, 9 January 2026, 2–3 March.\n";
        assert_eq!(legend(160), list);
        assert_eq!(
            legend(60),
            "Days (UTC): 29 December 2025 to 3 March 2026.\n"
        );
        for cap in [160, 600] {
            let legend = legend(cap);
            let parsed = Days::parse(legend.strip_prefix(DAYS).unwrap().trim_end());
            assert_eq!((parsed.known, parsed.partial), (days.known.clone(), false));
        }
        let odd = Days::parse("3, 2026-05-04, 40–99 May 2026, 5–4 May, soon.");
        assert_eq!(odd.known, [date(2026, 5, 3), date(2026, 5, 4)].into());
    }
}
