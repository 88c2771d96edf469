//! The one way to every provider: a request is sent with limits and timeouts, retried, and its
//! response becomes a reply or a classified error.
//!
//! Pure parts make the decisions: [`retry`], [`breakers`] (a [`breaker`] for the provider and one
//! for each model), [`cooldown`], [`limits`] and [`gate`], which combines the last three. `headers`
//! parses the headers of a response, the dialect its body. This file and `attempt` carry out the
//! decisions.
//!
//! ```text
//! reply ─► admission: breaker, cool-down, limits ─► attempt: send, read ─► reply
//!             ▲                                           │ failed
//!             └────────────── wait ◄── retry::decide ◄────┘
//! ```
//!
//! A [`HttpEndpoint`] is a document for an address that is not a provider's, over the same connections; a
//! [`Callback`] one for an address that a client names, and a [`Download`] a file at such an address:
//! their hosts must be allowed.
//!
//! Dropping the future of a call drops its connection. API keys are in the headers of requests and
//! nowhere else: not in errors, logs or debug output.

mod access;
mod admission;
mod attempt;
mod body;
pub mod breaker;
pub mod breakers;
mod callback;
pub mod cooldown;
mod download;
pub mod gate;
mod guarded;
pub mod headers;
mod incoming;
pub mod limits;
mod post;
mod progress;
mod report;
pub mod retry;
mod secrets;
mod served;
pub mod share;
mod surrogates;
mod transport;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;
use tracing::field::Empty;
use unisono_context::Tokens;

use crate::dialect::{Dialect, Failure, Mode};
use crate::language::{self, Class, Listener, Reply, Stage, Usage};
use crate::provider::{self, Settings};
use access::{Access, CurrentAccess};
use admission::{Admission, Admitted};
use attempt::{AttemptError, CallOutput};
pub use callback::{Callback, DeliveryError};
pub use download::Download;
pub use post::HttpEndpoint;
use progress::ReplyProgress;
pub use reqwest::header::{HeaderName, HeaderValue};
use retry::RetryDecision;
pub use share::LimitShare;
pub use surrogates::SurrogateJoiner;

pub use transport::{Connections, connections_to};

/// The shortest pause that is reported.
const NOTICED_PAUSE: Duration = Duration::from_secs(1);

/// The client of one provider, for any number of concurrent calls. They share its connections,
/// limits, cool-down and breaker.
pub struct Client {
    settings: Settings,
    access: CurrentAccess,
    admission: Arc<Admission>,
}

/// One call.
pub struct Call {
    /// The model as `provider/model`, for errors.
    pub model: Arc<str>,
    /// The model's name at its provider.
    pub name: Arc<str>,
    /// The kind of response.
    pub mode: Mode,
    /// Head and tail of the body, sent one after the other without joining or copying them.
    pub body: [Bytes; 2],
    /// The estimated input plus the maximum output, for the limit of tokens per minute.
    pub tokens: Tokens,
    /// The caller's maximum wait: if the provider's limits, or the pause before another attempt,
    /// take longer, the call fails at once. `None`: only the settings' timeouts apply.
    pub patience: Option<Duration>,
    /// Whether its usage is reserved: then an interrupted attempt that must be paid for is the last
    /// one.
    pub bounded: bool,
    /// Whether the model's prompt ends with the tag that opens reasoning, so that its replies begin
    /// inside the block.
    pub think_opened: bool,
    /// Receives the reply's text while it is streamed. If an attempt fails in the middle and the
    /// next one succeeds, it receives the text again from the start.
    pub listener: Listener,
    /// Called once, after the first event of a stream that is not an error.
    pub on_first_event: Option<OnFirstEvent>,
    /// Called for each attempt that was interrupted while the provider was working on its reply,
    /// with the known usage. The input is zero if the provider has not reported it.
    pub on_interrupted: Option<OnInterrupted>,
}

/// A callback for the first event. It must not block.
pub type OnFirstEvent = Box<dyn Fn() + Send + Sync>;

/// A callback for the usage of an interrupted attempt. It must not block.
pub type OnInterrupted = Box<dyn Fn(Usage) + Send + Sync>;

/// A provider that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] provider::Error),
    /// The API key cannot be sent in a header.
    #[error("provider `{provider}`: its key cannot be sent in a header")]
    Header {
        /// The provider.
        provider: Arc<str>,
    },
    /// Encrypted connections are not possible.
    #[error(
        "provider `{provider}`: encrypted connections cannot be made: {reason}; install the \
         system's CA certificates (package ca-certificates), or name a file in SSL_CERT_FILE"
    )]
    Tls {
        /// The provider.
        provider: Arc<str>,
        /// The reason.
        reason: String,
    },
}

/// The progress of a call, for the error of a timeout.
#[derive(Default)]
struct Progress {
    attempts: u32,
    last: Option<AttemptError>,
    /// Whether an attempt was made with another key than the one before.
    has_new_key: bool,
    reply_progress: ReplyProgress,
}

impl Client {
    /// A client with these settings. It does not connect yet.
    ///
    /// # Errors
    /// The settings are invalid, or encrypted connections are not possible on this machine.
    pub fn new(settings: Settings) -> Result<Client, Error> {
        Client::with_share(settings, LimitShare::default())
    }

    /// Like [`Client::new`], with limits and cool-downs that are shared with other programs.
    pub fn with_share(settings: Settings, share: LimitShare) -> Result<Client, Error> {
        settings.check()?;
        if let Some(warning) = settings.auth.key().and_then(provider::Key::warning) {
            tracing::warn!(provider = &*settings.name, "{warning}");
        }
        let address = &settings.address;
        if settings.auth.key().is_some() && !address.is_encrypted() && !address.is_loopback() {
            tracing::warn!(
                provider = &*settings.name,
                "the key is sent unencrypted to {address}"
            );
        }
        Ok(Client {
            access: CurrentAccess::new(&settings)?,
            admission: Arc::new(Admission::new(&settings, share)),
            settings,
        })
    }

    /// A client of the same provider for another dialect, with the same connections, limits,
    /// cool-down and breaker.
    #[must_use]
    pub fn with_dialect(&self, dialect: Dialect) -> Client {
        Client {
            settings: Settings {
                dialect,
                ..self.settings.clone()
            },
            access: self.access.clone(),
            admission: self.admission.clone(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Requests a reply.
    ///
    /// # Errors
    /// No attempt brought a reply.
    pub async fn reply(&self, call: Call) -> Result<Reply, language::Error> {
        match self.run(&call).await? {
            CallOutput::Reply(reply) => Ok(*reply),
            CallOutput::Count(_) => {
                Err(self.internal_error(&call, "a request for a count is not a reply's"))
            }
        }
    }

    /// Requests the number of tokens of a request. The mode is [`Mode::Count`], whatever the call
    /// has.
    ///
    /// # Errors
    /// The dialect cannot count tokens, or no attempt brought an answer.
    pub async fn count(&self, call: Call) -> Result<Tokens, language::Error> {
        let call = Call {
            mode: Mode::Count,
            ..call
        };
        match self.run(&call).await? {
            CallOutput::Count(tokens) => Ok(tokens),
            CallOutput::Reply(_) => Err(self.internal_error(&call, "a reply is not a count")),
        }
    }

    /// Runs all attempts within the total timeout.
    async fn run(&self, call: &Call) -> Result<CallOutput, language::Error> {
        let Some(path) = self.settings.dialect.path(&call.name, call.mode) else {
            let dialect = self.settings.dialect.name();
            return Err(
                self.internal_error(call, &format!("the dialect {dialect} cannot count tokens"))
            );
        };
        let url = self.settings.address.url(&call.name, &path);
        let total = self.settings.timeouts.total;
        let mut progress = Progress::default();
        let attempts = self.run_attempts(call, &url, &mut progress);
        let outcome = match timeout(total, attempts).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.timeout_error(call, &mut progress)),
        };
        outcome.map_err(|error| language::Error {
            begun: progress.reply_progress.any_interrupted,
            pause_ms: self.admission.pause_ms(&call.name),
            ..error
        })
    }

    async fn run_attempts(
        &self,
        call: &Call,
        url: &Url,
        progress: &mut Progress,
    ) -> Result<CallOutput, language::Error> {
        let policy = &self.settings.retry;
        let begun = Instant::now();
        let patience = call.patience.unwrap_or(Duration::MAX);
        let patience = || patience.saturating_sub(begun.elapsed());
        let deadline = begun + self.settings.timeouts.total;
        let tokens = match call.mode {
            Mode::Stream | Mode::Whole => call.tokens.0,
            // Counting uses no tokens.
            Mode::Count => 0,
        };
        loop {
            let admitted = match self.admit(call, tokens, patience()).await {
                Ok(admitted) => admitted,
                Err(refused) => return Err(self.admission_error(call, refused, progress)),
            };
            let access = self.access.get();
            let failed = match self.traced_attempt(call, url, progress, &admitted).await {
                Ok(answer) => {
                    admitted.succeeded(answer.used());
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            call.report_interrupted(progress.reply_progress.failed(failed.failure.class));
            if self.has_new_key(&access, &failed.failure, progress).await {
                // The refusal says nothing about the new key.
                drop(admitted);
                call.listener.report_restart();
                continue;
            }
            call.report_failed(admitted, &failed);
            let outcome = retry::FailedAttempt {
                class: failed.failure.class,
                attempt: progress.attempts,
                no_retry: failed.no_retry,
                reservation_used: call.bounded && progress.reply_progress.any_interrupted,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.min(patience());
            match retry::decide(policy, &outcome, left, fastrand::f64()) {
                RetryDecision::Retry { after } => {
                    call.listener.report_restart();
                    call.report_pause(after, &self.reason(&failed.failure, ""));
                    progress.last = Some(failed);
                    tracing::debug!(after_ms = after.as_millis() as u64, "trying again");
                    sleep(after).await;
                }
                RetryDecision::GiveUp(reason) => {
                    return Err(self.error(call, failed, &reason.to_string()));
                }
            }
        }
    }

    /// Whether the key was refused and there is another one now: at most once for a call.
    async fn has_new_key(
        &self,
        used: &Arc<Access>,
        failure: &Failure,
        progress: &mut Progress,
    ) -> bool {
        let is_refused =
            failure.class == Class::Unauthorised && !progress.reply_progress.any_interrupted;
        if !is_refused || progress.has_new_key {
            return false;
        }
        progress.has_new_key = self.access.is_renewed(used, &self.settings).await;
        progress.has_new_key
    }

    /// Waits until a request may be sent, and reports the pauses.
    async fn admit(
        &self,
        call: &Call,
        tokens: u64,
        patience: Duration,
    ) -> Result<Admitted<'_>, Failure> {
        let on_pause = |pause, reason: &str| call.report_pause(pause, reason);
        let admitted = self.admission.admit(&call.name, tokens, patience, on_pause);
        admitted.await
    }

    async fn traced_attempt(
        &self,
        call: &Call,
        url: &Url,
        progress: &mut Progress,
        admitted: &Admitted<'_>,
    ) -> Result<CallOutput, AttemptError> {
        progress.attempts += 1;
        let attempt = progress.attempts;
        progress.reply_progress.begin();
        let span = tracing::debug_span!(
            "model request",
            model = &*call.model,
            attempt,
            status = Empty,
            request_id = Empty
        );
        let start = Instant::now();
        async {
            let outcome = self
                .attempt(call, url.clone(), &mut progress.reply_progress, admitted)
                .await;
            let took_ms = start.elapsed().as_millis() as u64;
            match &outcome {
                Ok(_) => tracing::debug!(took_ms, "answered"),
                Err(failed) => {
                    tracing::debug!(took_ms, class = failed.failure.class.code(), "failed");
                }
            }
            outcome
        }
        .instrument(span)
        .await
    }

    /// The error of a call that was not admitted. An earlier failure of the call is more
    /// informative.
    fn admission_error(
        &self,
        call: &Call,
        refused: Failure,
        progress: &mut Progress,
    ) -> language::Error {
        if let Some(last) = progress.last.take() {
            let then = refused.reason.split(breakers::LAST_FAILURE).next();
            return self.error(call, last, &format!("; then {}", then.unwrap_or_default()));
        }
        self.error(call, refused.into(), "")
    }

    fn timeout_error(&self, call: &Call, progress: &mut Progress) -> language::Error {
        let failure = transport::timeout_failure(Stage::Total, &self.settings.timeouts);
        call.report_interrupted(progress.reply_progress.failed(failure.class));
        let before = progress.last.take().map_or_else(String::new, |last| {
            format!("; before that: {}", last.failure.reason)
        });
        let ending = format!(", in attempt {}{before}", progress.attempts);
        self.error(call, failure.into(), &ending)
    }

    fn internal_error(&self, call: &Call, reason: &str) -> language::Error {
        self.error(call, Failure::new(Class::Internal, reason).into(), "")
    }

    fn error(&self, call: &Call, failed: AttemptError, ending: &str) -> language::Error {
        let reason = self.reason(&failed.failure, ending);
        language::Error {
            request_id: failed.request_id,
            ..language::Error::new(call.model.clone(), failed.failure.class, reason)
        }
    }

    fn reason(&self, failure: &Failure, ending: &str) -> String {
        report::reason(&self.settings, &self.access.get().secrets, failure, ending)
    }
}

impl Call {
    /// Reports a pause that a person notices.
    fn report_pause(&self, pause: Duration, reason: &str) {
        if pause >= NOTICED_PAUSE {
            let reason = format!("model {}: {reason}", self.model);
            self.listener.report_pause(pause, &reason);
        }
    }

    /// Reports a failed attempt to the requests that share its provider. The refusal of a count says
    /// nothing about replies: counts have limits, permissions and servers of their own.
    fn report_failed(&self, admitted: Admitted<'_>, failed: &AttemptError) {
        if self.mode == Mode::Count && failed.reached {
            return drop(admitted);
        }
        admitted.failed(&failed.failure, failed.reached);
    }

    fn report_interrupted(&self, used: Option<Usage>) {
        if let (Some(used), Some(on_interrupted)) = (used, &self.on_interrupted) {
            on_interrupted(used);
        }
    }
}

/// Without the body.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("model", &self.model)
            .field("mode", &self.mode)
            .field("bytes", &self.body.each_ref().map(Bytes::len))
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.settings)
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}
