//! A pool's port: what sessions and workers send to the pool of an agent, and the attempts that
//! pass through it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use unisono_context::AgentId;
use unisono_model::prompt::Prefix;
use unisono_session::Definition;
use unisono_session::assignment::RunAssignment;
use unisono_session::machine::AttemptEnd;
use unisono_session::run::RunCause;

use crate::address::ActorAddress;
use crate::concurrency::RunPermits;
use crate::fair_queue::FairQueue;
use crate::session_port::Port;

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) assignment: RunAssignment,
    pub(crate) prefix: Prefix,
    pub(crate) port: Port,
    pub(crate) cancelled: CancellationToken,
    /// Its permits among the runs of its turn and its session.
    pub(crate) turn_permits: RunPermits,
}

#[derive(Debug)]
pub(crate) enum Msg {
    /// Carry out an attempt.
    Dispatch(Job),
    /// An attempt has ended; its worker is free.
    Ended { ticket: Ticket, end: AttemptEnd },
    /// Attempts were cancelled: those in the queue leave it.
    Withdraw,
    /// An attempt waits for other agents and yields its permit.
    YieldPermit { ticket: Ticket },
    /// An attempt continues: reply when it has a permit again.
    ReacquirePermit {
        ticket: Ticket,
        reply: oneshot::Sender<()>,
    },
}

/// The number of a started attempt, unique in the pool, so that a late message of one attempt is
/// not mistaken for one of the next attempt of the same worker.
pub(crate) type Ticket = u64;

/// An attempt, and the receiver of its end.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) reply: AttemptReply,
}

impl Job {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.attempt.cancelled.is_cancelled()
    }

    /// Ends a cancelled attempt that has not started.
    pub(crate) fn end_cancelled(self) {
        self.reply.send(cancelled_end());
    }
}

pub(crate) fn cancelled_end() -> AttemptEnd {
    AttemptEnd::failed(RunCause::Timeout, "cancelled")
}

/// Receives the end of an attempt exactly once, also if the attempt is lost with its pool.
pub(crate) struct AttemptReply(Option<Box<dyn FnOnce(AttemptEnd) + Send>>);

impl AttemptReply {
    /// Calls this function, which must not block.
    pub(crate) fn new(callback: impl FnOnce(AttemptEnd) + Send + 'static) -> AttemptReply {
        AttemptReply(Some(Box::new(callback)))
    }

    pub(crate) fn send(mut self, end: AttemptEnd) {
        if let Some(callback) = self.0.take() {
            callback(end);
        }
    }
}

impl Drop for AttemptReply {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            let reason = "the agent's pool is not available, or was lost";
            callback(AttemptEnd::failed(RunCause::Panic, reason));
        }
    }
}

impl fmt::Debug for AttemptReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PoolPermit {
    pub(crate) pool: ActorRef<Msg>,
    pub(crate) ticket: Ticket,
}

impl PoolPermit {
    /// Yields the permit to another attempt. An attempt that ends without reacquiring it needs
    /// nothing else.
    pub(crate) fn yield_permit(&self) {
        let ticket = self.ticket;
        // Without its pool the worker ends.
        let _ = self.pool.send_message(Msg::YieldPermit { ticket });
    }

    pub(crate) async fn reacquire(&self) {
        let (reply, free) = oneshot::channel();
        let ticket = self.ticket;
        if self
            .pool
            .send_message(Msg::ReacquirePermit { ticket, reply })
            .is_ok()
        {
            // Without its pool the worker ends.
            let _ = free.await;
        }
    }
}

/// The fill level of a pool's queue, for callers that would add to it.
#[derive(Debug, Default)]
pub(crate) struct QueueGauge {
    /// The expected wait of a new attempt in milliseconds, if the queue is full; otherwise 0.
    full_for_ms: AtomicU64,
}

impl QueueGauge {
    pub(crate) fn set<T>(&self, fair_queue: &FairQueue<T>, bound: usize) {
        let wait = fair_queue.expected_wait().as_millis();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX).max(1);
        let full = fair_queue.queued() >= bound;
        self.full_for_ms
            .store(if full { wait } else { 0 }, Ordering::Relaxed);
    }

    /// The expected wait for a permit, if the queue is full.
    pub(crate) fn full_for(&self) -> Option<Duration> {
        let ms = self.full_for_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

/// The handle for sessions.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) address: ActorAddress<Msg>,
    pub(crate) gauge: Arc<QueueGauge>,
}

impl Handle {
    /// Carries out an attempt. An attempt that is lost with its worker or pool ends with
    /// [`RunCause::Panic`].
    pub(crate) fn dispatch(&self, attempt: Attempt, reply: AttemptReply) {
        let attempt = Box::new(attempt);
        let job = Msg::Dispatch(Job { attempt, reply });
        if let Err(job) = self.address.send_now(job) {
            let pool = self.clone();
            // A job that is not delivered is dropped with its reply.
            tokio::spawn(async move {
                let _ = pool.address.send(job).await;
            });
        }
    }

    /// Has cancelled attempts leave the queue.
    pub(crate) fn withdraw_cancelled(&self) {
        // A pool that is being restarted has no queue.
        let _ = self.address.send_now(Msg::Withdraw);
    }
}

/// An agent and its limit: a definition with another limit has another pool.
pub(crate) type Key = (AgentId, u32);

/// The started pools. A started pool stays; its address survives restarts of its actor.
#[derive(Debug, Default)]
pub(crate) struct Pools(RwLock<HashMap<Key, Handle>>);

impl Pools {
    /// The pool of an agent, if it is started.
    pub(crate) fn get(&self, definition: &Definition) -> Option<Handle> {
        let pools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pools.get(&key(definition)).cloned()
    }

    pub(crate) fn add(&self, key: Key, pool: Handle) {
        let mut pools = self.0.write().unwrap_or_else(PoisonError::into_inner);
        pools.insert(key, pool);
    }
}

/// The key of the pool for a definition's runs.
pub(crate) fn key(definition: &Definition) -> Key {
    (definition.id.clone(), definition.max_concurrent)
}
