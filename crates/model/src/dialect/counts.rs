//! The numbers of tokens in a provider's usage.

use serde::Deserialize;
use serde::de::Deserializer;

/// No request has as many tokens.
const IMPLAUSIBLE: u64 = 1_000_000_000_000_000;

/// A number of tokens. Some servers write it with a fraction. Any other value is ignored, and the
/// reply is used: a negative number, a text, more tokens than any request has.
pub(super) fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let rounded = |number: f64| (number >= 0.0).then_some(number as u64);
    let number = value.as_u64().or_else(|| rounded(value.as_f64()?));
    Ok(number.filter(|number| *number < IMPLAUSIBLE))
}

/// The same, and zero for an ignored value.
pub(super) fn tokens_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(tokens(from)?.unwrap_or_default())
}
