//! The retirement of models, and the age at which a catalogue is outdated. Today is an argument.

use std::fmt;

use jiff::civil::Date;

use super::{Catalogue, Entry, ModelRef};

/// How many days before its retirement a model is warned of.
pub const NOTICE_DAYS: i32 = 60;
/// How many days old a catalogue may be.
pub const FRESH_DAYS: i32 = 120;

/// A model that goes soon, or has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirement {
    /// The first day on which it is not to be had.
    pub on: Date,
    /// Whether that day has come.
    pub gone: bool,
    /// The model that takes its place, where one is known.
    pub successor: Option<ModelRef>,
}

impl Entry {
    /// Whether it has gone by that day, or goes within [`NOTICE_DAYS`] of it.
    pub fn retirement(&self, today: Date) -> Option<Retirement> {
        let on = self.retires?;
        (days(today, on) <= NOTICE_DAYS).then(|| Retirement {
            on,
            gone: on <= today,
            successor: self.successor.clone(),
        })
    }
}

impl Retirement {
    /// What to do.
    pub fn help(&self) -> String {
        match &self.successor {
            Some(successor) => format!("use `{successor}` in its place"),
            None => "choose another".to_owned(),
        }
    }
}

/// `was retired on 2026-10-20`, as what is said of a model.
impl fmt::Display for Retirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = if self.gone { "was retired" } else { "retires" };
        write!(f, "{is} on {}", self.on)
    }
}

impl Catalogue {
    /// How many days older than it may be it is on that day; none: it is fresh, or does not say
    /// when it was made.
    pub fn stale(&self, today: Date) -> Option<i32> {
        let age = days(self.generated?, today);
        (age > FRESH_DAYS).then_some(age)
    }
}

/// From one day to another, negative where that is before it.
fn days(from: Date, to: Date) -> i32 {
    // Two dates are always so many whole days apart.
    from.until(to).map_or(0, |span| span.get_days())
}
