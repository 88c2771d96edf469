//! A client of a daemon on this machine or elsewhere, typed as its API is.

use std::fmt;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::journal::{EventBlock, Info};
use crate::session::Session;
use crate::turn::{NewTurn, Turn};

/// How long a connection may take to stand, and an answer to begin where nothing has to be worked
/// out for it.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The largest event of a stream that is read, in bytes.
const EVENT_CAP_BYTES: usize = 16 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers there.
    #[error("the daemon at {url} cannot be reached: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// What happened.
        reason: String,
    },
    /// It answers that it did not do it.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// What it says is not understood.
    #[error(
        "the daemon at {url} answers what is not understood ({reason}): it may be of another version"
    )]
    Answer {
        /// Where.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A client.
#[derive(Clone)]
pub struct Client {
    url: String,
    token: String,
    http: reqwest::Client,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Of the daemon at that address, with its token. Nothing is connected yet.
    ///
    /// # Errors
    /// The machine cannot make connections.
    pub fn new(url: impl Into<String>, token: impl Into<String>) -> Result<Client, Error> {
        let url = url.into().trim_end_matches('/').to_owned();
        // Fails if one is installed already, which then is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("unisono/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .no_proxy();
        if url.starts_with("http://") {
            // A machine without certificates can ask its own daemon.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Error::Unreachable {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        Ok(Client {
            url,
            token: token.into(),
            http,
        })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes a session of a conversation as it stands in a file.
    ///
    /// # Errors
    /// The conversation is refused, or the daemon cannot be reached.
    pub async fn import(
        &self,
        name: &str,
        format: Option<&str>,
        skip_bad: bool,
        bytes: Vec<u8>,
    ) -> Result<Session, Error> {
        let mut query = vec![
            ("name", name.to_owned()),
            ("skip_bad", skip_bad.to_string()),
        ];
        query.extend(format.map(|format| ("format", format.to_owned())));
        let request = self.request(Method::POST, "/v1/imports").query(&query);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        self.json(request.body(bytes)).await
    }

    /// Gives a session a task.
    ///
    /// # Errors
    /// It is refused, or the daemon cannot be reached.
    pub async fn begin(&self, session: &str, turn: &NewTurn) -> Result<Turn, Error> {
        let path = format!("/v1/sessions/{session}/turns");
        self.json(self.body(Method::POST, &path, turn)).await
    }

    /// Cancels a turn.
    ///
    /// # Errors
    /// It is not open, or the daemon cannot be reached.
    pub async fn cancel(&self, session: &str, turn: &str) -> Result<Turn, Error> {
        let path = format!("/v1/sessions/{session}/turns/{turn}/cancel");
        self.json(self.request(Method::POST, &path)).await
    }

    /// What happens in a session, from after that event on.
    ///
    /// # Errors
    /// There is no such session, or the daemon cannot be reached.
    pub async fn events(&self, session: &str, after: u64) -> Result<Events, Error> {
        let path = format!("/v1/sessions/{session}/events");
        let request = self.request(Method::GET, &path).query(&[("after", after)]);
        let request = request.header(header::ACCEPT, "text/event-stream");
        Ok(Events {
            url: self.url.clone(),
            response: self.send(request).await?,
            buffer: BytesMut::new(),
        })
    }

    /// What the store knows of its sessions.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_sessions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Info>, Error> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(after.map(|after| ("after", after.to_owned())));
        self.json(self.request(Method::GET, "/v1/journal").query(&query))
            .await
    }

    /// What the store knows of a session; none: there is none of that id.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_session(&self, session: &str) -> Result<Option<Info>, Error> {
        let request = self.request(Method::GET, &format!("/v1/journal/{session}"));
        match self.json(request).await {
            Ok(info) => Ok(Some(info)),
            Err(Error::Problem(problem)) if problem.status == StatusCode::NOT_FOUND.as_u16() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The events of a session as they are on disk.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_events(
        &self,
        session: &str,
        from: u64,
        limit: usize,
    ) -> Result<EventBlock, Error> {
        let request = self.request(Method::GET, &format!("/v1/journal/{session}/events"));
        let request = request.query(&[("from", from), ("limit", limit as u64)]);
        let bytes = self
            .send(request)
            .await?
            .bytes()
            .await
            .map_err(|error| self.broken(&error))?;
        EventBlock::read(&bytes).ok_or_else(|| Error::Answer {
            url: self.url.clone(),
            reason: "events that are cut off".to_owned(),
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        request.bearer_auth(&self.token)
    }

    fn body(&self, method: Method, path: &str, body: &impl Serialize) -> RequestBuilder {
        // Serialising these types does not fail.
        let text = serde_json::to_string(body).unwrap_or_default();
        let request = self.request(method, path);
        request
            .header(header::CONTENT_TYPE, "application/json")
            .body(text)
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

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.broken(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = response.bytes().await.unwrap_or_default();
        match serde_json::from_slice(&bytes) {
            Ok(problem) => Err(Error::Problem(Box::new(problem))),
            Err(_) => Err(Error::Answer {
                url: self.url.clone(),
                reason: format!("HTTP {status}"),
            }),
        }
    }

    fn broken(&self, error: &reqwest::Error) -> Error {
        let mut reason: &dyn std::error::Error = error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        Error::Unreachable {
            url: self.url.clone(),
            reason: reason.to_string(),
        }
    }
}

/// Server-sent events.
#[derive(Debug)]
pub struct Events {
    url: String,
    response: Response,
    buffer: BytesMut,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its number in the journal; none for what is not kept.
    pub seq: Option<u64>,
    /// Its kind: `piece`, `progress`, or that of the event.
    pub name: String,
    /// JSON.
    pub data: String,
}

impl Events {
    /// The next one; none once the daemon ends the stream.
    ///
    /// # Errors
    /// The connection is lost, or an event is larger than any there is.
    pub async fn next(&mut self) -> Result<Option<Told>, Error> {
        loop {
            if let Some(block) = self.block() {
                match told(&block) {
                    Some(told) => return Ok(Some(told)),
                    None => continue,
                }
            }
            if self.buffer.len() > EVENT_CAP_BYTES {
                return Err(self.wrong("an event that is too large"));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => {
                    return Err(Error::Unreachable {
                        url: self.url.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// The text up to the next empty line.
    fn block(&mut self) -> Option<Bytes> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block = self.buffer.split_to(end).freeze();
        self.buffer.advance(2);
        Some(block)
    }

    fn wrong(&self, reason: &str) -> Error {
        Error::Answer {
            url: self.url.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// Reads an event; none for a comment.
fn told(block: &[u8]) -> Option<Told> {
    let text = std::str::from_utf8(block).ok()?;
    let field = |name: &str| {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines
            .next()
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    Some(Told {
        seq: field("id").and_then(|id| id.parse().ok()),
        name: field("event").unwrap_or("message").to_owned(),
        data: field("data")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_none() {
        let found = told(b"event: piece\nid: 7\ndata: {\"a\": 1}").unwrap();
        assert_eq!(
            (found.seq, found.name.as_str(), found.data.as_str()),
            (Some(7), "piece", "{\"a\": 1}")
        );
        assert_eq!(told(b": still here"), None);
    }
}
