//! Servers with a cache in each of their slots: requests that share a prefix go one after the
//! other, so that each finds the slot with the prefix. In parallel, every slot would process the
//! whole prefix.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::Key;

/// Which models are served so, and who is at work on which prefix.
#[derive(Debug, Default)]
pub(super) struct Apart(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    models: HashSet<Arc<str>>,
    /// Those that are taken or waited for.
    turns: HashMap<Key, Arc<Turns<()>>>,
}

/// The right to be at work on a prefix, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _turn: OwnedMutexGuard<()>,
}

impl Apart {
    /// Whether a model is served so, from now on.
    pub(super) fn set(&self, model: &Arc<str>, apart: bool) {
        let mut state = self.state();
        match apart {
            true => state.models.insert(model.clone()),
            false => state.models.remove(model),
        };
    }

    /// Waits for its turn where the model is served so.
    pub(super) async fn turn(&self, key: &Key) -> Option<Turn> {
        let turn = {
            let mut state = self.state();
            if !state.models.contains(&key.model) {
                return None;
            }
            // Nobody else holds those that nobody takes or waits for.
            state.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            state.turns.entry(key.clone()).or_default().clone()
        };
        Some(Turn {
            _turn: turn.lock_owned().await,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
