//! The retirement of models, and the age at which a catalogue is outdated. Today is an argument.

use std::fmt;

use jiff::civil::Date;

use super::{Catalogue, Entry, ModelRef};

/// The number of days before a retirement from which on there is a warning.
pub const NOTICE_DAYS: i32 = 60;
/// The maximum age of a catalogue, in days.
pub const FRESH_DAYS: i32 = 120;

/// A retirement that is near or past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirement {
    /// The first day without service.
    pub on: Date,
    /// Whether that day has passed.
    pub is_retired: bool,
    /// The successor, if one is known.
    pub successor: Option<ModelRef>,
}

impl Entry {
    /// The retirement, if it is past on that day or at most [`NOTICE_DAYS`] away.
    pub fn retirement(&self, today: Date) -> Option<Retirement> {
        let on = self.retires?;
        (days(today, on) <= NOTICE_DAYS).then(|| Retirement {
            on,
            is_retired: on <= today,
            successor: self.successor.clone(),
        })
    }
}

impl Retirement {
    /// The advice for the user.
    pub fn help(&self) -> String {
        match &self.successor {
            Some(successor) => format!("use `{successor}` in its place"),
            None => "choose another".to_owned(),
        }
    }
}

/// A predicate for the model's name: `was retired on 2026-10-20`.
impl fmt::Display for Retirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = if self.is_retired {
            "was retired"
        } else {
            "retires"
        };
        write!(f, "{is} on {}", self.on)
    }
}

impl Catalogue {
    /// The catalogue's age in days, if it is above [`FRESH_DAYS`] on that day. `None` if the
    /// catalogue is fresh or has no date.
    pub fn outdated_days(&self, today: Date) -> Option<i32> {
        let age = days(self.generated?, today);
        (age > FRESH_DAYS).then_some(age)
    }
}

/// The days from one date to another; negative if the second is earlier.
fn days(from: Date, to: Date) -> i32 {
    // The span between two dates is always in whole days.
    from.until(to).map_or(0, |span| span.get_days())
}
