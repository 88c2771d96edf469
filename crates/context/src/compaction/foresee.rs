//! The summary that the next turn will probably need, so that it can be written before that turn.

use std::cmp::Reverse;

use crate::budget::{Budget, Budgets};
use crate::checkpoint::{Tier, Writer};
use crate::ids::Timestamp;
use crate::policy::{Keep, Method, Policy};
use crate::tokens::{Count, Ppm, Tokens};
use crate::view::View;

use super::cover::cover;
use super::shorten::{self, mask};
use super::situation::Situation;
use super::{MaskTarget, Mode, Plan, Step, occupancy};

/// The expected messages of the next turn after the messages of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedGrowth {
    /// Their number.
    pub messages: u32,
    /// The number of those with tool results.
    pub results: u32,
    /// Their tokens, the dialect's overhead included.
    pub tokens: Tokens,
}

/// A summary to write ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeseenSummary {
    /// The step that the next turn will probably plan.
    pub plan: Plan,
    /// The tool results that it will mask before that step.
    pub masks: Vec<MaskTarget>,
}

/// The summary that the next turn will probably need, if `growth` is added to the view until then.
/// None if its compaction will not start, if masking old tool results will be enough, or if no
/// model will write a summary of the conversation: a summary without a model needs no preparation.
pub fn foresee(
    view: &View<'_>,
    budgets: &Budgets,
    policy: &Policy,
    growth: ExpectedGrowth,
    now: Timestamp,
) -> Option<ForeseenSummary> {
    if policy.tiers().is_some() || matches!(policy.method, Method::Drop) {
        return None;
    }
    let grown = Count::exact(growth.tokens.0);
    let mut due: Vec<(&Budget, Count)> = Vec::new();
    for budget in budgets.iter() {
        let effective = view.effective(budget)?;
        if is_due(policy, budget, effective + grown) {
            due.push((budget, effective));
        }
    }
    due.sort_by_key(|(budget, effective)| Reverse(occupancy(budget, *effective)));
    let (budget, effective) = due.into_iter().next()?;
    let masks = masks(view, budget, effective, policy, growth, now);
    let freed: Tokens = masks.iter().map(shorten::freed).sum();
    if (effective + grown).tokens.minus(freed) <= policy.target_amount(budget) {
        return None;
    }
    let policy = Policy {
        masking: None,
        keep: keep_of_view(policy.keep, growth),
        ..*policy
    };
    let mut situation = Situation::new(view, *budget, effective, &policy, Mode::Continue, now);
    situation.target = situation.target.minus(growth.tokens);
    situation.budget.usable = budget.usable.minus(growth.tokens);
    let planned = cover(&situation)?;
    let Step::Summarise {
        cover,
        tier: Tier::Conversation,
        writer: Writer::Model,
        ..
    } = &planned.step
    else {
        return None;
    };
    if cover.fresh.is_empty() {
        return None;
    }
    let covered = |mask: &MaskTarget| cover.spans.iter().any(|span| span.contains(mask.ordinal));
    Some(ForeseenSummary {
        masks: masks.into_iter().filter(covered).collect(),
        plan: Plan {
            budget: *budget,
            ..planned
        },
    })
}

/// Whether a compaction starts at this size, as in [`plan`](super::plan).
fn is_due(policy: &Policy, budget: &Budget, grown: Count) -> bool {
    let Some(trigger) = policy.trigger_amount(budget) else {
        return false;
    };
    let limit = match grown.is_approximate() {
        true => Ppm::percent(90).share_of(trigger),
        false => trigger,
    };
    let starts = grown.tokens > limit && grown.tokens >= policy.minimum;
    starts || grown.at_most > budget.usable
}

/// The tool results that will be masked.
fn masks(
    view: &View<'_>,
    budget: &Budget,
    effective: Count,
    policy: &Policy,
    growth: ExpectedGrowth,
    now: Timestamp,
) -> Vec<MaskTarget> {
    let mut policy = *policy;
    if let Some(masking) = &mut policy.masking {
        masking.keep_newest = masking.keep_newest.saturating_sub(growth.results);
    }
    let situation = Situation::new(view, *budget, effective, &policy, Mode::Continue, now);
    match mask(&situation).map(|plan| plan.step) {
        Some(Step::Mask(targets)) => targets,
        _ => Vec::new(),
    }
}

/// The part of what the policy keeps that is in the view: later messages are kept first.
fn keep_of_view(keep: Keep, growth: ExpectedGrowth) -> Keep {
    let count = |count: u32| count.saturating_sub(growth.messages).max(1);
    match keep {
        Keep::Messages(most) => Keep::Messages(count(most)),
        Keep::MessagesByWindow(most) => Keep::MessagesByWindow(count(most)),
        Keep::Tokens { amount, align } => Keep::Tokens {
            amount: amount.minus(growth.tokens),
            align,
        },
        Keep::TokensByWindow { amount, align } => Keep::TokensByWindow {
            amount: amount.minus(growth.tokens),
            align,
        },
        Keep::ShareOfHistory(_) | Keep::UpToTarget | Keep::Tiers(_) => keep,
    }
}
