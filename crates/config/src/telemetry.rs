//! Where traces are sent.

use std::time::Duration;

use unisono_model::client::Post;
use unisono_model::provider::{Address, Header, Settings};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::setup::Setup;

/// How long the receiver may take for one request.
const WITHIN: Duration = Duration::from_secs(10);
/// The variable with headers for the receiver: `name=value,name=value`.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// The receiver of spans, `/v1/traces` below the address, with the headers of the environment.
///
/// # Errors
/// The address or a header cannot be used.
pub fn receiver(endpoint: &str) -> Result<Post, String> {
    post(endpoint, std::env::var(HEADERS).ok().as_deref())
}

/// Reports a receiver of traces that cannot be one, or that this program cannot send to.
pub(crate) fn check(setup: &Setup, found: &mut Diagnostics) {
    const PATH: [&str; 2] = ["telemetry", "otlp_endpoint"];
    let endpoint = &setup.loaded.config.telemetry.otlp_endpoint;
    if endpoint.is_empty() {
        return;
    }
    let place = setup.loaded.place(&PATH);
    #[cfg(feature = "otel")]
    let diagnostic = match receiver(endpoint) {
        Ok(_) => return,
        Err(wrong) => Diagnostic::error(place, format!("no traces can be sent: {wrong}")),
    };
    #[cfg(not(feature = "otel"))]
    let diagnostic = Diagnostic::warning(place, "no traces are sent: this program cannot do it")
        .help("build it with the feature: cargo install --path crates/cli --features otel");
    found.push(diagnostic.on(PATH.join(".")));
}

fn post(endpoint: &str, headers: Option<&str>) -> Result<Post, String> {
    let address = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let address = Address::endpoint(&address).map_err(|error| error.to_string())?;
    let mut settings = Settings::of_endpoint("telemetry.otlp_endpoint", address);
    let pairs = headers.unwrap_or_default().split(',');
    for pair in pairs.filter(|pair| !pair.trim().is_empty()) {
        let wrong = || format!("{HEADERS}: write name=value, separated by commas");
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let header = Header::new(name.trim(), value.trim());
        settings
            .headers
            .push(header.map_err(|error| format!("{HEADERS}: {error}"))?);
    }
    settings.timeouts.first_byte = WITHIN;
    settings.timeouts.idle = WITHIN;
    settings.timeouts.total = WITHIN;
    Post::new(settings, &[]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_cannot_be_one_is_refused_with_the_reason() {
        post("http://localhost:4318", None).unwrap();
        post(
            "http://localhost:4318/",
            Some("authorization=Bearer x, x-team = a"),
        )
        .unwrap();
        for (endpoint, headers, why) in [
            ("localhost:4318", None, "localhost:4318"),
            ("ftp://localhost", None, "ftp"),
            ("http://localhost", Some("authorization"), "name=value"),
            ("http://localhost", Some("a b=c"), HEADERS),
        ] {
            let error = post(endpoint, headers).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
