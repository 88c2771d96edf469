//! The order of steps: mask, then the step of the tiers, or else summarise or drop, then cut a few
//! messages, or leave a note.

use crate::checkpoint::Kind;
use crate::policy::Preset;

use super::cover::{cover, drop_range};
use super::shorten::{cut, few_cuts_suffice, mask};
use super::situation::Situation;
use super::{Error, Plan, tiered};

/// The next step of a compaction that is due.
pub(super) fn next(s: &Situation<'_>) -> Result<Option<Plan>, Error> {
    if s.over_usable() {
        let unavoidable = s.unavoidable();
        if unavoidable > s.budget.usable {
            return Err(s.overflow(unavoidable));
        }
    }
    let off = s.policy.preset == Preset::Off && s.mode.kind() == Kind::Auto;
    let step = if off {
        None
    } else {
        match s.mode.tiers(s.policy) {
            Some(tiers) => mask(s)
                .or_else(|| tiered::next(s, tiers))
                .or_else(|| s.over_usable().then(|| rolling(s))?),
            None => mask(s).or_else(|| rolling(s)),
        }
    };
    match step {
        None if s.over_usable() => Err(s.overflow(s.effective.at_most)),
        step => Ok(step),
    }
}

/// Summarises or drops the messages before the kept part, or cuts a few large messages. If many
/// messages would have to be cut, a note replaces them in one step.
fn rolling(s: &Situation<'_>) -> Option<Plan> {
    let first_cuts = || if few_cuts_suffice(s) { cut(s) } else { None };
    cover(s)
        .or_else(first_cuts)
        .or_else(|| drop_rest(s))
        .or_else(|| cut(s))
}

/// Only a note stays of all content that may leave.
fn drop_rest(s: &Situation<'_>) -> Option<Plan> {
    if s.over_usable() {
        drop_range(s, s.latest_start, true)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::checkpoint::{Body, Span, block_text};
    use crate::compaction::situation::NOTE;
    use crate::ids::Ordinal;

    #[test]
    fn the_note_of_the_longest_range_is_within_its_allowance() {
        let all = [Span::new(Ordinal(1), Ordinal(u32::MAX))];
        let text = block_text(&all, &Body::Tombstone, &[]);
        assert!(text.chars().count() as u64 <= 4 * NOTE.0, "{text}");
    }
}
