//! Two textbook summarisers on the same units and terms, for comparison.

use std::collections::BTreeMap;

use super::split::split;
use super::terms::{Term, Vocabulary};

/// LexRank's threshold for an edge, damping factor, and rounds.
const EDGE: f32 = 0.1;
const DAMPING: f32 = 0.85;
const ROUNDS: usize = 30;
/// MMR's balance between relevance and novelty.
const LAMBDA: f32 = 0.7;

pub(crate) fn sentences(text: &str) -> Vec<&str> {
    split(text)
        .into_iter()
        .map(|span| &text[span.range])
        .collect()
}

/// The sentences of the texts and their order by LexRank.
pub(crate) fn lexrank<'a>(texts: &[&'a str]) -> (Vec<&'a str>, Vec<usize>) {
    let sentences: Vec<&str> = texts.iter().flat_map(|text| sentences(text)).collect();
    let vectors = tf_idf(&sentences);
    let edges: Vec<Vec<usize>> = similarities(&vectors)
        .into_iter()
        .enumerate()
        .map(|(i, row)| {
            row.into_iter()
                .filter(|&(j, s)| i != j && s >= EDGE)
                .map(|(j, _)| j)
                .collect()
        })
        .collect();
    let n = sentences.len().max(1) as f32;
    let mut rank = vec![1.0 / n; sentences.len()];
    for _ in 0..ROUNDS {
        let mut next = vec![(1.0 - DAMPING) / n; rank.len()];
        for (i, neighbours) in edges.iter().enumerate() {
            for &j in neighbours {
                next[j] += DAMPING * rank[i] / neighbours.len() as f32;
            }
        }
        rank = next;
    }
    let order = by_score(&rank);
    (sentences, order)
}

/// The order of whole texts by TF-IDF with maximal marginal relevance.
pub(crate) fn tf_idf_mmr(texts: &[&str]) -> Vec<usize> {
    let vectors = tf_idf(texts);
    let mut centroid: BTreeMap<Term, f32> = BTreeMap::new();
    for (term, weight) in vectors.iter().flatten() {
        *centroid.entry(*term).or_default() += weight;
    }
    let length = centroid
        .values()
        .map(|w| w * w)
        .sum::<f32>()
        .sqrt()
        .max(f32::MIN_POSITIVE);
    let relevance: Vec<f32> = vectors
        .iter()
        .map(|v| v.iter().map(|(t, w)| w * centroid[t]).sum::<f32>() / length)
        .collect();
    let near = similarities(&vectors);
    let mut nearest = vec![0.0_f32; texts.len()];
    let mut left: Vec<usize> = (0..texts.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let score = |&i: &usize| LAMBDA * relevance[i] - (1.0 - LAMBDA) * nearest[i];
        let best = (0..left.len())
            .max_by(|&a, &b| score(&left[a]).total_cmp(&score(&left[b])).then(b.cmp(&a)));
        let Some(best) = best else { break };
        let chosen = left.remove(best);
        for &(other, similarity) in &near[chosen] {
            nearest[other] = nearest[other].max(similarity);
        }
        order.push(chosen);
    }
    order
}

/// Unit vectors, sorted by term.
fn tf_idf(texts: &[&str]) -> Vec<Vec<(Term, f32)>> {
    let mut vocabulary = Vocabulary::new();
    let counts: Vec<BTreeMap<Term, f32>> = texts
        .iter()
        .map(|text| {
            let mut terms = Vec::new();
            vocabulary.read(text, &mut terms);
            let mut counts = BTreeMap::new();
            terms
                .into_iter()
                .for_each(|term| *counts.entry(term).or_default() += 1.0);
            counts
        })
        .collect();
    let mut texts_with = vec![0.0_f32; vocabulary.len()];
    counts
        .iter()
        .flat_map(BTreeMap::keys)
        .for_each(|&term| texts_with[term as usize] += 1.0);
    let all = texts.len() as f32;
    let weigh = |counts: BTreeMap<Term, f32>| {
        let idf = |term: Term| (all / texts_with[term as usize]).ln() + 0.1;
        let mut vector: Vec<(Term, f32)> = counts
            .into_iter()
            .map(|(term, n)| (term, n * idf(term)))
            .collect();
        let length = vector.iter().map(|(_, w)| w * w).sum::<f32>().sqrt();
        vector
            .iter_mut()
            .for_each(|(_, w)| *w /= length.max(f32::MIN_POSITIVE));
        vector
    };
    counts.into_iter().map(weigh).collect()
}

/// For each vector the others that share a term with it, with their cosine.
fn similarities(vectors: &[Vec<(Term, f32)>]) -> Vec<Vec<(usize, f32)>> {
    let mut postings: BTreeMap<Term, Vec<(usize, f32)>> = BTreeMap::new();
    for (index, vector) in vectors.iter().enumerate() {
        vector
            .iter()
            .for_each(|&(t, w)| postings.entry(t).or_default().push((index, w)));
    }
    let mut sums = vec![0.0_f32; vectors.len()];
    vectors
        .iter()
        .map(|vector| {
            let mut touched = Vec::new();
            for (term, weight) in vector {
                for &(other, w) in postings.get(term).into_iter().flatten() {
                    if sums[other] == 0.0 {
                        touched.push(other);
                    }
                    sums[other] += weight * w;
                }
            }
            touched.sort_unstable();
            touched.dedup();
            touched
                .into_iter()
                .map(|i| (i, std::mem::take(&mut sums[i])))
                .collect()
        })
        .collect()
}

fn by_score(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order
}
