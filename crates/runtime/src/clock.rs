//! The runtime's clock and its source of ids: only this file reads either.

use std::time::{SystemTime, UNIX_EPOCH};

use unisono_context::Timestamp;

/// The current time, in milliseconds since the Unix epoch.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A new UUIDv7.
pub fn new_id() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}
