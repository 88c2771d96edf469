//! The receiver of traces.

use std::time::Duration;

use unisono_model::client::{Connections, connections_to};
use unisono_model::provider::{Address, Header};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::settings::Loaded;

/// The connection timeout of the receiver.
const CONNECT: Duration = Duration::from_secs(10);
/// The variables with headers for the receiver, of which the first has precedence:
/// `name=value,name=value`. They are checked here; the exporter of spans reads them itself.
const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];

/// The receiver of spans, `/v1/traces` below the address, and connections to it.
///
/// # Errors
/// The address or a header of the environment cannot be used.
pub fn receiver(endpoint: &str) -> Result<(Address, Connections), String> {
    for variable in HEADERS {
        check_headers(variable, &std::env::var(variable).unwrap_or_default())?;
    }
    let address = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let address = Address::endpoint(&address).map_err(|error| error.to_string())?;
    let connections = connections_to(&address, None, &[], CONNECT)?;
    Ok((address, connections))
}

/// Reports an invalid receiver of traces, or one that this program cannot use.
pub(crate) fn check(loaded: &Loaded, found: &mut Diagnostics) {
    const PATH: [&str; 2] = ["telemetry", "otlp_endpoint"];
    let endpoint = &loaded.config.telemetry.otlp_endpoint;
    if endpoint.is_empty() {
        return;
    }
    let place = loaded.place(&PATH);
    #[cfg(feature = "otel")]
    let diagnostic = match receiver(endpoint) {
        Ok(_) => return,
        Err(wrong) => Diagnostic::error(place, format!("no traces can be sent: {wrong}")),
    };
    #[cfg(not(feature = "otel"))]
    let diagnostic = Diagnostic::warning(place, "no traces are sent: this program cannot do it")
        .help("build it with the feature: cargo install --path crates/cli --features otel");
    found.push(diagnostic.with_key(PATH.join(".")));
}

fn check_headers(variable: &str, headers: &str) -> Result<(), String> {
    for pair in headers.split(',').filter(|pair| !pair.trim().is_empty()) {
        let wrong = || format!("{variable}: write name=value, separated by commas");
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        Header::new(name.trim(), value.trim()).map_err(|error| format!("{variable}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_cannot_be_one_is_refused_with_the_reason() {
        receiver("http://localhost:4318").unwrap();
        receiver("http://localhost:4318/").unwrap();
        for (endpoint, why) in [
            ("localhost:4318", "localhost:4318"),
            ("ftp://localhost", "ftp"),
        ] {
            let error = receiver(endpoint).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        check_headers(HEADERS[1], "authorization=Bearer x, x-team = a").unwrap();
        for (headers, why) in [("authorization", "name=value"), ("a b=c", HEADERS[1])] {
            let error = check_headers(HEADERS[1], headers).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
