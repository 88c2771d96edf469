#![doc = include_str!("../README.md")]

mod agents;
mod approvals;
mod audit;
mod calls;
mod cluster;
mod compactions;
mod contexts;
mod events;
#[cfg(test)]
mod fixture;
mod mcp;
mod messages;
mod runs;
mod schedules;
mod search;
mod sessions;
mod settings;
mod store;
mod tokens;
mod tool_servers;
mod turns;
mod usage;

use std::fmt::{self, Write as _};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use unisono_api::blob::BlobContent;
use unisono_api::turn::Settings;
use unisono_api::{Code, Problem};

pub use events::Events;
pub use mcp::Messages;
pub use unisono_api::service::Error;

/// The time limit for a connection, and for an answer that needs no work.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A client.
#[derive(Clone)]
pub struct Client {
    url: String,
    token: String,
    http: reqwest::Client,
    /// The default settings of requests.
    flags: Settings,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Of the daemon at that address, with its token; space around the token, such as the line end of
    /// its file, is ignored. Nothing is connected yet.
    ///
    /// # Errors
    /// The machine cannot make connections.
    pub fn new(url: impl Into<String>, token: impl Into<String>) -> Result<Client, Error> {
        let url = url.into().trim_end_matches('/').to_owned();
        // Fails if a provider is installed already; that one is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("unisono/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(ANSWER_WITHIN)
            .no_proxy();
        if url.starts_with("http://") {
            // A machine without certificates can still use a local daemon.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Error::Unreachable {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        Ok(Client {
            url,
            token: token.into().trim().to_owned(),
            http,
            flags: Settings::default(),
        })
    }

    /// Adds settings to each request that accepts settings.
    #[must_use]
    pub fn with_settings(self, flags: Settings) -> Client {
        Client { flags, ..self }
    }

    /// The settings of a request, with those of all requests.
    fn with_flags(&self, of_session: &Settings) -> Settings {
        let mut settings = self.flags.clone();
        settings.extend(of_session.clone());
        settings
    }

    /// The address of the daemon.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        request.bearer_auth(&self.token)
    }

    fn post(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        self.with_body(Method::POST, path, body)
    }

    fn with_body(&self, method: Method, path: &str, body: &impl Serialize) -> RequestBuilder {
        // Serialising these types does not fail.
        let text = serde_json::to_string(body).unwrap_or_default();
        let request = self.request(method, path);
        request
            .header(header::CONTENT_TYPE, "application/json")
            .body(text)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.json(self.request(Method::GET, path)).await
    }

    async fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let request = self.request(Method::GET, path);
        self.json(request.query(query)).await
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let response = self.send(request).await?;
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.broken(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Answer {
            url: self.url.clone(),
            reason: error.to_string(),
        })
    }

    async fn content(&self, path: &str) -> Result<BlobContent, Error> {
        let response = self.send(self.request(Method::GET, path)).await?;
        let mime = response.headers().get(header::CONTENT_TYPE);
        let mime = mime.and_then(|mime| mime.to_str().ok()).unwrap_or_default();
        Ok(BlobContent {
            mime: mime.to_owned(),
            bytes: response
                .bytes()
                .await
                .map_err(|error| self.broken(&error))?,
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.broken(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = response.bytes().await.unwrap_or_default();
        Err(self.refused(status, &bytes))
    }

    /// The error of a response that is no success.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
            return problem.into();
        }
        let (url, reason) = (self.url.clone(), format!("HTTP {status}"));
        match status.as_u16() {
            // A proxy answers: the daemon describes its problems.
            502..=504 => Error::Unreachable { url, reason },
            _ => Error::Answer { url, reason },
        }
    }

    fn broken(&self, error: &reqwest::Error) -> Error {
        let reason = first_cause(error);
        if error.is_builder() {
            let detail = format!(
                "no request to {} can be made: {reason}; check the address, the token and the \
                 idempotency key",
                self.url
            );
            return Error::new(Code::InvalidRequest, detail);
        }
        Error::Unreachable {
            url: self.url.clone(),
            reason,
        }
    }
}

/// The error behind all others: theirs only say what was tried.
fn first_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The path of a resource. Characters that no id and no name has are encoded, so that a part stays one
/// part. Nothing, and dots alone, are no part even then: such a part becomes `_`, the id of nothing.
fn resource_path<const PARTS: usize>(parts: [&str; PARTS]) -> String {
    let mut path = "/v1".to_owned();
    for part in parts {
        let is_none = part.bytes().all(|byte| byte == b'.');
        let part = if is_none { "_" } else { part };
        path.push('/');
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                path.push(char::from(byte));
            } else {
                // Writing to a text does not fail.
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use unisono_api::service::Turns as _;
    use unisono_api::turn::{NewTurn, TurnRequest};

    use super::*;

    #[tokio::test]
    async fn a_request_that_cannot_be_made_is_not_an_unreachable_daemon() {
        // No daemon is there.
        let url = "http://127.0.0.1:1";
        for (url, token, key, code) in [
            (url, " token\n", "key", Code::Unavailable),
            (url, "token", "one\ntwo", Code::InvalidRequest),
            (url, "to\nken", "key", Code::InvalidRequest),
            (
                "http://127.0.0.1:none",
                "token",
                "key",
                Code::InvalidRequest,
            ),
        ] {
            let client = Client::new(url, token).unwrap();
            let request = TurnRequest::Task(NewTurn::new("Go on."));
            let begun = client.begin("s", &request, Some(key)).await;
            let error = begun.unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
    }

    /// The address of a server that answers one request with this status and no JSON.
    fn answering(status: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().is_empty()));
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: 6\r\nconnection: close");
            write!(stream, "{head}\r\n\r\n<html>").unwrap();
        });
        url
    }

    #[tokio::test]
    async fn a_daemon_that_its_proxy_does_not_reach_is_unreachable() {
        for (status, code) in [
            ("502 Bad Gateway", Code::Unavailable),
            ("504 Gateway Timeout", Code::Unavailable),
            ("404 Not Found", Code::Failed),
        ] {
            let client = Client::new(answering(status), "token").unwrap();
            let error = client.ready().await.unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(status), "{error}");
        }
    }

    #[test]
    fn a_part_of_a_path_stays_one_part() {
        for (session, path) in [
            ("01a20071-69a2", "/v1/sessions/01a20071-69a2/turns"),
            ("../tokens/ada?", "/v1/sessions/..%2Ftokens%2Fada%3F/turns"),
            ("#12", "/v1/sessions/%2312/turns"),
            ("ä", "/v1/sessions/%C3%A4/turns"),
            ("..", "/v1/sessions/_/turns"),
            ("", "/v1/sessions/_/turns"),
        ] {
            assert_eq!(resource_path(["sessions", session, "turns"]), path);
        }
    }
}
