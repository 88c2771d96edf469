//! A model at a provider: its dialect, its cache, its prices and the calibration of its tokens,
//! around the client that carries the bytes.
//!
//! ```text
//! complete ─► estimate ─► gate: lead, wait or go ─► client ─► usage: expected, read, cost
//!                             └ prewarm: a separate request writes the cache first
//! ```

mod account;
mod own_label;
mod routes;
mod sizes;
mod transport;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::time::{Duration, Instant};
use unisono_context::call::ClientOptions;
use unisono_context::digest::Hasher;
use unisono_context::tokens::Count;
use unisono_context::{AgentId, Cost, Digest, Tokens};

use crate::cache_warming::{CacheWarmth, Key, WarmingRequest};
use crate::calibration::Calibrations;
use crate::catalogue::{Catalogue, Entry};
use crate::client::{Call, OnFirstEvent, OnInterrupted};
use crate::dialect::{Dialect, Head, Mode, Sending};
use crate::language::recent::Recent;
use crate::language::{
    CacheWarm, Class, Completion, Counting, Error, Fitting, LanguageModel, Listener, Reply,
    Request, Usage,
};
use crate::media::Accepts;
use crate::prompt::{Persona, Prefix, Shared};
use routes::{cache_key, shard};
use sizes::Sizes;

pub use transport::{NoTransport, Transport};

/// The number of cached counts of the provider.
const COUNTS: usize = 64;
/// The first replies that are used for calibration; after them one in as many.
const SAMPLES: u32 = 16;
/// A shorter wait for the provider's cache is not reported.
const CACHE_WAIT_MIN: Duration = Duration::from_millis(1);
/// The task of a request that only writes the cache.
const PREWARM_TASK: &str = "Answer with the word OK.";

/// A model at a provider.
#[derive(Debug)]
pub struct Remote<T> {
    /// Its name in definitions.
    name: Arc<str>,
    /// Its name at the provider.
    model: Arc<str>,
    entry: Arc<Entry>,
    transport: T,
    catalogue: Arc<Catalogue>,
    calibrations: Calibrations,
    warmth: CacheWarmth,
    sizes: Sizes,
    counts: Mutex<Recent<Digest, Tokens>>,
    replies: AtomicU32,
}

/// A request before it is sent, with its prefix and cache properties.
struct Outgoing<'r> {
    request: &'r Request,
    key: Key,
    /// The tokens of the prefix in the local encoding.
    prefix: Count,
    warming: WarmingRequest,
}

impl<T: Transport> Remote<T> {
    /// The model of a catalogue's entry. `transport` uses the entry's dialect, if it has one.
    pub fn new(entry: Entry, transport: T, catalogue: Arc<Catalogue>) -> Remote<T> {
        Remote {
            name: entry.model.to_string().into(),
            model: entry.model.model.as_str().into(),
            sizes: Sizes::new(&entry, transport.dialect()),
            entry: Arc::new(entry),
            transport,
            catalogue,
            calibrations: Calibrations::default(),
            warmth: CacheWarmth::default(),
            counts: Mutex::new(Recent::new(COUNTS)),
            replies: AtomicU32::new(0),
        }
    }

    /// Shares calibrations with other models.
    #[must_use]
    pub fn with_calibrations(self, calibrations: Calibrations) -> Remote<T> {
        Remote {
            calibrations,
            ..self
        }
    }

    /// Shares the cache-warming gate with other models.
    #[must_use]
    pub fn with_cache_warmth(self, warmth: CacheWarmth) -> Remote<T> {
        Remote { warmth, ..self }
    }

    async fn ask(&self, request: Request) -> Result<Reply, Error> {
        let outgoing = self.prepare(&request).await;
        let began = Instant::now();
        let waits = request.listener.begin_wait();
        let _permit = self
            .warmth
            .prefix_permit(&outgoing.key, &outgoing.warming)
            .await;
        drop(waits);
        let mut lead = self.warmth.enter(&outgoing.key, &outgoing.warming).await;
        if lead.is_some() && request.cache_warm == CacheWarm::Prewarm {
            match self.prewarm(&outgoing).await {
                // Reported at once: the next request may fail or be cancelled.
                Ok(used) => request.listener.report_usage(used, None),
                // No request waits for a failed prewarming.
                Err(error) => {
                    tracing::debug!(%error, "the cache was not prewarmed");
                    lead = None;
                }
            }
        }
        if began.elapsed() >= CACHE_WAIT_MIN {
            request.listener.report_cache_ready();
        }
        let reply = self.send(&outgoing).await;
        drop(lead);
        reply
    }

    /// The prefix and cache properties of a request.
    async fn prepare<'r>(&self, request: &'r Request) -> Outgoing<'r> {
        let prefix = self.sizes.prefix(request).await;
        let warming = WarmingRequest {
            mode: request.cache_warm,
            has_peers: request.has_peers,
            prefix: self.calibrations.get(&self.name).adjust(prefix).tokens,
            minimum: self.entry.cache_minimum.or(self.entry.warm_minimum),
        };
        let key = Key {
            model: self.name.clone(),
            prefix: request.prefix.digest(),
            choice: request.choice().cloned(),
            shard: if self.routes_by_key() {
                shard(request.place)
            } else {
                0
            },
        };
        Outgoing {
            request,
            key,
            prefix,
            warming,
        }
    }

    /// Whether the provider routes requests by a key. A server without a known cache may not accept
    /// the field.
    fn routes_by_key(&self) -> bool {
        let has_key = match self.transport.dialect() {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => true,
            Dialect::Anthropic | Dialect::Gemini => false,
        };
        has_key && self.entry.cache_minimum.is_some()
    }

    /// The tail of a request. It depends only on the request and the catalogue: not on time,
    /// calibration, or other requests.
    fn tail(&self, request: &Request, mode: Mode) -> Bytes {
        let routed = self.routes_by_key() && mode != Mode::Count;
        let cache_key = routed.then(|| cache_key(request.prefix.digest(), shard(request.place)));
        let sending = Sending {
            mode,
            model: &self.model,
            cache_key: cache_key.as_deref(),
            reasoning: self.entry.reasoning,
            structured: self.entry.structured,
            accepts: self.entry.accepts,
        };
        self.transport.dialect().tail(request, &sending).into()
    }

    /// Sends a request and completes the usage of its reply.
    async fn send(&self, outgoing: &Outgoing<'_>) -> Result<Reply, Error> {
        let expected = match self.warmth.is_warm(&outgoing.key) {
            // A cache that is not known to exist is not expected.
            true if self.entry.cache_minimum.is_some() => outgoing.warming.prefix,
            _ => Tokens::ZERO,
        };
        let (call, tail) = self.call(outgoing, Mode::Stream);
        let sizes = (
            call.tokens.minus(outgoing.request.max_output),
            outgoing.request.max_output,
        );
        let reply = self.transport.reply(call).await;
        let mut reply = reply.map_err(|error| self.explain_error(error, sizes))?;
        let request = outgoing.request;
        let dialect = self.transport.dialect();
        dialect.restore_names(&mut reply, &request.tools);
        if request.output_schema.is_some() && !self.entry.structured && dialect.answered(&mut reply)
        {
            request.listener.report_text(&reply.text);
        }
        self.learn(outgoing, tail, reply.usage.input).await;
        reply.usage = account::complete_usage(&self.entry, expected, reply.usage);
        if reply.usage.missed() {
            tracing::warn!(
                model = %self.name,
                expected = reply.usage.cache_expected.0,
                read = reply.usage.cache_read.0,
                "the provider's cache was expected to have the prefix and did not"
            );
        }
        Ok(reply)
    }

    /// Adds local information to the error. A window that it names is recorded.
    fn explain_error(&self, error: Error, sizes: (Tokens, Tokens)) -> Error {
        if let Class::Overflow { limit: Some(limit) } = error.class {
            self.calibrations
                .record_window_refusal(&self.name, self.entry.window, limit);
        }
        account::explain(error, &self.entry, &self.catalogue, sizes)
    }

    /// Writes the prefix to the provider's cache with a minimal request.
    async fn prewarm(&self, outgoing: &Outgoing<'_>) -> Result<Usage, Error> {
        let request = Request {
            persona: Persona {
                agent: AgentId::new("cache"),
                description: "answers with one word".into(),
                instructions: "".into(),
            },
            allowed: Arc::from([]),
            colleagues: Arc::from([]),
            task: PREWARM_TASK.into(),
            results: Arc::from([]),
            summary: None,
            exchange: Vec::new(),
            wrap_up: None,
            client_options: ClientOptions::default(),
            max_output: min_output(self.transport.dialect()),
            temperature_milli: None,
            listener: outgoing.request.listener.usage_only(),
            ..outgoing.request.clone()
        };
        let alone = Outgoing {
            request: &request,
            key: outgoing.key.clone(),
            ..*outgoing
        };
        Ok(self.send(&alone).await?.usage)
    }

    /// The call of a request, and the estimated tokens of its tail.
    fn call(&self, outgoing: &Outgoing<'_>, mode: Mode) -> (Call, Count) {
        let request = outgoing.request;
        let tail = self.tail(request, mode);
        let guess = self.sizes.guess(outgoing.request, &tail);
        let calibration = self.calibrations.get(&self.name);
        let input = calibration.adjust(outgoing.prefix + guess).tokens;
        let call = Call {
            model: self.name.clone(),
            name: self.model.clone(),
            mode,
            body: [request.prefix.bytes().clone(), tail],
            tokens: input + request.max_output,
            patience: request.patience,
            bounded: request.bounded,
            think_opened: self.entry.think_opened,
            listener: request.listener.clone(),
            on_first_event: self.on_first_event(outgoing),
            on_interrupted: Some(self.on_interrupted(&request.listener, input)),
        };
        (call, guess)
    }

    /// Marks the prefix as warm at the first event of a reply.
    fn on_first_event(&self, outgoing: &Outgoing<'_>) -> Option<OnFirstEvent> {
        if !outgoing.warming.is_cacheable() {
            return None;
        }
        let (warmth, key) = (self.warmth.clone(), outgoing.key.clone());
        let lifetime = self.entry.cache_lifetime;
        Some(Box::new(move || warmth.mark_warm(&key, lifetime)))
    }

    /// Reports the usage of an interrupted attempt, which is paid for in addition to the reply.
    fn on_interrupted(&self, listener: &Listener, estimated: Tokens) -> OnInterrupted {
        let (listener, entry) = (listener.clone(), self.entry.clone());
        Box::new(move |used| {
            listener.report_usage(account::interrupted_usage(&entry, estimated, used), None)
        })
    }

    /// Calibrates with estimated and reported tokens. Not for every reply: after enough samples
    /// counting costs more than it improves.
    async fn learn(&self, outgoing: &Outgoing<'_>, guess: Count, reported: Tokens) {
        let asked = self.replies.fetch_add(1, Ordering::Relaxed);
        let known = self.calibrations.get(&self.name).samples();
        let wanted = is_sample(known, asked);
        let Outgoing {
            request, prefix, ..
        } = outgoing;
        let tail = self.sizes.tail(request, *prefix, guess, wanted).await;
        if let Some(tail) = tail {
            let estimated = (*prefix + tail).tokens;
            self.calibrations.observe(&self.name, estimated, reported);
        }
    }

    /// The request with its maximum output limited by the model and the room in its window.
    async fn fitted(&self, request: Request) -> Result<Request, Error> {
        let prefix = self.sizes.prefix(&request).await;
        let tail = self
            .sizes
            .guess(&request, &self.tail(&request, Mode::Stream));
        let calibration = self.calibrations.get(&self.name);
        let input = calibration.adjust(prefix + tail).tokens;
        let window = calibration.window(self.entry.window);
        if input >= window {
            return Err(Error::new(
                self.name.clone(),
                Class::Overflow {
                    limit: Some(window),
                },
                format!("skipped: its window is {window} tokens, the request has about {input}"),
            ));
        }
        let most = self.entry.max_output.min(window.minus(input));
        Ok(Request {
            max_output: request.max_output.min(most),
            ..request
        })
    }

    /// Asks the provider for a count, unless it is cached.
    async fn ask_for_count(&self, request: Request) -> Result<Option<Tokens>, Error> {
        let dialect = self.transport.dialect();
        if dialect.path(&self.model, Mode::Count).is_none() {
            return Ok(None);
        }
        let outgoing = self.prepare(&request).await;
        let (call, guess) = self.call(&outgoing, Mode::Count);
        let mut digest = Hasher::new("unisono/count", 1);
        digest.digest(&outgoing.key.prefix).bytes(&call.body[1]);
        let digest = digest.finish();
        if let Some(known) = self.with_counts(|counts| counts.get(&digest)) {
            return Ok(Some(known));
        }
        match self.transport.count(call).await {
            Ok(tokens) => {
                self.with_counts(|counts| counts.insert(digest, tokens));
                self.learn(&outgoing, guess, tokens).await;
                Ok(Some(tokens))
            }
            // A server without the dialect's count endpoint.
            Err(error) if matches!(error.class, Class::UnknownModel | Class::BadRequest) => {
                tracing::debug!(%error, "the provider does not count");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn with_counts<R>(&self, act: impl FnOnce(&mut Recent<Digest, Tokens>) -> R) -> R {
        act(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Transport> LanguageModel for Remote<T> {
    fn render(&self, shared: &Shared<'_>) -> Prefix {
        Prefix::new(self.transport.dialect().head(&Head {
            model: &self.model,
            shared: *shared,
            breakpoints: self.entry.breakpoints,
            structured: self.entry.structured,
            accepts: self.entry.accepts,
        }))
    }

    fn complete(&self, request: Request) -> Completion<'_> {
        Box::pin(own_label::without_own_label(request, |request| {
            self.ask(request)
        }))
    }

    fn body(&self, request: &Request) -> Option<[Bytes; 2]> {
        Some([
            request.prefix.bytes().clone(),
            self.tail(request, Mode::Stream),
        ])
    }

    fn accepts(&self) -> Accepts {
        self.entry.accepts
    }

    fn worst_cost(&self, input: Tokens, output: Tokens) -> Option<Cost> {
        self.entry.prices_for(input).worst(input, output)
    }

    fn fit(&self, request: Request) -> Fitting<'_> {
        Box::pin(self.fitted(request))
    }

    fn count(&self, request: Request) -> Counting<'_> {
        Box::pin(self.ask_for_count(request))
    }
}

/// Whether a reply is used for calibration, after `known` samples and as number `asked` of all.
const fn is_sample(known: u32, asked: u32) -> bool {
    known < SAMPLES || asked.is_multiple_of(SAMPLES)
}

/// The smallest maximum output that a provider accepts: OpenAI documents 16 tokens for Responses.
const fn min_output(dialect: Dialect) -> Tokens {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Tokens(16),
        Dialect::Anthropic | Dialect::Gemini => Tokens(1),
    }
}

#[cfg(test)]
mod tests;
