//! The prefixes in a provider's cache, and the requests that wait for a prefix to be written.
//!
//! ```text
//! cold ─► warming ─ first stream event ─► warm ─ unused for its lifetime ─► cold
//!            └───── the leader failed ─────────────────────────────────────► cold
//! ```
//!
//! A value without a clock: `now` is the time since some fixed moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use unisono_context::call::{CacheWarm, Choice};
use unisono_context::{Digest, Tokens};

/// A prefix in the cache of the machines that serve one model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The model's name, as in definitions.
    pub model: Arc<str>,
    /// The rendered prefix.
    pub prefix: Digest,
    /// The forced tool choice: with another one a provider may not find its cached messages.
    pub choice: Option<Choice>,
    /// The number of the cache, if a provider spreads requests over several.
    pub shard: u32,
}

/// The properties of a request that decide about waiting.
#[derive(Clone, Copy, Debug)]
pub struct WarmingRequest {
    /// How the cache is warmed.
    pub mode: CacheWarm,
    /// Whether other requests share the prefix.
    pub has_peers: bool,
    /// The prefix's length.
    pub prefix: Tokens,
    /// The shortest prefix that the provider caches; `None` if it is not known to cache.
    pub minimum: Option<Tokens>,
}

impl WarmingRequest {
    /// Whether the provider caches a prefix of this length.
    pub fn is_cacheable(&self) -> bool {
        self.minimum.is_some_and(|minimum| self.prefix >= minimum)
    }

    /// Whether waiting for a warm cache can save anything.
    pub(super) fn may_wait(&self) -> bool {
        self.is_cacheable() && self.mode != CacheWarm::Off && self.has_peers
    }
}

/// The next action of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmingDecision {
    /// It is sent at once.
    Go,
    /// It is sent at once; the others wait for it. The ticket is its right to lead.
    Lead(Ticket),
    /// It waits for the leader, at most until the given time.
    Wait {
        /// The end of the wait.
        until: Duration,
    },
}

/// Distinguishes a leader from later ones of the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

#[derive(Clone, Copy, Debug)]
enum State {
    Warming { since: Duration, ticket: Ticket },
    Warm { until: Duration },
}

/// The prefixes that are warm or being warmed; all others are cold.
#[derive(Debug)]
pub struct Table {
    states: HashMap<Key, State>,
    /// The maximum wait, counted from the start of the leader.
    patience: Duration,
    /// The maximum number of warm prefixes. Prefixes being warmed are not limited here: there is
    /// one leader for each.
    capacity: usize,
    tickets: u64,
}

impl Table {
    /// An empty table with at most `capacity` warm prefixes, at which requests wait at most
    /// `patience`.
    pub fn new(patience: Duration, capacity: usize) -> Table {
        Table {
            states: HashMap::new(),
            patience,
            capacity,
            tickets: 0,
        }
    }

    /// Decides the next action of a request.
    pub fn enter(&mut self, key: &Key, now: Duration, warming: &WarmingRequest) -> WarmingDecision {
        if !warming.may_wait() || self.is_warm(key, now) {
            return WarmingDecision::Go;
        }
        if let Some(State::Warming { since, .. }) = self.states.get(key) {
            let until = since.saturating_add(self.patience);
            // After its time a leader delays no request, new ones included.
            return if now < until {
                WarmingDecision::Wait { until }
            } else {
                WarmingDecision::Go
            };
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let leads = State::Warming { since: now, ticket };
        self.states.insert(key.clone(), leads);
        WarmingDecision::Lead(ticket)
    }

    /// Records the first event of a request with this prefix: the provider's cache has it for
    /// `lifetime`.
    pub fn mark_warm(&mut self, key: &Key, now: Duration, lifetime: Duration) {
        self.states.remove(key);
        self.evict(now);
        let until = now.saturating_add(lifetime);
        self.states.insert(key.clone(), State::Warm { until });
    }

    /// Removes a leader. Returns true if it had not warmed its prefix, which is cold again.
    pub fn release_leader(&mut self, key: &Key, leader: Ticket) -> bool {
        let leads =
            |state: &State| matches!(state, State::Warming { ticket, .. } if *ticket == leader);
        let failed = self.states.get(key).is_some_and(leads);
        if failed {
            self.states.remove(key);
        }
        failed
    }

    /// Whether the provider has the prefix, as far as is known.
    pub fn is_warm(&self, key: &Key, now: Duration) -> bool {
        matches!(self.states.get(key), Some(State::Warm { until }) if now < *until)
    }

    /// The number of remembered prefixes.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Makes room for a warm prefix: removes the expired prefixes, then the ones that expire first.
    fn evict(&mut self, now: Duration) {
        if self.states.len() < self.capacity {
            return;
        }
        let mut warm: Vec<(Duration, Key)> = Vec::new();
        for (key, state) in &self.states {
            if let State::Warm { until } = state {
                warm.push((*until, key.clone()));
            }
        }
        warm.sort_by_key(|(until, _)| std::cmp::Reverse(*until));
        let live = warm.partition_point(|(until, _)| now < *until);
        for (_, key) in warm.drain(live.min(self.capacity.saturating_sub(1))..) {
            self.states.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
