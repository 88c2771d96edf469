//! Strings read from JSON, without a copy if possible.

use std::borrow::Cow;

use serde::Deserialize;

/// A string that borrows if it has no escapes. serde borrows only a bare `Cow`; this type also
/// borrows in an `Option` and a `Vec`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
