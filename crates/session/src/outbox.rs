//! Holds effects back until the events that led to them are on disk.

use std::collections::VecDeque;

use crate::due::Effect;

/// Effects that wait for their intent to become durable, in the order of the journal.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<(u64, Effect)>,
    durable: u64,
}

impl Outbox {
    /// An outbox for a journal whose first `durable` events are on disk.
    pub fn new(durable: u64) -> Outbox {
        Outbox {
            waiting: VecDeque::new(),
            durable,
        }
    }

    /// Takes the effects decided together with the journal's events up to `seq`; gives back
    /// those that may be carried out at once.
    pub fn put(&mut self, seq: u64, effects: Vec<Effect>) -> Vec<Effect> {
        let free = seq <= self.durable && self.waiting.is_empty();
        let (held, now): (Vec<_>, Vec<_>) = effects
            .into_iter()
            .partition(|e| !free && e.needs_durable_intent());
        self.waiting
            .extend(held.into_iter().map(|effect| (seq, effect)));
        now
    }

    /// The journal is on disk up to `seq`: gives the effects that waited for it, in order.
    pub fn committed(&mut self, seq: u64) -> Vec<Effect> {
        self.durable = self.durable.max(seq);
        let ready = self
            .waiting
            .iter()
            .take_while(|(at, _)| *at <= self.durable)
            .count();
        self.waiting
            .drain(..ready)
            .map(|(_, effect)| effect)
            .collect()
    }

    /// Up to where the journal is known to be on disk.
    pub fn durable(&self) -> u64 {
        self.durable
    }
}
