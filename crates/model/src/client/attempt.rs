//! One attempt: sends a request and reads its response.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Body, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};
use unisono_context::Tokens;

use super::admission::Admitted;
use super::body::Pieces;
use super::headers::{self, BodyType, ResponseHeaders};
use super::incoming::Incoming;
use super::progress::ReplyProgress;
use super::surrogates::SurrogateJoiner;
use super::{Call, Client, report, transport};
use crate::dialect::{DecodedEvent, Decoder, Dialect, Failure, Mode};
use crate::language::{Class, Reply, Stage, Usage};
use crate::provider::Settings;
use crate::sse;

/// The maximum bytes that are read of a response with an error status.
const ERROR_BODY_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) enum CallOutput {
    Reply(Box<Reply>),
    Count(Tokens),
}

#[derive(Clone, Debug)]
pub(super) struct AttemptError {
    pub(super) failure: Failure,
    pub(super) request_id: Option<Arc<str>>,
    /// The provider asked not to retry.
    pub(super) no_retry: bool,
    /// Whether a connection to the provider was made.
    pub(super) reached: bool,
}

/// A streamed reply that is being read.
struct Reading {
    decoder: Decoder,
    surrogates: SurrogateJoiner,
}

impl Client {
    /// Sends the request once and reads the response.
    pub(super) async fn attempt(
        &self,
        call: &Call,
        url: Url,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<CallOutput, AttemptError> {
        let settings = &self.settings;
        let first_byte = Instant::now() + settings.timeouts.first_byte;
        let sent = self.request(call, url).send();
        let response = match timeout_at(first_byte, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(AttemptError::without_response(&error, settings)),
            Err(_) => {
                return Err(
                    transport::timeout_failure(Stage::FirstByte, &settings.timeouts).into(),
                );
            }
        };
        let response_headers = self.headers(&response);
        // The limits in the response to a request for a count are those of such requests.
        if call.mode != Mode::Count {
            self.admission.learn(&response_headers);
        }
        let status = response.status().as_u16();
        let span = tracing::Span::current();
        span.record("status", status);
        span.record("request_id", response_headers.request_id.as_deref());
        let mut incoming = Incoming::new(settings, response, first_byte);
        let outcome = if (200..300).contains(&status) {
            self.read(
                call,
                &response_headers,
                &mut incoming,
                reply_progress,
                admitted,
            )
            .await
        } else {
            let body_type = response_headers.body_type;
            Err(self.refusal(status, body_type, &mut incoming).await)
        };
        match outcome {
            Ok(answer) => {
                incoming.drain_in_background();
                Ok(answer.with_id(response_headers.request_id))
            }
            Err(failure) => Err(AttemptError {
                failure: Failure {
                    class: with_wait(failure.class, response_headers.retry_after),
                    ..failure
                },
                request_id: response_headers.request_id,
                no_retry: response_headers.no_retry,
                reached: true,
            }),
        }
    }

    /// The headers of a response; without a request id that repeats a secret.
    fn headers(&self, response: &Response) -> ResponseHeaders {
        let read = headers::read(response.headers(), Timestamp::now());
        let access = self.access.get();
        ResponseHeaders {
            request_id: read.request_id.filter(|id| !access.secrets.is_in(id)),
            ..read
        }
    }

    fn request(&self, call: &Call, url: Url) -> reqwest::RequestBuilder {
        let [head, tail] = call.body.clone();
        let (before, after) = match call.mode {
            Mode::Count => self.settings.dialect.count_wrapper(),
            Mode::Stream | Mode::Whole => ("", ""),
        };
        let accept = match call.mode {
            Mode::Stream => "text/event-stream",
            Mode::Whole | Mode::Count => "application/json",
        };
        let (before, after) = (before.as_bytes(), after.as_bytes());
        let mut request = self.access.get().http.post(url).header(ACCEPT, accept);
        if let Some((name, value)) = transport::dialect_header(&self.settings) {
            request = request.header(name, value);
        }
        request.body(Body::wrap(Pieces::new([
            Bytes::from_static(before),
            head,
            tail,
            Bytes::from_static(after),
        ])))
    }

    async fn read(
        &self,
        call: &Call,
        response_headers: &ResponseHeaders,
        incoming: &mut Incoming<'_>,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<CallOutput, Failure> {
        let body_type = response_headers.body_type;
        if let Some(reason) = unreadable_type(body_type) {
            return Err(Failure::new(Class::BadReply, reason));
        }
        if call.mode == Mode::Count {
            return self.token_count(incoming).await;
        }
        // Some servers answer with a document where a stream was requested, or give a document a
        // wrong type. No event begins with these characters.
        let is_document = match incoming.peek().await? {
            Some(b'{' | b'[' | b'<') => true,
            _ => match body_type {
                BodyType::Events => false,
                BodyType::Json => true,
                _ => call.mode == Mode::Whole,
            },
        };
        let reply = match is_document {
            true => {
                self.document(call, incoming, reply_progress, admitted)
                    .await
            }
            false => self.stream(call, incoming, reply_progress, admitted).await,
        };
        Ok(CallOutput::Reply(Box::new(reply?)))
    }

    async fn token_count(&self, incoming: &mut Incoming<'_>) -> Result<CallOutput, Failure> {
        let dialect = self.settings.dialect;
        let body = incoming.read_all().await?;
        let counted = dialect.parse_token_count(&body).map_err(|failure| {
            let reparse = |clean: &[u8]| dialect.parse_token_count(clean).err();
            self.access
                .get()
                .secrets
                .without_secrets_in(failure, &body, reparse)
        });
        Ok(CallOutput::Count(counted?))
    }

    async fn document(
        &self,
        call: &Call,
        incoming: &mut Incoming<'_>,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<Reply, Failure> {
        let dialect = self.settings.dialect;
        // The provider is at work: a broken connection loses its reply.
        reply_progress.event(&DecodedEvent::Status);
        let body = incoming.read_all().await?;
        let whole = |body: &[u8]| match call.think_opened {
            true => dialect.parse_opened_document(body),
            false => dialect.parse_document(body),
        };
        let reply = whole(&body).map_err(|failure| {
            reply_progress.used(usage_of_failure(dialect, &body));
            let reparse = |clean: &[u8]| whole(clean).err();
            self.access
                .get()
                .secrets
                .without_secrets_in(failure, &body, reparse)
        })?;
        notify_first_event(call, reply_progress, admitted);
        call.listener.report_text(&reply.text);
        Ok(reply)
    }

    async fn stream(
        &self,
        call: &Call,
        incoming: &mut Incoming<'_>,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<Reply, Failure> {
        let mut parser = sse::Parser::new(self.settings.caps.stream);
        let dialect = self.settings.dialect;
        let mut reading = Reading {
            decoder: match call.think_opened {
                true => dialect.opened_decoder(),
                false => dialect.decoder(),
            },
            surrogates: SurrogateJoiner::default(),
        };
        let broken = loop {
            let piece = match incoming.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break None,
                // The reply can be complete: in some dialects more may follow the terminal marker.
                Err(broken) if broken.class != Class::TooLarge => break Some(broken),
                Err(too_large) => return Err(too_large),
            };
            call.listener.report_activity();
            let flow = parser.push(&piece, |event| {
                self.event(call, &event, &mut reading, reply_progress, admitted)
            });
            reply_progress.used(reading.decoder.usage_so_far());
            if flow?.is_break() {
                return reading.decoder.finish();
            }
        };
        let last =
            parser.finish(|event| self.event(call, &event, &mut reading, reply_progress, admitted));
        reply_progress.used(reading.decoder.usage_so_far());
        match last {
            // What cannot be read may be a part of an event.
            Ok(())
            | Err(Failure {
                class: Class::BadReply,
                ..
            }) => {}
            Err(failure) => return Err(failure),
        }
        let reply = reading.decoder.finish();
        reply.map_err(|incomplete| broken.unwrap_or(incomplete))
    }

    /// Reads an event of the reply, and reports its text.
    fn event(
        &self,
        call: &Call,
        event: &sse::Event<'_>,
        reading: &mut Reading,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        // No dialect uses events without data.
        if event.data.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let data = reading.surrogates.join_halves(event.data);
        let event = sse::Event {
            data: &data,
            ..*event
        };
        let seen = reading
            .decoder
            .event(&event)
            .map_err(|failure| self.without_secrets_in(failure, &event))?;
        notify_first_event(call, reply_progress, admitted);
        reply_progress.event(&seen);
        match seen {
            DecodedEvent::Text(text) => call.listener.report_text(text),
            DecodedEvent::Other | DecodedEvent::Status => {}
            DecodedEvent::End => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn without_secrets_in(&self, failure: Failure, event: &sse::Event<'_>) -> Failure {
        let data = event.data.as_bytes();
        self.access
            .get()
            .secrets
            .without_secrets_in(failure, data, |clean| {
                let data = String::from_utf8_lossy(clean);
                let event = sse::Event {
                    name: event.name,
                    data: &data,
                };
                self.settings.dialect.decoder().event(&event).err()
            })
    }

    /// The failure for a response with an error status. Its body is read only until the idle
    /// timeout.
    async fn refusal(
        &self,
        status: u16,
        body_type: BodyType,
        incoming: &mut Incoming<'_>,
    ) -> Failure {
        if let Some(to) = redirection(status, incoming.response()) {
            return Failure::new(
                Class::BadRequest,
                format!(
                    "the address redirects to {to} (status {status}); set that as the base URL"
                ),
            );
        }
        let body = match body_type {
            BodyType::Compressed => Vec::new(),
            _ => read_error_body(incoming, self.settings.timeouts.idle).await,
        };
        let body = self.access.get().secrets.document(&body);
        self.settings.dialect.refusal(status, &body)
    }
}

/// Why a body of that type cannot be a reply.
const fn unreadable_type(body_type: BodyType) -> Option<&'static str> {
    match body_type {
        BodyType::Html => Some(
            "the answer is an HTML page: it looks like a proxy's page, not the provider's; check the \
             base URL and the proxy settings",
        ),
        BodyType::Compressed => Some(
            "the answer is compressed although the request forbids it; check the proxy settings, or \
             turn compression off at the server",
        ),
        BodyType::Events | BodyType::Json | BodyType::Other => None,
    }
}

/// The usage in a document that is no reply, such as an error after a part of it.
fn usage_of_failure(dialect: Dialect, body: &[u8]) -> Usage {
    let mut decoder = dialect.decoder();
    // Documents have the form of events, and usage is read before an error.
    let _ = decoder.event(&sse::Event {
        name: "message",
        data: &String::from_utf8_lossy(body),
    });
    decoder.usage_so_far()
}

/// Reports the beginning of the reply, once for all attempts.
fn notify_first_event(call: &Call, reply_progress: &mut ReplyProgress, admitted: &Admitted<'_>) {
    admitted.response_started();
    if let Some(on_first_event) = &call.on_first_event
        && !std::mem::replace(&mut reply_progress.first_event_reported, true)
    {
        on_first_event();
    }
}

impl CallOutput {
    /// The used tokens, if they are reported.
    pub(super) fn used(&self) -> Option<u64> {
        match self {
            CallOutput::Reply(reply) => {
                Some((reply.usage.input + reply.usage.output).0).filter(|used| *used > 0)
            }
            CallOutput::Count(_) => Some(0),
        }
    }

    fn with_id(mut self, id: Option<Arc<str>>) -> CallOutput {
        if let CallOutput::Reply(reply) = &mut self {
            reply.request_id = id.or(reply.request_id.take());
        }
        self
    }
}

impl AttemptError {
    fn without_response(error: &reqwest::Error, settings: &Settings) -> AttemptError {
        let failure = transport::connection_failure(error, settings);
        match error.is_connect() {
            true => AttemptError {
                reached: false,
                ..report::unreachable(settings, failure).into()
            },
            false => failure.into(),
        }
    }
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> AttemptError {
        AttemptError {
            failure,
            request_id: None,
            no_retry: false,
            reached: true,
        }
    }
}

impl From<sse::Error> for Failure {
    fn from(error: sse::Error) -> Failure {
        let class = match error {
            sse::Error::NotUtf8 => Class::BadReply,
            sse::Error::Line { .. } | sse::Error::Event { .. } => Class::TooLarge,
        };
        Failure::new(class, error.to_string())
    }
}

/// The class with the wait from the response's headers.
pub(super) fn with_wait(class: Class, wait: Option<Duration>) -> Class {
    let wait = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    match class {
        Class::RateLimited { retry_after_ms } => Class::RateLimited {
            retry_after_ms: wait.or(retry_after_ms),
        },
        Class::Unavailable { retry_after_ms } => Class::Unavailable {
            retry_after_ms: wait.or(retry_after_ms),
        },
        other => other,
    }
}

/// Reads the body of a response with an error status, as far as it arrives within `time`.
pub(super) async fn read_error_body(incoming: &mut Incoming<'_>, time: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < ERROR_BODY_BYTES {
            match incoming.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // The part that was read is sufficient.
    let _ = timeout(time, reading).await;
    body.truncate(ERROR_BODY_BYTES);
    body
}

/// The target of a redirection without its query, which may contain secrets.
pub(super) fn redirection(status: u16, response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    if !(300..400).contains(&status) {
        return None;
    }
    let to = response.url().join(location).ok()?;
    Some(format!(
        "{}{}",
        to.origin().ascii_serialization(),
        to.path()
    ))
}
