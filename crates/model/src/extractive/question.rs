//! What answers a question: its words in a message, in the messages beside it, and in the unit.

use super::bm25;
use super::cues::Cues;
use super::focus::Focus;
use super::pool::Pool;
use super::standing::standing;
use super::terms::Term;
use super::weights::question as weights;

/// By unit: how well it answers the task; none where the task is no question ([`is_question`]).
pub(super) fn relevance(pool: &mut Pool<'_>, task: &str) -> Option<Vec<f32>> {
    let asking = asking(pool);
    if !has_own_words(&pool.terms_of(task), &asking) {
        return None;
    }
    let weight = |term| match asking.contains(&term) {
        true => weights::ASKING,
        false => 1.0,
    };
    let known = pool.known(task).into_iter();
    let query: Vec<(Term, f32)> = known.map(|term| (term, weight(term))).collect();
    let messages = bm25::of_sources(pool, &query);
    let units = bm25::of_units(pool, &query);
    let most = units.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let beside = |source: Option<usize>| source.and_then(|at| messages.get(at)).copied();
    let each = pool.units.iter().zip(&units).enumerate();
    let each = each.map(|(index, (unit, own))| {
        let before = beside(unit.source.checked_sub(1)).unwrap_or(0.0);
        let after = beside(Some(unit.source + 1)).unwrap_or(0.0);
        let message = messages[unit.source] + weights::BESIDE * before.max(after);
        let own = 1.0 - weights::OWN + weights::OWN * own / most;
        let asks = match unit.cues {
            cues if cues.any(Cues::OFFER) => 0.0,
            cues if cues.any(Cues::QUESTION) => weights::ASKS,
            _ => 1.0,
        };
        message * own * asks * standing(pool, index).sqrt()
    });
    Some(each.collect())
}

/// See [`super::is_question`].
pub(super) fn is_question(task: &str) -> bool {
    let mut pool = Pool::new();
    let asking = asking(&mut pool);
    has_own_words(&pool.terms_of(task), &asking)
}

/// Whether no more than half of a task's words ask for a focus.
fn has_own_words(words: &[Term], asking: &[Term]) -> bool {
    let of_focus = words.iter().filter(|term| asking.contains(term)).count();
    words.len() > of_focus && words.len() >= 2 * of_focus
}

/// The terms by which a focus is asked for: they say little of what a question is about.
fn asking(pool: &mut Pool<'_>) -> Vec<Term> {
    Focus::words()
        .flat_map(|word| pool.terms_of(word))
        .collect()
}
