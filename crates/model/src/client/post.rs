//! A document sent to a user's own address, and the document in the response: with the connections,
//! timeouts and caps of calls to a provider.
//!
//! It is sent once: the caller, which knows what the server does with it, decides about
//! repetitions.

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Body, Response};
use tokio::time::{Instant, timeout_at};

use super::attempt::{redirection, refused_with, with_wait};
use super::body::Pieces;
use super::incoming::Incoming;
use super::secrets::Secrets;
use super::{Error, headers, report, transport};
use crate::dialect::{Failure, foreign};
use crate::language::{Class, Stage};
use crate::provider::Settings;

/// Names a request that may be sent again: a server that knows it does its work once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// What may come back.
const ACCEPTED: &str = "application/json, text/plain";

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
            Err(failure) => Err(Failure {
                reason: report::said(&self.secrets, &failure.reason),
                ..failure
            }),
        }
    }

    async fn exchange(&self, [head, tail]: [Bytes; 2], key: &str) -> Result<Vec<u8>, Failure> {
        let settings = &self.settings;
        let request = self
            .http
            .post(settings.address.whole())
            .header(ACCEPT, ACCEPTED)
            .header(IDEMPOTENCY_KEY, key)
            .body(Body::wrap(Pieces::new([
                Bytes::new(),
                head,
                tail,
                Bytes::new(),
            ])));
        let first_byte = Instant::now() + settings.timeouts.first_byte;
        let response = match timeout_at(first_byte, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(transport::broken(&error, settings)),
            Err(_) => return Err(transport::late(Stage::FirstByte, &settings.timeouts)),
        };
        let told = headers::read(response.headers(), Timestamp::now());
        let status = response.status().as_u16();
        let unreadable = unreadable(&response);
        let mut incoming = Incoming::new(settings, response, first_byte);
        match (status, unreadable) {
            (200..300, None) => incoming.whole().await,
            (200..300, Some(failure)) => Err(failure),
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
