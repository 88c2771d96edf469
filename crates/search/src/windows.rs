//! How well each message of a path matches some words, including its neighbours.
//!
//! The message that answers a question often has none of its words: they are in the message before
//! or after. A word therefore counts for the neighbours too, less with distance: BM25F (S.
//! Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with the
//! neighbours as separate fields.

use std::collections::BTreeMap;

use unisono_context::Ordinal;

/// BM25's saturation and normalisation by length, as for people's searches.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weights of a word in the message itself, in a direct neighbour, and in the neighbour after
/// that.
const WEIGHTS: [f32; 3] = [1.0, 0.4, 0.2];

/// The ranked messages of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ranked {
    /// The best first; of equal ones, the newer first.
    pub(crate) messages: Vec<Ordinal>,
    /// The number of messages with each clause.
    pub(crate) found: Vec<usize>,
}

/// The frequency of a clause by the position of the message.
pub(crate) type Times = BTreeMap<usize, f32>;

/// Ranks the messages of a path. `lengths` has the number of words of each, by its position from
/// the root (the first is position 0); `clauses` has the frequencies of each clause.
pub(crate) fn rank(lengths: &[u32], clauses: &[Times]) -> Ranked {
    let found: Vec<usize> = clauses.iter().map(Times::len).collect();
    let weighted = |position: usize| -> f32 {
        around(position, lengths.len())
            .map(|(at, weight)| weight * lengths.get(at).copied().unwrap_or(0) as f32)
            .sum()
    };
    let total: f32 = (0..lengths.len()).map(weighted).sum();
    let average = (total / lengths.len().max(1) as f32).max(1.0);
    let mut scores: BTreeMap<usize, f32> = BTreeMap::new();
    for (times, has) in clauses.iter().zip(&found) {
        let without = lengths.len().saturating_sub(*has) as f32;
        let rarity = (1.0 + (without + 0.5) / (*has as f32 + 0.5)).ln();
        let mut spread: BTreeMap<usize, f32> = BTreeMap::new();
        for (position, times) in times {
            for (at, weight) in around(*position, lengths.len()) {
                *spread.entry(at).or_default() += weight * times;
            }
        }
        for (position, times) in spread {
            let length = 1.0 - B + B * weighted(position) / average;
            *scores.entry(position).or_default() +=
                rarity * times * (K1 + 1.0) / (times + K1 * length);
        }
    }
    let mut scored: Vec<(usize, f32)> = scores.into_iter().collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    let ordinal = |position: usize| u32::try_from(position + 1).ok().map(Ordinal);
    Ranked {
        messages: scored
            .into_iter()
            .filter_map(|(at, _)| ordinal(at))
            .collect(),
        found,
    }
}

/// A position and its neighbours, each with its weight.
fn around(position: usize, end: usize) -> impl Iterator<Item = (usize, f32)> {
    let reach = WEIGHTS.len() - 1;
    let near = position.saturating_sub(reach)..end.min(position + reach + 1);
    near.filter_map(move |at| Some((at, *WEIGHTS.get(at.abs_diff(position))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(positions: &[usize]) -> Times {
        positions.iter().map(|at| (*at, 1.0)).collect()
    }

    #[test]
    fn the_answer_next_to_the_question_is_found() {
        // Message 3 has the words of a question; the next message answers it without them.
        let ranked = rank(&[10; 20], &[times(&[3]), times(&[3, 15])]);
        let best: Vec<u32> = ranked.messages.iter().map(|n| n.0).collect();
        assert_eq!(
            best[..3],
            [4, 5, 3],
            "it, then those next to it, the newer first"
        );
        assert!(best.contains(&16) && best.contains(&6) && !best.contains(&8));
        assert_eq!(ranked.found, [1, 2]);
    }

    #[test]
    fn words_of_one_exchange_count_together() {
        // One message has half of the words, its neighbour the other half; one word occurs alone
        // elsewhere.
        let ranked = rank(&[10; 30], &[times(&[4, 20]), times(&[5])]);
        assert_eq!(ranked.messages[..2], [Ordinal(6), Ordinal(5)]);
        assert!(ranked.messages.iter().position(|n| n.0 == 21) > Some(1));
    }

    #[test]
    fn a_short_message_fits_better_than_a_long_one_and_nothing_is_found_of_nothing() {
        let mut lengths = [10; 30];
        lengths[20] = 400;
        let ranked = rank(&lengths, &[times(&[5, 20])]);
        assert_eq!(ranked.messages[0], Ordinal(6));
        assert_eq!(rank(&[], &[]), Ranked::default());
        assert!(rank(&[5; 3], &[times(&[])]).messages.is_empty());
    }
}
