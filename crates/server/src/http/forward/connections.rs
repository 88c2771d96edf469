//! Connections to other daemons, with TLS for `https` addresses.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::Scheme;
use axum::response::Response;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::timeout;

/// Timeout for connecting to another daemon.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Period of the TCP keepalive probes, and the number of unanswered probes that closes a connection.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// Timeout for the head of the answer to a request that only reads.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Period of the probes while a request that may take long has no answer, and their timeout.
const PROBE_EVERY: Duration = Duration::from_secs(3);
const PROBE_WITHIN: Duration = Duration::from_secs(7);
/// The route of the probes: each daemon answers it at once, without a token.
const PROBED: &str = "/healthz";

/// Why a request did not reach another daemon.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Sent(#[from] hyper_util::client::legacy::Error),
    #[error("it accepts connections and answers nothing; it may have carried the request out")]
    Silent,
    #[error("it sends no heartbeat; it may have carried the request out")]
    Lost,
    #[error(
        "TLS cannot be set up: {0}; install the system's CA certificates (package ca-certificates), or \
         set SSL_CERT_FILE to a file of certificates"
    )]
    Tls(String),
}

impl Error {
    /// Whether there was no connection, so that nothing of the request was sent.
    pub(super) fn is_unconnected(&self) -> bool {
        match self {
            Error::Sent(error) => error.is_connect(),
            Error::Tls(_) => true,
            Error::Silent | Error::Lost => false,
        }
    }
}

/// Sends a request that is answered at once, such as one that only reads. The head of its answer must come
/// in time.
pub(super) async fn send_read(request: Request) -> Result<Response, Error> {
    let answered = timeout(READ_WITHIN, send(request)).await;
    answered.unwrap_or(Err(Error::Silent))
}

/// Sends a request whose answer may take long, such as a turn. Meanwhile the daemon must answer
/// probes.
pub(super) async fn send_write(request: Request, address: &str) -> Result<Response, Error> {
    tokio::select! {
        answered = send(request) => answered,
        () = is_silent(address) => Err(Error::Silent),
    }
}

/// Ends when a probe of the daemon at an address gets no answer. A refused connection is an answer: a
/// daemon that stops finishes its requests.
async fn is_silent(address: &str) {
    let uri = format!("{}{PROBED}", address.trim_end_matches('/'));
    loop {
        tokio::time::sleep(PROBE_EVERY).await;
        let Ok(probe) = Request::get(uri.as_str()).body(Body::empty()) else {
            // It is not sent to this address either.
            return std::future::pending().await;
        };
        if timeout(PROBE_WITHIN, send(probe)).await.is_err() {
            return;
        }
    }
}

/// Sends a request to the daemon at its address. The system's certificates, or those in
/// SSL_CERT_FILE, verify the daemon.
async fn send(request: Request) -> Result<Response, Error> {
    let answer = match request.uri().scheme() == Some(&Scheme::HTTPS) {
        false => plain().request(request).await?,
        true => {
            let encrypted = encrypted().as_ref();
            let encrypted = encrypted.map_err(|error| Error::Tls(error.to_string()))?;
            encrypted.request(request).await?
        }
    };
    Ok(answer.map(Body::new))
}

fn plain() -> &'static Client<HttpConnector, Body> {
    static PLAIN: OnceLock<Client<HttpConnector, Body>> = OnceLock::new();
    PLAIN.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector()))
}

/// The client of encrypted connections, or why TLS cannot be set up.
type Encrypted = Result<Client<HttpsConnector<HttpConnector>, Body>, rustls::Error>;

fn encrypted() -> &'static Encrypted {
    static ENCRYPTED: OnceLock<Encrypted> = OnceLock::new();
    ENCRYPTED.get_or_init(|| {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let config = builder.with_platform_verifier()?.with_no_client_auth();
        let mut connector = connector();
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Client::builder(TokioExecutor::new()).build(connector))
    })
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_WITHIN));
    connector.set_nodelay(true);
    // A machine without power never closes its connections.
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    connector
}
