//! All checkpoints of a session, and which of them are active on a branch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::ids::{CheckpointId, MessageId, Ordinal, Timestamp};
use crate::tree::Tree;

use super::{Body, Checkpoint, FailedRepairs, Kind, Span, Writer};

/// All checkpoints of a session, in chronological order.
///
/// Each rolling summary supersedes the previous one, so a long session has many checkpoints of
/// which few matter. `tips` are the checkpoints that nothing supersedes; the active set is found
/// from them, at a cost that depends on their number and not on the length of the history.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    all: Vec<Arc<Checkpoint>>,
    by_id: HashMap<CheckpointId, usize>,
    retired: BTreeSet<CheckpointId>,
    /// For each checkpoint, the number of unretired checkpoints that supersede it.
    superseders: Vec<u32>,
    tips: BTreeSet<usize>,
    failed_repairs: HashMap<CheckpointId, FailedRepairs>,
    tightened: BTreeSet<CheckpointId>,
}

impl Checkpoints {
    /// Adds a checkpoint. Those that it supersedes must have been added before.
    pub fn add(&mut self, checkpoint: Arc<Checkpoint>) {
        let at = self.all.len();
        for old in self.indexes(&checkpoint.supersedes) {
            self.superseders[old] += 1;
            self.tips.remove(&old);
        }
        self.by_id.insert(checkpoint.id, at);
        self.superseders.push(0);
        self.tips.insert(at);
        self.all.push(checkpoint);
    }

    /// Removes a checkpoint from every active set; those that it superseded apply again.
    pub fn retire(&mut self, id: CheckpointId) {
        let Some(&at) = self.by_id.get(&id) else {
            return;
        };
        if !self.retired.insert(id) {
            return;
        }
        self.tips.remove(&at);
        for old in self.indexes(&self.all[at].supersedes) {
            self.superseders[old] -= 1;
            if self.superseders[old] == 0 && !self.retired.contains(&self.all[old].id) {
                self.tips.insert(old);
            }
        }
    }

    /// Whether it was retired.
    pub fn is_retired(&self, id: CheckpointId) -> bool {
        self.retired.contains(&id)
    }

    pub(super) fn any_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// The checkpoint with that id.
    pub fn get(&self, id: CheckpointId) -> Option<&Arc<Checkpoint>> {
        self.by_id.get(&id).map(|at| &self.all[*at])
    }

    /// Records that its step kept fewer messages than the preset or a person requested.
    pub fn note_tightened(&mut self, id: CheckpointId) {
        self.tightened.insert(id);
    }

    /// Whether its step kept fewer messages than the preset or a person requested.
    pub fn is_tightened(&self, id: CheckpointId) -> bool {
        self.tightened.contains(&id)
    }

    /// Records that a model should have regenerated it and failed.
    pub fn repair_failed(&mut self, id: CheckpointId, at: Timestamp) {
        let times = self.failed_repairs(id).map_or(0, |failed| failed.times);
        let times = times.saturating_add(1);
        self.failed_repairs
            .insert(id, FailedRepairs { times, last: at });
    }

    /// The failed attempts to regenerate it, if any.
    pub fn failed_repairs(&self, id: CheckpointId) -> Option<FailedRepairs> {
        self.failed_repairs.get(&id).copied()
    }

    /// Number of automatic checkpoints that models wrote after `since` and until `now`, without
    /// repairs. A later one is of a clock that was set back.
    pub fn model_made_between(&self, since: Timestamp, now: Timestamp) -> u32 {
        let recent = self.all.iter().filter(|c| since < c.at && c.at <= now);
        let counted = |c: &&Arc<Checkpoint>| {
            c.writer == Writer::Model && c.kind == Kind::Auto && !self.is_repair(c)
        };
        recent.filter(counted).count() as u32
    }

    /// The checkpoint that it regenerates: another text for the same messages. A note is not a
    /// text: it drops the checkpoints that it supersedes.
    pub fn rewritten_by(&self, checkpoint: &Checkpoint) -> Option<&Arc<Checkpoint>> {
        let (Body::Summary(_), [replaced]) = (&checkpoint.body, &checkpoint.supersedes[..]) else {
            return None;
        };
        let replaced = *replaced;
        self.get(replaced)
            .filter(|old| old.covers == checkpoint.covers)
    }

    /// The first text for the messages of a checkpoint; later ones regenerated it.
    pub fn origin<'c>(&'c self, checkpoint: &'c Checkpoint) -> &'c Checkpoint {
        let mut first = checkpoint;
        // Imported data may be inconsistent; descending numbers terminate.
        while let Some(earlier) = self.rewritten_by(first).filter(|e| e.number < first.number) {
            first = earlier;
        }
        first
    }

    fn is_repair(&self, checkpoint: &Checkpoint) -> bool {
        self.rewritten_by(checkpoint)
            .is_some_and(|old| old.degraded)
    }

    /// All checkpoints, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Checkpoint>> + DoubleEndedIterator {
        self.all.iter()
    }

    /// The number of the next checkpoint.
    pub fn next_number(&self) -> u32 {
        self.all.last().map_or(1, |c| c.number + 1)
    }

    /// The active set of the branch that ends in `head`: the checkpoints that apply, are not
    /// retired and not superseded by another one that applies. Of two overlapping ones, the
    /// furthest cutoff wins, then the newest. Disjoint, ascending.
    pub fn active(&self, tree: &Tree, head: MessageId) -> Vec<Arc<Checkpoint>> {
        let mut candidates = self.candidates(tree, head);
        candidates.sort_by_key(|c| std::cmp::Reverse((c.cutoff, c.number)));
        let mut taken = CoveredRanges::default();
        candidates.retain(|candidate| taken.take(&candidate.covers));
        candidates.sort_by_key(|c| c.first());
        candidates.into_iter().cloned().collect()
    }

    /// The checkpoints that apply and are not superseded by another one that applies, newest first.
    /// Superseded checkpoints are examined only if their successor does not apply.
    fn candidates(&self, tree: &Tree, head: MessageId) -> Vec<&Arc<Checkpoint>> {
        let mut open = self.tips.clone();
        let mut superseded: BTreeSet<usize> = BTreeSet::new();
        let mut candidates = Vec::new();
        while let Some(at) = open.pop_last() {
            let checkpoint = &self.all[at];
            if superseded.contains(&at) || self.retired.contains(&checkpoint.id) {
                continue;
            }
            let older = self.indexes(&checkpoint.supersedes);
            if checkpoint.applies_to(tree, head) {
                superseded.extend(older);
                candidates.push(checkpoint);
            } else {
                open.extend(older);
            }
        }
        candidates
    }

    fn indexes(&self, ids: &[CheckpointId]) -> Vec<usize> {
        ids.iter()
            .filter_map(|id| self.by_id.get(id).copied())
            .collect()
    }
}

/// Messages that are already covered: disjoint ranges, by their first message.
#[derive(Debug, Default)]
struct CoveredRanges(BTreeMap<Ordinal, Ordinal>);

impl CoveredRanges {
    /// Takes these ranges if none of their messages is taken.
    fn take(&mut self, spans: &[Span]) -> bool {
        let free = |span: &Span| {
            let before = self.0.range(..=span.last).next_back();
            before.is_none_or(|(_, last)| *last < span.first)
        };
        let all = spans.iter().all(free);
        if all {
            self.0
                .extend(spans.iter().map(|span| (span.first, span.last)));
        }
        all
    }
}
