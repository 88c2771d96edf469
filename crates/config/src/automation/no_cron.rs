//! Replaces cron expressions in a build without them: every expression is an error.

use std::convert::Infallible;

use jiff::tz::TimeZone;
use unisono_context::Timestamp;

/// A cron expression: none.
#[derive(Clone, Debug)]
pub struct Cron(Infallible);

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// This build knows none.
    #[error("this build does not support cron expressions: use `every`")]
    Absent,
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// Always.
    pub fn parse(_: &str) -> Result<Cron, CronError> {
        Err(CronError::Absent)
    }

    /// The expression.
    pub fn text(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn next(&self, _: Timestamp, _: &TimeZone) -> Option<Timestamp> {
        match self.0 {}
    }
}

/// The time zone with this name: only UTC is known.
pub fn zone(name: &str) -> Option<TimeZone> {
    (name == "UTC").then_some(TimeZone::UTC)
}
