//! The names by which others reach the daemon, and the hosts that it may ask.

use std::net::IpAddr;

use unisono_model::provider::Address;

use super::Config;
use super::layers::Layers;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// Reports texts that no host of a request can match, and a public address that is none.
pub(super) fn check(config: &Config, layers: &Layers, found: &mut Diagnostics) {
    let server = &config.server;
    let lists = [
        (["server", "hosts"], &server.hosts),
        (["server", "callback_hosts"], &server.callback_hosts),
        (
            ["attachments", "allowed_hosts"],
            &config.attachments.allowed_hosts,
        ),
    ];
    for (path, hosts) in lists {
        if let Some(wrong) = hosts.iter().find(|host| !is_host(host)) {
            let problem = format!(
                "`{wrong}` is not a host; write a name or an address, without scheme, port and `*`"
            );
            let diagnostic = Diagnostic::warning(layers.place(&path), problem);
            found.push(diagnostic.with_key(path.join(".")));
        }
    }
    if !server.public_url.is_empty()
        && let Err(error) = Address::parse(&server.public_url)
    {
        let path = ["server", "public_url"];
        let diagnostic = Diagnostic::error(layers.place(&path), error.to_string());
        found.push(diagnostic.with_key(path.join(".")));
    }
}

fn is_host(text: &str) -> bool {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    bare.parse::<IpAddr>().is_ok() || !text.is_empty() && text.chars().all(is_inner)
}
