//! How readable a unit is outside its context.

use super::cues::Cues;
use super::days::has_word;
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::split::Block;

/// Words that refer to earlier text.
const PRONOUNS: &str = "it its it's he he's his she she's her they they're their this that that's \
    these those both which such them";
/// Words that continue earlier text; the rest may be understandable alone.
const CONNECTIVES: &str = "and but so then also or because plus";
/// The minimum terms of a statement.
const TERMS: usize = 3;
/// A longer quote would be too long with another one.
const COMPANION_BYTES: usize = 160;

/// Whether a unit is a statement that is understandable alone.
pub(super) fn is_readable(pool: &Pool<'_>, index: usize) -> bool {
    let unit = &pool.units[index];
    unit.kind == PassageKind::Text
        && matches!(unit.block, Block::Prose | Block::Item)
        && !unit.cues.intersects(Cues::OFFER.with(Cues::FILLER))
        && pool.terms(index).len() >= TERMS
        && !announces(unit)
        && !dangles(unit)
}

pub(super) fn announces(unit: &Unit<'_>) -> bool {
    let end = unit.text.trim_end_matches(['*', '_', ' ']);
    end.ends_with([':', '：'])
}

/// Whether it begins with a reference to earlier text.
pub(super) fn dangles(unit: &Unit<'_>) -> bool {
    if unit.kind != PassageKind::Text {
        return false;
    }
    let words = unit.text.split_whitespace().map(bare);
    let lower = |word: &str| word.to_lowercase().replace('’', "'");
    let mut words = words.filter(|word| !word.is_empty()).map(lower);
    let first = words.next().unwrap_or_default();
    let refers = |word: &str| has_word(PRONOUNS, word);
    match has_word(CONNECTIVES, &first) {
        true => words.next().is_some_and(|next| refers(&next)),
        false => refers(&first),
    }
}

/// A word without the signs around it.
pub(super) fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The sentence without which another is not understandable, since that begins with a pronoun.
pub(super) fn companion(pool: &Pool<'_>, index: usize) -> Option<usize> {
    let before = index.checked_sub(1)?;
    let (unit, other) = (&pool.units[index], &pool.units[before]);
    let joined = other.source == unit.source
        && other.place + 1 == unit.place
        && !unit.starts_line
        && other.block == unit.block;
    (dangles(unit) && joined && other.text.len() <= COMPANION_BYTES).then_some(before)
}
