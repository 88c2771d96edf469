//! Limits of active runs, of a turn, a session and the daemon: permits in addition to that of the
//! agent's own pool.
//!
//! Sessions are served in turn, independently of their agents. An attempt that waits for others
//! yields its permit and reacquires it before it continues.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use unisono_context::{SessionId, TurnId};

use crate::fair_queue::{Admission, FairQueue};
use crate::load::GaugePart;

/// A number of permits; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimit(Arc<Mutex<FairQueue<oneshot::Sender<Permit>>>>);

/// A permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Option<ConcurrencyLimit>);

impl ConcurrencyLimit {
    /// A limit with this number of permits.
    pub(crate) fn new(places: usize) -> ConcurrencyLimit {
        // The pools limit the number of waiting runs.
        ConcurrencyLimit(Arc::new(Mutex::new(FairQueue::new(
            places,
            usize::MAX,
            GaugePart::default(),
        ))))
    }

    pub(crate) async fn enter(&self, session: SessionId) -> Permit {
        let (free, permit) = oneshot::channel();
        let offered = self.fair_queue().offer(session, free);
        self.entered(matches!(offered, Admission::Start(_)), permit)
            .await
    }

    /// Waits for a yielded permit, before runs that never had one.
    pub(crate) async fn reenter(&self) -> Permit {
        let (free, place) = oneshot::channel();
        let started = self.fair_queue().reacquire(free).is_some();
        self.entered(started, place).await
    }

    async fn entered(&self, at_once: bool, permit: oneshot::Receiver<Permit>) -> Permit {
        if at_once {
            return Permit(Some(self.clone()));
        }
        // Running attempts pass their permits on; the queue lives as long as this limit.
        let received = permit.await;
        received.unwrap_or_else(|_| Permit(Some(self.clone())))
    }

    fn fair_queue(&self) -> MutexGuard<'_, FairQueue<oneshot::Sender<Permit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(concurrency) = self.0.take() else {
            return;
        };
        loop {
            let next = concurrency.fair_queue().done();
            let Some(next) = next else { return };
            match next.send(Permit(Some(concurrency.clone()))) {
                Ok(()) => return,
                // It has stopped waiting: the next one gets the permit.
                Err(mut permit) => drop(permit.0.take()),
            }
        }
    }
}

/// The permits of a run, which it yields while it waits for others. Clones belong to the same run;
/// without limits it needs no permit.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunPermits(Arc<Mutex<OwnPermits>>);

#[derive(Debug, Default)]
struct OwnPermits {
    held: Vec<Permit>,
    yielded: Vec<ConcurrencyLimit>,
    /// The number of things that the run waits for.
    waits: u32,
}

impl RunPermits {
    /// Acquires a permit of each limit, in order.
    pub(crate) async fn begin(&self, concurrency_limits: &[ConcurrencyLimit], session: SessionId) {
        for concurrency in concurrency_limits {
            let permit = concurrency.enter(session).await;
            self.permits().held.push(permit);
        }
    }

    /// Yields the permits while the run waits for something, besides what it waits for already.
    pub(crate) fn yield_permits(&self) {
        let mut own = self.permits();
        own.waits += 1;
        let permits = std::mem::take(&mut own.held);
        let limits = permits.iter().filter_map(|permit| permit.0.clone());
        own.yielded.extend(limits);
        drop(own);
        // They pass to other runs.
        drop(permits);
    }

    /// Acquires the permits again, unless the run still waits for something else.
    pub(crate) async fn reacquire(&self) {
        for concurrency in self.end_wait() {
            let permit = concurrency.reenter().await;
            self.keep(concurrency, permit);
        }
    }

    /// Keeps a permit, unless the run waits for something else since then.
    fn keep(&self, concurrency: ConcurrencyLimit, permit: Permit) {
        let mut own = self.permits();
        if own.waits == 0 {
            own.held.push(permit);
            return;
        }
        own.yielded.push(concurrency);
        drop(own);
        // It passes to another run.
        drop(permit);
    }

    /// The limits whose permits the run needs again.
    fn end_wait(&self) -> Vec<ConcurrencyLimit> {
        let mut own = self.permits();
        own.waits = own.waits.saturating_sub(1);
        match own.waits {
            0 => std::mem::take(&mut own.yielded),
            _ => Vec::new(),
        }
    }

    fn permits(&self) -> MutexGuard<'_, OwnPermits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximum numbers of active runs; none: limited only by the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveRuns {
    /// Of all sessions.
    pub daemon: Option<usize>,
    /// Of each session.
    pub session: Option<usize>,
    /// Of each turn.
    pub turn: Option<usize>,
}

/// The concurrency limits of a session and its open turns. An attempt acquires these permits before
/// it waits in its agent's pool, so that it does not block others there.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyLimits {
    session: Option<ConcurrencyLimit>,
    turns: HashMap<TurnId, ConcurrencyLimit>,
}

impl ConcurrencyLimits {
    /// The limits for an attempt of a turn, in order of acquisition.
    pub(crate) fn for_turn(&mut self, turn: TurnId, most: LiveRuns) -> Vec<ConcurrencyLimit> {
        let of_turn = most.turn.map(|most| {
            let concurrency = self
                .turns
                .entry(turn)
                .or_insert_with(|| ConcurrencyLimit::new(most));
            concurrency.clone()
        });
        let session = &mut self.session;
        let of_session = most.session.map(|most| {
            session
                .get_or_insert_with(|| ConcurrencyLimit::new(most))
                .clone()
        });
        of_turn.into_iter().chain(of_session).collect()
    }

    pub(crate) fn turn_ended(&mut self, turn: TurnId) {
        self.turns.remove(&turn);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use tokio::task::JoinSet;

    use super::*;

    const A: SessionId = SessionId::from_u128(1);
    const B: SessionId = SessionId::from_u128(2);

    #[tokio::test]
    async fn a_flood_of_one_session_lets_another_one_in_between() {
        let concurrency = ConcurrencyLimit::new(1);
        let first = concurrency.enter(A).await;
        let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
        let enter = |of: SessionId, name: &'static str| {
            let (concurrency, sender) = (concurrency.clone(), sender.clone());
            async move {
                let _permit = concurrency.enter(of).await;
                sender.send(name).unwrap();
            }
        };
        let mut all: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        for _ in 0..3 {
            all.push(Box::pin(enter(A, "flood")));
        }
        all.push(Box::pin(enter(B, "other")));
        let mut going = JoinSet::new();
        for mut one in all {
            assert!(polled_once(&mut one).await.is_none(), "it waits");
            going.spawn(one);
        }
        drop(first);
        while going.join_next().await.is_some() {}
        let mut names = Vec::new();
        order.recv_many(&mut names, 4).await;
        // The flood came first; the other session is second.
        assert_eq!(names, ["flood", "other", "flood", "flood"]);
    }

    async fn polled_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn a_run_that_waits_twice_needs_its_permit_after_both() {
        let concurrency = ConcurrencyLimit::new(1);
        let run = RunPermits::default();
        run.begin(std::slice::from_ref(&concurrency), A).await;
        run.yield_permits();
        run.yield_permits();
        run.reacquire().await;
        let other = polled_once(&mut Box::pin(concurrency.enter(B))).await;
        let other = other.expect("the permit is free while the run still waits");
        let mut back = Box::pin(run.reacquire());
        assert!(polled_once(&mut back).await.is_none(), "it is taken");
        drop(other);
        back.await;
        let mut next = Box::pin(concurrency.enter(B));
        assert!(polled_once(&mut next).await.is_none(), "the run has it");
        run.yield_permits();
        drop(next.await);
    }

    #[tokio::test]
    async fn a_run_that_waits_again_before_it_has_its_permit_takes_none() {
        let concurrency = ConcurrencyLimit::new(1);
        let run = RunPermits::default();
        run.begin(std::slice::from_ref(&concurrency), A).await;
        run.yield_permits();
        let other = concurrency.enter(B).await;
        let mut back = Box::pin(run.reacquire());
        assert!(polled_once(&mut back).await.is_none(), "it is taken");
        run.yield_permits();
        drop(other);
        back.await;
        let next = polled_once(&mut Box::pin(concurrency.enter(B))).await;
        drop(next.expect("the permit is free while the run waits"));
        run.reacquire().await;
        let mut next = Box::pin(concurrency.enter(B));
        assert!(polled_once(&mut next).await.is_none(), "the run has it");
    }

    #[tokio::test]
    async fn who_stops_waiting_takes_no_place() {
        let concurrency = ConcurrencyLimit::new(1);
        let first = concurrency.enter(A).await;
        let mut gone = Box::pin(concurrency.enter(A));
        assert!(polled_once(&mut gone).await.is_none());
        drop(gone);
        drop(first);
        let again = concurrency.enter(B).await;
        drop(again);
        drop(concurrency.reenter().await);
    }
}
