//! Connections to a provider: TLS, proxies, the headers of every request, and the meaning of a
//! broken connection.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    InvalidHeaderValue,
};
use reqwest::redirect;

use super::Error;
use crate::dialect::{Dialect, Failure};
use crate::language::{Class, Stage};
use crate::provider::{Address, Auth, Header, Key, Settings, Timeouts};

/// The version of Anthropic's API that the dialect uses.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// How long an idle connection is kept.
const KEPT: Duration = Duration::from_secs(90);
/// The keep-alive interval of a connection.
const ALIVE: Duration = Duration::from_secs(30);
/// The maximum number of redirections of a request that are followed.
const REDIRECTIONS: usize = 3;

/// Connections with the given settings. Nothing is connected yet.
///
/// The machine's CA certificates are used. For an `http://` address none are read, so that a
/// machine without certificates can use a local server; a TLS proxy is then impossible. Servers on
/// this machine are reached without a proxy.
pub(super) fn connections(settings: &Settings) -> Result<reqwest::Client, Error> {
    let headers = headers(settings).map_err(|_| Error::Header {
        provider: settings.name.clone(),
    })?;
    let builder = builder(&settings.address, settings.timeouts.connect);
    let built = builder.default_headers(headers).build();
    built.map_err(|error| Error::Tls {
        provider: settings.name.clone(),
        reason: root_cause(&error),
    })
}

/// Connections made by [`connections_to`].
pub type Connections = reqwest::Client;

/// Connections of the same kind to a server that is not a provider, with these headers on every
/// request; a token is sent in `Authorization`. Redirections of a request to another path of the server
/// are followed: many servers have one between an address with and without a slash at its end. Nothing
/// is connected yet.
///
/// # Errors
/// Encrypted connections are not possible, or the token cannot be sent in a header.
pub fn connections_to(
    address: &Address,
    token: Option<&Key>,
    headers: &[Header],
    connect: Duration,
) -> Result<Connections, String> {
    let mut all = HeaderMap::new();
    if let Some(token) = token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
        let mut value = value.map_err(|_| "its token cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        all.insert(AUTHORIZATION, value);
    }
    for header in headers {
        all.insert(header.name().clone(), header.value().clone());
    }
    let builder = builder(address, connect).default_headers(all);
    let built = builder.redirect(redirect::Policy::custom(within_origin));
    built.build().map_err(|error| {
        format!(
            "encrypted connections cannot be made: {}",
            root_cause(&error)
        )
    })
}

/// Follows a redirection that keeps the request and its origin.
fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_request = matches!(attempt.status().as_u16(), 307 | 308);
    let (from, to) = (attempt.previous(), attempt.url());
    let keeps_origin = from.last().is_some_and(|from| from.origin() == to.origin());
    match keeps_request && keeps_origin && from.len() <= REDIRECTIONS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

fn builder(address: &Address, connect: Duration) -> reqwest::ClientBuilder {
    let mut builder = plain(address.is_encrypted(), connect)
        .pool_idle_timeout(KEPT)
        .tcp_keepalive(ALIVE)
        .http2_keep_alive_interval(ALIVE);
    if address.is_loopback() {
        builder = builder.no_proxy();
    }
    builder
}

/// Connections that follow no redirect, repeat no request and ask for uncompressed answers: without
/// that header a server may compress. Certificates are read for encrypted ones only.
pub(super) fn plain(is_encrypted: bool, connect: Duration) -> reqwest::ClientBuilder {
    // Fails if one is installed already; that one is used then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let builder = reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("unisono/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(connect);
    match is_encrypted {
        true => builder,
        false => builder.tls_certs_only([]),
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let (name, key) = match &settings.auth {
        Auth::None => (None, None),
        Auth::Bearer(key) => (
            Some(AUTHORIZATION),
            Some(format!("Bearer {}", key.expose())),
        ),
        Auth::Header(name, key) => (Some(name.clone()), Some(key.expose().to_owned())),
    };
    if let (Some(name), Some(key)) = (name, key) {
        let mut value = HeaderValue::try_from(key)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for header in &settings.headers {
        headers.insert(header.name().clone(), header.value().clone());
    }
    Ok(headers)
}

/// The header that a dialect requires, unless the settings have it. It belongs to one request, because
/// clients of several dialects share their connections.
pub(super) fn dialect_header(settings: &Settings) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_static("anthropic-version");
    let is_set = settings.headers.iter().any(|header| *header.name() == name);
    let is_required = settings.dialect == Dialect::Anthropic && !is_set;
    is_required.then_some((name, ANTHROPIC_VERSION))
}

pub(super) fn connection_failure(error: &reqwest::Error, settings: &Settings) -> Failure {
    let origin = settings.address.origin();
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => Failure::new(
            Class::Timeout(Stage::Connect),
            format!(
                "no connection to {origin} within {:.1} s",
                settings.timeouts.connect.as_secs_f64()
            ),
        ),
        (true, false) => Failure::new(
            Class::Transport,
            format!("cannot connect to {origin}: {}", root_cause(error)),
        ),
        (false, _) => Failure::new(
            Class::Transport,
            format!("the connection to {origin} broke: {}", root_cause(error)),
        ),
    }
}

pub(super) fn timeout_failure(stage: Stage, timeouts: &Timeouts) -> Failure {
    let (what, timeout) = match stage {
        Stage::Connect => ("no connection was made", timeouts.connect),
        Stage::FirstByte => ("no response was received", timeouts.first_byte),
        Stage::Idle => ("no more of the reply was received", timeouts.idle),
        Stage::Total => ("the reply was not complete", timeouts.total),
    };
    let reason = format!("{what} within {:.1} s", timeout.as_secs_f64());
    Failure::new(Class::Timeout(stage), reason)
}

/// The root cause of an error. The layers above it are less specific, and one names the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut root = error.source();
    while let Some(deeper) = root.and_then(|error| error.source()) {
        root = Some(deeper);
    }
    root.map_or_else(|| "for no stated reason".to_owned(), ToString::to_string)
}
