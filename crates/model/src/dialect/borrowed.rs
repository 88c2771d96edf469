//! Strings read from JSON without a copy where that can be.

use std::borrow::Cow;

use serde::Deserialize;

/// A string that borrows where it has no escapes. serde borrows a `Cow` only where it stands
/// alone; this one borrows in an `Option` and a `Vec` too.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
