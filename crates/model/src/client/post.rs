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

use super::attempt::{redirection, refused_with, with_wait};
use super::body::Pieces;
use super::incoming::Incoming;
use super::secrets::Secrets;
use super::{Error, headers, report, transport};
use crate::dialect::{Failure, foreign};
use crate::language::{Class, Stage};
use crate::provider::Settings;
use crate::sse::{self, Parser};

/// Names a request that may be sent again: a server that knows it does its work once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// What may come back.
const ACCEPTED: &str = "application/json, text/plain";
/// What a stream is.
const STREAM: &str = "text/event-stream";

/// An address that documents are posted to.
#[derive(Debug)]
pub struct Post {
    settings: Settings,
    secrets: Secrets,
    http: reqwest::Client,
}

impl Post {
    /// An address with those settings, of which dialect, repetitions and limits do not matter.
    /// Besides the values of its headers, `secrets` are taken out of what comes back. Connects to
    /// nothing.
    ///
    /// # Errors
    /// The settings cannot work, or this machine cannot make encrypted connections.
    pub fn new(settings: Settings, secrets: &[String]) -> Result<Post, Error> {
        settings.check()?;
        Ok(Post {
            http: transport::connections(&settings)?,
            secrets: Secrets::with(&settings, secrets),
            settings,
        })
    }

    /// Sends the pieces of a document, one after the other, under that idempotency key, and gives
    /// what came back. Dropping the future drops the connection.
    ///
    /// # Errors
    /// Nothing that can be read came back.
    pub async fn send(&self, body: [Bytes; 2], key: &str) -> Result<Vec<u8>, Failure> {
        match self.exchange(body, key).await {
            Ok(document) => Ok(self.secrets.document(&document).into_owned()),
            Err(failure) => Err(self.without_secrets(failure)),
        }
    }

    /// Reads the document at the address.
    ///
    /// # Errors
    /// Nothing that can be read came back.
    pub async fn fetch(&self) -> Result<Vec<u8>, Failure> {
        let request = self.http.get(self.settings.address.whole());
        self.read(request.header(ACCEPT, ACCEPTED)).await
    }

    /// Sends a document of JSON with these headers, and gives what came back.
    ///
    /// # Errors
    /// Nothing that can be read came back.
    pub async fn call(&self, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.read(self.calling(headers, body).header(ACCEPT, ACCEPTED))
            .await
    }

    /// Sends a document of JSON with these headers, and hands the data of each event that comes back
    /// to `on`, until that breaks or nothing more comes. What is no stream is handed on as a whole.
    ///
    /// # Errors
    /// Nothing that can be read came back, or the stream broke off.
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
        let request = self.http.post(self.settings.address.whole()).body(body);
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
            reason: report::said(&self.secrets, &failure.reason),
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
            let whole = incoming.whole().await?;
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
        let request = self.http.post(self.settings.address.whole());
        let pieces = Pieces::new([Bytes::new(), head, tail, Bytes::new()]);
        let request = request
            .header(ACCEPT, ACCEPTED)
            .header(IDEMPOTENCY_KEY, key);
        self.document(request.body(Body::wrap(pieces))).await
    }

    async fn document(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let mut incoming = self.answered(request).await?;
        match unreadable(incoming.response()) {
            None => incoming.whole().await,
            Some(failure) => Err(failure),
        }
    }

    /// What comes in after a head that says that it was taken.
    async fn answered(&self, request: RequestBuilder) -> Result<Incoming<'_>, Failure> {
        let settings = &self.settings;
        let first_byte = Instant::now() + settings.timeouts.first_byte;
        let response = match timeout_at(first_byte, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(transport::broken(&error, settings)),
            Err(_) => return Err(transport::late(Stage::FirstByte, &settings.timeouts)),
        };
        let told = headers::read(response.headers(), Timestamp::now());
        let status = response.status().as_u16();
        let mut incoming = Incoming::new(settings, response, first_byte);
        match status {
            200..300 => Ok(incoming),
            _ => {
                let failure = self.refusal(status, &mut incoming).await;
                Err(Failure {
                    class: with_wait(failure.class, told.retry_after),
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
        let body = refused_with(incoming, self.settings.timeouts.idle).await;
        foreign(status, &self.secrets.document(&body))
    }
}

fn is_stream(response: &Response) -> bool {
    let said = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|said| said.to_str().ok());
    said.is_some_and(|said| said.trim_start().to_ascii_lowercase().starts_with(STREAM))
}

/// Why an answer of that content type is not read; none for JSON, plain text and one that does
/// not say.
fn unreadable(response: &Response) -> Option<Failure> {
    let said = response.headers().get(CONTENT_TYPE)?;
    let said = String::from_utf8_lossy(said.as_bytes()).to_ascii_lowercase();
    let kind = said.split(';').next().unwrap_or_default().trim();
    if matches!(kind, "" | "application/json" | "text/plain") || kind.ends_with("+json") {
        return None;
    }
    let reason = format!("the answer is `{kind}`; it must be JSON or plain text");
    Some(Failure::new(Class::BadReply, reason))
}
