//! The smallest budget that a context can satisfy: the part of it that no compaction removes.

use crate::budget::Budget;
use crate::checkpoint::Kind;
use crate::ids::Timestamp;
use crate::policy::{Policy, Preset};
use crate::tokens::Tokens;
use crate::view::View;

use super::Mode;
use super::situation::Situation;
use super::unit::position;

/// Whether a budget can be satisfied: pinned messages, the pending input and one unit before it fit
/// the usable tokens, with a note for everything else; under a policy that never compacts,
/// everything must fit. None if something is not counted in its encoding.
///
/// Nothing is computed if the context fits as it is.
pub fn holds(
    view: &View<'_>,
    budget: &Budget,
    policy: &Policy,
    mode: Mode,
    now: Timestamp,
) -> Option<bool> {
    let effective = view.effective(budget)?;
    if effective.at_most <= budget.usable {
        return Some(true);
    }
    if policy.preset == Preset::Off && mode.kind() == Kind::Auto {
        return Some(false);
    }
    let situation = Situation::new(view, *budget, effective, policy, mode, now);
    Some(floor(&situation) <= budget.usable)
}

fn floor(s: &Situation<'_>) -> Tokens {
    let pending = s.view.pending().and_then(|at| position(&s.units, at));
    let newest = pending.unwrap_or(s.units.len()).saturating_sub(1);
    let start = newest.min(s.latest_start);
    let note = if start > 0 || !s.view.active().is_empty() {
        s.note()
    } else {
        Tokens::ZERO
    };
    s.staying(start, true).at_most + note
}
