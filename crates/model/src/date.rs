//! The date of a message.

use jiff::tz::TimeZone;
use unisono_context::Timestamp;

pub use jiff::civil::Date;

/// The UTC date of an instant. `None` for the epoch, which imported conversations have for an
/// unknown time.
pub fn utc_date(at: Timestamp) -> Option<Date> {
    if at == Timestamp::default() {
        return None;
    }
    let instant = jiff::Timestamp::from_millisecond(at.0).ok()?;
    Some(instant.to_zoned(TimeZone::UTC).date())
}

/// The first instant of a day.
pub(crate) fn midnight(day: Date) -> Option<Timestamp> {
    let midnight = day.to_zoned(TimeZone::UTC).ok()?;
    Some(Timestamp(midnight.timestamp().as_millisecond()))
}
