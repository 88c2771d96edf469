//! What an attempt gives up while it waits for others, and takes back before it goes on.

use std::future::Future;

use tokio::sync::watch;

use crate::gate::Stay;
use crate::lease::Lease;
use crate::limit::Limit;
use crate::pool::Place;

/// What an attempt gives up while it waits for other agents: its time does not run, and its
/// place in the pool is another one's.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(super) limit: Limit,
    pub(super) lease: Lease,
    /// Its places among the runs of its turn and its session.
    own: Stay,
    place: Option<Place>,
    /// Its place among all runs at work.
    stay: Stay,
}

impl Waiting {
    pub(crate) fn new(
        limit: Limit,
        lease: Lease,
        place: Option<Place>,
        (own, stay): (Stay, Stay),
    ) -> Waiting {
        Waiting {
            limit,
            lease,
            own,
            place,
            stay,
        }
    }

    /// Waits for work that others do; gives up what it holds only while that says so.
    pub(super) async fn while_held<T>(
        &self,
        mut held: watch::Receiver<bool>,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = becomes(&mut held, true) => {}
            }
            let ended = async {
                tokio::select! {
                    biased;
                    result = &mut work => Some(result),
                    () = becomes(&mut held, false) => None,
                }
            };
            if let Some(result) = self.while_waiting(ended).await {
                return result;
            }
        }
    }

    pub(super) async fn while_waiting<T>(&self, others: impl Future<Output = T>) -> T {
        let _pauses = (self.limit.pause(), self.lease.pause());
        if let Some(place) = &self.place {
            place.lend();
        }
        let (own, all) = (self.own.leave(), self.stay.leave());
        let result = others.await;
        // In the order in which it had them first: who waits for one holds none that comes later.
        self.own.go_on(own).await;
        if let Some(place) = &self.place {
            place.take_back().await;
        }
        self.stay.go_on(all).await;
        result
    }
}

/// Waits until the value is that; for ever where nobody tells any more.
async fn becomes(told: &mut watch::Receiver<bool>, wanted: bool) {
    let gone = told.wait_for(|now| *now == wanted).await.is_err();
    if gone {
        std::future::pending().await
    }
}
