//! How readable a unit is outside its context.

use super::cues::Cues;
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::split::Block;
use super::weights::reading as weights;

/// Words that refer to earlier text.
const PRONOUNS: [&str; 21] = [
    "it", "its", "it's", "he", "he's", "his", "she", "she's", "her", "they", "they're", "their",
    "this", "that", "that's", "these", "those", "both", "which", "such", "them",
];
/// Words that continue earlier text; the rest may be understandable alone.
const CONNECTIVES: [&str; 8] = ["and", "but", "so", "then", "also", "or", "because", "plus"];
/// An item with more terms is understandable alone.
const BRIEF_TERMS: usize = 8;
/// A longer quote is understandable alone, or would be too long with another one.
const COMPANION_BYTES: usize = 160;

/// The readability of a unit, from 0 to 1.
pub(super) fn readability(pool: &Pool<'_>, index: usize) -> f32 {
    let unit = &pool.units[index];
    let lead_in = if announces(unit) {
        weights::LEAD_IN
    } else {
        1.0
    };
    let dangling = match (dangles(unit), companion(pool, index)) {
        (false, _) => 1.0,
        (true, Some(_)) => weights::DANGLING_JOINED,
        (true, None) => weights::DANGLING,
    };
    let filler = if unit.cues.intersects(Cues::OFFER) {
        weights::OFFER
    } else if unit.cues.intersects(Cues::FILLER) {
        weights::FILLER
    } else {
        1.0
    };
    let form = match (unit.kind, unit.block) {
        (PassageKind::Text, Block::Prose | Block::Item) => 1.0,
        (PassageKind::Text, _) => weights::CODE_OR_TABLE,
        (PassageKind::ToolCall, _) => weights::TOOL_CALL,
        (PassageKind::ToolResult, _) => weights::TOOL_RESULT,
        (PassageKind::Attachment, _) => weights::ATTACHMENT,
    };
    let terms = pool.terms(index).len() as f32;
    let substance = (terms / weights::FULL_TERMS).min(1.0).sqrt();
    lead_in * dangling * filler * form * substance
}

/// Whether it only announces the next unit.
pub(super) fn announces(unit: &Unit<'_>) -> bool {
    let end = unit.text.trim_end_matches(['*', '_', ' ']);
    end.ends_with([':', '：'])
}

/// Whether it begins with a reference to earlier text.
pub(super) fn dangles(unit: &Unit<'_>) -> bool {
    if unit.kind != PassageKind::Text {
        return false;
    }
    let mut words = unit.text.split_whitespace().map(bare);
    let first = words.find(|word| !word.is_empty()).unwrap_or_default();
    let first = first.to_lowercase().replace('’', "'");
    if CONNECTIVES.contains(&first.as_str()) {
        let next = words.next().unwrap_or_default().to_lowercase();
        return PRONOUNS.contains(&next.replace('’', "'").as_str());
    }
    PRONOUNS.contains(&first.as_str())
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The unit without which another is not understandable: the sentence before one that begins with a
/// pronoun, or the announcement of a short list item.
pub(super) fn companion(pool: &Pool<'_>, index: usize) -> Option<usize> {
    let unit = &pool.units[index];
    let short = |other: &Unit<'_>| other.text.len() <= COMPANION_BYTES;
    let earlier = || {
        (0..index)
            .rev()
            .take_while(|&i| pool.units[i].source == unit.source)
    };
    if dangles(unit) {
        let before = earlier().next()?;
        let other = &pool.units[before];
        let joined = other.place + 1 == unit.place && !unit.starts_line;
        return (joined && short(other) && other.block == unit.block).then_some(before);
    }
    let brief = pool.terms(index).len() <= BRIEF_TERMS;
    if unit.block == Block::Item && unit.kind == PassageKind::Text && brief {
        let lead = earlier().find(|&i| pool.units[i].block != Block::Item)?;
        let other = &pool.units[lead];
        return (announces(other) && other.block == Block::Prose && short(other)).then_some(lead);
    }
    None
}
