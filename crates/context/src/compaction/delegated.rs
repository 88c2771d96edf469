//! Results of delegates in finished turns. The lead's answer contains their conclusions, so a
//! reference replaces each large result; `recall` reads it.

use crate::budget::{Budget, Budgets};
use crate::message::{DELEGATE, Message, Role};
use crate::policy::{Policy, Preset};
use crate::tokens::{Count, Tokens};
use crate::view::{Item, View};

use super::shorten::{freed, shrinks_when_masked};
use super::{MaskTarget, Mode, Plan, Step, is_due};

/// Results up to this length stay.
const OVER: Tokens = Tokens(200);

/// Masks the results that delegates returned to their leads in answered turns, if the context then
/// needs no compaction. The cost is proportional to the active context.
pub fn mask_delegated(view: &View<'_>, budgets: &Budgets, policy: &Policy) -> Option<Plan> {
    if policy.preset == Preset::Off || policy.masking.is_none() {
        return None;
    }
    let budget = *budgets.iter().next()?;
    let items = view.items();
    let answer = items.iter().rfind(|item| is_answer(item))?.ordinal();
    let target = |item: &Item<'_>, budget: &Budget| MaskTarget {
        message: item.node.message.id,
        ordinal: item.ordinal(),
        tokens: item.count(budget).tokens,
    };
    let is_large = |item: &Item<'_>| {
        let tokens = item.count(&budget).tokens;
        tokens > OVER && shrinks_when_masked(&item.node.message, tokens)
    };
    let chosen: Vec<&Item<'_>> = items
        .iter()
        .filter(|item| item.ordinal() < answer && item.alteration.is_none())
        .filter(|item| !view.is_pinned(item.ordinal()))
        .filter(|item| is_delegated(view, &item.node.message) && is_large(item))
        .collect();
    if chosen.is_empty() {
        return None;
    }
    // After this step the planner continues: it must find nothing to do. Tiers measure the view as it
    // is, so with tiers nothing may be due before it either.
    for budget in budgets.iter() {
        let freed: Tokens = chosen.iter().map(|item| freed(&target(item, budget))).sum();
        let after = view.effective(budget)?.minus(Count::exact(freed.0));
        if is_due(view, policy, Mode::Continue, budget, after) {
            return None;
        }
    }
    let targets = chosen.iter().map(|item| target(item, &budget)).collect();
    Some(Plan {
        step: Step::Mask(targets),
        budget,
        before: view.effective(&budget)?.tokens,
        target: policy.target_amount(&budget),
        tightened: false,
    })
}

fn is_answer(item: &Item<'_>) -> bool {
    item.role() == Role::Assistant && item.node.message.tool_calls().next().is_none()
}

/// Whether a message only answers requests to delegates.
fn is_delegated(view: &View<'_>, message: &Message) -> bool {
    let is_request = |call: &crate::message::CallRef| {
        let caller = view.tree().node_at(view.head(), call.message);
        let called = caller.and_then(|node| node.message.tool_calls().nth(call.index.into()));
        called.is_some_and(|(_, name, _)| **name == *DELEGATE)
    };
    !message.answers.is_empty() && message.answers.iter().all(is_request)
}
