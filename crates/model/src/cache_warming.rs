//! Cache-aware fan-out: of several requests with one prefix, one goes ahead, and the others start
//! when it has written the provider's cache.
//!
//! A provider reads a prefix from its cache only after a request with it has begun to answer. N
//! simultaneous requests all pay for the prefix. If one goes ahead, the others wait until its first
//! event and read the prefix from the cache. [`CacheWarmth`] is the gate that they pass; [`Table`]
//! decides.

mod serial;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub use serial::PrefixPermit;
use serial::SerialPrefixes;
pub use table::{Key, Table, Ticket, WarmingDecision, WarmingRequest};

/// The default time that requests wait for the leading request.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of remembered warm prefixes.
const CAPACITY: usize = 1_024;

/// The prefixes in the providers' caches. One for the whole program; cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheWarmth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    gate: Mutex<Gate>,
    serial: SerialPrefixes,
}

#[derive(Debug)]
struct Gate {
    table: Table,
    /// One for each prefix that is being warmed. Each waiting request holds a receiver and
    /// continues when the sender is dropped.
    signals: HashMap<Key, watch::Sender<()>>,
}

impl CacheWarmth {
    /// A gate at which a request waits at most `patience`.
    pub fn new(patience: Duration) -> CacheWarmth {
        CacheWarmth(Arc::new(Inner {
            started: Instant::now(),
            gate: Mutex::new(Gate {
                table: Table::new(patience, CAPACITY),
                signals: HashMap::new(),
            }),
            serial: SerialPrefixes::default(),
        }))
    }

    /// Sets whether the model's server has a separate cache per slot, so that requests with one
    /// prefix run one after the other.
    pub fn set_serial(&self, model: &Arc<str>, serial: bool) {
        self.0.serial.set_serial(model, serial);
    }

    /// Waits until no other request with this prefix is running, if its server has a cache per
    /// slot. `None` if the request need not wait.
    pub async fn prefix_permit(&self, key: &Key, warming: &WarmingRequest) -> Option<PrefixPermit> {
        match warming.may_wait() {
            true => self.0.serial.prefix_permit(key).await,
            false => None,
        }
    }

    /// Waits until the request may be sent. The leading request gets a guard, which it keeps until
    /// its reply is complete.
    pub async fn enter(&self, key: &Key, warming: &WarmingRequest) -> Option<Lead> {
        let (until, mut released) = match self.decide(key, warming) {
            GateDecision::Go => return None,
            GateDecision::Lead(lead) => return Some(lead),
            GateDecision::Wait(until, released) => (until, released),
        };
        // Nothing is ever sent: the wait ends when the sender is dropped, or at the deadline.
        match self.0.started.checked_add(until) {
            Some(deadline) => drop(timeout_at(deadline, released.changed()).await),
            None => drop(released.changed().await),
        }
        None
    }

    /// Whether the provider's cache has the prefix, to the best of our knowledge.
    pub fn is_warm(&self, key: &Key) -> bool {
        let now = self.now();
        self.gate().table.is_warm(key, now)
    }

    /// Records the first event of a request with this prefix, and releases all requests that wait
    /// for it. The prefix stays warm for `lifetime`.
    pub fn mark_warm(&self, key: &Key, lifetime: Duration) {
        let now = self.now();
        let mut gate = self.gate();
        gate.table.mark_warm(key, now, lifetime);
        gate.signals.remove(key);
    }

    fn decide(&self, key: &Key, warming: &WarmingRequest) -> GateDecision {
        let now = self.now();
        let mut gate = self.gate();
        match gate.table.enter(key, now, warming) {
            WarmingDecision::Go => GateDecision::Go,
            WarmingDecision::Lead(ticket) => {
                gate.signals.insert(key.clone(), watch::Sender::new(()));
                GateDecision::Lead(Lead {
                    warmth: self.clone(),
                    key: key.clone(),
                    ticket,
                })
            }
            WarmingDecision::Wait { until } => match gate.signals.get(key) {
                Some(signal) => GateDecision::Wait(until, signal.subscribe()),
                None => GateDecision::Go,
            },
        }
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.0.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CacheWarmth {
    fn default() -> CacheWarmth {
        CacheWarmth::new(DEFAULT_PATIENCE)
    }
}

enum GateDecision {
    Go,
    Lead(Lead),
    Wait(Duration, watch::Receiver<()>),
}

/// The right of the leading request. If it is dropped before its prefix is warm (the request failed
/// or was cancelled), all waiting requests are released.
#[derive(Debug)]
#[must_use = "dropping it releases the requests that wait"]
pub struct Lead {
    warmth: CacheWarmth,
    key: Key,
    ticket: Ticket,
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut gate = self.warmth.gate();
        if gate.table.release_leader(&self.key, self.ticket) {
            gate.signals.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
