//! Servers with a cache in each of their slots: requests that share a prefix go one after the
//! other, so that each finds the slot with the prefix. In parallel, every slot would process the
//! whole prefix.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::Key;

/// The models whose servers have a cache per slot, and a lock for each prefix in use.
#[derive(Debug, Default)]
pub(super) struct SerialPrefixes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    models: HashSet<Arc<str>>,
    /// The locks that are held or waited for.
    locks: HashMap<Key, Arc<AsyncMutex<()>>>,
}

/// The right to run a request with a prefix, until it is dropped.
#[derive(Debug)]
pub struct PrefixPermit {
    _permit: OwnedMutexGuard<()>,
}

impl SerialPrefixes {
    /// Sets whether requests to a model that share a prefix run one after the other.
    pub(super) fn set_serial(&self, model: &Arc<str>, serial: bool) {
        let mut state = self.state();
        match serial {
            true => state.models.insert(model.clone()),
            false => state.models.remove(model),
        };
    }

    /// Waits for the prefix's lock. `None` if the model's server needs no such order.
    pub(super) async fn prefix_permit(&self, key: &Key) -> Option<PrefixPermit> {
        let lock = {
            let mut state = self.state();
            if !state.models.contains(&key.model) {
                return None;
            }
            // A lock without other owners is neither held nor waited for.
            state.locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            state.locks.entry(key.clone()).or_default().clone()
        };
        Some(PrefixPermit {
            _permit: lock.lock_owned().await,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
