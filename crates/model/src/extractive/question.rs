//! The relevance of units to a question: its words in the unit, in its message, and in the
//! neighbouring messages.

use super::bm25;
use super::cues::Cues;
use super::focus::Focus;
use super::pool::{Pool, Unit};
use super::readability::readability;
use super::terms::Term;
use super::weights::question as weights;

/// Words that ask.
const INTERROGATIVES: [&str; 8] = [
    "who", "whom", "what", "when", "where", "which", "why", "how",
];

/// Words that request an answer.
const REQUESTS: &str = "tell say show explain list know remind please";

/// The relevance of each unit to the task; `None` if the task is not a question ([`is_question`]).
pub(super) fn relevance(pool: &mut Pool<'_>, task: &str) -> Option<Vec<f32>> {
    let focus_terms = focus_terms(pool);
    if !has_own_words(&pool.terms_of(task), &focus_terms) {
        return None;
    }
    let weight = |term| match focus_terms.contains(&term) {
        true => weights::FOCUS_WORD,
        false => 1.0,
    };
    let known = pool.known(task);
    let requests = pool.known(REQUESTS);
    let repeats: Vec<bool> = (0..pool.units.len())
        .map(|unit| is_repeated(pool, unit, &known, &requests))
        .collect();
    let known = known.into_iter();
    let query: Vec<(Term, f32)> = known.map(|term| (term, weight(term))).collect();
    let messages = bm25::of_sources(pool, &query);
    let units = bm25::of_units(pool, &query);
    let most = units.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let neighbour = |source: Option<usize>| source.and_then(|at| messages.get(at)).copied();
    let each = pool.units.iter().zip(&units).enumerate();
    let each = each.map(|(index, (unit, own))| {
        let before = neighbour(unit.source.checked_sub(1)).unwrap_or(0.0);
        let after = neighbour(Some(unit.source + 1)).unwrap_or(0.0);
        let message = messages[unit.source] + weights::NEIGHBOUR * before.max(after);
        let own = 1.0 - weights::UNIT_SHARE + weights::UNIT_SHARE * own / most;
        let asks = match unit.cues {
            _ if repeats[index] => 0.0,
            cues if cues.intersects(Cues::OFFER) => 0.0,
            cues if cues.intersects(Cues::QUESTION) => weights::ASKS_ITSELF,
            _ => 1.0,
        };
        message * own * asks * readability(pool, index).sqrt()
    });
    Some(each.collect())
}

/// Whether a unit is the same question, asked earlier: it has the words of the question and at most
/// one other, or words that request an answer.
fn is_repeated(pool: &Pool<'_>, unit: usize, question: &[Term], requests: &[Term]) -> bool {
    let Unit { text, cues, .. } = &pool.units[unit];
    let is_new = |term: &&Term| !question.contains(term);
    let mut others = pool.terms(unit).iter().filter(is_new);
    if cues.intersects(Cues::QUESTION) {
        return others.count() <= 1;
    }
    let asks = |word: &str| {
        INTERROGATIVES
            .iter()
            .any(|one| word.eq_ignore_ascii_case(one))
    };
    text.split_whitespace().any(asks) && others.all(|term| requests.contains(term))
}

/// See [`super::is_question`].
pub(super) fn is_question(task: &str) -> bool {
    let mut pool = Pool::new();
    let focus_terms = focus_terms(&mut pool);
    has_own_words(&pool.terms_of(task), &focus_terms)
}

/// Whether at most half of a task's words are keywords of a focus.
fn has_own_words(words: &[Term], focus_terms: &[Term]) -> bool {
    let of_focus = words
        .iter()
        .filter(|term| focus_terms.contains(term))
        .count();
    words.len() > of_focus && words.len() >= 2 * of_focus
}

/// The terms of the focus keywords: they say little about the subject of a question.
fn focus_terms(pool: &mut Pool<'_>) -> Vec<Term> {
    Focus::words()
        .flat_map(|word| pool.terms_of(word))
        .collect()
}
