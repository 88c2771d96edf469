//! Error messages for people: what happened, and what to do; never an API key.

use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::Settings;

use super::secrets::Secrets;

/// The most that is said, in characters: a provider's page is not an error message.
const LONGEST: usize = 1_000;

/// The reason of an error. `ending` is the end of its sentence.
pub(super) fn reason(
    settings: &Settings,
    secrets: &Secrets,
    failure: &Failure,
    ending: &str,
) -> String {
    let said = said(secrets, &failure.reason);
    let said = match failure.class {
        Class::Unauthorised => unauthorised(settings, &said),
        _ => said,
    };
    // The ending may hold the reason of another failure.
    said + &shortened(&secrets.text(ending))
}

/// A text without keys, and no longer than is told.
pub(super) fn said(secrets: &Secrets, text: &str) -> String {
    shortened(&secrets.text(text))
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

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
