//! Which step comes next: mask, then summarise or drop, then cut.

use crate::policy::Preset;

use super::cover::{cover, dropped};
use super::shorten::{cut, mask};
use super::situation::Situation;
use super::{Error, Mode, Plan};

/// The next step of a compaction that is due.
pub(super) fn next(s: &Situation<'_>) -> Result<Option<Plan>, Error> {
    if s.over_usable() {
        let unavoidable = s.unavoidable();
        if unavoidable > s.budget.usable {
            return Err(s.overflow(unavoidable));
        }
    }
    let off = s.policy.preset == Preset::Off && !matches!(s.mode, Mode::Manual { .. });
    let step = if off {
        None
    } else {
        mask(s)
            .or_else(|| cover(s))
            .or_else(|| cut(s))
            .or_else(|| drop_rest(s))
    };
    match step {
        None if s.over_usable() => Err(s.overflow(s.effective.at_most)),
        step => Ok(step),
    }
}

/// The last resort before an overflow: only a note stays of all that may leave.
fn drop_rest(s: &Situation<'_>) -> Option<Plan> {
    if s.over_usable() {
        dropped(s, s.latest_start, true)
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
