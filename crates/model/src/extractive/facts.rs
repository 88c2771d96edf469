//! Key facts: the few quotes that are kept verbatim from checkpoint to checkpoint.

use std::cell::RefCell;
use std::collections::HashMap;

use unisono_context::checkpoint::{FACT_TOKENS_MAX, FACTS_MAX, KeyFact};
use unisono_context::{Ordinal, Role, Tokens};

use super::CountTokens;
use super::cues::Cues;
use super::passage::PassageKind;
use super::pool::Pool;
use super::quote::push_unit;
use super::readability::{dangles, readability};
use super::terms::Class;

const CONDITIONS: [&str; 4] = ["if", "once", "should", "unless"];

/// The maximum tokens of key facts.
pub(super) const ALL: Tokens = FACT_TOKENS_MAX;
/// New facts get the room that the old ones leave, at least this part of it: each checkpoint may
/// add something, and none replaces all earlier facts.
const NEW_PART: u64 = 3;
/// Units with a lower readability are not kept.
const READABILITY_MIN: f32 = 0.8;

/// The previous facts and the best new ones among the chosen units, in `room` tokens.
pub(super) fn extract(
    pool: &Pool<'_>,
    chosen: &[usize],
    prior: &[KeyFact],
    room: Tokens,
    count: CountTokens<'_>,
) -> Vec<KeyFact> {
    // Facts are limited twice but counted once.
    let known = RefCell::new(HashMap::new());
    let count = |text: &str| {
        let mut known = known.borrow_mut();
        *known
            .entry(text.to_owned())
            .or_insert_with(|| Tokens(count(text)))
    };
    let carried: Tokens = prior.iter().map(|fact| count(&format!("{fact}\n"))).sum();
    let left = room.minus(carried).max(Tokens(room.0 / NEW_PART));
    let best = chosen.iter().filter(|&&unit| is_requirement(pool, unit));
    let new: Vec<KeyFact> = best.take(FACTS_MAX).map(|&unit| fact(pool, unit)).collect();
    let new = KeyFact::carried_within(&[], &new, left, count);
    KeyFact::carried_within(prior, &new, room, count)
}

fn fact(pool: &Pool<'_>, unit: usize) -> KeyFact {
    KeyFact {
        text: fact_text(pool, unit).into(),
        ordinal: pool.units[unit].ordinal.unwrap_or(Ordinal::FIRST),
    }
}

/// The text of a unit as a fact: `Marta: I am allergic to nuts.`, or without the speaker if the
/// speaker has no name.
pub(super) fn fact_text(pool: &Pool<'_>, index: usize) -> String {
    let unit = &pool.units[index];
    let mut text = String::new();
    if unit.speaker != unit.role.name() {
        text.push_str(&unit.speaker.replace('\u{a0}', " "));
        text.push_str(": ");
    }
    push_unit(pool, index, &mut text);
    text
}

/// Whether a unit states a requirement: a demand of the user, or a decision or prohibition about
/// something specific.
fn is_requirement(pool: &Pool<'_>, index: usize) -> bool {
    let unit = &pool.units[index];
    let binds = unit.cues.intersects(Cues::CONSTRAINT.with(Cues::DECISION));
    let is_statement =
        unit.kind == PassageKind::Text && !unit.prior && !unit.cues.intersects(Cues::QUESTION);
    if !binds || !is_statement || is_conditional(unit.text) || dangles(unit) {
        return false;
    }
    let demanded = unit.role == Role::User && unit.cues.intersects(Cues::CONSTRAINT);
    (demanded || is_specific(pool, index)) && readability(pool, index) >= READABILITY_MIN
}

fn is_specific(pool: &Pool<'_>, unit: usize) -> bool {
    pool.terms(unit).iter().any(|&term| {
        let class = pool.vocabulary.class(term);
        matches!(class, Class::Name | Class::Number | Class::Identifier)
    })
}

/// Whether a text begins with a condition: such a text is not a fact.
fn is_conditional(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    CONDITIONS
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}
