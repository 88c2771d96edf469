//! What a unit is worth on its own: its terms, its cues, its place, its speaker.
//!
//! The constants were chosen on one conversation (a database migration) and checked on others.

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
            (content + cue_worth(unit.cues)) * factor(unit, pool.sources)
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
            Class::Word => 1.0,
            Class::Name | Class::Number => 2.0,
            Class::Identifier => 3.0,
        };
        let often = (n.max(1) as f32).ln_1p();
        let rare = (1.0 - often / all).max(0.02);
        class * rare.sqrt() * often.powf(0.75)
    };
    sources.iter().enumerate().map(weight).collect()
}

fn cue_worth(cues: Cues) -> f32 {
    2.5 * cues.count(STRONG) as f32 + 0.5 * cues.count(MEDIUM) as f32
}

fn factor(unit: &Unit<'_>, sources: usize) -> f32 {
    let mut factor = match (unit.kind, unit.role) {
        (Kind::Text, Role::User) => 1.3,
        (Kind::Text, _) => 1.0,
        (Kind::ToolResult, _) => 0.35,
        (Kind::ToolCall, _) => 0.25,
        (Kind::Attachment, _) => 0.5,
    };
    if unit.kind == Kind::Text && matches!(unit.block, Block::Code | Block::Row) {
        factor *= 0.6;
    }
    if unit.cues.any(Cues::QUESTION) {
        factor *= 0.5;
    }
    if unit.cues.any(Cues::FILLER) {
        factor *= 0.6;
    }
    // What a conversation opens with says what it is about; what it ends with is needed next.
    if unit.source == 0 || unit.source + sources / 50 + 1 >= sources {
        factor *= 1.2;
    }
    if unit.prior { factor * 1.3 } else { factor }
}
