//! The time limit of an attempt. It is paused while the agent waits for others, which have their
//! own limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A limit that can be paused. Clones share one limit.
#[derive(Clone, Debug)]
pub(crate) struct Limit(Arc<Inner>);

/// Pauses a limit until it is dropped. Several pauses may overlap.
#[derive(Debug)]
pub(crate) struct Pause(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    watch: Mutex<Stopwatch>,
    /// The last pause has ended. Only watchers that found the limit paused are woken.
    resumed: Notify,
}

/// A stopwatch with its total running time.
#[derive(Debug)]
struct Stopwatch {
    pauses: u32,
    /// The time of its last start, and its total before that.
    since: Instant,
    before: Duration,
}

impl Stopwatch {
    fn elapsed(&self) -> Duration {
        match self.pauses {
            0 => self.before + self.since.elapsed(),
            _ => self.before,
        }
    }
}

impl Limit {
    pub(crate) fn new() -> Limit {
        let watch = Mutex::new(Stopwatch {
            pauses: 0,
            since: Instant::now(),
            before: Duration::ZERO,
        });
        Limit(Arc::new(Inner {
            watch,
            resumed: Notify::new(),
        }))
    }

    pub(crate) fn pause(&self) -> Pause {
        let mut watch = self.0.watch();
        watch.before = watch.elapsed();
        watch.pauses += 1;
        drop(watch);
        Pause(self.0.clone())
    }

    /// Completes when this time has passed since the call, without pauses. A pause only postpones
    /// the end, so the limit is checked again at the earliest possible end.
    pub(crate) async fn exceeded(&self, limit: Duration) {
        let end = self.0.watch().elapsed().saturating_add(limit);
        loop {
            let (ran, paused) = {
                let watch = self.0.watch();
                (watch.elapsed(), watch.pauses > 0)
            };
            match end.saturating_sub(ran) {
                Duration::ZERO if !paused => return,
                _ if paused => self.0.resumed.notified().await,
                left => tokio::time::sleep(left).await,
            }
        }
    }
}

impl Inner {
    fn watch(&self) -> MutexGuard<'_, Stopwatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut watch = self.0.watch();
        watch.pauses = watch.pauses.saturating_sub(1);
        if watch.pauses == 0 {
            watch.since = Instant::now();
            drop(watch);
            self.0.resumed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    //! The time that counts.

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);
    const PAUSE: Duration = Duration::from_millis(80);

    #[tokio::test]
    async fn paused_time_does_not_count() {
        let limit = Limit::new();
        let started = Instant::now();
        let exceeded = limit.exceeded(LIMIT);
        tokio::pin!(exceeded);
        for _ in 0..2 {
            let (first, second) = (limit.pause(), limit.pause());
            drop(first);
            tokio::select! {
                biased;
                () = &mut exceeded => panic!("it went on while it was paused"),
                () = tokio::time::sleep(PAUSE) => {}
            }
            drop(second);
        }
        exceeded.await;
        assert!(started.elapsed() >= 2 * PAUSE + LIMIT);
    }

    #[tokio::test]
    async fn a_limit_without_pauses_is_a_plain_timeout() {
        let started = Instant::now();
        Limit::new().exceeded(LIMIT).await;
        assert!(started.elapsed() >= LIMIT);
    }
}
