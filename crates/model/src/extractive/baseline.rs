//! Two textbook summarisers on the same units and terms, for comparison.

use std::collections::BTreeMap;

use super::split::unit_texts;
use super::terms::{Term, Vocabulary};

/// LexRank's threshold for an edge, damping factor, and rounds.
const EDGE: f32 = 0.1;
const DAMPING: f32 = 0.85;
const ROUNDS: usize = 30;
/// MMR's balance between relevance and novelty.
const LAMBDA: f32 = 0.7;

/// The sentences of the texts and their order by LexRank.
pub(crate) fn lexrank<'a>(texts: &[&'a str]) -> (Vec<&'a str>, Vec<usize>) {
    let sentences: Vec<&str> = texts.iter().flat_map(|text| unit_texts(text)).collect();
    let vectors = tf_idf(&sentences);
    let mut similarities = Similarities::new(&vectors);
    let edges = (0..vectors.len()).map(|i| {
        let near = similarities.row(i).into_iter();
        let near = near.filter(|&(j, s)| i != j && s >= EDGE);
        near.map(|(j, _)| j).collect()
    });
    let edges: Vec<Vec<usize>> = edges.collect();
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
    let mut order: Vec<usize> = (0..rank.len()).collect();
    order.sort_by(|&a, &b| rank[b].total_cmp(&rank[a]).then(a.cmp(&b)));
    (sentences, order)
}

/// The order of whole texts by TF-IDF with maximal marginal relevance.
pub(crate) fn tf_idf_mmr(texts: &[&str]) -> Vec<usize> {
    let vectors = tf_idf(texts);
    let mut centroid: BTreeMap<Term, f32> = BTreeMap::new();
    for (term, weight) in vectors.iter().flatten() {
        *centroid.entry(*term).or_default() += weight;
    }
    let length = length_of(centroid.values());
    let dot = |v: &Vec<(Term, f32)>| v.iter().map(|(t, w)| w * centroid[t]).sum::<f32>();
    let relevance: Vec<f32> = vectors.iter().map(|v| dot(v) / length).collect();
    let mut similarities = Similarities::new(&vectors);
    let mut nearest = vec![0.0_f32; texts.len()];
    let mut left: Vec<usize> = (0..texts.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let score = |&i: &usize| LAMBDA * relevance[i] - (1.0 - LAMBDA) * nearest[i];
        let best = (0..left.len())
            .max_by(|&a, &b| score(&left[a]).total_cmp(&score(&left[b])).then(b.cmp(&a)));
        let Some(best) = best else { break };
        let chosen = left.remove(best);
        for (other, similarity) in similarities.row(chosen) {
            nearest[other] = nearest[other].max(similarity);
        }
        order.push(chosen);
    }
    order
}

/// Unit vectors, sorted by term.
fn tf_idf(texts: &[&str]) -> Vec<Vec<(Term, f32)>> {
    let mut vocabulary = Vocabulary::new();
    let counts = texts.iter().map(|text| {
        let mut terms = Vec::new();
        let mut counts: BTreeMap<Term, f32> = BTreeMap::new();
        vocabulary.read(text, &mut terms);
        for term in terms {
            *counts.entry(term).or_default() += 1.0;
        }
        counts
    });
    let counts: Vec<BTreeMap<Term, f32>> = counts.collect();
    let mut texts_with = vec![0.0_f32; vocabulary.len()];
    for &term in counts.iter().flat_map(BTreeMap::keys) {
        texts_with[term as usize] += 1.0;
    }
    let all = texts.len() as f32;
    let weigh = |counts: BTreeMap<Term, f32>| {
        let idf = |term: Term| (all / texts_with[term as usize]).ln() + 0.1;
        let weighed = counts.into_iter().map(|(term, n)| (term, n * idf(term)));
        let mut vector: Vec<(Term, f32)> = weighed.collect();
        let length = length_of(vector.iter().map(|(_, w)| w));
        vector.iter_mut().for_each(|(_, w)| *w /= length);
        vector
    };
    counts.into_iter().map(weigh).collect()
}

/// The length of a vector, which is never zero.
fn length_of<'w>(weights: impl Iterator<Item = &'w f32>) -> f32 {
    let squares = weights.map(|w| w * w).sum::<f32>();
    squares.sqrt().max(f32::MIN_POSITIVE)
}

/// The cosines of vectors, row by row: all of them together take gigabytes for a long conversation.
struct Similarities<'v> {
    vectors: &'v [Vec<(Term, f32)>],
    /// The vectors with each term.
    postings: BTreeMap<Term, Vec<(usize, f32)>>,
    sums: Vec<f32>,
}

impl<'v> Similarities<'v> {
    fn new(vectors: &'v [Vec<(Term, f32)>]) -> Similarities<'v> {
        let mut postings: BTreeMap<Term, Vec<(usize, f32)>> = BTreeMap::new();
        for (index, vector) in vectors.iter().enumerate() {
            for &(term, weight) in vector {
                postings.entry(term).or_default().push((index, weight));
            }
        }
        Similarities {
            vectors,
            postings,
            sums: vec![0.0; vectors.len()],
        }
    }

    /// The vectors that share a term with that one, with their cosines.
    fn row(&mut self, index: usize) -> Vec<(usize, f32)> {
        let mut touched = Vec::new();
        for (term, weight) in &self.vectors[index] {
            for &(other, w) in self.postings.get(term).into_iter().flatten() {
                if self.sums[other] == 0.0 {
                    touched.push(other);
                }
                self.sums[other] += weight * w;
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let sums = &mut self.sums;
        let taken = touched.into_iter();
        let taken = taken.map(|other| (other, std::mem::take(&mut sums[other])));
        taken.collect()
    }
}
