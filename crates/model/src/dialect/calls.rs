//! Past calls as providers accept them, whatever the transcript holds.

use std::borrow::Cow;

use crate::prompt::json::{self, Json};

/// The longest name of a tool that every provider takes.
const MAX_NAME: usize = 64;

/// Writes the arguments of a past call as the JSON object they have to be. Those that are no
/// object are sent as the text they are: `{"invalid_arguments":"<text>"}`.
pub(super) fn arguments(out: &mut Json, text: &str) {
    let object = text.trim_matches([' ', '\t', '\n', '\r']);
    if object.is_empty() {
        out.raw("{}");
    } else if json::is_object(object) {
        out.raw(object);
    } else {
        out.raw(r#"{"invalid_arguments":"#).string(text).raw("}");
    }
}

/// A tool's name with `_` for each character but ASCII letters, digits, `_`, `-` and those
/// `besides`. Past calls only: a name the model is to call must stay as it is.
pub(super) fn name<'a>(name: &'a str, besides: &[char]) -> Cow<'a, str> {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || besides.contains(&c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && name.len() <= MAX_NAME && name.chars().all(allowed) {
        return Cow::Borrowed(name);
    }
    let prefix = if starts_well { "" } else { "_" };
    let kept = name.chars().map(|c| if allowed(c) { c } else { '_' });
    Cow::Owned(prefix.chars().chain(kept).take(MAX_NAME).collect())
}
