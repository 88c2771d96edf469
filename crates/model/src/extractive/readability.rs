//! How well a unit reads away from its place: alone, in another's answer.

use super::cues::Cues;
use super::passage::Kind;
use super::pool::{Pool, Unit};
use super::split::Block;
use super::weights::reading as weights;

/// Words that stand for something said before.
const PRONOUNS: [&str; 21] = [
    "it", "its", "it's", "he", "he's", "his", "she", "she's", "her", "they", "they're", "their",
    "this", "that", "that's", "these", "those", "both", "which", "such", "them",
];
/// Words that go on from something said before; what follows them may stand by itself.
const CONNECTIVES: [&str; 8] = ["and", "but", "so", "then", "also", "or", "because", "plus"];
/// An item with more terms says itself what it is about.
const BRIEF_TERMS: usize = 8;
/// A quote that is longer needs no company to be understood, or would be too long with it.
const COMPANION_BYTES: usize = 160;

/// From 0 to 1.
pub(super) fn standing(pool: &Pool<'_>, index: usize) -> f32 {
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
    let filler = if unit.cues.any(Cues::OFFER) {
        weights::OFFER
    } else if unit.cues.any(Cues::FILLER) {
        weights::FILLER
    } else {
        1.0
    };
    let form = match (unit.kind, unit.block) {
        (Kind::Text, Block::Prose | Block::Item) => 1.0,
        (Kind::Text, _) => weights::CODE_OR_TABLE,
        (Kind::ToolCall, _) => weights::TOOL_CALL,
        (Kind::ToolResult, _) => weights::TOOL_RESULT,
        (Kind::Attachment, _) => weights::ATTACHMENT,
    };
    let terms = pool.terms(index).len() as f32;
    let substance = (terms / weights::FULL_TERMS).min(1.0).sqrt();
    lead_in * dangling * filler * form * substance
}

/// Whether it only announces what comes next.
pub(super) fn announces(unit: &Unit<'_>) -> bool {
    let end = unit.text.trim_end_matches(['*', '_', ' ']);
    end.ends_with([':', '：'])
}

/// Whether it begins with a word for something said before.
pub(super) fn dangles(unit: &Unit<'_>) -> bool {
    if unit.kind != Kind::Text {
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

/// The unit that makes another understandable: the sentence before one that begins with a
/// pronoun, or what announces a short item of a list.
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
    if unit.block == Block::Item && unit.kind == Kind::Text && brief {
        let lead = earlier().find(|&i| pool.units[i].block != Block::Item)?;
        let other = &pool.units[lead];
        return (announces(other) && other.block == Block::Prose && short(other)).then_some(lead);
    }
    None
}
