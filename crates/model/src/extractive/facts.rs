//! Key facts: the few quotes that are carried from checkpoint to checkpoint word for word.

use unisono_context::{Ordinal, Role};

use super::cues::Cues;
use super::passage::Kind;
use super::pool::{Pool, estimate_tokens};
use super::render::push_normalised;
use super::select::{Preference, Worth, choose};
use super::terms::{Class, Term};
use super::{CountTokens, KeyFact, MAX_KEY_FACT_TOKENS, MAX_KEY_FACTS};

/// Shares of a fact's terms above which two facts are the same, or about the same thing.
const SAME: f32 = 0.8;
const SAME_SUBJECT: f32 = 0.6;

/// A fact with the terms that it is compared by.
struct Candidate {
    fact: KeyFact,
    subject: Vec<Term>,
    numbers: Vec<Term>,
    changes: bool,
}

/// The facts so far and the best new ones, without duplicates and what was superseded.
pub(super) fn extract(
    pool: &mut Pool<'_>,
    worth: &Worth,
    prior: &[KeyFact],
    count: CountTokens<'_>,
) -> Vec<KeyFact> {
    let mut candidates: Vec<Candidate> = prior
        .iter()
        .map(|fact| candidate(pool, fact.clone()))
        .collect();
    for unit in best(pool, worth) {
        let mut text = String::new();
        push_normalised(pool.units[unit].text, &mut text);
        let ordinal = pool.units[unit].ordinal.unwrap_or(Ordinal::FIRST);
        let new = candidate(pool, KeyFact { text, ordinal });
        candidates.push(new);
    }
    candidates.sort_by_key(|candidate| candidate.fact.ordinal);
    within_limits(drop_superseded(candidates), prior, count)
}

/// Units that state what must hold: constraints, decisions and plans with something specific.
fn best(pool: &Pool<'_>, worth: &Worth) -> Vec<usize> {
    let binding = Cues::CONSTRAINT.with(Cues::DECISION);
    let units = (0..pool.units.len()).map(|index| {
        let unit = &pool.units[index];
        let specific = pool.terms(index).iter().any(|&term| {
            let class = pool.vocabulary.class(term);
            matches!(class, Class::Name | Class::Number | Class::Identifier)
        });
        let said = unit.kind == Kind::Text && !unit.prior && !unit.cues.any(Cues::QUESTION);
        let stated = unit.cues.any(binding) && (specific || unit.role == Role::User);
        if said && stated {
            worth.units[index]
        } else {
            0.0
        }
    });
    let worth = Worth {
        units: units.collect(),
        terms: worth.terms.clone(),
    };
    let preference = Preference {
        decay: 0.4,
        sibling: 0.8,
        line: 4.0,
        power: 1.0,
    };
    let budget = MAX_KEY_FACT_TOKENS.0 as f32;
    let mut chosen = choose(pool, &worth, preference, budget);
    chosen.truncate(MAX_KEY_FACTS);
    chosen
}

fn candidate(pool: &mut Pool<'_>, fact: KeyFact) -> Candidate {
    const CHANGES: [&str; 12] = [
        "instead",
        "no longer",
        "replaces",
        "replaced",
        "revers",
        "correction",
        "changed",
        "actually",
        "new date",
        "moved to",
        "not anymore",
        "updated",
    ];
    let terms = pool.terms_of(&fact.text);
    let is_number = |&term: &Term| pool.vocabulary.class(term) == Class::Number;
    let (numbers, subject) = terms.into_iter().partition(is_number);
    let lower = fact.text.to_lowercase();
    let changes = CHANGES.iter().any(|sign| lower.contains(sign));
    Candidate {
        fact,
        subject,
        numbers,
        changes,
    }
}

/// Drops each fact that a later one repeats or changes. Facts are oldest first.
fn drop_superseded(candidates: Vec<Candidate>) -> Vec<KeyFact> {
    let mut kept: Vec<Candidate> = Vec::new();
    for new in candidates {
        let repeated = kept.iter().any(|old| old.fact.text == new.fact.text);
        if !repeated {
            kept.retain(|old| !supersedes(&new, old));
            kept.push(new);
        }
    }
    kept.into_iter().map(|candidate| candidate.fact).collect()
}

fn supersedes(new: &Candidate, old: &Candidate) -> bool {
    if new.fact.ordinal == old.fact.ordinal {
        return false;
    }
    let shared = new
        .subject
        .iter()
        .filter(|term| old.subject.contains(term))
        .count();
    if shared < 2 {
        return false;
    }
    let share = shared as f32 / new.subject.len().min(old.subject.len()) as f32;
    let differs = new.numbers != old.numbers;
    (share >= SAME && (!differs || new.changes || !old.numbers.is_empty()))
        || (share >= SAME_SUBJECT && new.changes && differs)
}

/// Keeps earlier facts and then the newest, within [`MAX_KEY_FACTS`] and their tokens.
fn within_limits(facts: Vec<KeyFact>, prior: &[KeyFact], count: CountTokens<'_>) -> Vec<KeyFact> {
    let mut order: Vec<usize> = (0..facts.len()).collect();
    order.sort_by_key(|&index| {
        let new = !prior.contains(&facts[index]);
        (new, estimate_tokens(&facts[index].text) as u64)
    });
    let (mut left, mut keep) = (MAX_KEY_FACT_TOKENS.0, vec![false; facts.len()]);
    for index in order.into_iter().take(MAX_KEY_FACTS) {
        let tokens = count(&facts[index].text);
        keep[index] = tokens <= left;
        left -= if keep[index] { tokens } else { 0 };
    }
    facts
        .into_iter()
        .zip(keep)
        .filter(|(_, keep)| *keep)
        .map(|(fact, _)| fact)
        .collect()
}
