//! An engine that stops at a chosen append, as the engine of a killed process would: what was
//! acknowledged before is kept, nothing after is, and nobody is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use unisono_store::{Append, Engine, EngineFuture};

/// Passes everything on until its events are used up.
pub struct Halting {
    engine: Arc<dyn Engine>,
    left: AtomicI64,
    halted: Arc<Notify>,
    closed: CancellationToken,
}

impl Halting {
    /// Stops before the append that would exceed `events`; `halted` is told.
    pub fn new(engine: Arc<dyn Engine>, events: i64, halted: Arc<Notify>) -> Halting {
        Halting {
            engine,
            left: AtomicI64::new(events),
            halted,
            closed: CancellationToken::new(),
        }
    }
}

impl Engine for Halting {
    unisono_store::forward_engine!(
        engine: claim, read, put_checkpoint, latest_checkpoint, session, sessions, delete_session,
        health
    );

    fn append(&self, mut append: Append) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let count = append.payloads.len() as i64;
            let left = self.left.fetch_sub(count, Ordering::SeqCst);
            if left >= count {
                return self.engine.append(append).await;
            }
            // The kill comes in the middle of this append: a first part of it may be on disk.
            append.payloads.truncate(left.max(0) as usize);
            if !append.payloads.is_empty() {
                self.engine.append(append).await?;
            }
            self.halted.notify_one();
            // Nobody is told, until nobody is left to be told.
            self.closed.cancelled().await;
            Err(unisono_store::Error::Closed)
        })
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.closed.cancel();
        self.engine.close()
    }
}
