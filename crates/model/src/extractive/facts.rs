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
use super::select::{Worth, choose};
use super::terms::Class;
use super::weights;

const CONDITIONS: [&str; 4] = ["if", "once", "should", "unless"];

/// The maximum tokens of key facts.
pub(super) const ALL: Tokens = FACT_TOKENS_MAX;
/// New facts get the room that the old ones leave, at least this part of it: each checkpoint may
/// add something, and none replaces all earlier facts.
const NEW_PART: u64 = 3;
/// Units with a lower readability are not kept.
const READABILITY_MIN: f32 = 0.8;

/// The previous facts and the best new ones, in `room` tokens.
pub(super) fn extract(
    pool: &Pool<'_>,
    worth: &Worth,
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
    let new: Vec<KeyFact> = best(pool, worth, left)
        .into_iter()
        .map(|unit| fact(pool, unit))
        .collect();
    let new = KeyFact::carried_within(&[], &new, left, count);
    KeyFact::carried_within(prior, &new, room, count)
}

fn fact(pool: &Pool<'_>, unit: usize) -> KeyFact {
    let mut text = String::new();
    push_unit(&pool.units[unit], &mut text);
    KeyFact {
        text: text.into(),
        ordinal: pool.units[unit].ordinal.unwrap_or(Ordinal::FIRST),
    }
}

/// Units that state requirements: demands of the user, and decisions or prohibitions about
/// something specific.
fn best(pool: &Pool<'_>, worth: &Worth, room: Tokens) -> Vec<usize> {
    let units = (0..pool.units.len()).map(|index| {
        let unit = &pool.units[index];
        let binds = unit.cues.intersects(Cues::CONSTRAINT.with(Cues::DECISION));
        let is_statement =
            unit.kind == PassageKind::Text && !unit.prior && !unit.cues.intersects(Cues::QUESTION);
        if !binds || !is_statement || is_conditional(unit.text) || dangles(unit) {
            return 0.0;
        }
        let demanded = unit.role == Role::User && unit.cues.intersects(Cues::CONSTRAINT);
        let stated = demanded || is_specific(pool, index);
        if stated && readability(pool, index) >= READABILITY_MIN {
            worth.units[index]
        } else {
            0.0
        }
    });
    let worth = Worth {
        units: units.collect(),
        terms: worth.terms.clone(),
    };
    let mut chosen = choose(pool, &worth, weights::FACTS, room.0 as f32);
    chosen.truncate(FACTS_MAX);
    chosen
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
