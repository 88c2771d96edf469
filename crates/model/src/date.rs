//! The date on which a message was said.

use jiff::tz::TimeZone;
use unisono_context::Timestamp;

pub(crate) use jiff::civil::Date;

/// The day of an instant, UTC. Conversations from elsewhere may not know it: then it is the epoch.
pub(crate) fn utc_date(at: Timestamp) -> Option<Date> {
    if at == Timestamp::default() {
        return None;
    }
    let instant = jiff::Timestamp::from_millisecond(at.0).ok()?;
    Some(instant.to_zoned(TimeZone::UTC).date())
}
