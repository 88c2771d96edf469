//! An engine that keeps a record of what is appended through it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use unisono_store::{Append, Engine, EngineFuture, SessionId};

/// One append: a group commit of its own when nobody else writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Bytes of each payload.
    pub payloads: Vec<usize>,
    /// From the call to the answer.
    pub took: Duration,
}

/// Passes everything on to the engine below.
pub struct Counting {
    engine: Arc<dyn Engine>,
    appended: Mutex<Vec<Appended>>,
}

impl Counting {
    /// Keeps a record of what reaches `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Counting {
        let appended = Mutex::default();
        Counting { engine, appended }
    }

    /// What was appended since this was last asked.
    pub fn take(&self) -> Vec<Appended> {
        let appended = self.appended.lock();
        std::mem::take(&mut *appended.unwrap_or_else(PoisonError::into_inner))
    }
}

/// A second session, in which commits are made again by themselves.
pub struct Beside {
    engine: Arc<dyn Engine>,
    epoch: u64,
    last: u64,
}

impl Beside {
    const SESSION: SessionId = SessionId::from_u128(u128::MAX);

    /// Takes the session of an engine that has none like it.
    pub async fn new(engine: Arc<dyn Engine>) -> Beside {
        let claim = engine.claim(Beside::SESSION).await;
        Beside {
            engine,
            epoch: claim.expect("a free session").epoch,
            last: 0,
        }
    }

    /// Makes the same commits one after the other, and says how long they took.
    pub async fn repeat(&mut self, appended: &[Appended]) -> Duration {
        let start = Instant::now();
        for one in appended {
            let payloads = one.payloads.iter().map(|bytes| vec![7; *bytes]);
            let append = Append::new(Beside::SESSION, self.epoch, self.last, payloads.collect());
            let appended = self.engine.append(append).await;
            self.last = appended.expect("nobody else writes to it");
        }
        start.elapsed()
    }
}

impl Engine for Counting {
    unisono_store::forward_engine!(
        engine: claim, read, put_checkpoint, latest_checkpoint, session, sessions, delete_session,
        health, close
    );

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let payloads = append.payloads.iter().map(Vec::len).collect();
            let start = Instant::now();
            let answer = self.engine.append(append).await;
            let took = start.elapsed();
            let appended = self.appended.lock();
            let mut appended = appended.unwrap_or_else(PoisonError::into_inner);
            appended.push(Appended { payloads, took });
            answer
        })
    }
}
