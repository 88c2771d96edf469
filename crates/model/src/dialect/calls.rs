//! Makes past calls of any transcript acceptable to providers.

use std::borrow::Cow;

use crate::prompt::json::{self, Json};

/// The longest name of a tool that every provider takes.
const MAX_NAME: usize = 64;

/// Writes the arguments of a past call as a JSON object. Arguments that are not an object become
/// `{"invalid_arguments":"<text>"}`.
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

/// A tool's name with `_` in place of each character except ASCII letters, digits, `_`, `-` and
/// those in `besides`. Only for past calls: a tool that the model may call keeps its name.
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
