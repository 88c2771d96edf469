//! The worth of a unit by itself: its terms, its function, its speaker.

use std::collections::HashMap;

use super::cues::Cues;
use super::passage::PassageKind;
use super::pool::{Pool, Unit};
use super::readability::announces;
use super::select::Worth;
use super::split::Block;
use super::terms::{Class, Marks, Term};
use super::weights;

/// Cues of information that must outlive the conversation.
const STRONG: Cues = Cues::DECISION.with(Cues::CONSTRAINT).with(Cues::CHANGE);

/// Weighs every unit of a pool. Terms of `wanted` count more.
pub(super) fn weigh(pool: &Pool<'_>, wanted: &[Term]) -> Worth {
    let mut terms = term_weights(pool);
    for &term in wanted {
        terms[term as usize] *= weights::WANTED;
    }
    let brevity = brevity(pool);
    let units = (0..pool.units.len())
        .map(|index| {
            let unit = &pool.units[index];
            if unit.block == Block::Heading {
                return 0.0;
            }
            let its_terms = pool.terms(index);
            let content: f32 = its_terms.iter().map(|&t| terms[t as usize]).sum();
            let thin = (its_terms.len() as f32 / weights::FULL_TERMS)
                .min(1.0)
                .powf(weights::THIN);
            let brevity = match unit.kind {
                PassageKind::Text => brevity.get(unit.speaker).copied().unwrap_or(1.0),
                _ => 1.0,
            };
            content * thin * brevity * factor(unit) * fact_factor(pool, index)
        })
        .collect();
    Worth { units, terms }
}

/// The weight of each term: its class, its rarity, and its frequency.
fn term_weights(pool: &Pool<'_>) -> Vec<f32> {
    let mut sources = vec![0_u32; pool.vocabulary.len()];
    let mut last = vec![usize::MAX; pool.vocabulary.len()];
    for (index, unit) in pool.units.iter().enumerate() {
        for &term in pool.terms(index) {
            if last[term as usize] != unit.source {
                last[term as usize] = unit.source;
                sources[term as usize] += 1;
            }
        }
    }
    let all = pool.sources.max(2) as f32;
    let weight = |(term, &n): (usize, &u32)| {
        let class = match pool.vocabulary.class(term as Term) {
            Class::Stop => 0.0,
            Class::Word | Class::Name => weights::WORD,
            Class::Number => weights::NUMBER,
            Class::Identifier => weights::IDENTIFIER,
        };
        let n = n.max(1) as f32;
        let (rare, often) = ((all / n).ln_1p(), n.ln_1p());
        class * rare.powf(weights::RARE) * often.powf(weights::OFTEN)
    };
    sources.iter().enumerate().map(weight).collect()
}

/// A factor for each speaker: longer messages have less content per sentence. Speakers with
/// messages of similar length get the same factor.
fn brevity<'a>(pool: &Pool<'a>) -> HashMap<&'a str, f32> {
    // Tokens, messages, and the last message.
    let mut spoken: HashMap<&str, (f32, f32, usize)> = HashMap::new();
    let is_new_text = |unit: &&Unit<'_>| unit.kind == PassageKind::Text && !unit.prior;
    for unit in pool.units.iter().filter(is_new_text) {
        let (tokens, messages, last) = spoken.entry(unit.speaker).or_insert((0.0, 0.0, usize::MAX));
        *tokens += unit.tokens;
        if std::mem::replace(last, unit.source) != unit.source {
            *messages += 1.0;
        }
    }
    // Sorted, so that the sum does not depend on the order of a map.
    let mut all: Vec<(&str, f32, f32)> = spoken
        .into_iter()
        .map(|(speaker, (tokens, messages, _))| (speaker, tokens, messages))
        .collect();
    all.sort_unstable_by_key(|&(speaker, ..)| speaker);
    let tokens: f32 = all.iter().map(|&(_, tokens, _)| tokens).sum();
    let messages: f32 = all.iter().map(|&(.., messages)| messages).sum();
    let mean = tokens / messages.max(1.0);
    let brevity = |(speaker, tokens, messages): (&'a str, f32, f32)| {
        let own = tokens / messages.max(1.0);
        let ratio = mean / own.max(f32::MIN_POSITIVE);
        (
            speaker,
            ratio.clamp(weights::BREVITY_MIN, weights::BREVITY_MAX),
        )
    };
    all.into_iter().map(brevity).collect()
}

fn factor(unit: &Unit<'_>) -> f32 {
    let mut factor = match unit.kind {
        PassageKind::Text => prose_factor(unit),
        PassageKind::ToolResult => weights::TOOL_RESULT,
        PassageKind::ToolCall if names_record(unit.text) => weights::RECORD_CALL,
        PassageKind::ToolCall => weights::TOOL_CALL,
        PassageKind::Attachment => weights::ATTACHMENT,
    };
    if unit.cues.intersects(Cues::QUESTION) {
        factor *= weights::QUESTION;
    }
    if unit.cues.intersects(Cues::OFFER) {
        factor *= weights::OFFER;
    }
    if announces(unit) {
        factor *= weights::LEAD_IN;
    }
    if unit.prior {
        factor *= weights::PRIOR;
    }
    factor * (1.0 + weights::STRONG_CUE * unit.cues.count(STRONG) as f32)
}

/// A factor for facts: a name together with a value or a date.
fn fact_factor(pool: &Pool<'_>, index: usize) -> f32 {
    let has = |wanted: fn(Class) -> bool| {
        let mut terms = pool.terms(index).iter();
        terms.any(|&term| wanted(pool.vocabulary.class(term)))
    };
    let value =
        pool.units[index].cues.intersects(Cues::DATE) || has(|class| class == Class::Number);
    if value && has(|class| matches!(class, Class::Name | Class::Identifier)) {
        weights::NAME_AND_VALUE
    } else {
        1.0
    }
}

/// Whether a call names a record by its id: `order_id: W-17`.
fn names_record(call: &str) -> bool {
    call.contains("id: ")
}

/// A factor for prose: statements about the speaker and about past events are asked for most.
fn prose_factor(unit: &Unit<'_>) -> f32 {
    let first = unit.marks.intersects(Marks::FIRST);
    let rows = [
        (first, weights::FIRST_PERSON),
        (
            unit.marks.intersects(Marks::SECOND) && !first,
            weights::SECOND_PERSON,
        ),
        (unit.marks.intersects(Marks::PAST), weights::PAST),
        (unit.marks.intersects(Marks::TIME), weights::TIME),
        (unit.cues.intersects(Cues::FILLER), weights::FILLER),
        (
            matches!(unit.block, Block::Code | Block::Row),
            weights::CODE_OR_TABLE,
        ),
    ];
    let held = rows.into_iter().filter(|(held, _)| *held);
    held.map(|(_, weight)| weight).product()
}
