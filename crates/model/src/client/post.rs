//! A document sent to a user's own address, and the document in the response: with the connections,
//! timeouts and caps of calls to a provider.
//!
//! It is sent once: the caller, which knows what the server does with it, decides about
//! repetitions.

use std::ops::ControlFlow;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Body, RequestBuilder, Response};
use tokio::time::{Instant, timeout_at};

use super::attempt::{read_error_body, redirection, with_wait};
use super::body::Pieces;
use super::incoming::Incoming;
use super::secrets::Secrets;
use super::{Error, headers, report, transport};
use crate::dialect::{Failure, foreign};
use crate::language::{Class, Stage};
use crate::provider::Settings;
use crate::sse::{self, Parser};

/// Identifies a request that may be repeated: a server that supports it works on it once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The accepted content types.
const ACCEPTED: &str = "application/json, text/plain";
/// The content type of a stream.
const STREAM: &str = "text/event-stream";

/// An HTTP endpoint for documents.
#[derive(Debug)]
pub struct HttpEndpoint {
    settings: Settings,
    secrets: Secrets,
    http: reqwest::Client,
}

impl HttpEndpoint {
    /// An endpoint with these settings; dialect, retries and limits are ignored. Besides the values
    /// of its headers, `secrets` are removed from responses. It does not connect yet.
    ///
    /// # Errors
    /// The settings are invalid, or encrypted connections are not possible on this machine.
    pub fn new(settings: Settings, secrets: &[String]) -> Result<HttpEndpoint, Error> {
        settings.check()?;
        Ok(HttpEndpoint {
            http: transport::connections(&settings)?,
            secrets: Secrets::with_more(&settings, secrets),
            settings,
        })
    }

    /// Sends the pieces of a document under an idempotency key, and returns the response. Dropping
    /// the future drops the connection.
    pub async fn send(&self, body: [Bytes; 2], key: &str) -> Result<Vec<u8>, Failure> {
        match self.exchange(body, key).await {
            Ok(document) => Ok(self.secrets.document(&document).into_owned()),
            Err(failure) => Err(self.without_secrets(failure)),
        }
    }

    /// Fetches the document with GET.
    pub async fn fetch(&self) -> Result<Vec<u8>, Failure> {
        let request = self.http.get(self.settings.address.full_url());
        self.read(request.header(ACCEPT, ACCEPTED)).await
    }

    /// Sends a JSON document with these headers, and returns the response.
    pub async fn call(&self, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.read(self.calling(headers, body).header(ACCEPT, ACCEPTED))
            .await
    }

    /// Sends a JSON document with these headers, and passes the data of each event of the response
    /// to `on`, until `on` breaks or the stream ends. A response that is not a stream is passed as
    /// one event.
    ///
    /// # Errors
    /// There was no readable response, or the stream was interrupted.
    pub async fn stream(
        &self,
        headers: &[(&str, &str)],
        body: Vec<u8>,
        on: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let request = self.calling(headers, body).header(ACCEPT, STREAM);
        let streamed = self.streamed(request, on).await;
        streamed.map_err(|failure| self.without_secrets(failure))
    }

    fn calling(&self, headers: &[(&str, &str)], body: Vec<u8>) -> RequestBuilder {
        let request = self.http.post(self.settings.address.full_url()).body(body);
        let each = headers.iter();
        each.fold(request, |request, (name, value)| {
            request.header(*name, *value)
        })
    }

    async fn read(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        match self.document(request).await {
            Ok(document) => Ok(self.secrets.document(&document).into_owned()),
            Err(failure) => Err(self.without_secrets(failure)),
        }
    }

    fn without_secrets(&self, failure: Failure) -> Failure {
        Failure {
            reason: report::clean_text(&self.secrets, &failure.reason),
            ..failure
        }
    }

    async fn streamed(
        &self,
        request: RequestBuilder,
        mut on: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let mut incoming = self.answered(request).await?;
        if !is_stream(incoming.response()) {
            let failure = unreadable(incoming.response());
            failure.map_or(Ok(()), Err)?;
            let whole = incoming.read_all().await?;
            let whole = self.secrets.document(&whole);
            let _ = on(&String::from_utf8_lossy(&whole));
            return Ok(());
        }
        let mut parser = Parser::new(self.settings.caps.stream);
        while let Some(piece) = incoming.next().await? {
            let read = parser.push(&piece, |event| {
                let data = self.secrets.document(event.data.as_bytes());
                Ok::<_, sse::Error>(on(&String::from_utf8_lossy(&data)))
            });
            let broken = |error: sse::Error| Failure::new(Class::BadReply, error.to_string());
            if read.map_err(broken)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn exchange(&self, [head, tail]: [Bytes; 2], key: &str) -> Result<Vec<u8>, Failure> {
        let request = self.http.post(self.settings.address.full_url());
        let pieces = Pieces::new([Bytes::new(), head, tail, Bytes::new()]);
        let request = request
            .header(ACCEPT, ACCEPTED)
            .header(IDEMPOTENCY_KEY, key);
        self.document(request.body(Body::wrap(pieces))).await
    }

    async fn document(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let mut incoming = self.answered(request).await?;
        match unreadable(incoming.response()) {
            None => incoming.read_all().await,
            // Many frameworks give a type to an empty response as well.
            Some(failure) => match incoming.next().await? {
                None => Ok(Vec::new()),
                Some(_) => Err(failure),
            },
        }
    }

    /// The response, if its status reports success.
    async fn answered(&self, request: RequestBuilder) -> Result<Incoming<'_>, Failure> {
        let settings = &self.settings;
        let first_byte = Instant::now() + settings.timeouts.first_byte;
        let response = match timeout_at(first_byte, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(transport::connection_failure(&error, settings)),
            Err(_) => {
                return Err(transport::timeout_failure(
                    Stage::FirstByte,
                    &settings.timeouts,
                ));
            }
        };
        let response_headers = headers::read(response.headers(), Timestamp::now());
        let status = response.status().as_u16();
        let mut incoming = Incoming::new(settings, response, first_byte);
        match status {
            200..300 => Ok(incoming),
            _ => {
                let failure = self.refusal(status, &mut incoming).await;
                Err(Failure {
                    class: with_wait(failure.class, response_headers.retry_after),
                    ..failure
                })
            }
        }
    }

    async fn refusal(&self, status: u16, incoming: &mut Incoming<'_>) -> Failure {
        if let Some(to) = redirection(status, incoming.response()) {
            let reason =
                format!("the address redirects to {to} (status {status}); set that instead");
            return Failure::new(Class::BadRequest, reason);
        }
        let body = read_error_body(incoming, self.settings.timeouts.idle).await;
        foreign(status, &self.secrets.document(&body))
    }
}

fn is_stream(response: &Response) -> bool {
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|content_type| content_type.to_str().ok());
    content_type.is_some_and(|content_type| {
        content_type
            .trim_start()
            .to_ascii_lowercase()
            .starts_with(STREAM)
    })
}

/// The failure for a response with an unsupported content type; `None` for JSON, plain text and a
/// missing type.
fn unreadable(response: &Response) -> Option<Failure> {
    let content_type = response.headers().get(CONTENT_TYPE)?;
    let content_type = String::from_utf8_lossy(content_type.as_bytes()).to_ascii_lowercase();
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if matches!(kind, "" | "application/json" | "text/plain") || kind.ends_with("+json") {
        return None;
    }
    let reason = format!("the answer is `{kind}`; it must be JSON or plain text");
    Some(Failure::new(Class::BadReply, reason))
}
