//! How small a budget may be and still be kept: what of a context stays whatever is compacted.

use crate::budget::Budget;
use crate::checkpoint::Kind;
use crate::ids::Timestamp;
use crate::policy::{Policy, Preset};
use crate::tokens::Tokens;
use crate::view::View;

use super::Mode;
use super::situation::Situation;
use super::unit::position;

/// Whether a budget can be kept: what is pinned, the pending input and one unit before it fit
/// what is usable, with a note of all else; under a policy that never compacts, all of it. None
/// where something is not counted in its encoding.
///
/// Nothing is worked out where the context fits as it is.
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
