//! Writers that append and wait until it is on disk, and how many appends one side makes.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unisono_store::{Append, Engine, SessionId};

use crate::{Samples, time};

/// Bytes of an event.
pub const EVENT_BYTES: usize = 1_024;

/// Appends one event and returns when it is on disk.
pub trait Writer: Send + 'static {
    /// Appends the next event.
    fn append(&mut self) -> impl Future<Output = ()> + Send;
}

/// One session of a store.
pub struct Session {
    engine: Arc<dyn Engine>,
    id: SessionId,
    epoch: u64,
    /// Its last event.
    pub last: u64,
}

impl Session {
    /// Claims so many sessions.
    pub async fn claim(engine: &Arc<dyn Engine>, many: u128) -> Vec<Session> {
        let mut sessions = Vec::new();
        for n in 1..=many {
            let id = SessionId::from_u128(n);
            let claim = engine.claim(id).await.unwrap();
            sessions.push(Session {
                engine: engine.clone(),
                id,
                epoch: claim.epoch,
                last: claim.last_seq,
            });
        }
        sessions
    }
}

impl Writer for Session {
    async fn append(&mut self) {
        let append = Append {
            session: self.id,
            epoch: self.epoch,
            expected_seq: self.last,
            payloads: vec![vec![self.last as u8; EVENT_BYTES]],
        };
        self.last = self.engine.append(append).await.unwrap();
    }
}

/// What one side has done.
#[derive(Default)]
pub struct Side {
    /// How long each append took.
    pub latencies: Samples,
    busy: Duration,
    /// Appends a second, of each slice.
    pub rates: Vec<f64>,
}

impl Side {
    /// Lets all writers append for a slice; what they began is finished.
    pub async fn work<W: Writer>(&mut self, slice: Duration, writers: Vec<W>) -> Vec<W> {
        let start = Instant::now();
        let working: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while start.elapsed() < slice {
                        let sent = Instant::now();
                        writer.append().await;
                        latencies.push(sent.elapsed());
                    }
                    (writer, latencies)
                })
            })
            .collect();
        let (mut back, mut appends) = (Vec::new(), 0);
        for one in working {
            let (writer, latencies) = one.await.unwrap();
            appends += latencies.len();
            self.latencies.extend(latencies);
            back.push(writer);
        }
        self.busy += start.elapsed();
        self.rates
            .push(appends as f64 / start.elapsed().as_secs_f64());
        back
    }

    /// Appends a second, over all slices.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.busy.as_secs_f64()
    }

    /// Rate, median and 99th percentile, for people.
    pub fn shown(&self) -> String {
        format!(
            "{:.0}/s, p50 {}, p99 {}",
            self.rate(),
            time(self.latencies.median()),
            time(self.latencies.at(0.99))
        )
    }
}
