//! BM25 relevance of units to a query (S. Robertson and H. Zaragoza, "The Probabilistic
//! Relevance Framework: BM25 and Beyond", 2009).

use super::pool::Pool;
use super::terms::Term;

/// How fast a repeated term stops to count does not matter here: a unit's terms are distinct.
const K1: f32 = 1.2;
/// How much a unit's length counts.
const B: f32 = 0.4;

/// By unit: how relevant it is. `query` holds distinct terms with their weights.
pub(super) fn relevance(pool: &Pool<'_>, query: &[(Term, f32)]) -> Vec<f32> {
    let units = pool.units.len();
    let mut weight = vec![0.0_f32; pool.vocabulary.len()];
    for &(term, w) in query {
        weight[term as usize] = weight[term as usize].max(w);
    }
    let mut having = vec![0_u32; pool.vocabulary.len()];
    let mut length = 0;
    for unit in 0..units {
        let terms = pool.terms(unit);
        length += terms.len();
        terms.iter().for_each(|&term| having[term as usize] += 1);
    }
    let mean = length as f32 / units.max(1) as f32;
    let idf = |term: Term| {
        let n = having[term as usize] as f32;
        ((units as f32 - n + 0.5) / (n + 0.5) + 1.0).ln()
    };
    (0..units)
        .map(|unit| {
            let terms = pool.terms(unit);
            let norm = K1 * (1.0 - B + B * terms.len() as f32 / mean.max(1.0));
            let wanted = terms.iter().filter(|&&term| weight[term as usize] > 0.0);
            wanted
                .map(|&t| weight[t as usize] * idf(t) * (K1 + 1.0) / (1.0 + norm))
                .sum()
        })
        .collect()
}
