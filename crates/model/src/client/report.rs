//! What an error says to a person: what happened, and what to do; never a key.

use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::{Key, Settings};
use crate::redact::{REDACTED, redact};

/// The most that is said, in characters: a provider's page is not an error message.
const LONGEST: usize = 1_000;

/// The reason of an error. `ending` is the end of its sentence.
pub(super) fn reason(settings: &Settings, failure: &Failure, ending: &str) -> String {
    let said = without_key(settings, &failure.reason);
    let said = shortened(&said);
    let said = match failure.class {
        Class::Unauthorised => unauthorised(settings, &said),
        _ => said,
    };
    // The ending may hold the reason of another failure.
    said + &shortened(&without_key(settings, ending))
}

fn unauthorised(settings: &Settings, said: &str) -> String {
    let name = &settings.name;
    match (settings.auth.key(), settings.kind.key_variables()) {
        (Some(key), _) => format!(
            "provider `{name}` refuses the key from {source}: {said}; put a valid key there",
            source = key.source()
        ),
        (None, []) => format!(
            "provider `{name}` wants a key and none is set: {said}; name a variable or a file \
             with the key in the provider's settings"
        ),
        (None, variables) => format!(
            "provider `{name}` wants a key and none is set: {said}; set {}",
            variables.join(" or ")
        ),
    }
}

/// The text without the provider's key and values of its extra headers, should the provider have
/// sent one back, and without what looks like a key.
fn without_key(settings: &Settings, text: &str) -> String {
    let mut text = text.to_owned();
    // A short value of a header is a setting, not a secret; it may be part of any word.
    let headers = settings
        .headers
        .iter()
        .filter_map(|header| header.value().to_str().ok())
        .filter(|value| value.len() >= 8);
    for secret in settings
        .auth
        .key()
        .map(Key::expose)
        .into_iter()
        .chain(headers)
    {
        text = text.replace(secret, REDACTED);
    }
    redact(&text).into_owned()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
