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
    /// The model, as definitions write it.
    pub model: Arc<str>,
    /// The rendered prefix.
    pub prefix: Digest,
    /// What has to be called: with another choice a provider may not find its messages again.
    pub choice: Option<Choice>,
    /// Where a provider spreads requests over several caches: which of them.
    pub shard: u32,
}

/// What a request says of itself before it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// How the cache is warmed.
    pub mode: CacheWarm,
    /// Whether other requests share the prefix.
    pub has_peers: bool,
    /// The prefix's length.
    pub prefix: Tokens,
    /// The shortest prefix the provider caches; none: it is not known to cache.
    pub minimum: Option<Tokens>,
}

impl Asking {
    /// Whether the provider caches this prefix at all.
    pub fn is_cacheable(&self) -> bool {
        self.minimum.is_some_and(|minimum| self.prefix >= minimum)
    }

    /// Whether waiting for a warm cache can save anything.
    pub(super) fn may_wait(&self) -> bool {
        self.is_cacheable() && self.mode != CacheWarm::Off && self.has_peers
    }
}

/// What a request does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is sent at once.
    Go,
    /// It is sent at once; the others wait for it. The ticket is its right to lead.
    Lead(Ticket),
    /// It waits for the leader, at most until then.
    Wait {
        /// When the wait ends by itself.
        until: Duration,
    },
}

/// Tells one leader from a later one of the same prefix.
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
    /// The longest a request waits, from when its leader started.
    patience: Duration,
    /// Warm prefixes are forgotten beyond this many. Those being warmed are as many as there
    /// are leaders under way.
    capacity: usize,
    tickets: u64,
}

impl Table {
    /// An empty table: requests wait at most that long, so many prefixes are remembered.
    pub fn new(patience: Duration, capacity: usize) -> Table {
        Table {
            states: HashMap::new(),
            patience,
            capacity,
            tickets: 0,
        }
    }

    /// Decides what a request does.
    pub fn enter(&mut self, key: &Key, now: Duration, asking: &Asking) -> Entered {
        if !asking.may_wait() || self.is_warm(key, now) {
            return Entered::Go;
        }
        if let Some(State::Warming { since, .. }) = self.states.get(key) {
            let until = since.saturating_add(self.patience);
            // Past its time a leader holds nobody up, newcomers included.
            return if now < until {
                Entered::Wait { until }
            } else {
                Entered::Go
            };
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let leads = State::Warming { since: now, ticket };
        self.states.insert(key.clone(), leads);
        Entered::Lead(ticket)
    }

    /// A request with that prefix has brought its first event: the provider has it now.
    pub fn warmed(&mut self, key: &Key, now: Duration, lifetime: Duration) {
        self.states.remove(key);
        self.make_room(now);
        let until = now.saturating_add(lifetime);
        self.states.insert(key.clone(), State::Warm { until });
    }

    /// A leader is done with. True: it had not warmed its prefix, which is cold again.
    pub fn left(&mut self, key: &Key, leader: Ticket) -> bool {
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

    /// How many prefixes are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Makes room for a warm prefix: forgets what has gone cold, then what will go cold first.
    fn make_room(&mut self, now: Duration) {
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
