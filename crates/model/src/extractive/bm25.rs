//! BM25 relevance to a query (S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework:
//! BM25 and Beyond", 2009).

use std::collections::HashMap;

use super::pool::Pool;
use super::terms::Term;

/// Saturation: how fast repeated terms lose weight.
const K1: f32 = 1.2;
/// How strongly length lowers the relevance of a unit, and of a source.
const UNIT_B: f32 = 0.4;
const SOURCE_B: f32 = 0.5;

/// The terms that are looked for, with the word that each stands for, and how much it counts.
pub(super) type Query = HashMap<Term, (Term, f32)>;

pub(super) fn of_units(pool: &Pool<'_>, query: &Query) -> Vec<f32> {
    relevance(pool, query, (pool.units.len(), UNIT_B), |unit| unit)
}

/// The relevance of each source, with all its units.
pub(super) fn of_sources(pool: &Pool<'_>, query: &Query) -> Vec<f32> {
    let source = |unit: usize| pool.units[unit].source;
    relevance(pool, query, (pool.sources, SOURCE_B), source)
}

/// The relevance of each group of units; `group` must not decrease.
fn relevance(
    pool: &Pool<'_>,
    query: &Query,
    (groups, b): (usize, f32),
    group: impl Fn(usize) -> usize,
) -> Vec<f32> {
    // The length of each group, and its occurrences of each word.
    let mut lengths = vec![0.0_f32; groups];
    let mut has: Vec<Vec<(Term, f32)>> = vec![Vec::new(); groups];
    for unit in 0..pool.units.len() {
        let (length, has) = (&mut lengths[group(unit)], &mut has[group(unit)]);
        for term in pool.terms(unit) {
            *length += 1.0;
            let Some(&(word, share)) = query.get(term) else {
                continue;
            };
            match has.iter_mut().find(|(known, _)| *known == word) {
                Some((_, times)) => *times += share,
                None => has.push((word, share)),
            }
        }
    }
    let mut having: HashMap<Term, usize> = HashMap::new();
    for (term, _) in has.iter().flatten() {
        *having.entry(*term).or_default() += 1;
    }
    let mean = lengths.iter().sum::<f32>() / (groups as f32).max(1.0);
    let idf = |term: &Term| rarity(groups, having[term]);
    let each = has.iter().zip(&lengths).map(|(has, length)| {
        let norm = K1 * (1.0 - b + b * length / mean.max(1.0));
        let of_term =
            |&(term, times): &(Term, f32)| idf(&term) * times * (K1 + 1.0) / (times + norm);
        has.iter().map(of_term).sum()
    });
    each.collect()
}

/// The weight of something that `n` of all groups have: the inverse document frequency.
pub(super) fn rarity(all: usize, n: usize) -> f32 {
    let (all, n) = (all as f32, n as f32);
    ((all - n + 0.5) / (n + 0.5) + 1.0).ln()
}

/// The values as shares of the highest one.
pub(super) fn normalised(mut values: Vec<f32>) -> Vec<f32> {
    let most = values.iter().copied().fold(0.0, f32::max);
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value /= most);
    }
    values
}
