//! Traces for OpenTelemetry: committed events of sessions become spans, which its SDK sends by OTLP
//! over HTTP as JSON.
//!
//! Spans are made only from events on disk, so they delay nothing: if the receiver is slow or
//! unreachable, spans are dropped with a warning. They never contain text of conversations.

mod span;
mod spans;

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use unisono_context::SessionId;
use unisono_model::client::Connections;
use unisono_runtime::Observer;
use unisono_store::Journal;

use self::spans::Spans;
use crate::history;
use unisono_config::setup::Setup;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum waiting spans; more are dropped.
const WAITING: usize = 8_192;
/// Maximum spans of one request.
const TOGETHER: usize = 512;
/// Maximum time that a span waits for others.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum repetitions of a request, and the pause before the first one; it doubles.
const AGAIN: usize = 2;
const PAUSE: Duration = Duration::from_secs(1);
/// The deadline of a request, including repetitions.
const WITHIN: Duration = Duration::from_secs(10);
/// The time for which the end of the program waits for the receiver.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Sends spans while it exists.
#[derive(Debug)]
pub(crate) struct Exporter {
    processor: Arc<BatchSpanProcessor>,
    folded: Arc<Mutex<Spans>>,
    /// Sessions with turns that another process left open, and that were not opened since.
    cut: tokio::sync::Mutex<BTreeSet<SessionId>>,
    /// Ends current requests when it is dropped.
    _alive: watch::Sender<()>,
}

impl Exporter {
    /// An exporter to the configured receiver, `/v1/traces` below its address; none without a
    /// receiver.
    pub(crate) fn from_setup(setup: &Setup) -> Option<Exporter> {
        let endpoint = &setup.loaded.config.telemetry.otlp_endpoint;
        if endpoint.is_empty() {
            return None;
        }
        let (_alive, alive) = watch::channel(());
        // An invalid receiver already prevents a setup from being read.
        let processor = processor(endpoint, alive);
        let processor =
            processor.inspect_err(|error| tracing::error!(%error, "no traces are sent"));
        Some(Exporter {
            processor: Arc::new(processor.ok()?),
            folded: Arc::default(),
            cut: tokio::sync::Mutex::default(),
            _alive,
        })
    }

    /// Makes spans from observed events.
    pub(crate) fn observer(&self) -> Observer {
        let (folded, processor) = (self.folded.clone(), self.processor.clone());
        Observer::new(move |session, events| {
            let mut folded = folded.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                for span in folded.take(session, event) {
                    processor.on_end(span);
                }
            }
        })
    }

    /// Records the sessions with turns that another process left open, before any is opened.
    pub(crate) async fn note_cut(&self, journal: &Journal) {
        match journal.unfinished().await {
            Ok(unfinished) => self.cut.lock().await.extend(unfinished),
            Err(error) => {
                tracing::warn!(%error, "interrupted turns have no spans");
            }
        }
    }

    /// Takes the open spans of a session from its journal before it is opened, once. Nobody opens
    /// it meanwhile.
    pub(crate) async fn recall(&self, journal: &Journal, session: SessionId) {
        let mut cut = self.cut.lock().await;
        if !cut.contains(&session) {
            return;
        }
        let mut left = Spans::default();
        let read = history::read(journal, session, |event| {
            left.take(session, event);
            Ok::<_, history::Error>(true)
        });
        match read.await {
            Ok(()) => {
                let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
                folded.recall(left);
            }
            Err(error) => tracing::warn!(%session, %error, "interrupted turns have no spans"),
        }
        cut.remove(&session);
    }

    /// Sends the waiting spans, and ends.
    pub(crate) async fn close(self) {
        let processor = self.processor.clone();
        let ended = move || processor.shutdown_with_timeout(LAST_WITHIN);
        if !matches!(tokio::task::spawn_blocking(ended).await, Ok(Ok(()))) {
            tracing::warn!("the last spans were not sent: their receiver takes too long");
        }
    }
}

/// The processor that batches spans and sends them, on its own thread.
fn processor(endpoint: &str, alive: watch::Receiver<()>) -> Result<BatchSpanProcessor, String> {
    let (address, connections) = unisono_config::telemetry::receiver(endpoint)?;
    let broken = Arc::default();
    let receiver = Receiver {
        connections,
        broken: Arc::clone(&broken),
    };
    let retries = RetryPolicy::recommended()
        .with_max_retries(AGAIN)
        .with_initial_delay(PAUSE)
        .with_max_delay(PAUSE * 2);
    let otlp = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(receiver)
        .with_endpoint(address.to_string())
        .with_protocol(Protocol::HttpJson)
        .with_timeout(WITHIN)
        .with_retry_policy(retries);
    let mut otlp = otlp.build().map_err(|error| error.to_string())?;
    let resource = Resource::builder_empty()
        .with_service_name("unisono")
        .with_attribute(KeyValue::new("service.version", VERSION));
    otlp.set_resource(&resource.build());
    let sender = Sender {
        otlp: Arc::new(otlp),
        broken,
        runtime: Handle::current(),
        alive,
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(WAITING)
        .with_max_export_batch_size(TOGETHER)
        .with_scheduled_delay(EVERY);
    let processor = BatchSpanProcessor::builder(sender).with_batch_config(batches.build());
    Ok(processor.build())
}

/// The exporter of the SDK, on the runtime that connections need.
#[derive(Debug)]
struct Sender {
    otlp: Arc<opentelemetry_otlp::SpanExporter>,
    broken: Arc<Mutex<Option<String>>>,
    runtime: Handle,
    alive: watch::Receiver<()>,
}

impl SpanExporter for Sender {
    /// Spans that cannot be sent are dropped. This is logged here, and need not be logged again.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (spans, otlp, mut alive) = (batch.len(), self.otlp.clone(), self.alive.clone());
        let sent = self.runtime.spawn(async move {
            tokio::select! {
                sent = otlp.export(batch) => sent,
                () = tokio::time::sleep(WITHIN) => Err(OTelSdkError::Timeout(WITHIN)),
                _ = alive.changed() => Err(OTelSdkError::AlreadyShutdown),
            }
        });
        let sent = sent.await.map_err(|error| error.to_string());
        if let Err(reason) = sent.and_then(|sent| sent.map_err(|error| error.to_string())) {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            let reason = broken.take().unwrap_or(reason);
            tracing::warn!(spans, %reason, "spans were not taken and are dropped");
        }
        Ok(())
    }
}

/// Connections that keep the reason why the newest request had no answer: the SDK reports all of
/// them as a network error.
#[derive(Debug)]
struct Receiver {
    connections: Connections,
    broken: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl HttpClient for Receiver {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.connections.send_bytes(request).await;
        let root = |error: &HttpError| {
            let error: &(dyn Error + 'static) = &**error;
            let root = std::iter::successors(Some(error), |error| (*error).source()).last();
            root.map(ToString::to_string)
        };
        let broken = answer.as_ref().err().and_then(root);
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = broken;
        answer
    }
}
