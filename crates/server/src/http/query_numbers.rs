//! Numbers in the query of a request.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Parses the number of an event, up to the largest integer that all clients support.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = i64::deserialize(from)?;
    u64::try_from(number).map_err(|_| D::Error::custom("it is below 0"))
}

pub(super) fn some_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    number(from).map(Some)
}
