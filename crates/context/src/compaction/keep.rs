//! The newest units that stay verbatim under each [`Keep`], scaled to the window.

use crate::ids::Ordinal;
use crate::policy::Keep;
use crate::tokens::Tokens;

use super::Mode;
use super::situation::Situation;
use super::unit::{Unit, position};

/// The index of the first unit that stays if the kept amount is halved `halvings` times. None if
/// this policy summarises nothing here.
pub(super) fn start(s: &Situation<'_>, halvings: u32) -> Option<usize> {
    let half = |amount: u64| amount.checked_shr(halvings).unwrap_or(0);
    let messages = |count: u32| {
        let amount = if matches!(s.mode, Mode::Manual { .. }) {
            s.budget.usable // a person's number is taken at its word
        } else {
            s.target.half()
        };
        let count = half(u64::from(count)).max(1);
        newest_messages(s, count, Tokens(half(amount.0)))
    };
    let start = match s.keep {
        Keep::Messages(count) => messages(count),
        Keep::MessagesByWindow(count) => {
            let least = Keep::least(s.budget.window, s.target);
            messages(count).min(while_within(&s.units, Tokens(half(least.0))))
        }
        Keep::Tokens { amount, align } | Keep::TokensByWindow { amount, align } => {
            newest_tokens(s, Tokens(half(amount.0)), align)
        }
        Keep::ShareOfHistory(share) => {
            share_of_history(s, Tokens(half(share.share_of(s.effective.tokens).0)))?
        }
        // Only if the steps of the tiers did not make the context fit.
        Keep::Tiers(tiers) => {
            let share = tiers.topic.share_of(s.target);
            let first = s.view.current_topic();
            let topic = s.units.partition_point(|unit| unit.span.last < first);
            topic.max(while_within(&s.units, Tokens(half(share.0))))
        }
        Keep::UpToTarget => while_within(&s.units, Tokens(half(s.target.minus(s.note()).0))),
    };
    Some(start.min(s.latest_start))
}

/// The index of the first unit of the messages that a person requested to keep; none if the number
/// comes from the preset, whose limit is part of the rule.
pub(super) fn first_asked_for(s: &Situation<'_>) -> Option<usize> {
    let Keep::Messages(count) = s.asked else {
        return None;
    };
    Some(by_count(s, u64::from(count)).min(s.latest_start))
}

/// The lowest index from which the units cost at most `amount`.
fn while_within(units: &[Unit], amount: Tokens) -> usize {
    let mut sum = Tokens::ZERO;
    let mut start = units.len();
    for (index, unit) in units.iter().enumerate().rev() {
        sum += unit.count.tokens;
        if sum > amount {
            break;
        }
        start = index;
    }
    start
}

fn newest_messages(s: &Situation<'_>, count: u64, amount: Tokens) -> usize {
    by_count(s, count).max(while_within(&s.units, amount))
}

fn by_count(s: &Situation<'_>, count: u64) -> usize {
    let first = u64::from(s.view.len().0).saturating_sub(count) + 1;
    s.units
        .partition_point(|unit| u64::from(unit.span.last.0) < first)
}

fn newest_tokens(s: &Situation<'_>, amount: Tokens, align: u32) -> usize {
    let pending = s.view.pending().and_then(|at| position(&s.units, at));
    let before_pending = &s.units[..pending.unwrap_or(s.units.len())];
    let mut start = while_within(before_pending, amount);
    if let Some(first) = before_pending.get(start).map(|unit| unit.span.first) {
        let reach = Ordinal(first.0.saturating_add(align));
        let within = |unit: &&Unit| unit.span.first <= reach;
        let mut kept = before_pending[start..].iter().take_while(within);
        start += kept.position(|unit| unit.user).unwrap_or(0);
    }
    let newest_user = s.units.iter().rposition(|unit| unit.user);
    newest_user.map_or(start, |user| start.min(user))
}

fn share_of_history(s: &Situation<'_>, amount: Tokens) -> Option<usize> {
    let newest = while_within(&s.units, amount).min(s.units.len().saturating_sub(1));
    let aligned = s.units[newest..]
        .iter()
        .position(|unit| unit.user)
        .map(|skip| newest + skip);
    let nearest = || s.units[..newest].iter().rposition(|unit| unit.user);
    match aligned.or_else(nearest) {
        Some(start) => Some(start),
        None if s.over_usable() => Some(newest),
        None => None,
    }
}
