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
//! A [`Post`] is a document for an address that is not a provider's, over the same connections; a
//! [`Callback`] one for an address that a client names, whose host must be allowed.
//!
//! Dropping the future of a call drops its connection. API keys are in the headers of requests and
//! nowhere else: not in errors, logs or debug output.

mod admission;
mod attempt;
mod body;
pub mod breaker;
pub mod breakers;
mod callback;
pub mod cooldown;
pub mod gate;
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
use admission::{Admission, Admitted};
use attempt::{Answer, Failed};
pub use callback::{Callback, Undelivered};
pub use post::Post;
use progress::ReplyProgress;
use retry::Decision;
use secrets::Secrets;
pub use share::Share;

pub use transport::{Connections, plain};

/// The client of one provider. One value serves any number of calls at once; those that share
/// it share its connections, limits, cool-down and breaker.
pub struct Client {
    settings: Settings,
    http: reqwest::Client,
    admission: Arc<Admission>,
    secrets: Arc<Secrets>,
}

/// One call.
pub struct Call {
    /// The model, as `provider/model`, for errors.
    pub model: Arc<str>,
    /// The model's name at its provider.
    pub name: Arc<str>,
    /// What is asked for.
    pub mode: Mode,
    /// Head and tail of the body, sent one after the other. Neither is joined or copied.
    pub body: [Bytes; 2],
    /// The estimated input and the longest output, for the limit of tokens a minute.
    pub tokens: Tokens,
    /// How long its caller waits: where the provider's limits, or the pause before another attempt,
    /// are over later than that, it ends at once. None: as long as the settings say.
    pub patience: Option<Duration>,
    /// Set where what it may take was reserved: an attempt that has to be paid for, though it broke
    /// off, is the last.
    pub bounded: bool,
    /// Whether the model's prompt ends with the tag that opens reasoning, so that its replies begin
    /// within that.
    pub think_opened: bool,
    /// Told of the reply's text while it comes in. When an attempt fails in the middle and the
    /// next one succeeds, it is told the text again from the start.
    pub listener: Listener,
    /// Told once, when the first event of a stream has come and is not an error.
    pub on_first_event: Option<OnFirstEvent>,
    /// Told of each attempt that broke off while the provider was at work on its reply: what it
    /// used as far as that is known, with no input where the provider has not said that.
    pub on_lost: Option<OnLost>,
}

/// Who is told of the first event. It must not block.
pub type OnFirstEvent = Box<dyn Fn() + Send + Sync>;

/// Who is told of what was lost. It must not block.
pub type OnLost = Box<dyn Fn(Usage) + Send + Sync>;

/// A provider that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] provider::Error),
    /// A header cannot be sent.
    #[error("provider `{provider}`: its key cannot be sent in a header")]
    Header {
        /// The provider.
        provider: Arc<str>,
    },
    /// Encrypted connections cannot be made.
    #[error(
        "provider `{provider}`: encrypted connections cannot be made: {reason}; install the \
         system's CA certificates (package ca-certificates), or name a file in SSL_CERT_FILE"
    )]
    Tls {
        /// The provider.
        provider: Arc<str>,
        /// Why.
        reason: String,
    },
}

/// How far a call has come, for the error of one that takes too long.
#[derive(Default)]
struct Progress {
    attempts: u32,
    last: Option<Failed>,
    reply_progress: ReplyProgress,
}

impl Client {
    /// A client with those settings. Connects to nothing.
    ///
    /// # Errors
    /// The settings cannot work, or this machine cannot make encrypted connections.
    pub fn new(settings: Settings) -> Result<Client, Error> {
        Client::sharing(settings, Share::default())
    }

    /// The same, with limits and cool-downs that are shared with other programs.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn sharing(settings: Settings, share: Share) -> Result<Client, Error> {
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
            http: transport::connections(&settings)?,
            admission: Arc::new(Admission::new(&settings, share)),
            secrets: Arc::new(Secrets::of(&settings)),
            settings,
        })
    }

    /// The same provider, asked in another dialect: with the same connections, limits, cool-down
    /// and breaker.
    #[must_use]
    pub fn speaking(&self, dialect: Dialect) -> Client {
        Client {
            settings: Settings {
                dialect,
                ..self.settings.clone()
            },
            http: self.http.clone(),
            admission: self.admission.clone(),
            secrets: self.secrets.clone(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks for a reply.
    ///
    /// # Errors
    /// There is none, after all attempts.
    pub async fn reply(&self, call: Call) -> Result<Reply, language::Error> {
        match self.timed(&call).await? {
            Answer::Reply(reply) => Ok(*reply),
            Answer::Count(_) => Err(self.misused(&call, "a request for a count is not a reply's")),
        }
    }

    /// Asks how many tokens a request has. The mode is [`Mode::Count`], whatever the call says.
    ///
    /// # Errors
    /// The dialect cannot be asked for that, or there is no answer after all attempts.
    pub async fn count(&self, call: Call) -> Result<Tokens, language::Error> {
        let call = Call {
            mode: Mode::Count,
            ..call
        };
        match self.timed(&call).await? {
            Answer::Count(tokens) => Ok(tokens),
            Answer::Reply(_) => Err(self.misused(&call, "a reply is not a count")),
        }
    }

    /// All attempts, within the time a call may take.
    async fn timed(&self, call: &Call) -> Result<Answer, language::Error> {
        let Some(path) = self.settings.dialect.path(&call.name, call.mode) else {
            let dialect = self.settings.dialect.name();
            return Err(self.misused(call, &format!("the dialect {dialect} cannot count tokens")));
        };
        let url = self.settings.address.url(&call.name, &path);
        let total = self.settings.timeouts.total;
        let mut progress = Progress::default();
        let attempts = self.attempts(call, &url, &mut progress);
        let outcome = match timeout(total, attempts).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.too_late(call, &mut progress)),
        };
        outcome.map_err(|error| language::Error {
            begun: progress.reply_progress.any_lost,
            ..error
        })
    }

    async fn attempts(
        &self,
        call: &Call,
        url: &Url,
        progress: &mut Progress,
    ) -> Result<Answer, language::Error> {
        let policy = &self.settings.retry;
        let begun = Instant::now();
        let patience = call.patience.unwrap_or(Duration::MAX);
        let patience = || patience.saturating_sub(begun.elapsed());
        let deadline = begun + self.settings.timeouts.total;
        let tokens = match call.mode {
            Mode::Stream | Mode::Whole => call.tokens.0,
            // Counting uses none.
            Mode::Count => 0,
        };
        loop {
            let admitted = match self.admission.admit(&call.name, tokens, patience()).await {
                Ok(admitted) => admitted,
                Err(refused) => return Err(self.refused(call, refused, progress)),
            };
            progress.attempts += 1;
            let attempt = progress.attempts;
            let reply_progress = &mut progress.reply_progress;
            reply_progress.begin();
            let failed = match self
                .traced(call, url, reply_progress, &admitted, attempt)
                .await
            {
                Ok(answer) => {
                    admitted.succeeded(answer.used());
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            admitted.failed(&failed.failure, failed.reached);
            call.lost(progress.reply_progress.failed(failed.failure.class));
            let outcome = retry::Failed {
                class: failed.failure.class,
                attempt,
                vetoed: failed.vetoed,
                spent: call.bounded && progress.reply_progress.any_lost,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.min(patience());
            match retry::decide(policy, &outcome, left, fastrand::f64()) {
                Decision::Retry { after } => {
                    progress.last = Some(failed);
                    tracing::debug!(after_ms = after.as_millis() as u64, attempt, "trying again");
                    sleep(after).await;
                }
                Decision::GiveUp(reason) => {
                    return Err(self.error(call, failed, &reason.to_string()));
                }
            }
        }
    }

    /// One attempt in a span of its own.
    async fn traced(
        &self,
        call: &Call,
        url: &Url,
        reply_progress: &mut ReplyProgress,
        admitted: &Admitted<'_>,
        attempt: u32,
    ) -> Result<Answer, Failed> {
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
                .attempt(call, url.clone(), reply_progress, admitted)
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

    /// The error of a call that was not let through. What it failed with before says more.
    fn refused(&self, call: &Call, refused: Failure, progress: &mut Progress) -> language::Error {
        if let Some(last) = progress.last.take() {
            let then = refused.reason.split(breakers::LAST).next();
            return self.error(call, last, &format!("; then {}", then.unwrap_or_default()));
        }
        self.error(call, refused.into(), "")
    }

    fn too_late(&self, call: &Call, progress: &mut Progress) -> language::Error {
        let failure = transport::late(Stage::Total, &self.settings.timeouts);
        call.lost(progress.reply_progress.failed(failure.class));
        let before = progress.last.take().map_or_else(String::new, |last| {
            format!("; before that: {}", last.failure.reason)
        });
        let ending = format!(", in attempt {}{before}", progress.attempts);
        self.error(call, failure.into(), &ending)
    }

    fn misused(&self, call: &Call, reason: &str) -> language::Error {
        self.error(call, Failure::new(Class::Internal, reason).into(), "")
    }

    fn error(&self, call: &Call, failed: Failed, ending: &str) -> language::Error {
        language::Error {
            model: call.model.clone(),
            class: failed.failure.class,
            reason: report::reason(&self.settings, &self.secrets, &failed.failure, ending).into(),
            request_id: failed.request_id,
            begun: false,
        }
    }
}

impl Call {
    /// Tells what an attempt used that broke off.
    fn lost(&self, used: Option<Usage>) {
        if let (Some(used), Some(on_lost)) = (used, &self.on_lost) {
            on_lost(used);
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
            .field("entrance", &self.admission)
            .finish_non_exhaustive()
    }
}
