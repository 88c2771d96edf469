//! Whether an attempt makes progress: one that makes none for longer than its time is stuck.
//!
//! Progress is a step, a piece of a reply, a word of the agent's own. The watchdog does not run while
//! the attempt waits for what has limits of its own: other agents, tools, a model that has not
//! begun to reply, its budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limit::{Limit, Pause};

/// A watchdog. Clones are of the same attempt.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    limit: Limit,
    signs: Arc<AtomicU64>,
}

impl Watchdog {
    /// One that runs from the time it is watched.
    pub(crate) fn new() -> Watchdog {
        Watchdog {
            limit: Limit::new(),
            signs: Arc::default(),
        }
    }

    /// The attempt gives a sign of life.
    pub(crate) fn renew(&self) {
        self.signs.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops it while the attempt waits for something.
    pub(crate) fn pause(&self) -> Pause {
        self.renew();
        self.limit.pause()
    }

    /// Done when there was no sign for so long, pauses aside, and before twice as long.
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
    //! What keeps a lease.

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
