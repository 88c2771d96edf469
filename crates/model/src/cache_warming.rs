//! Cache-aware fan-out: of several requests with one prefix, one goes ahead, and the others start
//! when it has written the provider's cache.
//!
//! A provider reads a prefix from its cache only after a request with it has begun to answer. N
//! simultaneous requests all pay for the prefix. If one goes ahead, the others wait until its first
//! event and read the prefix from the cache. [`CacheWarmth`] is the gate that they pass; [`Table`]
//! decides.

mod apart;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use apart::Apart;
pub use apart::Turn;
pub use table::{Asking, Entered, Key, Table, Ticket};

/// How long requests wait for the one that leads, where nothing else is said.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// How many warm prefixes are remembered.
const CAPACITY: usize = 1_024;

/// Which prefixes are in the providers' caches. One for the whole program; cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheWarmth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    gate: Mutex<Gate>,
    apart: Apart,
}

#[derive(Debug)]
struct Gate {
    table: Table,
    /// One for each prefix that is being warmed. Whoever waits holds a receiver: it is released
    /// when the sender is dropped.
    signals: HashMap<Key, watch::Sender<()>>,
}

impl CacheWarmth {
    /// A gate at which a request waits at most that long.
    pub fn new(patience: Duration) -> CacheWarmth {
        CacheWarmth(Arc::new(Inner {
            started: Instant::now(),
            gate: Mutex::new(Gate {
                table: Table::new(patience, CAPACITY),
                signals: HashMap::new(),
            }),
            apart: Apart::default(),
        }))
    }

    /// Whether the server of that model has a cache in each of its slots, so that requests with one
    /// prefix are to go one after the other.
    pub fn set_apart(&self, model: &Arc<str>, apart: bool) {
        self.0.apart.set(model, apart);
    }

    /// Waits until no other request with that prefix is at work, where its server wants that.
    pub async fn turn(&self, key: &Key, asking: &Asking) -> Option<Turn> {
        match asking.may_wait() {
            true => self.0.apart.turn(key).await,
            false => None,
        }
    }

    /// Waits until the request may be sent. The one that leads is given the lead, and keeps it
    /// until its reply is complete.
    pub async fn enter(&self, key: &Key, asking: &Asking) -> Option<Lead> {
        let (until, mut released) = match self.decide(key, asking) {
            Decided::Go => return None,
            Decided::Lead(lead) => return Some(lead),
            Decided::Wait(until, released) => (until, released),
        };
        // Nothing is ever sent: the wait ends when the sender is dropped, or in time.
        match self.0.started.checked_add(until) {
            Some(deadline) => drop(timeout_at(deadline, released.changed()).await),
            None => drop(released.changed().await),
        }
        None
    }

    /// Whether the provider has the prefix, as far as is known.
    pub fn is_warm(&self, key: &Key) -> bool {
        let now = self.now();
        self.gate().table.is_warm(key, now)
    }

    /// A request with that prefix has brought its first event: all that wait are released.
    pub fn warmed(&self, key: &Key, lifetime: Duration) {
        let now = self.now();
        let mut gate = self.gate();
        gate.table.warmed(key, now, lifetime);
        gate.signals.remove(key);
    }

    fn decide(&self, key: &Key, asking: &Asking) -> Decided {
        let now = self.now();
        let mut gate = self.gate();
        match gate.table.enter(key, now, asking) {
            Entered::Go => Decided::Go,
            Entered::Lead(ticket) => {
                gate.signals.insert(key.clone(), watch::Sender::new(()));
                Decided::Lead(Lead {
                    warmth: self.clone(),
                    key: key.clone(),
                    ticket,
                })
            }
            Entered::Wait { until } => match gate.signals.get(key) {
                Some(signal) => Decided::Wait(until, signal.subscribe()),
                None => Decided::Go,
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

enum Decided {
    Go,
    Lead(Lead),
    Wait(Duration, watch::Receiver<()>),
}

/// The right to go ahead. Dropped before its prefix is warm, it releases all that wait: the
/// request failed, or was given up.
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
        if gate.table.left(&self.key, self.ticket) {
            gate.signals.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
