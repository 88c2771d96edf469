//! What a unit is worth on its own: its terms, its cues, its place, its speaker.
//!
//! The constants were fitted on two conversations (a database migration and the design of an
//! appointment system) and checked on a third, which they were not fitted on.

use unisono_context::Role;

use super::cues::Cues;
use super::passage::Kind;
use super::pool::{Pool, Unit};
use super::select::Worth;
use super::split::Block;
use super::terms::{Class, Term};

/// Cues that mark what must outlive the conversation.
const STRONG: Cues = Cues::DECISION.with(Cues::CONSTRAINT).with(Cues::CHANGE);
/// Cues that mark a statement as one of substance.
const MEDIUM: Cues = Cues::PENDING
    .with(Cues::DONE)
    .with(Cues::OPEN)
    .with(Cues::GOAL)
    .with(Cues::DATE)
    .with(Cues::CAUSE)
    .with(Cues::RISK);

/// Weighs every unit of a pool. Terms of `wanted` count more.
pub(super) fn weigh(pool: &Pool<'_>, wanted: &[Term]) -> Worth {
    let mut terms = term_weights(pool);
    for &term in wanted {
        terms[term as usize] *= 2.0;
    }
    let units = (0..pool.units.len())
        .map(|index| {
            let unit = &pool.units[index];
            let content: f32 = pool.terms(index).iter().map(|&t| terms[t as usize]).sum();
            if content <= 0.0 || unit.block == Block::Heading {
                return 0.0;
            }
            let cues = cue_worth(unit.cues);
            // A cue lifts a sentence of substance more than an empty one.
            let worth = content * (1.0 + 0.07 * cues) + 0.3 * cues;
            worth * factor(unit, pool.sources) * fact_factor(pool, index)
        })
        .collect();
    Worth { units, terms }
}

/// By term: its class, how rare it is, and how often the conversation comes back to it.
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
    let all = (pool.sources.max(2) as f32).ln_1p();
    let weight = |(term, &n): (usize, &u32)| {
        let class = match pool.vocabulary.class(term as Term) {
            Class::Stop => 0.0,
            Class::Word | Class::Name => 1.0,
            Class::Number => 1.8,
            Class::Identifier => 2.0,
        };
        let often = (n.max(1) as f32).ln_1p();
        let rare = (1.0 - often / all).max(0.02);
        class * rare.powf(0.2) * often.powf(0.8)
    };
    sources.iter().enumerate().map(weight).collect()
}

fn cue_worth(cues: Cues) -> f32 {
    3.7 * cues.count(STRONG) as f32 + 1.1 * cues.count(MEDIUM) as f32
}

fn factor(unit: &Unit<'_>, sources: usize) -> f32 {
    let mut factor = match (unit.kind, unit.role) {
        (Kind::Text, Role::User) => 1.4,
        (Kind::Text, _) => 1.0,
        (Kind::ToolResult, _) => 0.25,
        (Kind::ToolCall, _) => 0.2,
        (Kind::Attachment, _) => 0.5,
    };
    if unit.kind == Kind::Text && matches!(unit.block, Block::Code | Block::Row) {
        factor *= 0.6;
    }
    if unit.cues.any(Cues::QUESTION) {
        factor *= 0.75;
    }
    if unit.cues.any(Cues::FILLER) {
        factor *= 0.8;
    }
    // What a conversation opens with says what it is about; what it ends with is needed next.
    if unit.source == 0 || unit.source + sources / 50 + 1 >= sources {
        factor *= 1.2;
    }
    if unit.prior { factor * 1.3 } else { factor }
}

/// A fact joins something named with a value or a date.
fn fact_factor(pool: &Pool<'_>, index: usize) -> f32 {
    let has = |wanted: fn(Class) -> bool| {
        pool.terms(index)
            .iter()
            .any(|&term| wanted(pool.vocabulary.class(term)))
    };
    let value = pool.units[index].cues.any(Cues::DATE) || has(|class| class == Class::Number);
    let named = has(|class| matches!(class, Class::Name | Class::Identifier));
    match (value, named) {
        (true, true) => 1.15,
        (true, false) | (false, true) => 0.9,
        (false, false) => 1.0,
    }
}
