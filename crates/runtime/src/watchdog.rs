//! Detects attempts that make no progress for too long: they are stuck.
//!
//! Progress is a step, a part of a reply, or a progress report. The watchdog is paused while the
//! attempt waits for something with its own limit: other agents, tools, a model that has not begun
//! to reply, its budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limit::{Limit, Pause};

/// A watchdog. Clones belong to the same attempt.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    limit: Limit,
    signs: Arc<AtomicU64>,
}

impl Watchdog {
    /// A watchdog that starts when it is first awaited.
    pub(crate) fn new() -> Watchdog {
        Watchdog {
            limit: Limit::new(),
            signs: Arc::default(),
        }
    }

    pub(crate) fn renew(&self) {
        self.signs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn pause(&self) -> Pause {
        self.renew();
        self.limit.pause()
    }

    /// Completes after this time without progress, pauses not counted, and before twice that time.
    pub(crate) async fn expired(&self, length: Duration) {
        loop {
            let before = self.signs.load(Ordering::Relaxed);
            self.limit.exceeded(length).await;
            if self.signs.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Events that keep an attempt alive.

    use tokio::time::{Instant, sleep};

    use super::*;

    const LEASE: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn progress_and_pauses_prevent_expiry() {
        let watchdog = Watchdog::new();
        let started = Instant::now();
        let signs = async {
            for _ in 0..4 {
                sleep(LEASE / 4).await;
                watchdog.renew();
            }
            let waiting = watchdog.pause();
            sleep(LEASE * 3).await;
            drop(waiting);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = watchdog.expired(LEASE) => {}
            () = signs => {}
        }
        let kept = LEASE + LEASE * 3;
        assert!(started.elapsed() >= kept, "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn a_watchdog_expires_without_progress() {
        let started = Instant::now();
        Watchdog::new().expired(LEASE).await;
        assert!(started.elapsed() >= LEASE);
    }
}
