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
use super::headers::{self, Form, ResponseHeaders};
use super::incoming::Incoming;
use super::progress::ReplyProgress;
use super::surrogates::Halves;
use super::{Call, Client, transport};
use crate::dialect::{Failure, Mode, Seen};
use crate::language::{Class, Reply, Stage};
use crate::sse;

/// The most that is read of an answer with an error status, in bytes.
const REFUSAL: usize = 64 * 1024;

/// What came back.
#[derive(Debug)]
pub(super) enum Answer {
    /// A reply.
    Reply(Box<Reply>),
    /// A number of tokens.
    Count(Tokens),
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) request_id: Option<Arc<str>>,
    /// The provider said that trying again is of no use.
    pub(super) vetoed: bool,
    /// Whether a connection to the provider was made.
    pub(super) reached: bool,
}

impl Client {
    /// Sends the request once and reads what comes back.
    pub(super) async fn attempt(
        &self,
        call: &Call,
        url: Url,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<Answer, Failed> {
        let settings = &self.settings;
        let first_byte = Instant::now() + settings.timeouts.first_byte;
        let sent = self.request(call, url).send();
        let response = match timeout_at(first_byte, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let failed = Failed::from(transport::broken(&error, settings));
                return Err(Failed {
                    reached: !error.is_connect(),
                    ..failed
                });
            }
            Err(_) => return Err(transport::late(Stage::FirstByte, &settings.timeouts).into()),
        };
        let told = headers::read(response.headers(), Timestamp::now());
        self.admission.learn(&told);
        let status = response.status().as_u16();
        let span = tracing::Span::current();
        span.record("status", status);
        span.record("request_id", told.request_id.as_deref());
        let mut incoming = Incoming::new(settings, response, first_byte);
        let outcome = if (200..300).contains(&status) {
            self.read(call, &told, &mut incoming, reply_progress, admitted)
                .await
        } else {
            Err(self.refusal(status, &mut incoming).await)
        };
        match outcome {
            Ok(answer) => {
                incoming.give_back();
                Ok(answer.with_id(told.request_id))
            }
            Err(failure) => Err(Failed {
                failure: Failure {
                    class: with_wait(failure.class, told.retry_after),
                    ..failure
                },
                request_id: told.request_id,
                vetoed: told.vetoed,
                reached: true,
            }),
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
        self.http
            .post(url)
            .header(ACCEPT, accept)
            .body(Body::wrap(Pieces::new([
                Bytes::from_static(before),
                head,
                tail,
                Bytes::from_static(after),
            ])))
    }

    async fn read(
        &self,
        call: &Call,
        told: &ResponseHeaders,
        incoming: &mut Incoming<'_>,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
    ) -> Result<Answer, Failure> {
        if told.form == Form::Html {
            let reason = "the answer is an HTML page: it looks like a proxy's page, not the \
                          provider's; check the base URL and the proxy settings";
            return Err(Failure::new(Class::BadReply, reason));
        }
        let dialect = self.settings.dialect;
        match (call.mode, told.form) {
            (Mode::Count, _) => {
                let body = incoming.whole().await?;
                let counted = dialect.counted(&body).map_err(|failure| {
                    let again = |clean: &[u8]| dialect.counted(clean).err();
                    self.secrets.retold(failure, &body, again)
                });
                Ok(Answer::Count(counted?))
            }
            (_, Form::Events) | (Mode::Stream, Form::Other) => {
                let reply = self
                    .stream(call, incoming, reply_progress, admitted)
                    .await?;
                Ok(Answer::Reply(Box::new(reply)))
            }
            (Mode::Stream | Mode::Whole, _) => {
                let body = incoming.whole().await?;
                let whole = |body: &[u8]| match call.think_opened {
                    true => dialect.opened_whole(body),
                    false => dialect.whole(body),
                };
                let reply = whole(&body).map_err(|failure| {
                    let again = |clean: &[u8]| whole(clean).err();
                    self.secrets.retold(failure, &body, again)
                })?;
                tell_first(call, reply_progress, admitted);
                call.listener.text(&reply.text);
                Ok(Answer::Reply(Box::new(reply)))
            }
        }
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
        let mut decoder = match call.think_opened {
            true => dialect.opened_decoder(),
            false => dialect.decoder(),
        };
        let mut halves = Halves::default();
        loop {
            let piece = match incoming.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // Where a dialect's marker is not the last that may come, the reply can be whole.
                Err(broken) if broken.class != Class::TooLarge => {
                    return decoder.finish().map_err(|_| broken);
                }
                Err(too_large) => return Err(too_large),
            };
            call.listener.sign();
            let flow = parser.push(&piece, |event| {
                // No dialect says anything with an event without data.
                if event.data.is_empty() {
                    return Ok(ControlFlow::Continue(()));
                }
                let data = halves.joined(event.data);
                let event = sse::Event {
                    data: &data,
                    ..event
                };
                let seen = decoder
                    .event(&event)
                    .map_err(|failure| self.retold(failure, &event))?;
                tell_first(call, reply_progress, admitted);
                reply_progress.event(&seen);
                match seen {
                    Seen::Text(text) => call.listener.text(text),
                    Seen::Other => {}
                    Seen::End => return Ok(ControlFlow::Break(())),
                }
                Ok::<_, Failure>(ControlFlow::Continue(()))
            });
            reply_progress.used(decoder.used());
            if flow?.is_break() {
                break;
            }
        }
        decoder.finish()
    }

    /// The failure that an event is.
    fn retold(&self, failure: Failure, event: &sse::Event<'_>) -> Failure {
        let said = event.data.as_bytes();
        self.secrets.retold(failure, said, |clean| {
            let data = String::from_utf8_lossy(clean);
            let event = sse::Event {
                name: event.name,
                data: &data,
            };
            self.settings.dialect.decoder().event(&event).err()
        })
    }

    /// What an answer with an error status means. Of its body that is taken which comes in time.
    async fn refusal(&self, status: u16, incoming: &mut Incoming<'_>) -> Failure {
        if let Some(to) = redirection(status, incoming.response()) {
            return Failure::new(
                Class::BadRequest,
                format!(
                    "the address redirects to {to} (status {status}); set that as the base URL"
                ),
            );
        }
        let body = refused_with(incoming, self.settings.timeouts.idle).await;
        let body = self.secrets.document(&body);
        self.settings.dialect.refusal(status, &body)
    }
}

/// The reply has begun: its owner is told once, whatever attempt it is.
fn tell_first(call: &Call, reply_progress: &mut ReplyProgress, admitted: &Admitted<'_>) {
    admitted.answers();
    if let Some(on_first_event) = &call.on_first_event
        && !std::mem::replace(&mut reply_progress.first_told, true)
    {
        on_first_event();
    }
}

impl Answer {
    /// The tokens that were used, as far as the answer says.
    pub(super) fn used(&self) -> Option<u64> {
        match self {
            Answer::Reply(reply) => {
                Some((reply.usage.input + reply.usage.output).0).filter(|used| *used > 0)
            }
            Answer::Count(_) => Some(0),
        }
    }

    fn with_id(mut self, id: Option<Arc<str>>) -> Answer {
        if let Answer::Reply(reply) = &mut self {
            reply.request_id = id.or(reply.request_id.take());
        }
        self
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed {
            failure,
            request_id: None,
            vetoed: false,
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

/// The class with the wait that the answer's headers ask for.
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

/// Of the body of an answer with an error status that which comes in time.
pub(super) async fn refused_with(incoming: &mut Incoming<'_>, time: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < REFUSAL {
            match incoming.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // What was read until then says enough.
    let _ = timeout(time, reading).await;
    body.truncate(REFUSAL);
    body
}

/// Where an answer redirects to, without what may be secret in it.
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
