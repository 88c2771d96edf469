//! The days of a conversation in a summary.

use std::collections::{BTreeMap, BTreeSet};

use crate::date::Date;

/// The beginning of a summary's first line, and the separator of a first and a last day.
pub(super) const DAYS: &str = "Days (UTC): ";
pub(super) const TO: &str = " to ";
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
    /// The days that are not headings: `Days (UTC): 2 March 2026, 3 March.`, or `2 March 2026 to 12
    /// March 2026` if some are unknown or the list is too long. Empty if every day is a heading, or if it
    /// would give one day to quotes without a day.
    pub(super) fn legend(
        &self,
        headings: &BTreeSet<Date>,
        quoted: &QuotedDays,
        cap: u64,
    ) -> String {
        let (Some(first), Some(last)) = (self.known.first(), self.known.last()) else {
            return String::new();
        };
        let others: Vec<&Date> = self.known.difference(headings).collect();
        let fits = others.len() <= most(cap / LIST_PART);
        let is_of_others = quoted.has_unknown && others.len() == 1;
        if first != last && (self.partial || !fits || is_of_others) {
            return format!("{DAYS}{}{TO}{}.\n", day_name(*first), day_name(*last));
        }
        let mut year = None;
        let names: Vec<String> = others
            .iter()
            .map(|day| short_name(**day, &mut year))
            .collect();
        match names.is_empty() || is_of_others {
            true => String::new(),
            false => format!("{DAYS}{}.\n", names.join(", ")),
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
        let names = legend.split(TO).flat_map(|names| names.split(", "));
        days.known
            .extend(names.filter_map(|name| parse_short(name, &mut year)));
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
    /// Counts the days of lines.
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
    Date::strptime("%d %B %Y", name)
        .or_else(|_| name.parse())
        .ok()
}
