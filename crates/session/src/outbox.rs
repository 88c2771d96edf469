//! Holds effects back until the events that caused them are on disk.

use std::collections::VecDeque;

use crate::pending_effects::Effect;

/// Effects that wait until their intent is durable, in journal order.
#[derive(Clone, Debug, Default)]
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

    /// Takes the effects of the journal's events up to `seq`, which never decreases, and returns
    /// those that may be carried out at once. A cancellation removes the effect that it cancels if
    /// that is still waiting: in journal order, the cancellation would come too early.
    pub fn put(&mut self, seq: u64, effects: Vec<Effect>) -> Vec<Effect> {
        let mut now = Vec::new();
        for effect in effects {
            if self.withdraw(&effect) {
                continue;
            }
            if effect.needs_durable_intent() && seq > self.durable {
                self.waiting.push_back((seq, effect));
            } else {
                now.push(effect);
            }
        }
        now
    }

    /// The journal is on disk up to `seq`: returns the effects that waited for it, in order.
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

    /// The sequence number up to which the journal is known to be on disk.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    fn withdraw(&mut self, cancellation: &Effect) -> bool {
        let waiting = self.waiting.iter();
        let at = match cancellation {
            Effect::CancelRun(run) => waiting.map(|(_, effect)| effect).position(
                |effect| matches!(effect, Effect::Dispatch(assignment) if assignment.run == *run),
            ),
            Effect::CancelCompaction(turn) => waiting
                .map(|(_, effect)| effect)
                .position(|effect| matches!(effect, Effect::Compact(job) if job.turn == *turn)),
            Effect::CancelCall(place) => waiting
                .map(|(_, effect)| effect)
                .position(|effect| matches!(effect, Effect::CallTool(job) if job.place == *place)),
            Effect::CancelHook(place) => waiting
                .map(|(_, effect)| effect)
                .position(|effect| matches!(effect, Effect::AskHook(job) if job.place == *place)),
            _ => None,
        };
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }
}
