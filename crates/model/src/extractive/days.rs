//! The days of a conversation, as a summary lists them.

use std::collections::BTreeSet;

use crate::date::Date;

/// Begins a summary's first line; between the first day and the last where only those are given.
pub(super) const DAYS: &str = "Days (UTC): ";
pub(super) const TO: &str = " to ";
pub(super) const MS_PER_DAY: i64 = 86_400_000;
/// Tokens of a day in a list, and the part of the cap that the list may take.
const DAY_TOKENS: u64 = 4;
const LIST_PART: u64 = 6;
/// The part of the cap that days may take as headings, which cost more.
pub(super) const HEADINGS_PART: u64 = 8;

/// All the days of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Days {
    pub(super) known: BTreeSet<Date>,
    /// Whether days between the first and the last may be missing.
    pub(super) partial: bool,
}

impl Days {
    /// The days that are no headings: `Days (UTC): 2 March 2026, 3 March.`, or
    /// `2 March 2026 to 12 March 2026` where not all are known or the list takes too much of the
    /// room. Empty where every day is a heading.
    pub(super) fn legend(&self, headings: &BTreeSet<Date>, cap: u64) -> String {
        let (Some(first), Some(last)) = (self.known.first(), self.known.last()) else {
            return String::new();
        };
        let others: Vec<&Date> = self.known.difference(headings).collect();
        let fits = fit(others.len(), cap / LIST_PART);
        if first != last && (self.partial || !fits) {
            return format!("{DAYS}{}{TO}{}.\n", day_name(*first), day_name(*last));
        }
        let mut year = None;
        let names: Vec<String> = others
            .iter()
            .map(|day| short_name(**day, &mut year))
            .collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("{DAYS}{}.\n", names.join(", ")),
        }
    }

    /// Reads a legend, without its beginning.
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

/// Whether the names of so many days have room; those of two always have.
pub(super) fn fit(days: usize, room: u64) -> bool {
    days as u64 * DAY_TOKENS <= room.max(2 * DAY_TOKENS)
}

/// `7 May 2023`.
pub(super) fn day_name(day: Date) -> String {
    day.strftime("%-d %B %Y").to_string()
}

/// [`day_name`], without the year where it is that of the day before.
pub(super) fn short_name(day: Date, year: &mut Option<i16>) -> String {
    match year.replace(day.year()) == Some(day.year()) {
        true => day.strftime("%-d %B").to_string(),
        false => day_name(day),
    }
}

/// Reads what [`short_name`] writes.
pub(super) fn parse_short(name: &str, year: &mut Option<i16>) -> Option<Date> {
    let day = parse_day(name).or_else(|| parse_day(&format!("{name} {}", (*year)?)))?;
    *year = Some(day.year());
    Some(day)
}

/// Reads a day as [`day_name`] writes it, or as `2023-05-07`.
pub(super) fn parse_day(name: &str) -> Option<Date> {
    let name = name.trim();
    if !name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Date::strptime("%d %B %Y", name)
        .or_else(|_| name.parse())
        .ok()
}
