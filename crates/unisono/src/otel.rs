//! Traces for OpenTelemetry: what sessions commit becomes spans, which are sent by OTLP over HTTP as
//! JSON.
//!
//! Spans are made of what is on disk and of nothing else, so they hold up nothing: where the
//! receiver is slow or away, spans are dropped and counted. Texts are never in them.

mod span;
mod spans;
mod wire;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use unisono_context::SessionId;
use unisono_model::client::Post;
use unisono_runtime::{Observer, clock};
use unisono_store::Journal;

use self::span::Span;
use self::spans::Spans;
use crate::history;
use unisono_config::setup::Setup;

/// Spans that wait to be sent; more are dropped.
const WAITING: usize = 8_192;
/// Spans of one request.
const TOGETHER: usize = 512;
/// How long a span waits for others.
const EVERY: Duration = Duration::from_secs(1);
/// Attempts to send spans, and the pause after the first that failed; it doubles.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end of the program waits for the receiver.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Sends spans while it lives.
#[derive(Debug)]
pub(crate) struct Exporter {
    spans: mpsc::Sender<Span>,
    folded: Arc<Mutex<Spans>>,
    /// Sessions that were left in the middle of their work, and were not opened since.
    cut: tokio::sync::Mutex<BTreeSet<SessionId>>,
    stop: Option<oneshot::Sender<()>>,
    sending: JoinHandle<()>,
}

impl Exporter {
    /// To the receiver that is configured, `/v1/traces` below its address; none where none is.
    pub(crate) fn of(setup: &Setup) -> Option<Exporter> {
        let endpoint = &setup.loaded.config.telemetry.otlp_endpoint;
        if endpoint.is_empty() {
            return None;
        }
        // What is wrong with it keeps a setup from being read.
        let post = unisono_config::telemetry::receiver(endpoint);
        let post = post.inspect_err(|error| tracing::error!(%error, "no traces are sent"));
        let (spans, waiting) = mpsc::channel(WAITING);
        let (stop, stopping) = oneshot::channel();
        Some(Exporter {
            spans,
            folded: Arc::default(),
            cut: tokio::sync::Mutex::default(),
            stop: Some(stop),
            sending: tokio::spawn(send(post.ok()?, waiting, stopping)),
        })
    }

    /// Makes spans of what it is told.
    pub(crate) fn observer(&self) -> Observer {
        let (folded, spans) = (self.folded.clone(), self.spans.clone());
        Observer::new(move |session, events| {
            let mut folded = folded.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                for span in folded.take(session, event) {
                    if spans.try_send(span).is_err() {
                        folded.dropped += 1;
                    }
                }
            }
        })
    }

    /// Takes note of the sessions that another process left in the middle of their work, before any
    /// is opened.
    pub(crate) async fn note_cut(&self, journal: &Journal) {
        match journal.unfinished().await {
            Ok(unfinished) => self.cut.lock().await.extend(unfinished),
            Err(error) => {
                tracing::warn!(%error, "turns that a restart cut are no spans");
            }
        }
    }

    /// Takes what is open in a session that is about to be opened from its journal, once. Nobody
    /// opens it meanwhile.
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
            Err(error) => tracing::warn!(%session, %error, "its open turns are no spans"),
        }
        cut.remove(&session);
    }

    /// Sends what waits, and ends.
    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        if tokio::time::timeout(LAST_WITHIN, &mut self.sending)
            .await
            .is_err()
        {
            tracing::warn!("the last spans were not sent: their receiver takes too long");
            self.sending.abort();
        }
        let folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        if folded.dropped > 0 {
            tracing::warn!(
                dropped = folded.dropped,
                "spans were dropped: their receiver is too slow"
            );
        }
    }
}

/// Sends spans together until the program stops and none are left.
async fn send(post: Post, mut waiting: mpsc::Receiver<Span>, mut stop: oneshot::Receiver<()>) {
    let mut together = Vec::with_capacity(TOGETHER);
    let mut stopping = false;
    while !stopping {
        // The first one decides how long others are waited for.
        let more = async {
            waiting.recv_many(&mut together, TOGETHER).await;
            tokio::time::sleep(EVERY).await;
        };
        tokio::select! {
            () = more => {}
            _ = &mut stop => stopping = true,
        }
        loop {
            while together.len() < TOGETHER
                && let Ok(span) = waiting.try_recv()
            {
                together.push(span);
            }
            if together.is_empty() {
                break;
            }
            give(&post, &together).await;
            together.clear();
        }
    }
}

/// Sends some spans; what cannot be sent is dropped.
async fn give(post: &Post, spans: &[Span]) {
    let body = wire::request(spans);
    let key = format!("{:032x}", clock::new_id());
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        match post
            .send([body.clone().into(), Vec::new().into()], &key)
            .await
        {
            Ok(_) => return,
            Err(failure) if attempt == ATTEMPTS || !failure.class.is_transient() => {
                let reason = failure.reason;
                tracing::warn!(spans = spans.len(), %reason, "spans were not taken and are dropped");
                return;
            }
            Err(failure) => tracing::debug!(reason = %failure.reason, "spans are sent again"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}
