//! The days of a conversation: from which message on each of them goes.

use unisono_context::{Ordinal, Timestamp};

use jiff::tz::TimeZone;

use crate::date::{Date, utc_date};

/// Begins the days of a summary's first line; between the first day and the last where only
/// those are given.
pub(super) const DAYS: &str = "Days (UTC): ";
pub(super) const TO: &str = " to ";

/// Days are listed one by one when at least so many units are quoted of each on average.
const UNITS_PER_DAY: usize = 5;
const MS_PER_DAY: i64 = 86_400_000;

/// Days by their first message, in order.
#[derive(Clone, Debug)]
pub(super) struct Days {
    pub(super) starts: Vec<(Ordinal, Date)>,
    /// False where days between the first and the last are not known.
    pub(super) listed: bool,
}

impl Default for Days {
    fn default() -> Days {
        Days {
            starts: Vec::new(),
            listed: true,
        }
    }
}

impl Days {
    /// Adds messages, oldest first.
    pub(super) fn extend(&mut self, messages: impl Iterator<Item = (Ordinal, Timestamp)>) {
        let mut current = None;
        for (ordinal, at) in messages {
            if current.replace(at.0.div_euclid(MS_PER_DAY)) == Some(at.0.div_euclid(MS_PER_DAY)) {
                continue;
            }
            let Some(date) = utc_date(at) else { continue };
            if self.starts.last().is_none_or(|&(_, last)| last != date) {
                self.starts.push((ordinal, date));
            }
        }
    }

    /// A time on the day of a message, as far as that is known.
    pub(super) fn at(&self, message: Ordinal) -> Option<Timestamp> {
        let (start, date) = self.starts.iter().rfind(|(from, _)| *from <= message)?;
        if !self.listed && *start != message {
            return None;
        }
        let midnight = date.to_zoned(TimeZone::UTC).ok()?;
        Some(Timestamp(midnight.timestamp().as_millisecond()))
    }

    /// The first day and the last.
    pub(super) fn ends(&self) -> Option<(Date, Date)> {
        let (first, last) = (self.starts.first()?, self.starts.last()?);
        Some((first.1, last.1))
    }

    /// `2026-03-02 #1, 03-03 #27`, or `2026-03-02 to 2026-03-12` where the list would take too
    /// much room beside so many quoted units. Empty where no day is known.
    pub(super) fn legend(&self, units: usize) -> String {
        let Some((first, last)) = self.ends() else {
            return String::new();
        };
        let count = self.starts.len();
        if count == 1 {
            first.to_string()
        } else if self.listed && (count == 2 || count * UNITS_PER_DAY <= units) {
            self.list()
        } else {
            format!("{first}{TO}{last}")
        }
    }

    /// Each day with its first message; the year where it is new.
    fn list(&self) -> String {
        let mut year = None;
        let entries = self.starts.iter().map(|(from, date)| {
            let same = year.replace(date.year()) == Some(date.year());
            let (month, day) = (date.month(), date.day());
            if same {
                format!("{month:02}-{day:02} {from}")
            } else {
                format!("{date} {from}")
            }
        });
        entries.collect::<Vec<_>>().join(", ")
    }
}
