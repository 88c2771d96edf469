//! How well each message of a path matches some words, including its neighbours.
//!
//! The message that answers a question often has none of its words: they are in the message before
//! or after. A word therefore counts for the neighbours too, less with distance: BM25F (S.
//! Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with the
//! neighbours as separate fields.

use unisono_context::Ordinal;

/// BM25's saturation and normalisation by length, as for people's searches.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weights of a word in the message itself, in a direct neighbour, and in the neighbour after
/// that.
const WEIGHTS: [f32; 3] = [1.0, 0.4, 0.2];

/// The number of words that a day of the question counts as.
const DAY_WORDS: f32 = 3.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ranked {
    /// The best first; of equal ones, the newer first.
    pub(crate) messages: Vec<Ordinal>,
    /// The number of messages with each clause.
    pub(crate) found: Vec<usize>,
}

/// Scores the messages of a path, clause by clause.
pub(crate) struct Ranking {
    /// The normalised length of each message with its neighbours, by its position from the root.
    lengths: Vec<f32>,
    scores: Vec<f32>,
    found: Vec<usize>,
}

impl Ranking {
    /// `lengths` has the number of words of each message, the first at position 0.
    pub(crate) fn new(lengths: &[u32]) -> Ranking {
        let own: Vec<f32> = lengths.iter().map(|length| *length as f32).collect();
        let weighted = spread(&own);
        let total: f32 = weighted.iter().sum();
        let average = (total / lengths.len().max(1) as f32).max(1.0);
        let normalised = weighted.iter().map(|length| 1.0 - B + B * length / average);
        Ranking {
            lengths: normalised.collect(),
            scores: vec![0.0; lengths.len()],
            found: Vec::new(),
        }
    }

    /// Adds a clause with its frequency in each message.
    pub(crate) fn add(&mut self, times: &[f32]) {
        let has = times.iter().filter(|times| **times > 0.0).count();
        self.found.push(has);
        self.score(times, rarity(has as f32, times.len() as f32));
    }

    fn score(&mut self, times: &[f32], rarity: f32) {
        let places = self.scores.iter_mut().zip(&self.lengths);
        for ((score, length), times) in places.zip(spread(times)) {
            *score += rarity * times * (K1 + 1.0) / (times + K1 * length);
        }
    }

    /// Adds the days of the question, after its clauses: `shares` has 1 for a message of these days or
    /// that speaks of them, less for one that may speak of them, and 0 for all others.
    ///
    /// A day counts as some words that are as rare as its messages, for the messages next to it too.
    /// To put its messages first, as much again is added to them, at most as much as for all words;
    /// with a word of the question at least half as much, because most messages may be of a long
    /// period.
    pub(crate) fn add_days(&mut self, shares: &[f32]) {
        let of_days = shares.iter().filter(|share| **share > 0.0).count();
        if of_days == 0 {
            return;
        }
        let words = self.scores.clone();
        let most = words.iter().copied().fold(1.0, f32::max);
        let rarity = DAY_WORDS * rarity(of_days as f32, shares.len() as f32);
        self.score(shares, rarity);
        let day = rarity.min(most);
        let places = self.scores.iter_mut().zip(shares).zip(words);
        for ((score, share), words) in places {
            let first = if words > 0.0 {
                day.max(most / 2.0)
            } else {
                day
            };
            *score += share * first;
        }
    }

    pub(crate) fn best(self, limit: usize) -> Ranked {
        let scored = self
            .scores
            .iter()
            .zip(1..)
            .filter(|(score, _)| **score > 0.0);
        let mut scored: Vec<(f32, u32)> = scored.map(|(score, n)| (*score, n)).collect();
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1));
        if limit < scored.len() {
            scored.select_nth_unstable_by(limit, order);
            scored.truncate(limit);
        }
        scored.sort_by(order);
        Ranked {
            messages: scored.into_iter().map(|(_, n)| Ordinal(n)).collect(),
            found: self.found,
        }
    }
}

/// The inverse document frequency of BM25.
fn rarity(has: f32, all: f32) -> f32 {
    (1.0 + (all - has + 0.5) / (has + 0.5)).ln()
}

/// Adds the weighted values of its neighbours to the value of each position.
fn spread(values: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; values.len()];
    for (position, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
        for (at, weight) in around(position, values.len()) {
            if let Some(sum) = sums.get_mut(at) {
                *sum += weight * value;
            }
        }
    }
    sums
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

    /// Ranks messages of these lengths; each clause is once in the messages at its positions.
    fn rank(lengths: &[u32], clauses: &[&[usize]]) -> Ranked {
        let mut ranking = Ranking::new(lengths);
        for positions in clauses {
            let mut times = vec![0.0; lengths.len()];
            positions.iter().for_each(|at| times[*at] = 1.0);
            ranking.add(&times);
        }
        ranking.best(10)
    }

    #[test]
    fn the_answer_next_to_the_question_is_found() {
        // Message 3 has the words of a question; the next message answers it without them.
        let ranked = rank(&[10; 20], &[&[3], &[3, 15]]);
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
        let ranked = rank(&[10; 30], &[&[4, 20], &[5]]);
        assert_eq!(ranked.messages[..2], [Ordinal(6), Ordinal(5)]);
        assert!(ranked.messages.iter().position(|n| n.0 == 21) > Some(1));
    }

    #[test]
    fn a_short_message_fits_better_than_a_long_one_and_nothing_is_found_of_nothing() {
        let mut lengths = [10; 30];
        lengths[20] = 400;
        let ranked = rank(&lengths, &[&[5, 20]]);
        assert_eq!(ranked.messages[0], Ordinal(6));
        assert_eq!(rank(&[], &[]), Ranked::default());
        assert!(rank(&[5; 3], &[&[]]).messages.is_empty());
    }
}
