//! What a unit is worth on its own: its terms, its cues, its place, its speaker.

use unisono_context::Role;

use super::cues::Cues;
use super::passage::Kind;
use super::pool::{Pool, Unit};
use super::select::Worth;
use super::split::Block;
use super::standing::announces;
use super::terms::{Class, Term};
use super::weights;

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
        terms[term as usize] *= weights::WANTED;
    }
    let units = (0..pool.units.len())
        .map(|index| {
            let unit = &pool.units[index];
            let its_terms = pool.terms(index);
            let content: f32 = its_terms.iter().map(|&t| terms[t as usize]).sum();
            let thin = (its_terms.len() as f32 / weights::FULL_TERMS)
                .min(1.0)
                .sqrt();
            if content <= 0.0 || unit.block == Block::Heading {
                return 0.0;
            }
            let cues = cue_worth(unit.cues);
            // A cue lifts a sentence of substance more than an empty one.
            let worth = content * (1.0 + weights::CUE_SHARE * cues) + weights::CUE_ALONE * cues;
            thin * worth * factor(unit, pool.sources) * fact_factor(pool, index)
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
            Class::Word | Class::Name => weights::WORD,
            Class::Number => weights::NUMBER,
            Class::Identifier => weights::IDENTIFIER,
        };
        let often = (n.max(1) as f32).ln_1p();
        let rare = (1.0 - often / all).max(weights::RARITY_LEAST);
        class * rare.powf(weights::RARE) * often.powf(weights::OFTEN)
    };
    sources.iter().enumerate().map(weight).collect()
}

fn cue_worth(cues: Cues) -> f32 {
    weights::STRONG_CUE * cues.count(STRONG) as f32
        + weights::MEDIUM_CUE * cues.count(MEDIUM) as f32
}

fn factor(unit: &Unit<'_>, sources: usize) -> f32 {
    let mut factor = match (unit.kind, unit.role) {
        (Kind::Text, Role::User) => weights::USER,
        (Kind::Text, _) => weights::OTHERS,
        (Kind::ToolResult, _) => weights::TOOL_RESULT,
        (Kind::ToolCall, _) => weights::TOOL_CALL,
        (Kind::Attachment, _) => weights::ATTACHMENT,
    };
    if unit.kind == Kind::Text && matches!(unit.block, Block::Code | Block::Row) {
        factor *= weights::CODE_OR_TABLE;
    }
    if unit.cues.any(Cues::QUESTION) {
        factor *= weights::QUESTION;
    }
    if unit.cues.any(Cues::OFFER) {
        factor *= weights::OFFER;
    }
    if announces(unit) {
        factor *= weights::LEAD_IN;
    }
    // What a conversation opens with says what it is about; what it ends with is needed next.
    if unit.source == 0 || unit.source + sources / weights::LAST_PART + 1 >= sources {
        factor *= weights::AT_THE_ENDS;
    }
    if unit.prior {
        factor * weights::PRIOR
    } else {
        factor
    }
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
        (true, true) => weights::NAME_AND_VALUE,
        (true, false) | (false, true) => weights::NAME_OR_VALUE,
        (false, false) => 1.0,
    }
}
