//! Checks a text that replaces a summary.

use unisono_context::TurnId;
use unisono_context::checkpoint::Body;
use unisono_context::compaction::{Draft, Plan, Step, Stop, accept_replacement, without};

use crate::event::{Work, WrittenSummary};
use crate::state::State;

/// Whether a summary may replace the one that the step supersedes: it is within its cap, and the
/// context stays within the target in every budget of the turn.
pub(super) fn check(
    state: &State,
    turn: TurnId,
    plan: &Plan,
    written: &WrittenSummary,
) -> Result<(), String> {
    let unfit = || "the result does not fit the step".to_owned();
    let Step::Regenerate { cover, cap, .. } = &plan.step else {
        return Err(unfit());
    };
    let Body::Summary(text) = &written.body else {
        return Err(unfit());
    };
    let open = state.turns.get(&turn).ok_or_else(unfit)?;
    let pending = matches!(open.accepted.work, Work::Answer { .. });
    let head = state.tree.head(&open.accepted.branch);
    let view = head.and_then(|head| state.view(head, pending));
    let view = view.ok_or_else(unfit)?;
    let is_old = |id| cover.supersedes.first() == Some(&id);
    let old = view.active().iter().find(|active| is_old(active.id));
    let old = old.ok_or("the summary to replace is no longer in the context")?;
    let budgets = state.required_budgets(open, &view);
    for budget in budgets.ok_or_else(unfit)?.iter() {
        let count = written.counts.get(budget.encoding).unwrap_or_default();
        let rest = without(&view, budget, old).ok_or_else(unfit)?;
        let tokens = count.at_most;
        let draft = Draft {
            text,
            stop: Stop::Complete,
            tokens,
        };
        // The cap is in the encoding for which the step was planned.
        let cap = if budget.encoding == plan.budget.encoding {
            *cap
        } else {
            tokens
        };
        let target = open.accepted.policy.target_amount(budget);
        let context = rest + count;
        accept_replacement(&draft, cap, context.tokens, target)
            .and_then(|()| accept_replacement(&draft, cap, context.at_most, budget.usable))
            .map_err(|rejection| rejection.to_string())?;
    }
    Ok(())
}
