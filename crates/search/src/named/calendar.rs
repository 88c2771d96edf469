//! The days that a named period means, relative to a reference day.

use std::ops::RangeInclusive;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan, tz::TimeZone};
use unisono_context::Timestamp;

use crate::times::Period;

/// The maximum number of days between a day and a text that names it without a year.
const NEAR: i64 = 183;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedTime {
    /// The year, if it is named, the month and the day.
    Day(Option<i16>, i8, i8),
    /// The year, and two numbers of which either may be the month and the other the day.
    MonthAndDay(i16, i8, i8),
    /// The year, if it is named, and the month.
    Month(Option<i16>, i8),
    Weekday(Weekday, Weekdays),
    /// So many days from the reference.
    Distance(i64),
    /// The calendar week, from Monday on.
    Weeks(i64),
    /// About so many weeks before.
    WeeksAgo(i64),
    /// Saturday and Sunday.
    Weekend(i64),
    /// The calendar month.
    Months(i64),
    /// The calendar year.
    Years(i64),
    /// From the first day of one to the last day of another.
    Range(Box<NamedTime>, Box<NamedTime>),
}

/// The weekday that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weekdays {
    Any,
    Last,
    Next,
}

/// The first and the last day of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) first: Date,
    pub(crate) last: Date,
}

impl Days {
    fn one(day: Date) -> Days {
        Days {
            first: day,
            last: day,
        }
    }

    fn month(first: Date) -> Days {
        Days {
            first: first.first_of_month(),
            last: first.last_of_month(),
        }
    }

    /// Its days as numbers of days since 1970.
    pub(crate) fn numbers(self) -> RangeInclusive<i64> {
        day_number(self.first)..=day_number(self.last)
    }

    /// The instants from its first to its last moment.
    pub(crate) fn period(self) -> Option<Period> {
        let start = |day: Date| {
            let start = day.to_zoned(TimeZone::UTC).ok()?;
            Some(Timestamp(start.timestamp().as_millisecond()))
        };
        Some(Period {
            since: start(self.first)?,
            until: start(self.last.tomorrow().ok()?)?,
        })
    }
}

/// The number of a day: 0 for 1970-01-01.
pub(crate) fn day_number(day: Date) -> i64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    day.duration_since(epoch).as_hours() / 24
}

pub(crate) fn day_with_number(number: i64) -> Option<Date> {
    jiff::civil::date(1970, 1, 1)
        .checked_add(number.days())
        .ok()
}

/// The day of an instant; none before 1971, because imports without times have such dates.
pub(crate) fn day_of(at: Timestamp) -> Option<Date> {
    const YEAR_MS: i64 = 31_536_000_000;
    let at = jiff::Timestamp::from_millisecond(at.0).ok();
    let at = at.filter(|at| at.as_millisecond() >= YEAR_MS)?;
    Some(at.to_zoned(TimeZone::UTC).date())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedDay {
    pub(crate) number: i64,
    /// Whether the text can mean no other day.
    pub(crate) is_certain: bool,
}

impl NamedDay {
    /// The day as one number, in the order of the days.
    pub(crate) fn value(self) -> i64 {
        self.number * 2 + i64::from(self.is_certain)
    }

    pub(crate) fn of_value(value: i64) -> NamedDay {
        NamedDay {
            number: value.div_euclid(2),
            is_certain: value.rem_euclid(2) == 1,
        }
    }

    /// The first and the last value of days.
    pub(crate) fn values(days: Days) -> (i64, i64) {
        let (first, last) = days.numbers().into_inner();
        (first * 2, last * 2 + 1)
    }
}

impl NamedTime {
    pub(super) fn date(date: Date) -> NamedTime {
        NamedTime::Day(Some(date.year()), date.month(), date.day())
    }

    /// A day, or the days from one before it in the same month on.
    pub(super) fn days_of(year: Option<i16>, month: i8, from: Option<i8>, day: i8) -> NamedTime {
        let last = NamedTime::Day(year, month, day);
        match from {
            Some(from) if from < day => {
                let from = NamedTime::Day(year, month, from);
                NamedTime::Range(Box::new(from), Box::new(last))
            }
            _ => last,
        }
    }

    pub(super) fn is_date(&self) -> bool {
        match self {
            NamedTime::Day(..) | NamedTime::MonthAndDay(..) | NamedTime::Month(..) => true,
            NamedTime::Range(first, last) => first.is_date() && last.is_date(),
            _ => false,
        }
    }

    /// The days that it means beside a reference; without a year the nearest at or before it.
    pub(super) fn days(&self, reference: Date) -> Option<Days> {
        let after = |span: Span| reference.checked_add(span).ok();
        match *self {
            NamedTime::Day(Some(year), month, day) | NamedTime::MonthAndDay(year, month, day) => {
                Date::new(year, month, day).ok().map(Days::one)
            }
            NamedTime::Day(None, month, day) => last_day(reference, month, day).map(Days::one),
            NamedTime::Month(Some(year), month) => Date::new(year, month, 1).ok().map(Days::month),
            NamedTime::Month(None, month) => {
                let year = reference.year() - i16::from(month > reference.month());
                Date::new(year, month, 1).ok().map(Days::month)
            }
            NamedTime::Weekday(day, which) => {
                let day = match which {
                    Weekdays::Any if reference.weekday() == day => Ok(reference),
                    Weekdays::Any | Weekdays::Last => reference.nth_weekday(-1, day),
                    Weekdays::Next => reference.nth_weekday(1, day),
                };
                day.ok().map(Days::one)
            }
            NamedTime::Distance(days) => after(days.days()).map(Days::one),
            NamedTime::Weeks(weeks) => week(reference, weeks),
            NamedTime::WeeksAgo(weeks) => Some(Days {
                first: after((-7 * weeks - 3).days())?,
                last: after((-7 * weeks + 3).days())?,
            }),
            NamedTime::Weekend(weeks) => weekend(reference, weeks),
            NamedTime::Months(months) => {
                let first = reference.first_of_month();
                first.checked_add(months.months()).ok().map(Days::month)
            }
            NamedTime::Years(years) => year(i64::from(reference.year()).checked_add(years)?),
            NamedTime::Range(ref first, ref last) => {
                let last = last.days(reference)?;
                let first = first.days(last.last)?;
                let days = Days {
                    first: first.first,
                    last: last.last,
                };
                (days.first <= days.last).then_some(days)
            }
        }
    }

    /// The other reading of numbers of which either may be the month.
    fn other_reading(&self) -> Option<NamedTime> {
        match self {
            NamedTime::MonthAndDay(year, month, day) => {
                Some(NamedTime::MonthAndDay(*year, *day, *month))
            }
            NamedTime::Range(first, last) => {
                let others = (first.other_reading(), last.other_reading());
                let (first, last) = match others {
                    (None, None) => return None,
                    (new_first, new_last) => (
                        new_first.unwrap_or_else(|| (**first).clone()),
                        new_last.unwrap_or_else(|| (**last).clone()),
                    ),
                };
                Some(NamedTime::Range(Box::new(first), Box::new(last)))
            }
            _ => None,
        }
    }

    /// The next days of this name after the reference, or its other reading, if it has several.
    pub(super) fn next(&self, reference: Date) -> Option<Days> {
        if let Some(other) = self.other_reading() {
            return other.days(reference);
        }
        let day = match *self {
            NamedTime::Day(None, month, day) => {
                let mut years = (0..=1).map(|on| reference.year() + on);
                let day = |year| {
                    Date::new(year, month, day)
                        .ok()
                        .filter(|day| *day > reference)
                };
                let day = years.find_map(day)?;
                let is_near = day_number(day) - day_number(reference) <= NEAR;
                is_near.then_some(day)?
            }
            NamedTime::Weekday(day, Weekdays::Any) => reference.nth_weekday(1, day).ok()?,
            _ => return None,
        };
        Some(Days::one(day))
    }

    /// Whether a text can mean no other day by it.
    pub(super) fn is_certain(&self) -> bool {
        self.other_reading().is_none() && !matches!(self, NamedTime::Weekday(_, Weekdays::Any))
    }

    /// The days that a text of the reference day may mean: of days without a year those that are
    /// near.
    pub(super) fn nearest(&self, reference: Date) -> Vec<Days> {
        let is_near = |days: &Days| {
            let distance = day_number(reference) - day_number(days.first);
            !matches!(self, NamedTime::Day(None, ..)) || distance <= NEAR
        };
        let past = self.days(reference).filter(is_near);
        past.into_iter().chain(self.next(reference)).collect()
    }
}

/// The last day at or before another with this month and day.
fn last_day(reference: Date, month: i8, day: i8) -> Option<Date> {
    // The 29th of February is in one of eight years.
    let mut years = (0..=8).map(|back| reference.year() - back);
    let day = |year| Date::new(year, month, day).ok();
    years.find_map(|year| day(year).filter(|day| *day <= reference))
}

fn year(year: i64) -> Option<Days> {
    let year = i16::try_from(year).ok()?;
    Some(Days {
        first: Date::new(year, 1, 1).ok()?,
        last: Date::new(year, 12, 31).ok()?,
    })
}

fn week(day: Date, weeks: i64) -> Option<Days> {
    let monday = i64::from(day.weekday().to_monday_zero_offset());
    let first = day.checked_add((7 * weeks - monday).days()).ok()?;
    Some(Days {
        first,
        last: first.checked_add(6.days()).ok()?,
    })
}

/// This weekend, which has begun, or the one so many weeks from it. The last weekend, said on a
/// weekend, is the one before.
fn weekend(day: Date, weeks: i64) -> Option<Days> {
    let from_saturday = i64::from(day.weekday().since(Weekday::Saturday));
    let is_weekend = from_saturday < 2;
    let weeks = if weeks < 0 && !is_weekend {
        weeks + 1
    } else {
        weeks
    };
    let first = day.checked_add((7 * weeks - from_saturday).days()).ok()?;
    Some(Days {
        first,
        last: first.tomorrow().ok()?,
    })
}
