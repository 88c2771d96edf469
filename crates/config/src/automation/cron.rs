//! Cron expressions in the local time of a time zone.
//!
//! The expression is evaluated on a calendar without time zones. Each result is then converted to
//! an instant of the zone. An expression of every hour is evaluated between the changes of the clocks
//! instead, so that no hour is without its times.

use cronexpr::{Crontab, MakeTimestamp};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use unisono_context::Timestamp;

/// The hour of an expression of every hour.
const EVERY: &str = "*";
/// The years of one search, and the number of searches after which an expression counts as never
/// due: leap days can be eight years apart.
const SEARCH_YEARS: i32 = 4;
const SEARCHES: i32 = 3;

/// A cron expression.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    /// Its times are UTC.
    calendar: Crontab,
    /// The expression for October, if it has a last day and is due in December.
    october: Option<Crontab>,
    is_hourly: bool,
}

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// It has more or fewer fields.
    #[error(
        "it has {0} fields instead of 5: minute, hour, day of the month, month, day of the week"
    )]
    Fields(usize),
    /// A field is wrong.
    #[error("{0}")]
    Field(String),
    /// No date matches the expression.
    #[error("no date matches it")]
    Never,
}

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// The problem, for a person.
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = *fields else {
            return Err(CronError::Fields(fields.len()));
        };
        let text = fields.join(" ");
        let calendar = parsed(&text)?;
        let has_last = day.contains('L') || weekday.contains('L');
        let october = match has_last && has_december(month)? {
            true => Some(parsed(&format!("{minute} {hour} {day} 10 {weekday}"))?),
            false => None,
        };
        let cron = Cron {
            calendar,
            october,
            is_hourly: hour == EVERY,
            text,
        };
        match cron.after(DateTime::constant(2024, 1, 1, 0, 0, 0, 0)) {
            Some(_) => Ok(cron),
            None => Err(CronError::Never),
        }
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first instant after `after` at which the local time matches.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let begin = jiff::Timestamp::from_millisecond(after.0).ok()?;
        if self.is_hourly {
            return self.next_of_every_hour(begin, zone);
        }
        let mut civil = zone.to_datetime(begin);
        // All times inside a gap are the same instant; the second occurrence of a repeated time is
        // skipped.
        loop {
            civil = self.after(civil)?;
            let at = instant(civil, zone)?;
            if at > after {
                return Some(at);
            }
        }
    }

    /// The same for an expression of every hour: both occurrences of a repeated time count, and a
    /// time inside a gap does not.
    fn next_of_every_hour(&self, begin: jiff::Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut offset = zone.to_offset(begin);
        let (mut from, mut since) = (begin, begin);
        loop {
            let civil = self.after(offset.to_datetime(from))?;
            let at = offset.to_timestamp(civil).ok()?;
            let change = zone.following(since).next();
            let change = change.map(|change| change.timestamp());
            match change.filter(|change| *change <= at) {
                None => return Some(Timestamp(at.as_millisecond())),
                // The clocks change before it.
                Some(change) => {
                    offset = zone.to_offset(change);
                    from = jiff::Timestamp::from_millisecond(change.as_millisecond() - 1).ok()?;
                    since = change;
                }
            }
        }
    }

    /// The first time after that one on a calendar without time zones.
    fn after(&self, civil: DateTime) -> Option<DateTime> {
        let found = (0..SEARCHES).find_map(|search| {
            let years = jiff::Span::new().years(search * SEARCH_YEARS);
            next(&self.calendar, civil.checked_add(years).ok()?)
        });
        found.into_iter().chain(self.after_in_december(civil)).min()
    }

    /// The first time after that one in a December, if the expression has a last day. The library
    /// knows the last days of a month by the next month, which has a greater number: not so in
    /// December. An October that begins on the same day of the week stands for it.
    fn after_in_december(&self, civil: DateTime) -> Option<DateTime> {
        let calendar = self.october.as_ref()?;
        [0, 1].into_iter().find_map(|years| {
            let december = DateTime::new(civil.year() + years, 12, 1, 0, 0, 0, 0).ok()?;
            let october = october_like(december)?;
            let begin = match civil < december {
                true => SignedDuration::from_secs(-1),
                false => civil.duration_since(december),
            };
            let found = next(calendar, october.checked_add(begin).ok()?)?;
            let at = december.checked_add(found.duration_since(october)).ok()?;
            (at.year() == december.year() && at.month() == 12).then_some(at)
        })
    }
}

/// The first day of an October that begins on the same day of the week as that day.
fn october_like(first: DateTime) -> Option<DateTime> {
    (0..28).find_map(|years| {
        let october = DateTime::new(first.year() - years, 10, 1, 0, 0, 0, 0).ok()?;
        (october.weekday() == first.weekday()).then_some(october)
    })
}

fn parsed(text: &str) -> Result<Crontab, CronError> {
    let calendar = cronexpr::parse_crontab(&format!("{text} UTC"));
    calendar.map_err(|error| CronError::Field(reason(&error.to_string())))
}

/// Whether the field of months has December.
fn has_december(month: &str) -> Result<bool, CronError> {
    let months = parsed(&format!("0 0 1 {month} *"))?;
    let before = DateTime::constant(2024, 11, 30, 0, 0, 0, 0);
    Ok(next(&months, before) == Some(DateTime::constant(2024, 12, 1, 0, 0, 0, 0)))
}

/// The first time of a calendar after that one, within some years.
fn next(calendar: &Crontab, civil: DateTime) -> Option<DateTime> {
    let begin = TimeZone::UTC.to_timestamp(civil).ok()?;
    let found = calendar.find_next(MakeTimestamp(begin)).ok()?;
    Some(found.datetime())
}

/// The instant of a local time: its first occurrence, or the end of the gap that contains it.
fn instant(civil: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    let at = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
            ambiguous.earlier().ok()?
        }
        AmbiguousOffset::Gap { .. } => {
            // By the clocks after the change, every time inside the gap is before the change.
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next()?.timestamp()
        }
    };
    Some(Timestamp(at.as_millisecond()))
}

/// The message of the library on one line, without the text above its mark.
fn reason(said: &str) -> String {
    let last = said.lines().last().unwrap_or(said);
    last.trim_start_matches([' ', '^']).to_owned()
}

/// The time zone with this name; none if it is unknown.
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_expression_says_why() {
        let table = [
            ("", "0 fields"),
            ("0 7 * *", "4 fields"),
            ("0 0 7 * * 1-5", "6 fields"),
            ("0 7 * * 1-5 Europe/Berlin", "6 fields"),
            ("@daily", "1 fields"),
            ("60 7 * * *", "60"),
            ("0 24 * * *", "24"),
            ("0 7 * * 8", "8"),
            ("0 7 0 * *", "0"),
            ("a 7 * * *", ""),
            ("*/0 7 * * *", ""),
            ("0 0 30 2 *", "no date"),
        ];
        for (text, expected) in table {
            let wrong = Cron::parse(text).expect_err(text).to_string();
            assert!(wrong.contains(expected), "{text}: {wrong}");
            assert!(!wrong.contains('\n'), "{text}: {wrong}");
        }
    }

    #[test]
    fn zones_have_names() {
        for name in ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"] {
            assert!(zone(name).is_some(), "{name}");
        }
        for name in ["", "Berlin", "Europe/Berlin2", "../etc/passwd"] {
            assert!(zone(name).is_none(), "{name}");
        }
    }
}
