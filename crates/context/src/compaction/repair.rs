//! Repairs: a model regenerates a checkpoint that was made instead of a model's summary.
//!
//! A degraded checkpoint covers messages that no model has read. Its repair covers the same
//! messages and reads those that the last good summary before it did not cover: each message at
//! most once, and never a message that a good summary covers. Whether a repair is due follows from
//! the journal alone.

use std::sync::Arc;

use crate::budget::{Budget, Budgets};
use crate::checkpoint::{Body, Checkpoint, Checkpoints, Span, Tier};
use crate::ids::{CheckpointId, Timestamp};
use crate::policy::{Method, Policy, Preset};
use crate::tokens::{Count, Tokens};
use crate::view::{View, complement};

use super::cover::{common, smallest_summary};
use super::{Cover, Plan, Step};

/// The repair that is due on a branch whose context needs no compaction: of the oldest degraded
/// checkpoint that may be tried again and whose new text has room below the target. None if the
/// policy allows no automatic summary by a model.
pub fn repair(view: &View<'_>, budgets: &Budgets, policy: &Policy, now: Timestamp) -> Option<Plan> {
    let models_may_write = policy.quota.is_none_or(|quota| quota.checkpoints > 0);
    if policy.preset == Preset::Off || !models_may_write {
        return None;
    }
    let due = |checkpoint: &&Arc<Checkpoint>| {
        let failed = view.checkpoints().failed_repairs(checkpoint.id);
        // The planners of other tiers regenerate their own checkpoints.
        let ours = checkpoint.degraded && checkpoint.tier == Tier::Conversation;
        ours && !failed.is_some_and(|failed| failed.waits(now))
    };
    let mut due = view.active().iter().filter(due);
    due.find_map(|old| rewrite(view, budgets, policy, old))
}

/// The step that regenerates a checkpoint, if its text has room in every budget.
pub fn rewrite(
    view: &View<'_>,
    budgets: &Budgets,
    policy: &Policy,
    old: &Checkpoint,
) -> Option<Plan> {
    let Method::Summarise { cap: largest } = policy.method else {
        return None;
    };
    let rooms = budgets.iter().map(|budget| {
        let rest = without(view, budget, old)?;
        let usable = budget.usable.minus(rest.at_most);
        let room = policy.target_amount(budget).minus(rest.tokens).min(usable);
        Some((room, budget))
    });
    let rooms: Option<Vec<(Tokens, &Budget)>> = rooms.collect();
    let (room, budget) = rooms?.into_iter().min_by_key(|(room, _)| *room)?;
    let target = policy.target_amount(budget);
    if room < smallest_summary(largest, target) {
        return None;
    }
    let (prior, fresh) = sources(view.checkpoints(), old)?;
    let cover = Cover {
        spans: old.covers.clone(),
        fresh,
        cutoff: old.cutoff,
        supersedes: vec![old.id],
        original: old.original,
    };
    let cap = largest.min(room);
    Some(Plan {
        step: Step::Regenerate { cover, prior, cap },
        budget: *budget,
        before: view.effective(budget)?.tokens,
        target,
        tightened: false,
    })
}

/// The context without the text of one of its checkpoints.
pub fn without(view: &View<'_>, budget: &Budget, old: &Checkpoint) -> Option<Count> {
    let block = old.counts.get(budget.encoding)?;
    Some(view.effective(budget)?.minus(block))
}

/// The sources of a checkpoint: the intact summaries behind it, oldest first, and the messages that
/// none of them covers. None if some were dropped on purpose.
fn sources(checkpoints: &Checkpoints, old: &Checkpoint) -> Option<(Vec<CheckpointId>, Vec<Span>)> {
    let mut prior: Vec<Arc<Checkpoint>> = Vec::new();
    let mut open: Vec<&Checkpoint> = vec![old];
    while let Some(made) = open.pop() {
        let earlier = made.supersedes.iter().filter_map(|id| checkpoints.get(*id));
        // Imported data may be inconsistent; descending numbers terminate.
        for earlier in earlier.filter(|earlier| earlier.number < made.number) {
            match &earlier.body {
                _ if earlier.degraded => open.push(earlier),
                Body::Summary(_) => prior.push(earlier.clone()),
                Body::Tombstone => return None,
            }
        }
    }
    prior.sort_by_key(|checkpoint| checkpoint.first());
    let read = common(&old.covers, &complement(&prior, old.cutoff));
    Some((prior.iter().map(|checkpoint| checkpoint.id).collect(), read))
}
