//! The resources that an attempt yields while it waits for others.

use std::future::Future;

use tokio::sync::watch;

use crate::concurrency::RunPermits;
use crate::limit::Limit;
use crate::pool_port::PoolPermit;
use crate::watchdog::Watchdog;

/// The resources that an attempt yields while it waits for other agents: its time limit is paused,
/// and its permit is free for another attempt.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(super) limit: Limit,
    pub(super) watchdog: Watchdog,
    /// Its permits among the runs of its turn and its session.
    turn_permits: RunPermits,
    place: Option<PoolPermit>,
    /// Its permit among all active runs.
    permits: RunPermits,
}

impl Waiting {
    pub(crate) fn new(
        limit: Limit,
        watchdog: Watchdog,
        place: Option<PoolPermit>,
        (own, permits): (RunPermits, RunPermits),
    ) -> Waiting {
        Waiting {
            limit,
            watchdog,
            turn_permits: own,
            place,
            permits,
        }
    }

    /// Waits for other work; yields its resources only while the watch channel says so.
    pub(super) async fn while_yielded<T>(
        &self,
        mut held: watch::Receiver<bool>,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = wait_until(&mut held, true) => {}
            }
            let ended = async {
                tokio::select! {
                    biased;
                    result = &mut work => Some(result),
                    () = wait_until(&mut held, false) => None,
                }
            };
            if let Some(result) = self.while_waiting(ended).await {
                return result;
            }
        }
    }

    /// Waits for other work; several waits may overlap.
    pub(super) async fn while_waiting<T>(&self, others: impl Future<Output = T>) -> T {
        let _pauses = (self.limit.pause(), self.watchdog.pause());
        if let Some(place) = &self.place {
            place.yield_permit();
        }
        self.turn_permits.yield_permits();
        self.permits.yield_permits();
        let result = others.await;
        // In the order of the first acquisition: a waiting run holds no later permit.
        self.turn_permits.reacquire().await;
        if let Some(place) = &self.place {
            place.reacquire().await;
        }
        self.permits.reacquire().await;
        result
    }
}

/// Waits until the value equals `wanted`; forever if the sender is gone.
async fn wait_until(values: &mut watch::Receiver<bool>, wanted: bool) {
    let gone = values.wait_for(|now| *now == wanted).await.is_err();
    if gone {
        std::future::pending().await
    }
}
