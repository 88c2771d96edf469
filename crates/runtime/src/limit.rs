//! The time limit of an attempt: it does not run while the agent waits for others, who have
//! limits of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A limit that can be paused. Clones are of the same limit.
#[derive(Clone, Debug)]
pub(crate) struct Limit(Arc<watch::Sender<u32>>);

/// Pauses a limit until it is dropped. Several may be held at once.
#[derive(Debug)]
pub(crate) struct Pause(Arc<watch::Sender<u32>>);

impl Limit {
    /// A limit that is not paused.
    pub(crate) fn new() -> Limit {
        Limit(Arc::new(watch::Sender::new(0)))
    }

    /// Stops the time.
    pub(crate) fn pause(&self) -> Pause {
        self.0.send_modify(|pauses| *pauses += 1);
        Pause(self.0.clone())
    }

    /// Done when so much time has passed since it was asked, pauses aside.
    pub(crate) async fn exceeded(&self, limit: Duration) {
        let (mut left, mut pauses) = (limit, self.0.subscribe());
        loop {
            // The sender lives as long as this limit does.
            let _ = pauses.wait_for(|pauses| *pauses == 0).await;
            let started = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = pauses.wait_for(|pauses| *pauses > 0) => {
                    left = left.saturating_sub(started.elapsed());
                }
            }
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0
            .send_modify(|pauses| *pauses = pauses.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    //! Tests of what time counts.

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);
    const PAUSE: Duration = Duration::from_millis(80);

    #[tokio::test]
    async fn time_in_which_it_is_paused_does_not_count() {
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
    async fn without_a_pause_it_is_a_plain_limit() {
        let started = Instant::now();
        Limit::new().exceeded(LIMIT).await;
        assert!(started.elapsed() >= LIMIT);
    }
}
