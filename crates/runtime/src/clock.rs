//! The runtime's clock and its source of ids: only this file reads either.

use std::time::{SystemTime, UNIX_EPOCH};

use unisono_context::Timestamp;
use unisono_store::Journal;

/// The current time, in milliseconds since the Unix epoch.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The current time for what programs on one store decide together: by the clock of the database, if they
/// share one, so that a wrong clock of one machine changes nothing for the others.
pub fn store_now(journal: &Journal) -> Timestamp {
    let shared = journal.cluster().and_then(|cluster| cluster.now_unix_ms());
    shared.map_or_else(now, Timestamp)
}

/// A new UUIDv7.
pub fn new_id() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}
