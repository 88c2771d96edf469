//! Error messages for people: what happened, and what to do; never an API key.

use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::{Address, Settings};

use super::secrets::Secrets;

/// The maximum length of a message, in characters: a provider's page is not an error message.
const LONGEST: usize = 1_000;

/// The words of rustls for a certificate that it refuses.
const REFUSED_CERTIFICATE: &str = "invalid peer certificate";

/// The reason of an error; `ending` is appended to it.
pub(super) fn reason(
    settings: &Settings,
    secrets: &Secrets,
    failure: &Failure,
    ending: &str,
) -> String {
    let reason_text = clean_text(secrets, &failure.reason);
    let reason_text = match failure.class {
        Class::Unauthorised => unauthorised(settings, &reason_text),
        _ => reason_text,
    };
    // The ending may contain the reason of another failure.
    reason_text + &truncated(&secrets.text(ending))
}

/// A failure to connect, with what a person can check.
pub(super) fn unreachable(settings: &Settings, failure: Failure) -> Failure {
    let advice = match failure.reason.contains(REFUSED_CERTIFICATE) {
        true => "; for an authority of your own, add it to the machine's certificates, or name a \
                 file with all authorities in SSL_CERT_FILE"
            .to_owned(),
        false => connection_advice(settings),
    };
    Failure {
        reason: failure.reason + &advice,
        ..failure
    }
}

fn connection_advice(settings: &Settings) -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let proxy = match proxy_variable(&settings.address, is_set) {
        Some(variable) => format!("; {variable} names a proxy: check that it runs, too"),
        None => String::new(),
    };
    format!(
        "; check that it runs there (`providers.{}.base_url`) and that this machine can reach it{proxy}; \
         `unisono doctor` lists the providers with their addresses and keys",
        settings.name
    )
}

/// The variable that is set and names the proxy for an address. `NO_PROXY` may except the address.
fn proxy_variable(address: &Address, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let own = match address.is_encrypted() {
        true => ["https_proxy", "HTTPS_PROXY"],
        false => ["http_proxy", "HTTP_PROXY"],
    };
    let mut all = own.into_iter().chain(["all_proxy", "ALL_PROXY"]);
    let found = all.find(|name| is_set(name));
    found.filter(|_| !address.is_loopback())
}

/// A text without keys, truncated to the maximum length.
pub(super) fn clean_text(secrets: &Secrets, text: &str) -> String {
    truncated(&secrets.text(text))
}

fn unauthorised(settings: &Settings, reason_text: &str) -> String {
    let name = &settings.name;
    match (settings.auth.key(), settings.kind.key_variables()) {
        (Some(key), _) => format!(
            "provider `{name}` refuses the key from {source}: {reason_text}; put a valid key there",
            source = key.source()
        ),
        (None, []) => format!(
            "provider `{name}` requires a key and none is set: {reason_text}; name a variable or a file \
             with the key in the provider's settings"
        ),
        (None, variables) => format!(
            "provider `{name}` requires a key and none is set: {reason_text}; set {}",
            variables.join(" or ")
        ),
    }
}

fn truncated(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
