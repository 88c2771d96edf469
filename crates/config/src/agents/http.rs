//! The keys of agents behind an address: a server, or an agent of another program.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_model::provider::{Address, Header};
use unisono_runtime::agent::template::Template;
use unisono_session::agent::{A2a, AgentKind, Http};
use unisono_session::tool::Contract;

use super::define::{
    no_coding_keys, no_model_keys, no_program_keys, no_remote_keys, texts_by_name,
};
use super::files::Source;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::settings::Variables;

/// Parts of a header's name that indicate a secret value.
const SECRET: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];
/// Headers that every request has already.
const SET: [&str; 3] = ["accept", "idempotency-key", "a2a-version"];
const DIGEST_DIGITS: usize = 64;
const WRITE: &str = "write its value as ${VARIABLE}, and set that variable";

/// A server, if its address and headers can be used.
pub(super) fn http_server(
    source: &Source,
    set: &Variables,
    found: &mut Diagnostics,
) -> Option<AgentKind> {
    no_remote_keys(source, "http", found);
    let (url, headers) = server(source, "http", set, found)?;
    Some(AgentKind::Http(Http { url, headers }))
}

/// An agent of another program, if its address, headers and digest can be used.
pub(super) fn remote_agent(
    source: &Source,
    set: &Variables,
    found: &mut Diagnostics,
) -> Option<AgentKind> {
    let server = server(source, "a2a", set, found);
    let card_digest = source.text("card_digest").map(str::trim);
    let is_digest = |text: &str| text.len() == DIGEST_DIGITS && text.bytes().all(is_digit);
    if card_digest.is_some_and(|text| !is_digest(text)) {
        let problem = format!("agent `{}`: `card_digest` is not a digest", source.id);
        let diagnostic =
            Diagnostic::error(source.key_place("card_digest"), problem).with_key("card_digest");
        let help = "write the 64 hex digits that a run of the agent tells when it begins";
        found.push(diagnostic.help(help));
        return None;
    }
    let (url, headers) = server?;
    Some(AgentKind::A2a(A2a {
        url,
        headers,
        card_digest: card_digest.map(Arc::from),
        contract: contract(source),
    }))
}

/// The contract of a task for an agent of another program: whether it may be repeated.
pub(super) fn contract(source: &Source) -> Contract {
    match source.text("contract") {
        Some("idempotent") => Contract::Idempotent,
        _ => Contract::AtMostOnce,
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// An address and its headers.
type Endpoint = (Arc<str>, BTreeMap<Arc<str>, Arc<str>>);

/// The endpoint of the agent, if its address and headers are valid.
fn server(
    source: &Source,
    kind: &str,
    set: &Variables,
    found: &mut Diagnostics,
) -> Option<Endpoint> {
    no_model_keys(source, kind, found);
    no_program_keys(source, kind, found);
    no_coding_keys(source, kind, found);
    let Some(url) = source.text("url") else {
        if !found.has(&source.place.origin, "url") {
            let problem = format!("agent `{}` of kind `{kind}` has no `url`", source.id);
            found.push(
                Diagnostic::error(source.key_place("kind"), problem).help("name its address"),
            );
        }
        return None;
    };
    let address = match Address::endpoint(url) {
        Ok(address) => address,
        Err(error) => {
            let problem = format!("agent `{}`: {error}", source.id);
            found.push(Diagnostic::error(source.key_place("url"), problem).with_key("url"));
            return None;
        }
    };
    let headers = texts_by_name(source, "headers");
    let mut usable = true;
    let mut secret = false;
    for (name, value) in &headers {
        match variables(name, value) {
            Ok(variables) => {
                secret |= !variables.is_empty();
                for variable in variables.iter().filter(|name| !set.has(name)) {
                    unset(source, name, variable, found);
                }
            }
            Err((problem, help)) => {
                let problem = format!("agent `{}`: {problem}", source.id);
                let diagnostic =
                    Diagnostic::error(source.key_place("headers"), problem).with_key("headers");
                found.push(diagnostic.help(help));
                usable = false;
            }
        }
    }
    if secret && !address.is_encrypted() && !address.is_loopback() {
        let (id, origin) = (&source.id, address.origin());
        let problem = format!("agent `{id}` sends a secret unencrypted to {origin}");
        let diagnostic = Diagnostic::warning(source.key_place("url"), problem).with_key("url");
        found.push(diagnostic.help("use https"));
    }
    usable.then(|| (url.trim().into(), headers))
}

/// The variables of a header's value, or an error with its remedy. Definitions are recorded and
/// exported, so they must not contain a secret.
fn variables(name: &str, value: &str) -> Result<Vec<Arc<str>>, (String, &'static str)> {
    let template =
        Template::parse(value).map_err(|wrong| (format!("header `{name}`: {wrong}"), WRITE))?;
    let variables: Vec<Arc<str>> = template.variables().map(Arc::from).collect();
    let lower = name.to_ascii_lowercase();
    if SET.contains(&&*lower) {
        let problem = format!("header `{name}` cannot be set; every request has it");
        return Err((problem, "leave it out"));
    }
    if variables.is_empty() && SECRET.iter().any(|part| lower.contains(part)) {
        let problem = format!("header `{name}` holds a secret, which would be recorded");
        return Err((problem, WRITE));
    }
    // Any value is sufficient to check whether the name and the rest of the text can be sent.
    let sample = template.fill(|_| Some("x".to_owned())).unwrap_or_default();
    Header::new(name, &sample).map_err(|error| (error.to_string(), "change or remove it"))?;
    Ok(variables)
}

/// Warns of a variable that this process does not have.
fn unset(source: &Source, header: &str, variable: &str, found: &mut Diagnostics) {
    let problem = format!(
        "agent `{}`: header `{header}` takes its value from the variable {variable}, which is not \
         set",
        source.id
    );
    let diagnostic = Diagnostic::warning(source.key_place("headers"), problem).with_key("headers");
    found.push(diagnostic.help("set it, or its runs will fail"));
}
